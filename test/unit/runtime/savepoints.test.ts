/** Savepoints of whole jobs: taken, stopped with, drained into, moved, and started from in every way that an operator may want. */
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import {
  type Collector,
  type CollectSink,
  collectSink,
  KeyedProcessFunction,
  type RuntimeContext,
  type Sink,
  type StreamExecutionEnvironment,
  TumblingEventTimeWindows,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'
import type { JobMaster } from '../../../src/runtime/job-master.ts'
import { openSnapshot } from '../../../src/state/savepoint-source.ts'
import { SavepointScene, type SceneJob } from './savepoint-scene.ts'

const KEYS = 7
const RECORDS = 9_000

interface Count {
  readonly key: number
  readonly count: number
}

class CountPerKey extends KeyedProcessFunction<number, number, Count> {
  #count!: ValueState<number>
  override open(context: RuntimeContext): void {
    this.#count = context.getState(new ValueStateDescriptor<number>('count'))
  }
  override processElement(_value: number, context: this['Context'], out: Collector<Count>): void {
    const count = (this.#count.value() ?? 0) + 1
    this.#count.update(count)
    out.collect({ key: context.getCurrentKey(), count })
  }
}

/** Holds its job back while `open` is false, so that a savepoint falls into the middle of the input. */
class Brake {
  seen = 0
  limit = Number.POSITIVE_INFINITY
  readonly sink: Sink<unknown> = {
    kind: 'brake',
    describe: () => ({}),
    createWriter: () => ({
      write: () => {
        this.seen++
        return new Promise<void>((resolve) => setTimeout(resolve, this.seen > this.limit ? 5 : 0))
      },
      flush: () => undefined,
      close: () => undefined,
    }),
  }
}

interface CountJob {
  readonly out: CollectSink<Count>
  readonly brake?: Brake
  readonly parallelism?: number
  readonly uids?: { readonly count?: string }
}

/** Counts per key; with a brake it does not come to its end. */
function counting({
  out,
  brake,
  parallelism = 1,
  uids = {},
}: CountJob): (env: StreamExecutionEnvironment) => void {
  return (env) => {
    const counts = env
      .fromSequence(1, RECORDS)
      .setParallelism(1)
      .uid('numbers')
      .keyBy((value) => value % KEYS)
      .process(new CountPerKey())
      .uid(uids.count ?? 'count')
      .setParallelism(parallelism)
    counts.sinkTo(out).uid('out').setParallelism(1)
    if (brake !== undefined) counts.sinkTo(brake.sink).uid('brake').setParallelism(parallelism)
  }
}

/** Every count of every key, once. */
function allCounts(): string[] {
  const counts = new Map<number, number>()
  return Array.from({ length: RECORDS }, (_, i) => {
    const key = (i + 1) % KEYS
    counts.set(key, (counts.get(key) ?? 0) + 1)
    return `${key}:${counts.get(key)}`
  }).sort()
}

function written(...sinks: CollectSink<Count>[]): string[] {
  return sinks.flatMap((sink) => sink.values().map(({ key, count }) => `${key}:${count}`)).sort()
}

let scene: SavepointScene
beforeEach(async () => {
  scene = await SavepointScene.open()
})
afterEach(() => scene.close())

async function waitFor(what: string, isTrue: () => boolean): Promise<void> {
  const deadline = Date.now() + 10_000
  while (!isTrue()) {
    if (Date.now() > deadline) throw new Error(`not within 10 s: ${what}\n${scene.logged.join('\n')}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** Runs the counting job into its middle and stops it with a savepoint. */
async function stopInTheMiddle(
  out: CollectSink<Count>,
  config: SceneJob['config'] = {},
  drain = false,
): Promise<string> {
  const brake = new Brake()
  brake.limit = 10
  const master = await scene.start({ declare: counting({ out, brake }), config })
  const end = master.run()
  await waitFor('the job is in the middle of its input', () => brake.seen > 20)
  const path = await master.stopWithSavepoint(undefined, { drain })
  expect(await end).toEqual({ status: 'FINISHED' })
  expect(written(out).length).toBeGreaterThan(0)
  expect(written(out).length).toBeLessThan(RECORDS)
  return path
}

async function finish(job: SceneJob): Promise<JobMaster> {
  const master = await scene.start(job)
  const end = await master.run()
  if (end.status !== 'FINISHED') throw end.error
  return master
}

const RESTARTS = {
  'restart-strategy.type': 'fixed-delay',
  'restart-strategy.fixed-delay.attempts': 20,
  'restart-strategy.fixed-delay.delay': '10 ms',
}

const from = (path: string): Pick<SceneJob, 'restoreFrom'> => ({ restoreFrom: { type: 'path', path } })

describe('a job that is stopped with a savepoint', () => {
  test('is FINISHED, a plain start does nothing, and a run from the savepoint gives the rest, at any parallelism', async () => {
    const [before, after] = [collectSink<Count>(), collectSink<Count>()]
    const path = await stopInTheMiddle(before)
    expect(path.startsWith(join(scene.savepoints, 'savepoint-job-'))).toBe(true)
    const plain = await scene.start({ declare: counting({ out: after }) })
    expect(await plain.run()).toEqual({ status: 'FINISHED' })
    expect(written(after)).toEqual([])
    expect(scene.logged.join('\n')).toContain(`go on with --from-savepoint ${path}`)
    await finish({ declare: counting({ out: after, parallelism: 5 }), ...from(path) })
    expect(written(before, after)).toEqual(allCounts())
  })

  test('can be restored twice, from a copy elsewhere, and says that output may repeat', async () => {
    const before = collectSink<Count>()
    const path = await stopInTheMiddle(before)
    const moved = join(scene.folder, 'elsewhere')
    await cp(path, moved, { recursive: true })
    await rm(path, { recursive: true })
    for (let i = 0; i < 2; i++) {
      const after = collectSink<Count>()
      await finish({ declare: counting({ out: after }), ...from(moved) })
      expect(written(before, after)).toEqual(allCounts())
    }
    expect(scene.logged.filter((line) => line.includes('may be written again')).length).toBe(2)
    expect((await openSnapshot(moved)).checkpoint.states.some(({ keyed }) => keyed !== undefined)).toBe(true)
  })

  test.each(['jobmanager', 'filesystem'])('moves from %s to the other backend', async (backend) => {
    const [before, after] = [collectSink<Count>(), collectSink<Count>()]
    const path = await stopInTheMiddle(before, { 'state.backend': backend })
    const other = backend === 'jobmanager' ? 'filesystem' : 'jobmanager'
    await finish({
      declare: counting({ out: after, parallelism: 2 }),
      config: { 'state.backend': other },
      ...from(path),
    })
    expect(written(before, after)).toEqual(allCounts())
  })

  test('holds no committables, and names its files relative to its folder', async () => {
    const path = await stopInTheMiddle(collectSink<Count>(), { 'state.backend.fs.memory-threshold': '0 kb' })
    const text = await readFile(join(path, '_metadata'), 'utf8')
    expect(text).not.toContain('committables')
    expect(text).not.toContain(scene.folder)
    expect(text.startsWith('millrace-savepoint 1 ')).toBe(true)
    expect((await readdir(path)).length).toBeGreaterThan(1)
  })
})

describe('a savepoint of a job that goes on', () => {
  test('is followed by a checkpoint of its own, forgotten then, and never deleted', async () => {
    const [out, later] = [collectSink<Count>(), collectSink<Count>()]
    const brake = new Brake()
    brake.limit = 10
    const master = await scene.start({ declare: counting({ out, brake }) })
    const end = master.run()
    await waitFor('the job runs', () => brake.seen > 5)
    const path = await master.triggerSavepoint()
    const { checkpoint } = await openSnapshot(path)
    await waitFor('a checkpoint follows it', () => (master.lastCompleted?.n ?? 0) > checkpoint.n)
    // What is not needed any more is forgotten in the commit point after the one that was confirmed.
    for (let i = 0; i < 2; i++) await master.triggerCheckpoint()
    const { completed } = await scene.store.takeOver()
    expect(completed.map(({ kind }) => kind)).not.toContain('savepoint')
    expect(master.status).toBe('RUNNING')
    await master.cancel()
    await end
    await finish({ declare: counting({ out: later }), ...from(path) })
    // What the first run wrote after the savepoint is written again; nothing is missing, and neither run repeats itself.
    for (const sink of [out, later]) expect(new Set(written(sink)).size).toBe(written(sink).length)
    expect([...new Set(written(out, later))].sort()).toEqual(allCounts())
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
    await waitFor('the job runs', () => brake.seen > 6)
    await master.stopWithSavepoint(undefined, { drain })
    expect(await end).toEqual({ status: 'FINISHED' })
    expect(out.values().length).toBe(drain ? 1 : 0)
  }
})

describe('a run from a savepoint of another graph (case 20)', () => {
  test('takes state by uid: operators were added, and their order changed', async () => {
    const [before, after] = [collectSink<Count>(), collectSink<Count>()]
    const path = await stopInTheMiddle(before)
    await finish({
      ...from(path),
      declare: (env) => {
        const numbers = env.fromSequence(1, RECORDS).setParallelism(1).uid('numbers')
        // Before the counted branch: another stateful operator, and a stateless one in the counted branch itself.
        numbers
          .keyBy((value) => value % 3)
          .process(new CountPerKey())
          .uid('new')
          .sinkTo(collectSink<Count>())
          .uid('new-out')
        numbers
          .map((value) => value)
          .uid('same')
          .keyBy((value) => value % KEYS)
          .process(new CountPerKey())
          .uid('count')
          .setParallelism(3)
          .sinkTo(after)
          .uid('out')
          .setParallelism(1)
      },
    })
    expect(written(before, after)).toEqual(allCounts())
  })

  test('is refused by name when an operator is gone, and goes on without its state when told to', async () => {
    const [before, after] = [collectSink<Count>(), collectSink<Count>()]
    const path = await stopInTheMiddle(before)
    const declare = counting({ out: after, uids: { count: 'renamed' } })
    const refused = await scene.start({ declare, ...from(path) })
    expect(await refused.run()).toMatchObject({
      status: 'FAILED',
      error: { cause: { code: 'MILLRACE_STATE_NOT_RESTORED', message: expect.stringContaining(path) } },
    })
    expect(written(after)).toEqual([])
    await finish({ declare, ...from(path), allowNonRestoredState: true })
    // Positions are restored, counts begin anew.
    expect(written(after).length + written(before).length).toBe(RECORDS)
    expect(written(after)).toContain('1:1')
    expect(JSON.stringify((await scene.store.takeOver()).completed)).not.toContain('"count"')
  })

  test('is refused when the max parallelism changed', async () => {
    const path = await stopInTheMiddle(collectSink<Count>())
    const refused = await scene.start({
      declare: counting({ out: collectSink<Count>() }),
      config: { 'pipeline.max-parallelism': 64 },
      ...from(path),
    })
    expect(await refused.run()).toMatchObject({
      status: 'FAILED',
      error: { cause: { code: 'MILLRACE_STATE_NOT_RESTORED', message: expect.stringContaining('128') } },
    })
  })

  test('a refused start leaves the run before it as it was', async () => {
    const out = collectSink<Count>()
    const path = await stopInTheMiddle(out)
    const missing = await scene.start({
      declare: counting({ out }),
      restoreFrom: { type: 'checkpoint', n: 99 },
    })
    expect(await missing.run()).toMatchObject({
      status: 'FAILED',
      error: { cause: { code: 'MILLRACE_CHECKPOINT_MISSING' } },
    })
    const plain = await scene.start({ declare: counting({ out }) })
    expect(await plain.run()).toEqual({ status: 'FINISHED' })
    expect(scene.logged.join('\n')).toContain(path)
  })
})

describe('a run from a checkpoint', () => {
  const filesystem = { 'state.backend': 'filesystem', 'state.backend.fs.memory-threshold': '0 kb' }

  /** Runs into the middle, takes checkpoints, and is cancelled; resolves with the folder of the job's run. */
  async function cancelInTheMiddle(
    out: CollectSink<Count>,
    config: SceneJob['config'],
    n: number,
  ): Promise<string> {
    const brake = new Brake()
    brake.limit = 10
    const master = await scene.start({ declare: counting({ out, brake }), config })
    const end = master.run()
    await waitFor('the job runs', () => brake.seen > 5)
    for (let i = 0; i < n; i++) await master.triggerCheckpoint()
    await master.cancel()
    await end
    const runs = await readdir(join(scene.checkpoints, 'job')).catch(() => [])
    return join(scene.checkpoints, 'job', runs[0] ?? '')
  }

  test('that was retained on cancellation goes on where it was, by its folder, and leaves it in place', async () => {
    const [before, after, again] = [collectSink<Count>(), collectSink<Count>(), collectSink<Count>()]
    const config = {
      ...filesystem,
      'execution.checkpointing.externalized-checkpoint-retention': 'RETAIN_ON_CANCELLATION',
    }
    const folder = await cancelInTheMiddle(before, config, 3)
    const retained = (await readdir(folder)).sort().at(-1)
    const path = join(folder, retained as string)
    await finish({ declare: counting({ out: after, parallelism: 2 }), config, ...from(path) })
    expect(written(before, after)).toEqual(allCounts())
    await finish({ declare: counting({ out: again }), config, ...from(path) })
    expect(written(before, again)).toEqual(allCounts())
    expect((await openSnapshot(path)).kind).toBe('checkpoint')
  })

  test('is deleted with the others on cancellation unless it was to be retained', async () => {
    await cancelInTheMiddle(collectSink<Count>(), filesystem, 3)
    expect(await readdir(scene.checkpoints)).toEqual([])
  })

  test.each([
    ['jobmanager', 'latest'],
    ['jobmanager', 2],
    ['filesystem', 'latest'],
    ['filesystem', 2],
  ] as const)('kept in %s, chosen as %s, begins a new run', async (backend, n) => {
    const [before, after] = [collectSink<Count>(), collectSink<Count>()]
    const config = { ...filesystem, 'state.backend': backend, 'state.checkpoints.num-retained': 3 }
    const brake = new Brake()
    brake.limit = 10
    const master = await scene.start({ declare: counting({ out: before, brake }), config })
    const end = master.run()
    await waitFor('the job runs', () => brake.seen > 3)
    for (let i = 0; i < 3; i++) {
      const seen = brake.seen
      await waitFor('records between two checkpoints', () => brake.seen > seen)
      await master.triggerCheckpoint()
    }
    master.stop()
    expect(await end).toEqual({ status: 'SUSPENDED' })
    await finish({ declare: counting({ out: after }), config, restoreFrom: { type: 'checkpoint', n } })
    expect(new Set(written(after)).size).toBe(written(after).length)
    expect([...new Set(written(before, after))].sort()).toEqual(allCounts())
    if (n === 'latest') expect(written(before, after)).toEqual(allCounts())
    else expect(written(before, after).length).toBeGreaterThan(RECORDS)
  })
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
    await waitFor('the job runs', () => brake.seen > 5)
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
    await waitFor('the job runs', () => brake.seen > 5)
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
    await waitFor('the job runs', () => brake.seen > 5)
    await expect(master.stopWithSavepoint()).rejects.toMatchObject({ code: 'ENOSPC' })
    heals = true
    expect(await end).toEqual({ status: 'FINISHED' })
    const [name] = await readdir(scene.savepoints)
    await finish({ declare: counting({ out: after }), ...from(join(scene.savepoints, name as string)) })
    expect(written(before, after)).toEqual(allCounts())
  })
})
