/**
 * CheckpointCoordinator: the protocol as a synchronous state machine. Event in, effects out; `now` is a field of the event.
 * Every effect that can fail comes back as an event, also when it fails.
 *
 *   (trigger n) ─► PendingCheckpoint ─► Writing ─► Completed ─► Committed ─► Confirmed
 *                       │                  │           │ CommitFailed: the attempt fails; n stays the truth
 *                       ▼                  │ Unknown: the attempt ends, nothing is aborted or discarded
 *                    Aborted               ▼
 *                                  Refused: aborted, the attempt fails
 *
 * Commit points are written one at a time and in order. A checkpoint that is full while an older one still collects subsumes it, but not
 * a savepoint: its owner waits for just that one.
 * Confirmed(n) rides in the next commit point. It is written by itself when none may follow (a stop, the end), when somebody waits for it,
 * and when so many checkpoints were aborted that a sink may have no transactional id left: the next barrier could not pass such a sink.
 * Whoever asked for a checkpoint is answered once, also when the attempt ends.
 */
import type { CommitPermit } from '../core/connector.ts'
import type { CheckpointKind } from '../core/element.ts'
import { IllegalTransitionError } from '../errors.ts'
import { commitPermit } from './commit-permit.ts'
import type { OperatorSubtaskState } from './completed-checkpoint.ts'
import { CheckpointFailureManager, type CheckpointFailureReason } from './failure-manager.ts'
import { PendingCheckpoint } from './pending-checkpoint.ts'
import { CheckpointRequestDecider } from './request-decider.ts'
import { RetainedCheckpoints } from './retained-checkpoints.ts'

export interface CoordinatorConfig {
  /** Milliseconds between two periodic triggers; undefined = none. */
  readonly intervalMs: number | undefined
  readonly timeoutMs: number
  readonly minPauseMs: number
  readonly maxConcurrent: number
  /** Failures in a row that are forgiven; Infinity = all. */
  readonly tolerableFailures: number
  readonly numRetained: number
  /** All subtasks that must acknowledge. */
  readonly subtasks: readonly string[]
  /** The checkpoint that the attempt started from, and what is confirmed. */
  readonly restored: number
  readonly confirmed: number
  /** Completed checkpoints that are still stored, oldest first, `restored` included. */
  readonly retained: readonly number[]
  /** Those of them that are savepoints. */
  readonly savepoints?: readonly number[]
}

export type CoordinatorTimer = 'interval' | 'pause' | `timeout:${number}`

export type CoordinatorEvent =
  | { readonly type: 'Started'; readonly now: number }
  | { readonly type: 'TimerFired'; readonly timer: CoordinatorTimer; readonly now: number }
  | {
      readonly type: 'TriggerRequested'
      readonly id: string
      readonly kind: CheckpointKind
      readonly thenStop: boolean
      readonly now: number
    }
  | {
      readonly type: 'Acknowledged'
      readonly n: number
      readonly subtask: string
      readonly states: readonly OperatorSubtaskState[]
      readonly now: number
    }
  | {
      readonly type: 'Declined'
      readonly n: number
      readonly subtask: string
      readonly reason: string
      readonly cause?: unknown
      readonly now: number
    }
  | { readonly type: 'CommitPointWritten'; readonly n: number; readonly now: number }
  | {
      readonly type: 'CommitPointRefused'
      readonly n: number
      readonly reason: string
      readonly cause?: unknown
      readonly now: number
    }
  | { readonly type: 'CommitPointUnknown'; readonly n: number; readonly reason: string; readonly now: number }
  | { readonly type: 'Committed'; readonly n: number; readonly now: number }
  | { readonly type: 'CommitFailed'; readonly n: number; readonly error: unknown; readonly now: number }
  | { readonly type: 'ConfirmWritten'; readonly n: number; readonly now: number }

export type CoordinatorEffect =
  | { readonly type: 'SetTimer'; readonly timer: CoordinatorTimer; readonly delayMs: number }
  | { readonly type: 'CancelTimer'; readonly timer: CoordinatorTimer }
  | {
      readonly type: 'Trigger'
      readonly n: number
      readonly kind: CheckpointKind
      readonly thenStop: boolean
    }
  | {
      readonly type: 'WriteCommitPoint'
      readonly n: number
      readonly kind: CheckpointKind
      readonly triggeredAt: number
      readonly states: readonly OperatorSubtaskState[]
      /** Highest checkpoint whose commits are done: it becomes durable with this commit point. */
      readonly confirmed: number
    }
  | {
      readonly type: 'Commit'
      readonly n: number
      readonly permit: CommitPermit
      readonly states: readonly OperatorSubtaskState[]
    }
  | { readonly type: 'NotifyComplete'; readonly n: number }
  | {
      readonly type: 'NotifyAborted'
      readonly n: number
      readonly reason: CheckpointFailureReason
      readonly detail: string
    }
  | { readonly type: 'NotifyConfirmed'; readonly n: number }
  /** Make confirmed(n) durable now. `last`: sources stopped at n, so the attempt ends with it. */
  | {
      readonly type: 'WriteConfirmed'
      readonly n: number
      readonly kind: CheckpointKind
      readonly last: boolean
    }
  | { readonly type: 'Discard'; readonly n: number }
  /** Snapshots that no checkpoint names: of an aborted one, or acknowledged too late. Committables are not theirs to drop. */
  | { readonly type: 'DiscardStates'; readonly n: number; readonly states: readonly OperatorSubtaskState[] }
  | { readonly type: 'RequestDone'; readonly id: string; readonly n: number }
  | { readonly type: 'RequestFailed'; readonly id: string; readonly reason: string }
  | { readonly type: 'FailAttempt'; readonly reason: string; readonly cause: unknown }
  /** Give the attempt up without aborting or discarding anything: the next take-over reads the truth. */
  | { readonly type: 'EndAttempt'; readonly reason: string }

interface Completed {
  readonly n: number
  readonly states: readonly OperatorSubtaskState[]
  readonly kind: CheckpointKind
  readonly requests: readonly string[]
  /** No commit point may follow: confirm by itself. */
  readonly last: boolean
}

export class CheckpointCoordinator {
  readonly #config: CoordinatorConfig
  readonly #decider: CheckpointRequestDecider
  readonly #failures: CheckpointFailureManager
  #next: number
  /** Collecting, Full or Writing; oldest first. */
  #pending: PendingCheckpoint[] = []
  readonly #stopping = new Set<number>()
  /** Completed, commits outstanding; oldest first. */
  #committing: Completed[] = []
  /** Checkpoints whose confirmation is being written, or waits to ride, with the requests that wait for it. */
  readonly #waitingConfirm = new Map<number, Completed>()
  #committedUpTo: number
  /** What the commit point that is being written confirms. Commits that end meanwhile ride in the next one. */
  #riding = -1
  #confirmed: number
  readonly #retained: RetainedCheckpoints
  #latest: number
  #nextIntervalAt = 0
  #ended = false

  constructor(config: CoordinatorConfig) {
    this.#config = config
    this.#decider = new CheckpointRequestDecider(config)
    this.#failures = new CheckpointFailureManager(config.tolerableFailures)
    this.#next = Math.max(config.restored, ...config.retained) + 1
    this.#committedUpTo = config.confirmed
    this.#confirmed = config.confirmed
    this.#retained = new RetainedCheckpoints(config.numRetained, config.retained, config.savepoints)
    this.#latest = config.restored
  }

  /** Id of the latest completed checkpoint. */
  get latest(): number {
    return this.#latest
  }

  /** Who waits for a checkpoint in flight; the one that asked for it first. */
  requestersOf(n: number): readonly string[] {
    return this.#pending.find((p) => p.n === n)?.requests ?? []
  }

  /** What is in flight, for people. */
  get inFlight(): readonly {
    readonly n: number
    readonly phase: string
    readonly missing: readonly string[]
    readonly triggeredAt: number
  }[] {
    return this.#pending.map((p) => ({
      n: p.n,
      phase: p.phase,
      missing: p.missing,
      triggeredAt: p.triggeredAt,
    }))
  }

  handle(event: CoordinatorEvent): CoordinatorEffect[] {
    if (this.#ended)
      return event.type === 'TriggerRequested'
        ? [{ type: 'RequestFailed', id: event.id, reason: 'the attempt has ended' }]
        : []
    switch (event.type) {
      case 'Started':
        return this.#started(event.now)
      case 'TimerFired':
        return this.#timer(event.timer, event.now)
      case 'TriggerRequested':
        this.#decider.request({ id: event.id, kind: event.kind, thenStop: event.thenStop })
        return this.#tryTrigger(event.now)
      case 'Acknowledged':
        return this.#acknowledged(event.n, event.subtask, event.states, event.now)
      case 'Declined':
        return this.#abort(event.n, 'declined', `${event.subtask} declined: ${event.reason}`, event.now, {
          cause: event.cause,
        })
      case 'CommitPointWritten':
        return this.#written(event.n, event.now)
      case 'CommitPointRefused':
        return this.#refused(event.n, event.reason, event.cause)
      case 'CommitPointUnknown':
        this.#writing(event.n, 'CommitPointUnknown')
        return this.#end({
          type: 'EndAttempt',
          reason: `outcome of commit point ${event.n} is unknown: ${event.reason}`,
        })
      case 'Committed':
        return this.#committed(event.n)
      case 'CommitFailed':
        return this.#end({
          type: 'FailAttempt',
          reason: `committing the output of checkpoint ${event.n} failed`,
          cause: event.error,
        })
      case 'ConfirmWritten':
        return this.#nowConfirmed(event.n)
    }
  }

  /** The attempt is over for this machine: everybody who waits is told, and nothing more is done. */
  #end(last: Extract<CoordinatorEffect, { type: 'FailAttempt' | 'EndAttempt' }>): CoordinatorEffect[] {
    this.#ended = true
    const completed = [...this.#committing, ...this.#waitingConfirm.values()]
    const waiting = [...this.#pending, ...completed].flatMap(({ requests }) => requests)
    return [...this.#refuse([...waiting, ...this.#queued()], last.reason), last]
  }

  #queued(): string[] {
    return this.#decider.drain().flatMap(({ id }) => (id === undefined ? [] : [id]))
  }

  #refuse(requests: readonly string[], reason: string): CoordinatorEffect[] {
    return requests.map((id) => ({ type: 'RequestFailed', id, reason }))
  }

  #started(now: number): CoordinatorEffect[] {
    if (this.#config.intervalMs === undefined) return []
    this.#nextIntervalAt = now + this.#config.intervalMs
    return [{ type: 'SetTimer', timer: 'interval', delayMs: this.#config.intervalMs }]
  }

  #timer(timer: CoordinatorTimer, now: number): CoordinatorEffect[] {
    if (timer === 'pause') return this.#tryTrigger(now)
    if (timer === 'interval') {
      const interval = this.#config.intervalMs as number
      // Fixed rate; after a hold-up the missed ones collapse into one, and a clock that was set back does not stop checkpoints.
      const next = this.#nextIntervalAt + interval
      this.#nextIntervalAt = next > now && next <= now + interval ? next : now + interval
      this.#decider.periodic()
      return [
        { type: 'SetTimer', timer: 'interval', delayMs: this.#nextIntervalAt - now },
        ...this.#tryTrigger(now),
      ]
    }
    const n = Number(timer.slice('timeout:'.length))
    const pending = this.#pending.find((p) => p.n === n)
    if (pending === undefined || pending.phase === 'Writing') return []
    return this.#abort(
      n,
      'timeout',
      `not complete after ${this.#config.timeoutMs} ms; missing: ${pending.missing.join(', ') || 'the commit point'}`,
      now,
    )
  }

  #tryTrigger(now: number): CoordinatorEffect[] {
    // After a stop has been triggered nothing may follow it.
    if (this.#stopping.size > 0) return []
    const decision = this.#decider.decide(now, this.#pending.length)
    if (decision.type === 'none') return []
    if (decision.type === 'wait') return [{ type: 'SetTimer', timer: 'pause', delayMs: decision.delayMs }]
    const { request } = decision
    const n = this.#next++
    this.#pending.push(
      new PendingCheckpoint(
        n,
        request.kind,
        now,
        this.#config.subtasks,
        request.id === undefined ? [] : [request.id],
      ),
    )
    const effects: CoordinatorEffect[] = [
      { type: 'SetTimer', timer: `timeout:${n}`, delayMs: this.#config.timeoutMs },
      { type: 'Trigger', n, kind: request.kind, thenStop: request.thenStop },
    ]
    if (request.thenStop || request.kind === 'final') this.#stopping.add(n)
    else effects.push(...this.#tryTrigger(now))
    return effects
  }

  #acknowledged(
    n: number,
    subtask: string,
    states: readonly OperatorSubtaskState[],
    now: number,
  ): CoordinatorEffect[] {
    // Late acknowledgements of aborted or subsumed checkpoints are normal: their prepared output lives on in the next one.
    const pending = this.#pending.find((p) => p.n === n)
    // A repeated one of a completed checkpoint names what that checkpoint needs.
    if (pending === undefined) return this.#retained.has(n) ? [] : [{ type: 'DiscardStates', n, states }]
    return pending.acknowledge(subtask, states) ? this.#nextCommitPoint(now) : []
  }

  #nextCommitPoint(now: number): CoordinatorEffect[] {
    if (this.#pending.some((p) => p.phase === 'Writing')) return []
    const savepoint = this.#pending.findIndex((p) => p.kind === 'savepoint')
    const candidates = savepoint < 0 ? this.#pending : this.#pending.slice(0, savepoint + 1)
    const full = candidates.filter((p) => p.phase === 'Full').at(-1)
    if (full === undefined) return []
    const effects: CoordinatorEffect[] = []
    for (const older of this.#pending.filter((p) => p.n < full.n)) {
      // Whoever waits for the older one is served by the newer one.
      full.requests.push(...older.requests.splice(0))
      effects.push(
        ...this.#abort(older.n, 'subsumed', `subsumed by checkpoint ${full.n}`, now, { retrigger: false }),
      )
    }
    full.move('Writing')
    this.#riding = this.#committedUpTo
    effects.push(
      { type: 'CancelTimer', timer: `timeout:${full.n}` },
      {
        type: 'WriteCommitPoint',
        n: full.n,
        kind: full.kind,
        triggeredAt: full.triggeredAt,
        states: full.states,
        confirmed: this.#riding,
      },
    )
    return effects
  }

  #abort(
    n: number,
    reason: CheckpointFailureReason,
    detail: string,
    now: number,
    { retrigger = true, cause }: { readonly retrigger?: boolean; readonly cause?: unknown } = {},
  ): CoordinatorEffect[] {
    const pending = this.#pending.find((p) => p.n === n)
    if (pending === undefined || pending.phase === 'Writing') return []
    pending.move('Aborted')
    this.#pending = this.#pending.filter((p) => p !== pending)
    this.#stopping.delete(n)
    this.#decider.ended(now)
    const effects: CoordinatorEffect[] = [
      { type: 'CancelTimer', timer: `timeout:${n}` },
      { type: 'NotifyAborted', n, reason, detail },
    ]
    if (pending.states.length > 0) effects.push({ type: 'DiscardStates', n, states: pending.states })
    effects.push(...this.#refuse(pending.requests, `checkpoint ${n} ${reason}: ${detail}`))
    // A savepoint that fails fails its owner's request; the job is as well as before.
    if (pending.kind !== 'savepoint' && this.#failures.failed(reason)) {
      effects.push(
        ...this.#end({
          type: 'FailAttempt',
          reason: `checkpoint ${n} failed (${reason}: ${detail}); no more failures are tolerated`,
          cause,
        }),
      )
      return effects
    }
    if (retrigger) effects.push(...this.#nextCommitPoint(now), ...this.#tryTrigger(now))
    return effects
  }

  #writing(n: number, event: string): PendingCheckpoint {
    const pending = this.#pending.find((p) => p.n === n)
    if (pending === undefined || pending.phase !== 'Writing')
      throw new IllegalTransitionError(
        'checkpoint coordinator',
        pending?.phase ?? 'unknown checkpoint',
        event,
        n,
      )
    return pending
  }

  #written(n: number, now: number): CoordinatorEffect[] {
    const pending = this.#writing(n, 'CommitPointWritten')
    pending.move('Completed')
    this.#pending = this.#pending.filter((p) => p !== pending)
    const before = this.#latest
    this.#latest = n
    this.#retained.add(n, pending.kind)
    // Until a checkpoint of the job's own follows, a restart needs files that belong to somebody else.
    if (pending.kind === 'savepoint' && this.#config.intervalMs !== undefined && !this.#stopping.has(n))
      this.#decider.periodic()
    this.#decider.ended(now)
    this.#failures.completed()
    const effects: CoordinatorEffect[] = this.#nowConfirmed(this.#riding)
    this.#committing.push({
      n,
      states: pending.states,
      kind: pending.kind,
      requests: pending.requests,
      last: this.#stopping.has(n),
    })
    effects.push(
      // Commits run in order and a failed one stops those behind it, so what the checkpoint before promised is done when this one's turn
      // comes. Its ids may even have been initialised again by then: asked once more, the broker would refuse.
      { type: 'Commit', n, permit: commitPermit(n, before), states: pending.states },
      { type: 'NotifyComplete', n },
    )
    effects.push(...this.#nextCommitPoint(now), ...this.#tryTrigger(now))
    return effects
  }

  #refused(n: number, reason: string, cause: unknown): CoordinatorEffect[] {
    const pending = this.#writing(n, 'CommitPointRefused')
    pending.move('Aborted')
    const effects: CoordinatorEffect[] = [{ type: 'NotifyAborted', n, reason: 'refused', detail: reason }]
    if (pending.states.length > 0) effects.push({ type: 'DiscardStates', n, states: pending.states })
    effects.push(
      ...this.#end({
        type: 'FailAttempt',
        reason: `commit point of checkpoint ${n} was refused: ${reason}`,
        cause,
      }),
    )
    return effects
  }

  #committed(n: number): CoordinatorEffect[] {
    // In order: n+1's commits are only done when n's are.
    const [done] = this.#committing
    if (done === undefined || done.n !== n)
      throw new IllegalTransitionError(
        'checkpoint coordinator',
        done === undefined ? 'not committing' : `committing ${done.n}`,
        'Committed',
        n,
      )
    this.#committing.shift()
    this.#committedUpTo = n
    this.#waitingConfirm.set(n, done)
    return this.#cannotWait(done) ? [{ type: 'WriteConfirmed', n, kind: done.kind, last: done.last }] : []
  }

  /** True when the confirmation must not wait for the next commit point to carry it. */
  #cannotWait(done: Completed): boolean {
    // A savepoint is reported only after its commits are durable; a stop and the end have no later commit point to ride on;
    // without an interval nobody knows when the next one comes.
    if (
      done.last ||
      done.kind !== 'checkpoint' ||
      done.requests.length > 0 ||
      this.#config.intervalMs === undefined
    )
      return true
    // Each checkpoint since the last confirmed one, aborted or not, may hold one of a sink's maxConcurrent + 2 ids. With all of them held
    // the sink takes no record, so no barrier behind it either, and no commit point comes to ride in.
    return done.n - this.#confirmed > this.#config.maxConcurrent + 1
  }

  #nowConfirmed(n: number): CoordinatorEffect[] {
    if (n <= this.#confirmed) return []
    this.#confirmed = n
    const effects: CoordinatorEffect[] = [{ type: 'NotifyConfirmed', n }]
    for (const [id, done] of this.#waitingConfirm) {
      if (id > n) continue
      this.#waitingConfirm.delete(id)
      for (const request of done.requests) effects.push({ type: 'RequestDone', id: request, n: id })
      if (!done.last) continue
      // Nothing follows a stop or the end.
      this.#ended = true
      effects.push(...this.#refuse(this.#queued(), `the job stopped at checkpoint ${id}`))
    }
    for (const unneeded of this.#retained.takeUnneeded(this.#confirmed))
      effects.push({ type: 'Discard', n: unneeded })
    return effects
  }
}
