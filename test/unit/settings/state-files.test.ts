/** What the settings of state and checkpoint storage leave on disks, seen on jobs in this process. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import {
  ExternalizedCheckpointCleanup,
  type JobClient,
  type StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import { FedSource } from './fed-source.ts'
import { type Counted, counting, LocalJobs, type Settings } from './local-jobs.ts'

jest.setTimeout(60_000)

let jobs: LocalJobs
let source: FedSource<number>
let counted: Counted[]
beforeEach(async () => {
  jobs = await LocalJobs.open()
  source = new FedSource()
  counted = []
})
afterEach(() => jobs.close())

const FILES: Settings = { 'state.backend': 'filesystem', 'state.backend.fs.memory-threshold': 0 }
const keys = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => from + i)

/** A job that has counted each of its keys once. */
async function running(
  settings: Settings,
  { count = 10, parallelism = 1, configure = (_env: StreamExecutionEnvironment): unknown => undefined } = {},
): Promise<JobClient> {
  source.feed(...keys(count))
  const client = await jobs.start((env) => {
    configure(env)
    counting(source, (each) => counted.push(each), { parallelism })(env)
  }, settings)
  await jobs.until('all is counted', () => counted.length >= count)
  return client
}

const bytesOf = (sizes: ReadonlyMap<string, number>, part: string): number =>
  [...sizes].reduce(
    (sum, [path, size]) => sum + (path.includes(part) && path.includes('count') ? size : 0),
    0,
  )

describe('state.backend', () => {
  test('jobmanager writes nothing to the directory, filesystem and rocksdb write there', async () => {
    for (const backend of ['jobmanager', 'filesystem', 'rocksdb']) {
      await rm(jobs.checkpoints, { recursive: true, force: true })
      counted = []
      source = new FedSource()
      const client = await running({ ...FILES, 'state.backend': backend })
      await client.triggerCheckpoint()
      const files = [...(await jobs.files(jobs.checkpoints)).keys()]
      expect([backend, files.some((path) => /chk-1.*count-0-keyed/.test(path))]).toEqual([
        backend,
        backend !== 'jobmanager',
      ])
      await client.cancel()
    }
  })
})

describe('state.backend.incremental', () => {
  test.each([
    ['filesystem', false],
    ['filesystem', true],
    ['rocksdb', false],
    ['rocksdb', true],
  ])(
    '%s, %s: whether a checkpoint after 1 %% of the keys changed has only these',
    async (backend, incremental) => {
      const client = await running(
        {
          ...FILES,
          'state.backend': backend,
          'state.backend.incremental': incremental,
          'state.checkpoints.num-retained': 5,
        },
        { count: 2_000 },
      )
      await client.triggerCheckpoint()
      source.feed(...keys(20))
      await jobs.until('the changes are counted', () => counted.length === 2_020)
      await client.triggerCheckpoint()
      const files = await jobs.files(jobs.checkpoints)
      const [all, changed] = [bytesOf(files, 'chk-1/'), bytesOf(files, 'chk-2/')]
      expect(all).toBeGreaterThan(20_000)
      if (incremental) expect(changed / all).toBeLessThan(0.03)
      else expect(changed / all).toBeGreaterThan(0.9)
    },
  )
})

describe('state.checkpoints.num-retained', () => {
  test.each([1, 5])('%i: as many of the latest checkpoints are there', async (retained) => {
    const client = await running({ ...FILES, 'state.checkpoints.num-retained': retained })
    const taken: number[] = []
    for (let i = 0; i < 8; i++) {
      source.feed(i)
      taken.push(await client.triggerCheckpoint())
    }
    // The next commit point forgets one more, and then its files go.
    const kept = String(taken.slice(-retained - 1))
    await jobs.until('older ones are removed', async () => String(await jobs.stored()) === kept)
  })
})

test('state.savepoints.dir: a savepoint that names no folder lies there', async () => {
  const folder = join(jobs.folder, 'savepoints')
  const client = await running({ 'state.savepoints.dir': folder })
  const path = await client.triggerSavepoint()
  expect(path.startsWith(join(folder, 'savepoint-job-'))).toBe(true)
  expect([...(await jobs.files(path)).keys()]).toContain('_metadata')
})

describe('execution.checkpointing.timeout', () => {
  test('what a checkpoint stored that was aborted is removed', async () => {
    let holds = true
    const client = await running(
      {
        ...FILES,
        'execution.checkpointing.timeout': '200 ms',
        'execution.checkpointing.tolerable-failed-checkpoints': 9,
      },
      {
        configure: (env) =>
          // A task of its own that never comes to its barrier.
          env
            .fromSource(new FedSource<number>(), WatermarkStrategy.noWatermarks(), 'other')
            .uid('other')
            .setParallelism(1)
            .sinkTo({
              kind: 'held',
              describe: () => ({}),
              createWriter: ({ world }) => ({
                write: () => undefined,
                flush: async () => {
                  while (holds) await world.timers.sleep(5)
                },
                close: () => undefined,
              }),
            })
            .uid('held')
            .setParallelism(1),
      },
    )
    const hanging = client.triggerCheckpoint()
    await jobs.until('its state is stored', async () => (await jobs.stored()).length > 0)
    await expect(hanging).rejects.toMatchObject({ code: 'MILLRACE_CHECKPOINT_FAILED' })
    await jobs.until('its files are removed', async () => (await jobs.stored()).length === 0)
    holds = false
    expect(await client.triggerCheckpoint()).toBe(2)
    expect(await jobs.stored()).toEqual([2])
  })
})

describe('execution.checkpointing.externalized-checkpoint-retention', () => {
  const { DELETE_ON_CANCELLATION, RETAIN_ON_CANCELLATION } = ExternalizedCheckpointCleanup
  const retention = (cleanup: ExternalizedCheckpointCleanup) => ({
    configure: (env: StreamExecutionEnvironment) =>
      env.getCheckpointConfig().enableExternalizedCheckpoints(cleanup),
  })

  test.each([
    [DELETE_ON_CANCELLATION, []],
    [RETAIN_ON_CANCELLATION, [1]],
  ])('%s: what is there after a cancel', async (cleanup, left) => {
    const client = await running(FILES, retention(cleanup))
    expect(await client.triggerCheckpoint()).toBe(1)
    expect(await jobs.stored()).toEqual([1])
    await client.cancel()
    expect(await jobs.stored()).toEqual(left)
  })

  test.each([DELETE_ON_CANCELLATION, RETAIN_ON_CANCELLATION])(
    '%s: a job that FAILED keeps its checkpoint',
    async (cleanup) => {
      let broken = false
      source.feed(...keys(10))
      const client = await jobs.start((env) => {
        retention(cleanup).configure(env)
        counting(source, (each) => {
          if (broken) throw new Error('broken')
          counted.push(each)
        })(env)
      }, FILES)
      await jobs.until('all is counted', () => counted.length === 10)
      await client.triggerCheckpoint()
      broken = true
      source.feed(1)
      await expect(client.getJobExecutionResult()).rejects.toThrow('broken')
      expect(await client.getJobStatus()).toBe('FAILED')
      expect(await jobs.stored()).toEqual([1])
    },
  )
})

describe('local state', () => {
  const roots = (): string[] => ['disk-1', 'disk-2'].map((name) => join(jobs.folder, name))
  const local = (recovery: boolean): Settings => ({
    ...FILES,
    'state.backend': 'rocksdb',
    'state.backend.local-recovery': recovery,
    'taskmanager.state.local.root-dirs': roots().join(','),
  })
  const filesIn = async (): Promise<number[]> =>
    Promise.all(roots().map(async (root) => (await jobs.files(root)).size))

  test('taskmanager.state.local.root-dirs: subtasks are spread over the folders', async () => {
    await running(local(false), { parallelism: 4, count: 100 })
    expect(Math.min(...(await filesIn()))).toBeGreaterThan(0)
  })

  test.each([true, false])(
    'state.backend.local-recovery %s: whether a restart needs the files of the checkpoint',
    async (recovery) => {
      let breakAt = Number.POSITIVE_INFINITY
      source.feed(...keys(100))
      const client = await jobs.start(
        counting(source, (each) => {
          counted.push(each)
          if (counted.length === breakAt) throw new Error('broken once')
        }),
        {
          ...local(recovery),
          'restart-strategy.type': 'fixed-delay',
          'restart-strategy.fixed-delay.delay': '10 ms',
        },
      )
      await jobs.until('all is counted', () => counted.length === 100)
      await client.triggerCheckpoint()
      await jobs.until('its metadata is written', async () =>
        [...(await jobs.files(jobs.checkpoints)).keys()].some((path) => path.endsWith('chk-1/_metadata')),
      )
      // The directory is out of reach from now on.
      await rm(join(jobs.checkpoints, 'job'), { recursive: true })
      breakAt = 101
      source.feed(7)
      if (recovery) {
        await jobs.until('the job has come back', () => counted.length === 102)
        expect(counted.at(-1)).toEqual({ key: 7, count: 2 })
        expect(jobs.stderr.join('')).toContain('goes on with its state on this machine')
      } else {
        await expect(client.getJobExecutionResult()).rejects.toMatchObject({
          cause: { code: 'MILLRACE_STATE_LOST' },
        })
        // Nor is anything left on this machine.
        expect(await filesIn()).toEqual([0, 0])
      }
    },
  )
})
