import { beforeEach, describe, expect, test } from '@jest/globals'
import { type CompletedCheckpoint, encodeCheckpoint } from '../../../src/checkpoint/completed-checkpoint.ts'
import { lastWord, readJobRecords } from '../../../src/kafka/job-records.ts'
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

const read = () => scene.run(readJobRecords(scene.cluster, 'totals', scene.world))
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
})
