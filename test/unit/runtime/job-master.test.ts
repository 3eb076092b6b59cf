import { afterEach, describe, expect, test } from '@jest/globals'
import { StreamExecutionEnvironment } from 'millrace'
import type { Leadership } from '../../../src/checkpoint/leadership.ts'
import { jobSettings } from '../../../src/config/job-settings.ts'
import { settingsOfCode } from '../../../src/config/setting.ts'
import { resolveConfig } from '../../../src/config.ts'
import type { Sink, TwoPhaseCommittingSink } from '../../../src/core/connector.ts'
import { buildJobGraph } from '../../../src/core/graph/job-graph-builder.ts'
import type { Logger } from '../../../src/core/ports.ts'
import { MillraceError } from '../../../src/errors.ts'
import { MetricRegistry } from '../../../src/metrics/metrics.ts'
import { createMaster } from '../../../src/runtime/deployment.ts'
import type { JobMaster } from '../../../src/runtime/job-master.ts'
import { MemoryCheckpointStore } from '../../../src/runtime/memory-checkpoint-store.ts'
import { REAL_TIMERS, realWorld } from '../../../src/runtime/real-world.ts'
import { plainStorage } from '../../../src/runtime/state-storage.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { STATE_CODEC } from '../../../src/state/operator-state-codec.ts'
import { RecordingExecutor } from '../api/recording-executor.ts'

const SILENT: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => SILENT,
}

/** Takes a millisecond for each vector, so that a job over an endless input idles along. */
const slowSink: Sink<number> = {
  kind: 'slow',
  describe: () => ({}),
  createWriter: () => ({
    write: () => REAL_TIMERS.sleep(1),
    flush: () => undefined,
    close: () => undefined,
  }),
}

/** Chosen to lead when the test says so. */
class Election implements Leadership {
  onLost: ((reason: string) => void) | undefined
  readonly workers = 1
  #chosen = Promise.withResolvers<void>()
  choose(): void {
    this.#chosen.resolve()
  }
  /** Another worker leads, until this one is chosen again. */
  lose(): void {
    this.#chosen = Promise.withResolvers<void>()
    this.onLost?.('another worker was chosen')
  }
  lead(): Promise<void> {
    return this.#chosen.promise
  }
  async assertLeader(): Promise<void> {}
  async leave(): Promise<void> {}
}

let master: JobMaster | undefined
afterEach(() => master?.cancel())

/** Promises a number with each checkpoint. Its first commit waits for `answer`; what recovery makes good is in `recovered`. */
class GivesUpOnce implements TwoPhaseCommittingSink<number, { readonly n: number }> {
  readonly kind = 'gives up once'
  readonly twoPhase = true
  readonly committing = Promise.withResolvers<void>()
  readonly answer = Promise.withResolvers<void>()
  readonly recovered: number[] = []
  describe = () => ({})
  createWriter = () => ({
    write: () => REAL_TIMERS.sleep(1),
    flush: () => undefined,
    close: () => undefined,
    prepareCommit: (n: number) => [{ n }],
  })
  createCommitter = () => ({
    commit: async () => {
      this.committing.resolve()
      await this.answer.promise
    },
    recover: async (_permit: unknown, committables: readonly { readonly n: number }[]) => {
      this.recovered.push(...committables.map(({ n }) => n))
    },
    close: async () => undefined,
  })
}

async function newMaster(
  election: Election,
  sink: Sink<number> = slowSink,
  blobs = new MemoryBlobStore(),
  store = new MemoryCheckpointStore(blobs),
): Promise<JobMaster> {
  const executor = new RecordingExecutor()
  const env = StreamExecutionEnvironment.getExecutionEnvironment()
  env.enableCheckpointing(60_000)
  env.fromSequence(1, Number.MAX_SAFE_INTEGER).sinkTo(sink)
  await env.executeAsync('job')
  const config = resolveConfig(settingsOfCode(executor.last.settings.config))
  master = createMaster(
    {
      leadership: election,
      store,
      storage: plainStorage(blobs, STATE_CODEC),
      transactions: undefined,
      close: async () => undefined,
    },
    {
      jobName: 'job',
      graph: buildJobGraph(executor.last.graph, {
        jobName: 'job',
        defaultParallelism: 1,
        maxParallelism: 128,
      }),
      settings: jobSettings(config),
      world: realWorld(SILENT, new MetricRegistry()),
      incarnation: 'worker',
      start: { fresh: false, allowNonRestoredState: false, acceptLostTransactions: [] },
      fault: undefined,
    },
  )
  return master
}

function chosen(): Election {
  const election = new Election()
  election.choose()
  return election
}

/** A job whose first commit waits for an answer. */
async function committing() {
  const sink = new GivesUpOnce()
  const blobs = new MemoryBlobStore()
  const store = new MemoryCheckpointStore(blobs)
  const election = chosen()
  const leader = await newMaster(election, sink, blobs, store)
  const end = leader.run()
  leader.triggerCheckpoint().catch(() => undefined)
  await sink.committing.promise
  return { sink, store, election, leader, end }
}

describe('a checkpoint that somebody asks for', () => {
  test('before the job runs is taken when it does', async () => {
    const election = new Election()
    const leader = await newMaster(election)
    const end = leader.run()
    const asked = [leader.triggerCheckpoint(), leader.triggerCheckpoint()]
    expect(leader.status).toBe('CREATED')
    election.choose()
    const [first, second] = await Promise.all(asked)
    expect(first).toBeGreaterThanOrEqual(1)
    expect(second).toBeGreaterThanOrEqual(first as number)
    expect(leader.status).toBe('RUNNING')
    expect(await leader.triggerCheckpoint()).toBeGreaterThan(second as number)
    await leader.cancel()
    await end
  })

  test('is refused when the job ends without ever running, and after its end', async () => {
    const leader = await newMaster(new Election())
    const end = leader.run()
    const refusal = expect.objectContaining({
      code: 'MILLRACE_CHECKPOINT_FAILED',
      message: expect.stringContaining('the job is CANCELED'),
    })
    const asked = expect(leader.triggerCheckpoint()).rejects.toEqual(refusal)
    await leader.cancel()
    expect(await end).toEqual({ status: 'CANCELED' })
    await asked
    await expect(leader.triggerCheckpoint()).rejects.toEqual(refusal)
  })
})

describe('a job that is cancelled', () => {
  const refused = new Error('the outside system gave it up')

  test('while a commit fails makes its output good first, then it is CANCELED for good', async () => {
    const { sink, store, leader, end } = await committing()
    await leader.cancel()
    sink.answer.reject(refused)
    expect(await end).toEqual({ status: 'CANCELED' })
    expect(sink.recovered).toEqual([1])
    expect((await store.takeOver()).job).toMatchObject({ status: 'CANCELED' })
  })

  test('while it waits for its restart does not run again, and makes the output good, too', async () => {
    const { sink, store, leader, end } = await committing()
    sink.answer.reject(refused)
    while (leader.status !== 'RESTARTING') await REAL_TIMERS.sleep(1)
    await leader.cancel()
    expect(await end).toEqual({ status: 'CANCELED' })
    expect(sink.recovered).toEqual([1])
    expect(leader.restarts).toBe(1)
    expect((await store.takeOver()).job).toMatchObject({ status: 'CANCELED' })
  })

  test.each([
    ['the store does not answer', refused],
    ['it was fenced and leads all the same', new MillraceError('MILLRACE_ATTEMPT_LOST', 'fenced')],
  ])('tries again when its end cannot be recorded: %s', async (_why, error) => {
    const blobs = new MemoryBlobStore()
    const store = new MemoryCheckpointStore(blobs)
    const record = store.writeEnd.bind(store)
    let refusals = 1
    store.writeEnd = async (end) => {
      if (refusals-- > 0) throw error
      await record(end)
    }
    const leader = await newMaster(chosen(), slowSink, blobs, store)
    const end = leader.run()
    await leader.triggerCheckpoint()
    await leader.cancel()
    expect(await end).toEqual({ status: 'CANCELED' })
    expect((await store.takeOver()).job).toMatchObject({ status: 'CANCELED' })
  })
})

test('a worker that loses the job while it waits for its restart takes it over again only when it is chosen', async () => {
  const { sink, store, election, leader, end } = await committing()
  const takeOver = store.takeOver.bind(store)
  let takeOvers = 0
  store.takeOver = () => {
    takeOvers++
    return takeOver()
  }
  sink.answer.reject(new Error('the outside system gave it up'))
  while (leader.status !== 'RESTARTING') await REAL_TIMERS.sleep(1)
  election.lose()
  // The restart strategy waits a second, and a tenth of it at random.
  await REAL_TIMERS.sleep(1_300)
  expect(takeOvers).toBe(0)
  election.choose()
  while ((leader.status as string) !== 'RUNNING') await REAL_TIMERS.sleep(1)
  expect(takeOvers).toBe(1)
  expect(sink.recovered).toEqual([1])
  leader.stop()
  expect(await end).toEqual({ status: 'SUSPENDED' })
})
