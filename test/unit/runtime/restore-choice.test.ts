/** What a run may begin with: savepoints of other graphs (case 20), and checkpoints by number or folder. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { type CollectSink, collectSink } from 'millrace'
import { openSnapshot } from '../../../src/state/savepoint-source.ts'
import {
  allCounts,
  Brake,
  type Count,
  CountPerKey,
  counting,
  finish,
  from,
  KEYS,
  RECORDS,
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

describe('a run from a savepoint of another graph (case 20)', () => {
  test('takes state by uid: operators were added, and their order changed', async () => {
    const [before, after] = [collectSink<Count>(), collectSink<Count>()]
    const path = await stopInTheMiddle(scene, before)
    await finish(scene, {
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
    const path = await stopInTheMiddle(scene, before)
    const declare = counting({ out: after, uids: { count: 'renamed' } })
    const refused = await scene.start({ declare, ...from(path) })
    expect(await refused.run()).toMatchObject({
      status: 'FAILED',
      error: { cause: { code: 'MILLRACE_STATE_NOT_RESTORED', message: expect.stringContaining(path) } },
    })
    expect(written(after)).toEqual([])
    await finish(scene, { declare, ...from(path), allowNonRestoredState: true })
    // Positions are restored, counts begin anew.
    expect(written(after).length + written(before).length).toBe(RECORDS)
    expect(written(after)).toContain('1:1')
    expect(JSON.stringify((await scene.store.takeOver()).completed)).not.toContain('"count"')
  })

  test('is refused when the max parallelism changed', async () => {
    const path = await stopInTheMiddle(scene, collectSink<Count>())
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
    const path = await stopInTheMiddle(scene, out)
    const before = written(out)
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
    expect(written(out)).toEqual(before)
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
    await waitFor(scene, 'the job runs', () => brake.seen > 5)
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
    await finish(scene, { declare: counting({ out: after, parallelism: 2 }), config, ...from(path) })
    expect(written(before, after)).toEqual(allCounts())
    await finish(scene, { declare: counting({ out: again }), config, ...from(path) })
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
    await waitFor(scene, 'the job runs', () => brake.seen > 3)
    for (let i = 0; i < 3; i++) {
      const seen = brake.seen
      await waitFor(scene, 'records between two checkpoints', () => brake.seen > seen)
      await master.triggerCheckpoint()
    }
    master.stop()
    expect(await end).toEqual({ status: 'SUSPENDED' })
    await finish(scene, { declare: counting({ out: after }), config, restoreFrom: { type: 'checkpoint', n } })
    expect(new Set(written(after)).size).toBe(written(after).length)
    expect([...new Set(written(before, after))].sort()).toEqual(allCounts())
    if (n === 'latest') expect(written(before, after)).toEqual(allCounts())
    else expect(written(before, after).length).toBeGreaterThan(RECORDS)
  })
})
