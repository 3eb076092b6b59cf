import { beforeEach, describe, expect, test } from '@jest/globals'
import { type CompletedCheckpoint, encodeCheckpoint } from '../../../src/checkpoint/completed-checkpoint.ts'
import { listJobs } from '../../../src/cli/list.ts'
import { encodeControlRecord } from '../../../src/kafka/control-records.ts'
import { lastWord, readJobRecords } from '../../../src/kafka/job-records.ts'
import { JobStanding } from '../../../src/kafka/job-standing.ts'
import { SimulatedScene } from './simulated-scene.ts'

const TOPIC = 'millrace.totals.checkpoints'

let scene: SimulatedScene

beforeEach(async () => {
  scene = new SimulatedScene()
  await scene.topic(TOPIC, 1, { 'cleanup.policy': 'compact' })
})

const attempt = (n: number, run: string) => ({
  key: 'attempt',
  value: JSON.stringify({ run, attempt: n, incarnation: 'i', startedAt: 5, fingerprint: 'f', sinks: [] }),
})

function completed(run: string, n: number, change: Partial<CompletedCheckpoint> = {}) {
  const checkpoint: CompletedCheckpoint = {
    format: 1,
    run,
    attempt: 1,
    n,
    kind: 'checkpoint',
    triggeredAt: 1_000 * n,
    completedAt: 1_000 * n + 5,
    operators: [],
    states: [],
    confirmed: -1,
    stateBytes: 0,
    ...change,
  }
  return { key: `completed/${run}/${n}`, value: encodeCheckpoint(checkpoint) }
}

const read = () => scene.run(readJobRecords(scene.cluster, 'totals', scene.world, 'everything'))
const word = (live: boolean) => scene.run(lastWord(scene.cluster, 'totals', scene.world, live))

describe('the facts of a job, read from outside', () => {
  test('are the newest attempt, the checkpoints that are not forgotten, and the newest confirmation', async () => {
    await scene.produce(TOPIC, [
      attempt(1, 'r1'),
      completed('r1', 0),
      completed('r1', 2, { confirmed: 1 }),
      completed('r1', 1),
      { key: 'confirmed', value: JSON.stringify({ run: 'r1', n: 2 }) },
      { key: 'chunk/r1/1/2/a/0', value: 'bytes' },
      attempt(2, 'r1'),
      { key: 'completed/r1/0', value: null },
    ])
    const facts = await read()
    expect(facts.attempt).toMatchObject({ run: 'r1', attempt: 2 })
    expect(facts.completed.map(({ n }) => n)).toEqual([1, 2])
    expect(facts.confirmed).toBe(2)
    expect(facts.job).toBeUndefined()
  })

  test('leave out what an open or aborted transaction wrote', async () => {
    await scene.produce(TOPIC, [attempt(1, 'r1'), completed('r1', 0)])
    await scene.transact(TOPIC, [completed('r1', 1)], 'abort')
    await scene.transact(TOPIC, [completed('r1', 2)], 'commit')
    expect((await read()).completed.map(({ n }) => n)).toEqual([0, 2])
  })

  test('a confirmation of an earlier run confirms nothing of this one', async () => {
    await scene.produce(TOPIC, [
      attempt(5, 'r2'),
      completed('r2', 0),
      { key: 'confirmed', value: JSON.stringify({ run: 'r1', n: 40 }) },
    ])
    expect((await read()).confirmed).toBe(-1)
  })

  test('of a job that wrote nothing yet are none', async () => {
    expect(await read()).toEqual({ attempt: undefined, job: undefined, completed: [], confirmed: -1 })
  })
})

describe('while a transaction is open, as one that a crash left', () => {
  test('everything waits for its end; what is decided is told at once, without what stands in it', async () => {
    await scene.produce(TOPIC, [attempt(1, 'r1'), completed('r1', 1)])
    await scene.transact(TOPIC, [completed('r1', 2)], 'open')
    const before = scene.time.now()
    const decided = await scene.run(readJobRecords(scene.cluster, 'totals', scene.world, 'decided'))
    expect(decided.completed.map(({ n }) => n)).toEqual([1])
    expect(scene.time.now() - before).toBeLessThan(1_000)
    expect(await word(false)).toEqual({ state: 'DOWN', checkpoint: 1, completedAt: 1_005 })
    let settled = false
    void readJobRecords(scene.cluster, 'totals', scene.world, 'everything').then(() => {
      settled = true
    })
    await scene.time.advance(5_000)
    expect(settled).toBe(false)
  })
})

describe('how the latest run stands', () => {
  const end = (run: string, status: string) => ({ key: 'job', value: JSON.stringify({ run, status, at: 9 }) })

  test('a job with workers is RUNNING, with its latest checkpoint', async () => {
    await scene.produce(TOPIC, [
      attempt(1, 'r1'),
      completed('r1', 0),
      completed('r1', 3),
      end('r1', 'SUSPENDED'),
    ])
    expect(await word(true)).toEqual({ state: 'RUNNING', checkpoint: 3, completedAt: 3_005 })
  })

  test('without workers it is what its end says, and DOWN if it has none', async () => {
    await scene.produce(TOPIC, [attempt(1, 'r1'), completed('r1', 1)])
    expect(await word(false)).toEqual({ state: 'DOWN', checkpoint: 1, completedAt: 1_005 })
    await scene.produce(TOPIC, [end('r1', 'CANCELED')])
    expect(await word(false)).toMatchObject({ state: 'CANCELED' })
    await scene.produce(TOPIC, [attempt(2, 'r2')])
    expect(await word(false)).toEqual({ state: 'DOWN' })
  })

  test('a job with workers is in the state that its latest events tell', async () => {
    await scene.topic('millrace.totals.control')
    const move = (from: string, to: string) =>
      encodeControlRecord({
        kind: 'event',
        event: { at: 1, type: 'status', message: `${from} → ${to}`, details: { from, to } },
      }) as { key: string; value: string }
    const filler = { key: 'x', value: 'no event' }
    await scene.produce('millrace.totals.control', [
      move('CREATED', 'RUNNING'),
      move('FAILING', 'RESTARTING'),
    ])
    expect(await word(true)).toEqual({ state: 'RESTARTING' })
    await scene.produce('millrace.totals.control', Array(150).fill(filler))
    expect(await word(true)).toEqual({ state: 'RESTARTING' })
    await scene.produce('millrace.totals.control', Array(150).fill(filler))
    expect(await word(true)).toEqual({ state: 'RUNNING' })
  })
})

describe('the state that events tell of a job with workers', () => {
  const stateAfter = (...events: (readonly [string, string] | 'checkpoint')[]): string => {
    const standing = new JobStanding()
    for (const event of events)
      if (event === 'checkpoint') standing.note('checkpoint-completed', { n: 1 })
      else standing.note('status', { from: event[0], to: event[1] })
    return standing.status
  }

  test.each(['RUNNING', 'FAILING', 'RESTARTING', 'CANCELLING'])(
    'is %s when the leader said so last',
    (to) => {
      expect(stateAfter(['CREATED', 'RUNNING'], ['RUNNING', to])).toBe(to)
    },
  )

  test('is CREATED when the leader ended: another worker takes it over', () => {
    expect(stateAfter(['CREATED', 'RUNNING'], ['RUNNING', 'SUSPENDED'])).toBe('CREATED')
  })

  test('is not what a standby says that ends, nor what a worker says late that had lost the job', () => {
    expect(stateAfter(['RUNNING', 'RESTARTING'], ['CREATED', 'SUSPENDED'])).toBe('RESTARTING')
    expect(stateAfter(['CREATED', 'RUNNING'], ['RUNNING', 'CREATED'], 'checkpoint')).toBe('RUNNING')
  })
})

test('many jobs are listed at about the time of one, in their order, with an open transaction in one of them', async () => {
  const names = Array.from({ length: 24 }, (_, i) => `job${String(i).padStart(2, '0')}`)
  for (const name of names) await scene.topic(`millrace.${name}.checkpoints`)
  await scene.transact('millrace.job07.checkpoints', [attempt(1, 'r1')], 'open')
  const timeOf = async (work: Promise<unknown>): Promise<number> => {
    const before = scene.time.now()
    await scene.run(work)
    return scene.time.now() - before
  }
  const one = await timeOf(lastWord(scene.cluster, 'job00', scene.world, false))
  let rows: readonly unknown[] = []
  const all = await timeOf(listJobs(scene.cluster, scene.world, false).then((listed) => (rows = listed)))
  expect(rows).toEqual([...names, 'totals'].map((job) => ({ job, workers: 0, state: 'DOWN' })))
  expect(all).toBeLessThan(10 * Math.max(one, 1))
})
