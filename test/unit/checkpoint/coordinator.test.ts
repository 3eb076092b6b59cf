import { beforeEach, describe, expect, test } from '@jest/globals'
import {
  CheckpointCoordinator,
  type CoordinatorConfig,
  type CoordinatorEffect,
  type CoordinatorEvent,
} from '../../../src/checkpoint/coordinator.ts'

/** An event without its time. */
type Timeless<E = CoordinatorEvent> = E extends CoordinatorEvent ? Omit<E, 'now'> : never

let coordinator: CheckpointCoordinator
let now: number

function start(config: Partial<CoordinatorConfig> = {}): void {
  now = 10_000
  coordinator = new CheckpointCoordinator({
    intervalMs: 1_000,
    timeoutMs: 600_000,
    minPauseMs: 0,
    maxConcurrent: 1,
    tolerableFailures: Number.POSITIVE_INFINITY,
    numRetained: 1,
    subtasks: ['a/0', 'b/0'],
    restored: 0,
    confirmed: 0,
    retained: [0],
    ...config,
  })
}

function send(event: Timeless): CoordinatorEffect[] {
  return coordinator.handle({ ...event, now } as CoordinatorEvent)
}

const types = (effects: readonly CoordinatorEffect[]): string[] => effects.map(({ type }) => type)
function only<T extends CoordinatorEffect['type']>(
  effects: readonly CoordinatorEffect[],
  type: T,
): Extract<CoordinatorEffect, { type: T }>[] {
  return effects.filter((effect) => effect.type === type) as Extract<CoordinatorEffect, { type: T }>[]
}

const interval = () => send({ type: 'TimerFired', timer: 'interval' })
const request = (id: string, kind: 'checkpoint' | 'savepoint' | 'final' = 'checkpoint', thenStop = false) =>
  send({ type: 'TriggerRequested', id, kind, thenStop })
const state = (uid: string) => ({ uid, subtask: 0, committables: [{ from: uid }] })
const ack = (n: number, subtask: string) =>
  send({ type: 'Acknowledged', n, subtask, states: [state(subtask)] })
function ackAll(n: number): CoordinatorEffect[] {
  return [...ack(n, 'a/0'), ...ack(n, 'b/0')]
}
const written = (n: number) => send({ type: 'CommitPointWritten', n })
const committed = (n: number) => send({ type: 'Committed', n })

/** Checkpoint n from its acknowledgements to its commits. */
function complete(n: number): CoordinatorEffect[] {
  return [...ackAll(n), ...written(n), ...committed(n)]
}

beforeEach(() => start())

describe('triggers', () => {
  test('the first one comes one interval after the start, then at a fixed rate', () => {
    expect(send({ type: 'Started' })).toEqual([{ type: 'SetTimer', timer: 'interval', delayMs: 1_000 }])
    now = 11_030
    expect(interval()).toEqual([
      { type: 'SetTimer', timer: 'interval', delayMs: 970 },
      { type: 'SetTimer', timer: 'timeout:1', delayMs: 600_000 },
      { type: 'Trigger', n: 1, kind: 'checkpoint', thenStop: false },
    ])
  })

  test('without an interval nothing is triggered but what is asked for', () => {
    start({ intervalMs: undefined })
    expect(send({ type: 'Started' })).toEqual([])
    expect(only(request('r'), 'Trigger')).toMatchObject([{ n: 1 }])
  })

  test('after a hold-up the missed ones collapse into one, and a clock that was set back stops nothing', () => {
    send({ type: 'Started' })
    now = 60_000
    expect(only(interval(), 'SetTimer')[0]).toMatchObject({ delayMs: 1_000 })
    now = 5_000
    expect(only(interval(), 'SetTimer')[0]).toMatchObject({ timer: 'interval', delayMs: 1_000 })
  })

  test('ids go on from the highest one that is known', () => {
    start({ restored: 7, retained: [6, 7, 9], confirmed: 7 })
    expect(only(request('r'), 'Trigger')).toMatchObject([{ n: 10 }])
    expect(coordinator.latest).toBe(7)
  })

  test('a periodic one that may not start yet starts when the one in flight ends', () => {
    interval()
    expect(only(interval(), 'Trigger')).toEqual([])
    ackAll(1)
    expect(only(written(1), 'Trigger')).toMatchObject([{ n: 2 }])
  })

  test('with a pause a timer asks again', () => {
    start({ minPauseMs: 400 })
    interval()
    ackAll(1)
    written(1)
    now += 100
    expect(interval()).toContainEqual({ type: 'SetTimer', timer: 'pause', delayMs: 300 })
    now += 300
    expect(only(send({ type: 'TimerFired', timer: 'pause' }), 'Trigger')).toMatchObject([{ n: 2 }])
  })
})

describe('the commit point', () => {
  test('begins with the last acknowledgement, holds all states, and no time-out can touch it', () => {
    interval()
    expect(ack(1, 'a/0')).toEqual([])
    expect(coordinator.inFlight).toEqual([
      { n: 1, phase: 'Collecting', missing: ['b/0'], triggeredAt: 10_000 },
    ])
    expect(ack(1, 'b/0')).toEqual([
      { type: 'CancelTimer', timer: 'timeout:1' },
      {
        type: 'WriteCommitPoint',
        n: 1,
        kind: 'checkpoint',
        triggeredAt: 10_000,
        states: [state('a/0'), state('b/0')],
        confirmed: 0,
      },
    ])
    expect(send({ type: 'TimerFired', timer: 'timeout:1' })).toEqual([])
    expect(send({ type: 'Declined', n: 1, subtask: 'a/0', reason: 'late' })).toEqual([])
  })

  test('once written it gives the permit to commit, and tells everybody', () => {
    interval()
    ackAll(1)
    const effects = written(1)
    expect(types(effects)).toEqual(['Commit', 'NotifyComplete'])
    expect(only(effects, 'Commit')[0]).toMatchObject({
      n: 1,
      permit: { checkpointId: 1, confirmed: 0 },
      states: [state('a/0'), state('b/0')],
    })
    expect(coordinator.latest).toBe(1)
  })

  test('is written one at a time and in order', () => {
    start({ maxConcurrent: 3 })
    interval()
    interval()
    expect(types(ackAll(1))).toContain('WriteCommitPoint')
    expect(ackAll(2)).toEqual([])
    expect(only(written(1), 'WriteCommitPoint')).toMatchObject([{ n: 2 }])
  })

  test('refused: it never happened, its snapshots go, and the attempt fails', () => {
    interval()
    ackAll(1)
    const effects = send({ type: 'CommitPointRefused', n: 1, reason: 'no rights' })
    expect(types(effects)).toEqual(['NotifyAborted', 'DiscardStates', 'FailAttempt'])
    expect(effects.at(-1)).toMatchObject({ reason: expect.stringContaining('no rights') })
    expect(coordinator.latest).toBe(0)
    expect(interval()).toEqual([])
  })

  test('unknown: the attempt ends and nothing is aborted or discarded', () => {
    interval()
    ackAll(1)
    expect(types(send({ type: 'CommitPointUnknown', n: 1, reason: 'no answer' }))).toEqual(['EndAttempt'])
    expect(written(1)).toEqual([])
  })

  test.each(['CommitPointWritten', 'CommitPointUnknown', 'CommitPointRefused'] as const)(
    '%s of a checkpoint that is not being written is illegal',
    (type) => {
      interval()
      expect(() => send({ type, n: 1, reason: '' } as Timeless)).toThrow(/not legal in state Collecting/)
      expect(() => send({ type, n: 5, reason: '' } as Timeless)).toThrow(/unknown checkpoint/)
    },
  )
})

describe('aborts', () => {
  test('a time-out names who is missing, tells everybody, and the snapshots of the others go', () => {
    interval()
    ack(1, 'a/0')
    const effects = send({ type: 'TimerFired', timer: 'timeout:1' })
    expect(effects).toEqual([
      { type: 'CancelTimer', timer: 'timeout:1' },
      { type: 'NotifyAborted', n: 1, reason: 'timeout', detail: expect.stringContaining('b/0') },
      { type: 'DiscardStates', n: 1, states: [state('a/0')] },
    ])
  })

  test('a decline aborts at once, and the cause fails the attempt when no failure is tolerated', () => {
    start({ tolerableFailures: 0 })
    interval()
    const cause = new Error('disk full')
    const effects = send({ type: 'Declined', n: 1, subtask: 'a/0', reason: 'disk full', cause })
    expect(types(effects)).toEqual(['CancelTimer', 'NotifyAborted', 'FailAttempt'])
    expect(effects.at(-1)).toMatchObject({ cause, reason: expect.stringContaining('disk full') })
  })

  test('a time-out does not carry the cause of an older decline', () => {
    start({ tolerableFailures: 1 })
    interval()
    send({ type: 'Declined', n: 1, subtask: 'a/0', reason: 'disk full', cause: new Error('disk full') })
    interval()
    expect(send({ type: 'TimerFired', timer: 'timeout:2' }).at(-1)).toMatchObject({
      type: 'FailAttempt',
      cause: undefined,
    })
  })

  test('late acknowledgements of an aborted checkpoint leave orphans, which go', () => {
    interval()
    send({ type: 'TimerFired', timer: 'timeout:1' })
    expect(ack(1, 'b/0')).toEqual([{ type: 'DiscardStates', n: 1, states: [state('b/0')] }])
  })

  test('a repeated acknowledgement of a completed checkpoint never discards what that checkpoint needs', () => {
    interval()
    ackAll(1)
    expect(ack(1, 'a/0')).toEqual([])
    written(1)
    expect(ack(1, 'a/0')).toEqual([])
    committed(1)
    expect(ack(1, 'a/0')).toEqual([])
  })

  test('a full checkpoint subsumes an older one that still collects', () => {
    start({ maxConcurrent: 2, tolerableFailures: 0 })
    interval()
    interval()
    ack(1, 'a/0')
    const effects = ackAll(2)
    expect(only(effects, 'NotifyAborted')).toMatchObject([{ n: 1, reason: 'subsumed' }])
    expect(types(effects).indexOf('NotifyAborted')).toBeLessThan(types(effects).indexOf('WriteCommitPoint'))
    expect(only(effects, 'FailAttempt')).toEqual([])
  })

  test('a savepoint is not subsumed: the newer checkpoint waits for it', () => {
    start({ maxConcurrent: 2 })
    request('s', 'savepoint')
    interval()
    expect(only(ackAll(2), 'WriteCommitPoint')).toEqual([])
    expect(only(ackAll(1), 'WriteCommitPoint')).toMatchObject([{ n: 1, kind: 'savepoint' }])
    expect(only(written(1), 'WriteCommitPoint')).toMatchObject([{ n: 2 }])
  })

  test('a savepoint that is aborted lets the newer one through', () => {
    start({ maxConcurrent: 2 })
    request('s', 'savepoint')
    interval()
    ackAll(2)
    const effects = send({ type: 'TimerFired', timer: 'timeout:1' })
    expect(only(effects, 'RequestFailed')).toMatchObject([{ id: 's' }])
    expect(only(effects, 'WriteCommitPoint')).toMatchObject([{ n: 2 }])
  })
})

describe('confirmation', () => {
  test('rides in the next commit point, and only then it is told', () => {
    interval()
    expect(types(complete(1))).not.toContain('WriteConfirmed')
    interval()
    expect(only(ackAll(2), 'WriteCommitPoint')).toMatchObject([{ confirmed: 1 }])
    const effects = written(2)
    expect(effects[0]).toEqual({ type: 'NotifyConfirmed', n: 1 })
    expect(only(effects, 'Commit')[0]).toMatchObject({ permit: { checkpointId: 2, confirmed: 1 } })
  })

  test('commits that end while a commit point is being written are not confirmed by it', () => {
    start({ maxConcurrent: 2 })
    interval()
    ackAll(1)
    written(1)
    interval()
    expect(only(ackAll(2), 'WriteCommitPoint')).toMatchObject([{ n: 2, confirmed: 0 }])
    committed(1)
    const effects = written(2)
    expect(only(effects, 'NotifyConfirmed')).toEqual([])
    expect(only(effects, 'Commit')[0]).toMatchObject({ permit: { checkpointId: 2, confirmed: 1 } })
    committed(2)
    interval()
    expect(only(ackAll(3), 'WriteCommitPoint')).toMatchObject([{ n: 3, confirmed: 2 }])
    expect(only(written(3), 'NotifyConfirmed')).toEqual([{ type: 'NotifyConfirmed', n: 2 }])
  })

  test('is written at once after so many aborts that a sink may have no id left to write on with', () => {
    interval()
    for (const n of [1, 2]) {
      send({ type: 'TimerFired', timer: `timeout:${n}` })
      interval()
    }
    expect(only(complete(3), 'WriteConfirmed')).toEqual([
      { type: 'WriteConfirmed', n: 3, kind: 'checkpoint', last: false },
    ])
    expect(send({ type: 'ConfirmWritten', n: 3 })).toContainEqual({ type: 'NotifyConfirmed', n: 3 })
  })

  test('one abort leaves an id to write on with, so it still rides', () => {
    interval()
    send({ type: 'TimerFired', timer: 'timeout:1' })
    interval()
    expect(only(complete(2), 'WriteConfirmed')).toEqual([])
  })

  test('without an interval it is written at once', () => {
    start({ intervalMs: undefined })
    request('r')
    expect(only(complete(1), 'WriteConfirmed')).toHaveLength(1)
  })

  test('commits end in order', () => {
    start({ maxConcurrent: 2 })
    interval()
    ackAll(1)
    written(1)
    interval()
    ackAll(2)
    written(2)
    expect(() => committed(2)).toThrow(/'Committed' is not legal in state committing 1/)
    committed(1)
    committed(2)
    expect(() => committed(2)).toThrow(/not committing/)
  })

  test('a commit that failed ends the attempt, and the checkpoint stays the truth', () => {
    interval()
    ackAll(1)
    written(1)
    const error = new Error('lost')
    expect(send({ type: 'CommitFailed', n: 1, error })).toEqual([
      { type: 'FailAttempt', reason: expect.stringContaining('checkpoint 1'), cause: error },
    ])
    expect(coordinator.latest).toBe(1)
  })
})

describe('retention', () => {
  test('an older checkpoint goes only when a newer one is completed and confirmed', () => {
    interval()
    expect(only(complete(1), 'Discard')).toEqual([])
    interval()
    ackAll(2)
    expect(only(written(2), 'Discard')).toEqual([{ type: 'Discard', n: 0 }])
    committed(2)
    interval()
    ackAll(3)
    expect(only(written(3), 'Discard')).toEqual([{ type: 'Discard', n: 1 }])
  })

  test('as many stay as are asked for', () => {
    start({ numRetained: 3, retained: [0] })
    const discarded: number[] = []
    for (let n = 1; n <= 6; n++) {
      interval()
      discarded.push(...only(complete(n), 'Discard').map((effect) => effect.n))
    }
    expect(discarded).toEqual([0, 1, 2, 3])
  })
})

describe('requests', () => {
  test('are answered when the commits of their checkpoint are durable, not before', () => {
    request('r')
    expect(only(complete(1), 'RequestDone')).toEqual([])
    expect(send({ type: 'ConfirmWritten', n: 1 })).toContainEqual({ type: 'RequestDone', id: 'r', n: 1 })
  })

  test('fail with their checkpoint', () => {
    request('r')
    expect(send({ type: 'TimerFired', timer: 'timeout:1' })).toContainEqual({
      type: 'RequestFailed',
      id: 'r',
      reason: expect.stringContaining('timeout'),
    })
  })

  test('of a subsumed checkpoint are answered by the newer one', () => {
    start({ maxConcurrent: 2 })
    request('r')
    interval()
    expect(only(ackAll(2), 'RequestFailed')).toEqual([])
    written(2)
    committed(2)
    expect(send({ type: 'ConfirmWritten', n: 2 })).toContainEqual({ type: 'RequestDone', id: 'r', n: 2 })
  })

  test('that wait in any way are answered when the attempt ends', () => {
    start({ maxConcurrent: 2 })
    request('confirming')
    ackAll(1)
    written(1)
    committed(1)
    request('writing')
    ackAll(2)
    request('collecting')
    request('queued')
    const effects = send({ type: 'CommitPointUnknown', n: 2, reason: 'no answer' })
    expect(
      only(effects, 'RequestFailed')
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual(['collecting', 'confirming', 'queued', 'writing'])
    expect(request('late')).toEqual([{ type: 'RequestFailed', id: 'late', reason: 'the attempt has ended' }])
  })
})

describe('a stop and the end', () => {
  test('a stop goes past the pause and the one in flight, and nothing is triggered after it', () => {
    start({ minPauseMs: 10_000 })
    interval()
    expect(only(request('stop', 'checkpoint', true), 'Trigger')).toEqual([
      { type: 'Trigger', n: 2, kind: 'checkpoint', thenStop: true },
    ])
    expect(only(interval(), 'Trigger')).toEqual([])
    expect(only(request('r'), 'Trigger')).toEqual([])
    ackAll(2)
    expect(only(written(2), 'Trigger')).toEqual([])
    expect(committed(2)).toEqual([{ type: 'WriteConfirmed', n: 2, kind: 'checkpoint', last: true }])
    expect(send({ type: 'ConfirmWritten', n: 2 })).toEqual([
      { type: 'NotifyConfirmed', n: 2 },
      { type: 'RequestDone', id: 'stop', n: 2 },
      { type: 'RequestFailed', id: 'r', reason: 'the job stopped at checkpoint 2' },
      { type: 'Discard', n: 0 },
    ])
    expect(interval()).toEqual([])
  })

  test('the final checkpoint confirms itself and is the last', () => {
    request('end', 'final')
    expect(only(complete(1), 'WriteConfirmed')).toEqual([
      { type: 'WriteConfirmed', n: 1, kind: 'final', last: true },
    ])
  })

  test('a stop that was aborted lets checkpoints go on', () => {
    request('stop', 'checkpoint', true)
    send({ type: 'TimerFired', timer: 'timeout:1' })
    expect(only(interval(), 'Trigger')).toMatchObject([{ n: 2 }])
  })
})
