import { describe, expect, test } from '@jest/globals'
import type { JobRecord, RecoveryFacts } from '../../../src/checkpoint/checkpoint-store.ts'
import type { CompletedCheckpoint } from '../../../src/checkpoint/completed-checkpoint.ts'
import {
  planRecovery,
  type RecoveryPlan,
  type RestoreRequest,
} from '../../../src/checkpoint/recovery-plan.ts'

function checkpoint(n: number, committables: readonly unknown[] = []): CompletedCheckpoint {
  return {
    format: 1,
    run: 'old',
    attempt: 3,
    n,
    kind: 'checkpoint',
    triggeredAt: 0,
    completedAt: 0,
    operators: [],
    states: [{ uid: 'sink', subtask: 0, committables }],
    confirmed: n - 1,
    stateBytes: 0,
  }
}

function facts(change: Partial<RecoveryFacts> = {}): RecoveryFacts {
  return {
    attempt: { run: 'old', attempt: 3, incarnation: 'i', startedAt: 0, fingerprint: 'f', sinks: [] },
    job: undefined,
    completed: [checkpoint(4), checkpoint(5)],
    confirmed: 5,
    acceptedLost: [],
    ...change,
  }
}

const end = (status: JobRecord['status'], run = 'old'): JobRecord => ({ run, status, at: 0 })
const plain = { fresh: false, newRun: 'new' }
const fresh = { fresh: true, newRun: 'new' }

describe('recovery plan', () => {
  test('without any record a run starts, as attempt 1', () => {
    const nothing = facts({ attempt: undefined, completed: [], confirmed: -1 })
    for (const request of [plain, fresh])
      expect(planRecovery(nothing, request)).toEqual({
        type: 'start',
        run: 'new',
        attempt: 1,
        commitAgain: undefined,
      })
  })

  test('after a crash the latest completed checkpoint is resumed under the same run, as the next attempt', () => {
    expect(planRecovery(facts(), plain)).toEqual({
      type: 'resume',
      run: 'old',
      attempt: 4,
      checkpoint: checkpoint(5),
      commitAgain: undefined,
    })
  })

  test.each(['FAILED', 'SUSPENDED'] as const)('a run that is %s is resumed', (status) => {
    expect(planRecovery(facts({ job: end(status) }), plain)).toMatchObject({ type: 'resume', run: 'old' })
  })

  test.each(['FINISHED', 'CANCELED'] as const)(
    'a run that is %s is not replayed, and the plan says so',
    (status) => {
      expect(planRecovery(facts({ job: end(status) }), plain)).toEqual({
        type: 'ended',
        status,
        message: expect.stringContaining('--fresh'),
      })
      expect(planRecovery(facts({ job: end(status) }), fresh)).toMatchObject({
        type: 'start',
        run: 'new',
        attempt: 4,
      })
    },
  )

  test('the end of an earlier run is history', () => {
    expect(planRecovery(facts({ job: end('FINISHED', 'older') }), plain)).toMatchObject({ type: 'resume' })
  })

  test('a crash before checkpoint 0 begins the run again under its own name', () => {
    expect(planRecovery(facts({ completed: [], confirmed: -1 }), plain)).toMatchObject({
      type: 'start',
      run: 'old',
      attempt: 4,
    })
  })

  test('unconfirmed commits of the latest checkpoint are made again, with a permit that knows what is confirmed', () => {
    const plan = planRecovery(facts({ confirmed: 4 }), plain)
    expect(plan).toMatchObject({
      type: 'resume',
      commitAgain: { permit: { checkpointId: 5, confirmed: 4 }, checkpoint: { n: 5 } },
    })
  })

  test('a fresh run finishes the commits of the old one first', () => {
    expect(planRecovery(facts({ confirmed: 4 }), fresh)).toMatchObject({
      type: 'start',
      run: 'new',
      commitAgain: { permit: { checkpointId: 5, confirmed: 4 } },
    })
  })

  test('what older completed checkpoints promised and nobody confirmed comes first, and what is in several once', () => {
    const of = (id: string) => ({ transactionalId: id, producerId: '1', producerEpoch: 0 })
    const completed = [checkpoint(3, [of('a')]), checkpoint(4, [of('b')]), checkpoint(5, [of('b'), of('c')])]
    expect(planRecovery(facts({ completed, confirmed: 3 }), plain)).toMatchObject({
      checkpoint: { states: [{ committables: [of('b'), of('c')] }] },
      commitAgain: { checkpoint: { n: 5, states: [{ committables: [of('b'), of('c')] }] } },
    })
    expect(planRecovery(facts({ completed, confirmed: 2 }), plain)).toMatchObject({
      commitAgain: { checkpoint: { states: [{ committables: [of('a'), of('b'), of('c')] }] } },
    })
  })

  test('what was given up is not committed again, but a later transaction of the same id is', () => {
    const lost = { transactionalId: 't', producerId: '1', producerEpoch: 2 }
    const later = { ...lost, producerEpoch: 3 }
    const plan = planRecovery(
      facts({ completed: [checkpoint(5, [lost, later])], confirmed: 4, acceptedLost: ['t:1:2'] }),
      plain,
    )
    expect(plan).toMatchObject({
      checkpoint: { states: [{ committables: [lost, later] }] },
      commitAgain: { checkpoint: { states: [{ committables: [later] }] } },
    })
  })
})

describe('a run that begins with a snapshot', () => {
  const restore = (choice: RestoreRequest, change: Partial<RecoveryFacts> = {}): RecoveryPlan =>
    planRecovery(facts(change), { ...plain, restore: choice })

  test('is a new one, after the commits of the latest checkpoint, whatever the last run came to', () => {
    const snapshot = { ...checkpoint(2), run: 'elsewhere' }
    for (const job of [undefined, end('FINISHED'), end('CANCELED'), end('FAILED')])
      expect(restore({ type: 'snapshot', checkpoint: snapshot }, { job, confirmed: 4 })).toMatchObject({
        type: 'start',
        run: 'new',
        attempt: 4,
        from: snapshot,
        commitAgain: { checkpoint: { n: 5 } },
      })
  })

  test('can be the first one', () => {
    const nothing = { attempt: undefined, completed: [], confirmed: -1 }
    expect(restore({ type: 'snapshot', checkpoint: checkpoint(2) }, nothing)).toMatchObject({
      type: 'start',
      attempt: 1,
      from: checkpoint(2),
    })
  })

  test('may take any completed checkpoint of the last run', () => {
    expect(restore({ type: 'checkpoint', n: 4 })).toMatchObject({ from: checkpoint(4) })
    expect(restore({ type: 'checkpoint', n: 'latest' })).toMatchObject({ from: checkpoint(5) })
  })

  test('is refused without the checkpoint, naming those that are there', () => {
    expect(() => restore({ type: 'checkpoint', n: 9 })).toThrow(/no completed checkpoint 9; there are 4, 5/)
    expect(() => restore({ type: 'checkpoint', n: 'latest' }, { completed: [] })).toThrow(
      /has no completed checkpoint$/,
    )
  })
})

describe('a stop with a savepoint', () => {
  const savepoint = (stop: boolean): CompletedCheckpoint => ({
    ...checkpoint(6, ['t']),
    kind: 'savepoint',
    savepoint: { path: '/s/one', stop, drained: false },
  })

  test('that got as far as its commit point is finished, not run on', () => {
    for (const job of [undefined, end('FAILED'), end('SUSPENDED')])
      expect(planRecovery(facts({ completed: [checkpoint(5), savepoint(true)], job }), plain)).toMatchObject({
        type: 'finish',
        run: 'old',
        checkpoint: { n: 6 },
        commitAgain: { checkpoint: { n: 6 } },
      })
  })

  test('that is over says how to go on', () => {
    const job = { ...end('FINISHED'), savepoint: '/s/one' }
    expect(planRecovery(facts({ job }), plain)).toMatchObject({
      type: 'ended',
      message: expect.stringContaining('--from-savepoint /s/one'),
    })
  })

  test('a savepoint of a job that went on is a checkpoint like any other', () => {
    expect(planRecovery(facts({ completed: [savepoint(false)] }), plain)).toMatchObject({ type: 'resume' })
  })
})
