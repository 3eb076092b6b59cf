/** Savepoints of whole jobs: taken, stopped with, drained into, moved, and what happens when they fail. */
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import {
  type CollectSink,
  collectSink,
  type StreamExecutionEnvironment,
  TumblingEventTimeWindows,
  WatermarkStrategy,
} from 'millrace'
import { openSnapshot } from '../../../src/state/savepoint-source.ts'
import {
  allCounts,
  Brake,
  type Count,
  counting,
  dieBehindSavepoint,
  finish,
  from,
  RESTARTS,
  stopInTheMiddle,
  waitFor,
  written,
} from './savepoint-jobs.ts'
import { SavepointScene, type SceneJob } from './savepoint-scene.ts'

let scene: SavepointScene
beforeEach(async () => {
  scene = await SavepointScene.open()
})
afterEach(() => scene.close())

describe('a job that is stopped with a savepoint', () => {
  test('is FINISHED, a plain start does nothing, and a run from the savepoint gives the rest, at any parallelism', async () => {
    const [before, after] = [collectSink<Count>(), collectSink<Count>()]
    const path = await stopInTheMiddle(scene, before)
    expect(path.startsWith(join(scene.savepoints, 'savepoint-job-'))).toBe(true)
    const plain = await scene.start({ declare: counting({ out: after }) })
    expect(await plain.run()).toEqual({ status: 'FINISHED' })
    expect(written(after)).toEqual([])
    expect(scene.logged.join('\n')).toContain(`go on with --from-savepoint ${path}`)
    await finish(scene, { declare: counting({ out: after, parallelism: 5 }), ...from(path) })
    expect(written(before, after)).toEqual(allCounts())
  })

  test('can be restored twice, from a copy elsewhere, and says that output may repeat', async () => {
    const before = collectSink<Count>()
    const path = await stopInTheMiddle(scene, before)
    const moved = join(scene.folder, 'elsewhere')
    await cp(path, moved, { recursive: true })
    await rm(path, { recursive: true })
    for (let i = 0; i < 2; i++) {
      const after = collectSink<Count>()
      await finish(scene, { declare: counting({ out: after }), ...from(moved) })
      expect(written(before, after)).toEqual(allCounts())
    }
    expect(scene.logged.filter((line) => line.includes('may be written again')).length).toBe(2)
    expect((await openSnapshot(moved)).checkpoint.states.some(({ keyed }) => keyed !== undefined)).toBe(true)
  })

  test.each(['jobmanager', 'filesystem'])('moves from %s to the other backend', async (backend) => {
    const [before, after] = [collectSink<Count>(), collectSink<Count>()]
    const path = await stopInTheMiddle(scene, before, { 'state.backend': backend })
    const other = backend === 'jobmanager' ? 'filesystem' : 'jobmanager'
    await finish(scene, {
      declare: counting({ out: after, parallelism: 2 }),
      config: { 'state.backend': other },
      ...from(path),
    })
    expect(written(before, after)).toEqual(allCounts())
  })

  test('holds no committables, and names its files relative to its folder', async () => {
    const path = await stopInTheMiddle(scene, collectSink<Count>(), {
      'state.backend.fs.memory-threshold': '0 kb',
    })
    const text = await readFile(join(path, '_metadata'), 'utf8')
    expect(text).not.toContain('committables')
    expect(text).not.toContain(scene.folder)
    expect(text.startsWith('millrace-savepoint 1 ')).toBe(true)
    expect((await readdir(path)).length).toBeGreaterThan(1)
  })
})

describe('a stop whose savepoint is complete', () => {
  test('is answered with it although the attempt fails behind its commit point: the next one finishes the stop', async () => {
    const out = collectSink<Count>()
    const brake = new Brake()
    brake.limit = 10
    const { store } = scene
    const writeConfirmed = store.writeConfirmed.bind(store)
    let failures = 0
    const master = await scene.start({ declare: counting({ out, brake }), config: RESTARTS })
    const end = master.run()
    await waitFor(scene, 'the job is in the middle of its input', () => brake.seen > 20)
    store.writeConfirmed = (run, n, record) =>
      failures++ === 0 ? Promise.reject(new Error('the brokers are away')) : writeConfirmed(run, n, record)
    const path = await master.stopWithSavepoint()
    expect(await end).toEqual({ status: 'FINISHED' })
    expect(failures).toBeGreaterThan(1)
    const { checkpoint } = await openSnapshot(path)
    expect(checkpoint.savepoint?.path ?? path).toBe(path)
  })
})

describe('a savepoint of a job that goes on', () => {
  test('is followed by a checkpoint of its own, forgotten then, and never deleted', async () => {
    const [out, later] = [collectSink<Count>(), collectSink<Count>()]
    const brake = new Brake()
    brake.limit = 10
    const master = await scene.start({ declare: counting({ out, brake }) })
    const end = master.run()
    await waitFor(scene, 'the job runs', () => brake.seen > 5)
    const path = await master.triggerSavepoint()
    const { checkpoint } = await openSnapshot(path)
    await waitFor(
      scene,
      'a checkpoint follows it',
      () => (master.history.lastCompleted?.n ?? 0) > checkpoint.n,
    )
    // What is not needed any more is forgotten in the commit point after the one that was confirmed.
    for (let i = 0; i < 2; i++) await master.triggerCheckpoint()
    const { completed } = await scene.store.takeOver()
    expect(completed.map(({ kind }) => kind)).not.toContain('savepoint')
    expect(master.status).toBe('RUNNING')
    await master.cancel()
    await end
    await finish(scene, { declare: counting({ out: later }), ...from(path) })
    // What the first run wrote after the savepoint is written again; nothing is missing, and neither run repeats itself.
    for (const sink of [out, later]) expect(new Set(written(sink)).size).toBe(written(sink).length)
    expect([...new Set(written(out, later))].sort()).toEqual(allCounts())
  })

  test('is finished by the next start when its leader died before its metadata', async () => {
    const [before, after] = [collectSink<Count>(), collectSink<Count>()]
    const path = await dieBehindSavepoint(scene, before)
    await expect(openSnapshot(path)).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
    await finish(scene, { declare: counting({ out: after }) })
    expect(scene.logged.join('\n')).toContain('resumes from checkpoint 2')
    expect((await openSnapshot(path)).checkpoint).toMatchObject({ n: 2, kind: 'savepoint' })
    expect(written(before, after)).toEqual(allCounts())
  })

  test('and was moved before the next start is not begun anew in its old place', async () => {
    const path = await dieBehindSavepoint(scene, collectSink<Count>())
    await rm(path, { recursive: true })
    // What it holds is small enough to be in the checkpoint itself.
    await finish(scene, { declare: counting({ out: collectSink<Count>() }) })
    expect(await readdir(scene.savepoints)).toEqual([])
  })

  test('goes into the folder that was named; without any it is refused by code', async () => {
    const brake = new Brake()
    brake.limit = 1
    const declare = counting({ out: collectSink<Count>(), brake })
    const master = await scene.start({ declare })
    const end = master.run()
    const elsewhere = join(scene.folder, 'named', 'folder')
    expect(await master.triggerSavepoint(elsewhere)).toContain(join(elsewhere, 'savepoint-job-'))
    await master.cancel()
    await end
    const bare = await scene.start({
      declare: (env) => {
        env.fromSequence(1, 1e9).sinkTo(brake.sink)
      },
      fresh: true,
      noSavepointDirectory: true,
    })
    const bareEnd = bare.run()
    await expect(bare.triggerSavepoint()).rejects.toMatchObject({ code: 'MILLRACE_SAVEPOINT_DIRECTORY' })
    expect(bare.status).toBe('RUNNING')
    await bare.cancel()
    await bareEnd
  })

  test('that cannot be written is refused, and the job goes on', async () => {
    await writeFile(join(scene.folder, 'file'), '')
    const brake = new Brake()
    brake.limit = 1
    const master = await scene.start({ declare: counting({ out: collectSink<Count>(), brake }) })
    const end = master.run()
    await expect(master.triggerSavepoint(join(scene.folder, 'file', 'below'))).rejects.toMatchObject({
      code: 'MILLRACE_CHECKPOINT_STORAGE',
    })
    expect(await master.triggerCheckpoint()).toBeGreaterThan(0)
    await master.cancel()
    await end
  })
})

test('draining fires every window before the savepoint; a plain stop keeps them', async () => {
  const sums = (out: CollectSink<number>, brake: Brake) => (env: StreamExecutionEnvironment) => {
    const numbers = env
      .fromSequence(1, 1e9)
      .setParallelism(1)
      .uid('numbers')
      .assignTimestampsAndWatermarks(
        WatermarkStrategy.forMonotonousTimestamps<number>().withTimestampAssigner((value) => value),
      )
      .uid('times')
    numbers
      .keyBy(() => 0)
      .window(TumblingEventTimeWindows.of(1e12))
      .reduce((a, b) => a + b)
      .uid('sum')
      .sinkTo(out)
      .uid('out')
    numbers.sinkTo(brake.sink).uid('brake')
  }
  for (const drain of [false, true]) {
    const out = collectSink<number>()
    const brake = new Brake()
    brake.limit = 5
    const master = await scene.start({ declare: sums(out, brake), fresh: true })
    const end = master.run()
    await waitFor(scene, 'the job runs', () => brake.seen > 6)
    await master.stopWithSavepoint(undefined, { drain })
    expect(await end).toEqual({ status: 'FINISHED' })
    expect(out.values().length).toBe(drain ? 1 : 0)
  }
})

describe('a savepoint that fails', () => {
  /** Files with this in their names cannot be written below the savepoint. */
  const broken =
    (what: 'snapshot' | 'metadata', heal: () => boolean = () => false): SceneJob['storage'] =>
    (storage) => ({
      ...storage,
      folders: {
        open: (path) => storage.folders!.open(path),
        keep: (checkpoint) => storage.folders!.keep(checkpoint),
        finish: async (checkpoint) => {
          if (!heal()) throw full()
          await storage.folders!.finish(checkpoint)
        },
        create: async (directory, id) => {
          const target = await storage.folders!.create(directory, id)
          return {
            path: target.path,
            blobs: {
              ...target.blobs,
              put: async (name, bytes) => {
                if (what === 'snapshot' && name.includes('count')) throw full()
                return target.blobs.put(name, bytes)
              },
            },
            seal: () => target.seal(),
            unseal: () => target.unseal(),
            finish: async (checkpoint) => {
              if (what === 'metadata') throw full()
              await target.finish(checkpoint)
            },
            abandon: () => target.abandon(),
          }
        },
      },
    })
  const full = (): Error => Object.assign(new Error('no space left'), { code: 'ENOSPC' })

  test('is refused, leaves nothing behind, and counts as no failed checkpoint', async () => {
    const brake = new Brake()
    brake.limit = 5
    const master = await scene.start({
      declare: counting({ out: collectSink<Count>(), brake }),
      config: { 'execution.checkpointing.tolerable-failed-checkpoints': 0 },
      storage: broken('snapshot'),
    })
    const end = master.run()
    await waitFor(scene, 'the job runs', () => brake.seen > 5)
    await expect(master.triggerSavepoint()).rejects.toMatchObject({ code: 'MILLRACE_CHECKPOINT_FAILED' })
    expect(await readdir(scene.savepoints)).toEqual([])
    expect(await master.triggerCheckpoint()).toBeGreaterThan(0)
    await master.cancel()
    expect(await end).toEqual({ status: 'CANCELED' })
  })

  test('makes a job that was to stop with it go on from its latest checkpoint', async () => {
    const [out, brake] = [collectSink<Count>(), new Brake()]
    brake.limit = 5
    const master = await scene.start({
      declare: counting({ out, brake }),
      config: RESTARTS,
      storage: broken('snapshot'),
    })
    const end = master.run()
    await waitFor(scene, 'the job runs', () => brake.seen > 5)
    await expect(master.stopWithSavepoint(undefined, { drain: true })).rejects.toMatchObject({
      code: 'MILLRACE_CHECKPOINT_FAILED',
    })
    brake.limit = Number.POSITIVE_INFINITY
    expect(await end).toEqual({ status: 'FINISHED' })
    expect(master.restarts).toBe(1)
    expect(written(out)).toEqual(allCounts())
  })

  test('at its last step does not end the job without it: the stop is finished when the file can be written', async () => {
    const [before, after, brake] = [collectSink<Count>(), collectSink<Count>(), new Brake()]
    brake.limit = 5
    let heals = false
    const master = await scene.start({
      declare: counting({ out: before, brake }),
      config: RESTARTS,
      storage: broken('metadata', () => heals),
    })
    const end = master.run()
    await waitFor(scene, 'the job runs', () => brake.seen > 5)
    await expect(master.stopWithSavepoint()).rejects.toMatchObject({ code: 'ENOSPC' })
    heals = true
    expect(await end).toEqual({ status: 'FINISHED' })
    const [name] = await readdir(scene.savepoints)
    await finish(scene, {
      declare: counting({ out: after }),
      ...from(join(scene.savepoints, name as string)),
    })
    expect(written(before, after)).toEqual(allCounts())
  })
})

describe('a run that is FINISHED', () => {
  test('is cleaned up by the next start when its leader died before it could', async () => {
    const out = collectSink<Count>()
    const config = { 'state.backend': 'filesystem', 'state.backend.fs.memory-threshold': '0 kb' }
    const { store } = scene
    const forget = store.forget.bind(store)
    store.forget = () => Promise.reject(new Error('the leader is dead'))
    const master = await scene.start({ declare: counting({ out }), config })
    expect(await master.run()).toEqual({ status: 'FINISHED' })
    expect((await readdir(scene.checkpoints, { recursive: true })).join()).toContain('chk-')
    store.forget = forget
    const again = await scene.start({ declare: counting({ out }), config })
    expect(await again.run()).toEqual({ status: 'FINISHED' })
    expect(await readdir(scene.checkpoints, { recursive: true })).toEqual([])
    expect((await store.takeOver()).completed).toEqual([])
    expect(written(out)).toEqual(allCounts())
  })
})
