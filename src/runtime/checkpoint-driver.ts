/**
 * Does what the coordinator answers: sets timers, triggers tasks, writes the commit point, commits output, confirms, discards.
 * Each outcome goes back into `coordinator.handle`; nothing is decided here.
 */

import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { CheckpointStore, JobRecord } from '../checkpoint/checkpoint-store.ts'
import {
  CHECKPOINT_FORMAT,
  type CompletedCheckpoint,
  handlesOf,
  type OperatorShape,
  type OperatorSubtaskState,
  promisedIds,
} from '../checkpoint/completed-checkpoint.ts'
import {
  CheckpointCoordinator,
  type CoordinatorConfig,
  type CoordinatorEffect,
  type CoordinatorEvent,
} from '../checkpoint/coordinator.ts'
import type { CommitPermit, Committer, GroupOffset, Source } from '../core/connector.ts'
import type { CheckpointKind } from '../core/element.ts'
import type { TimerHandle, World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { CheckpointFiles, discardFiles } from './checkpoint-files.ts'
import type { FaultHook } from './fault-points.ts'
import { commitAll } from './output-commits.ts'
import type { OutsideRuns } from './outside-runs.ts'
import { type SavepointOrder, SavepointOrders } from './savepoint-orders.ts'
import type { AttemptStorage, StateStorage } from './state-storage.ts'
import type { Task } from './task.ts'

export interface CheckpointDriverOptions {
  readonly run: string
  readonly attempt: number
  readonly config: CoordinatorConfig
  /** Barriers may overtake records from this many ms after the trigger; undefined: never. */
  readonly unalignedAfterMs?: number | undefined
  readonly store: CheckpointStore
  readonly storage: StateStorage
  readonly attemptStorage: AttemptStorage
  readonly outside: OutsideRuns
  /** Completed checkpoints that may be discarded later. */
  readonly retained: readonly CompletedCheckpoint[]
  readonly world: World
  readonly tasks: readonly Task[]
  readonly operators: readonly OperatorShape[]
  readonly sources: ReadonlyMap<string, Source<unknown, any>>
  readonly committers: ReadonlyMap<string, Committer<unknown>>
  /** The end of the run that a confirmed checkpoint brings; `last`: sources stopped at it. */
  readonly endOf: (kind: CheckpointKind, last: boolean) => JobRecord | undefined
  readonly onCompleted: (checkpoint: CompletedCheckpoint) => void
  readonly onAborted?: (n: number, reason: string, detail: string) => void
  /** Confirmed(n) is durable, together with `end` if there was one. */
  readonly onConfirmed: (n: number, end: JobRecord | undefined) => void
  readonly onFailure: (error: unknown) => void
  readonly fault?: FaultHook | undefined
}

/** Somebody waits for a checkpoint. */
interface Request {
  readonly resolve: (n: number) => void
  readonly reject: (error: unknown) => void
}

export class CheckpointDriver {
  readonly coordinator: CheckpointCoordinator
  readonly #options: CheckpointDriverOptions
  readonly #timers = new Map<string, TimerHandle>()
  readonly #requests = new Map<string, Request>()
  readonly #retained = new Map<number, CompletedCheckpoint>()
  readonly #files: CheckpointFiles
  readonly #savepoints = new SavepointOrders()
  /** Checkpoints that are not needed any more. */
  readonly #forget: number[] = []
  /** Source groups of the last commit point, for preparing the next. */
  #groups: readonly string[] = []
  /** Why a commit point, a commit or what follows one may not be done, the first reason, after `close` too; undefined = all are done. */
  failure: unknown
  #closed = false
  /** Commits run in the order of their checkpoints; a failed one stops those behind it. */
  #commits: Promise<void> = Promise.resolve()
  #committed: number
  /** Work that must be over before the store is closed. */
  readonly #busy = new Set<Promise<unknown>>()

  constructor(options: CheckpointDriverOptions) {
    this.#options = options
    this.coordinator = new CheckpointCoordinator(options.config)
    this.#committed = options.config.confirmed
    const { storage, attemptStorage, outside, world } = options
    this.#files = new CheckpointFiles({ storage, attemptStorage, outside, logger: world.logger })
    for (const checkpoint of options.retained) this.#retain(checkpoint)
  }

  start(): void {
    this.#handle({ type: 'Started', now: this.#now() })
  }

  /** Resolves with the checkpoint's id when its commits are durable. */
  request(id: string, kind: CheckpointKind, thenStop: boolean): Promise<number> {
    return this.#request(id, kind, thenStop)
  }

  /** Resolves when the savepoint can be restored from: its commits are durable, its files too. */
  requestSavepoint(id: string, order: SavepointOrder): Promise<number> {
    this.#savepoints.order(id, order)
    return this.#request(id, 'savepoint', order.stop)
  }

  /** Where snapshots of checkpoint n go. */
  blobs(n: number): BlobStore {
    return this.#savepoints.blobs(n) ?? this.#options.attemptStorage.blobs(n)
  }

  #request(id: string, kind: CheckpointKind, thenStop: boolean): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#closed) {
        reject(new MillraceError('MILLRACE_CHECKPOINT_FAILED', 'the attempt has ended'))
        return
      }
      this.#requests.set(id, { resolve, reject })
      this.#handle({ type: 'TriggerRequested', id, kind, thenStop, now: this.#now() })
    })
  }

  acknowledge(n: number, subtask: string, states: readonly OperatorSubtaskState[]): void {
    this.#handle({ type: 'Acknowledged', n, subtask, states, now: this.#now() })
  }

  decline(n: number, subtask: string, error: unknown): void {
    this.#handle({
      type: 'Declined',
      n,
      subtask,
      reason: error instanceof Error ? error.message : String(error),
      cause: error,
      now: this.#now(),
    })
  }

  /** No trigger and no timer after this; resolves when a commit point or commit that had begun is over. */
  async close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
    while (this.#busy.size > 0) await Promise.allSettled([...this.#busy])
    for (const request of this.#requests.values())
      request.reject(
        new MillraceError(
          'MILLRACE_CHECKPOINT_FAILED',
          'the attempt ended before the checkpoint was complete',
        ),
      )
    this.#requests.clear()
  }

  /** Sources stop at a savepoint that is under way. */
  get stopping(): boolean {
    return this.#savepoints.stopping
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Transactional ids with output that a completed checkpoint promised and that is not committed yet: nobody may abort them. */
  get promised(): readonly string[] {
    return promisedIds([...this.#retained.values()], this.#committed)
  }

  /** Completed checkpoints that are stored. */
  get retained(): readonly CompletedCheckpoint[] {
    return [...this.#retained.values()].sort((a, b) => a.n - b.n)
  }

  #retain(checkpoint: CompletedCheckpoint): void {
    this.#retained.set(checkpoint.n, checkpoint)
    this.#files.add(checkpoint)
  }

  #now(): number {
    return this.#options.world.clock.now()
  }

  #handle(event: CoordinatorEvent): void {
    let effects: CoordinatorEffect[]
    try {
      effects = this.coordinator.handle(event)
    } catch (error) {
      this.#options.onFailure(error)
      return
    }
    // What a leader that lost the job cannot do may still be done, by the next one.
    const isLost = effects.some(({ type }) => type === 'EndAttempt')
    for (const effect of effects)
      if (isLost && effect.type === 'RequestFailed')
        this.#settle(effect.id, (request) =>
          request.reject(new MillraceError('MILLRACE_ATTEMPT_LOST', effect.reason)),
        )
      else this.#obey(effect)
  }

  #obey(effect: CoordinatorEffect): void {
    const { world, tasks, store, run } = this.#options
    switch (effect.type) {
      case 'SetTimer':
        if (this.#closed) return
        this.#timers.get(effect.timer)?.cancel()
        this.#timers.set(
          effect.timer,
          world.timers.schedule(effect.delayMs, () => {
            this.#timers.delete(effect.timer)
            this.#handle({ type: 'TimerFired', timer: effect.timer, now: this.#now() })
          }),
        )
        return
      case 'CancelTimer':
        this.#timers.get(effect.timer)?.cancel()
        this.#timers.delete(effect.timer)
        return
      case 'Trigger': {
        if (this.#closed) return
        const { n, kind, thenStop } = effect
        const overtakeAt = this.#overtakeAt(kind, thenStop)
        const order = this.#savepoints.triggered(n, this.coordinator.requestersOf(n))
        for (const task of tasks)
          if (task.isSource) task.trigger(n, kind, thenStop, { drain: order?.drain, overtakeAt })
        store.prepareCommitPoint?.(this.#groups)
        return
      }
      case 'WriteCommitPoint':
        // Closed: it has not begun, so it never happens.
        if (!this.#closed) this.#track(this.#commitPoint(effect))
        return
      case 'Commit':
        this.#track(this.#commit(effect.n, effect.permit, effect.states))
        return
      case 'NotifyComplete':
        this.#options.fault?.('before-notify')
        for (const task of tasks) task.notifyComplete(effect.n)
        this.#options.fault?.('after-notify')
        return
      case 'NotifyAborted':
        world.logger.warn(`checkpoint ${effect.n} was aborted (${effect.reason}): ${effect.detail}`)
        for (const task of tasks) task.notifyAborted(effect.n)
        // Its sources have stopped; only a restart makes them read again.
        if (this.#savepoints.stopsAt(effect.n)) this.#options.onFailure(stopFailed(effect.detail))
        this.#options.onAborted?.(effect.n, effect.reason, effect.detail)
        return
      case 'NotifyConfirmed':
        this.#options.fault?.('after-confirm')
        for (const task of tasks) task.notifyConfirmed(effect.n)
        return
      case 'WriteConfirmed': {
        const failure = this.#savepoints.failureOf(effect.n)
        // The run must not end with a savepoint that is none: the next take-over finishes the stop.
        if (effect.last && failure !== undefined) {
          this.#settle(this.#savepoints.requestOf(effect.n), (request) => request.reject(failure))
          this.#options.onFailure(failure)
          return
        }
        const ended = this.#options.endOf(effect.kind, effect.last)
        const savepoint = this.#retained.get(effect.n)?.savepoint?.path
        const end = ended === undefined || savepoint === undefined ? ended : { ...ended, savepoint }
        this.#track(
          store.writeConfirmed(run, effect.n, end).then(() => {
            this.#handle({ type: 'ConfirmWritten', n: effect.n, now: this.#now() })
            this.#options.onConfirmed(effect.n, end)
          }),
        )
        return
      }
      case 'Discard':
        // Its record goes with the next commit point, its files after that: no record ever names what is gone.
        this.#forget.push(effect.n)
        return
      case 'DiscardStates':
        this.#track(this.#files.aborted(effect.n, effect.states))
        return
      case 'RequestDone': {
        const failure = this.#savepoints.failureOf(effect.n)
        this.#settle(effect.id, (request) =>
          failure === undefined ? request.resolve(effect.n) : request.reject(failure),
        )
        return
      }
      case 'RequestFailed':
        this.#settle(effect.id, (request) =>
          request.reject(new MillraceError('MILLRACE_CHECKPOINT_FAILED', effect.reason)),
        )
        return
      case 'FailAttempt':
        this.#options.onFailure(
          new MillraceError('MILLRACE_CHECKPOINT_FAILED', effect.reason, { cause: effect.cause }),
        )
        return
      case 'EndAttempt':
        this.#unfinished(new MillraceError('MILLRACE_ATTEMPT_LOST', effect.reason))
        return
    }
  }

  /** A savepoint and a last checkpoint are aligned: they may be restored by another parallelism, and nothing is in a hurry behind them. */
  #overtakeAt(kind: CheckpointKind, thenStop: boolean): number | undefined {
    const { unalignedAfterMs } = this.#options
    if (unalignedAfterMs === undefined || kind !== 'checkpoint' || thenStop) return undefined
    return this.#now() + unalignedAfterMs
  }

  #settle(id: string, answer: (request: Request) => void): void {
    const request = this.#requests.get(id)
    this.#requests.delete(id)
    if (request !== undefined) answer(request)
  }

  #unfinished(error: unknown): void {
    this.failure ??= error
    this.#options.onFailure(error)
  }

  /** Failures of tracked work fail the attempt; `close` waits for it. */
  #track(work: Promise<unknown>): void {
    const tracked: Promise<unknown> = work
      .catch((error: unknown) => this.#unfinished(error))
      .finally(() => this.#busy.delete(tracked))
    this.#busy.add(tracked)
  }

  async #commitPoint(effect: Extract<CoordinatorEffect, { type: 'WriteCommitPoint' }>): Promise<void> {
    const { n, kind, triggeredAt, states, confirmed } = effect
    const { run, attempt, store, operators, world } = this.#options
    const expired = expiredCommittable(states, this.#now())
    if (expired !== undefined) {
      this.#handle({
        type: 'CommitPointRefused',
        n,
        reason: `${expired} is past its deadline: the broker may have given it up`,
        now: this.#now(),
      })
      return
    }
    const savepoint = this.#savepoints.seal(n)
    const checkpoint: CompletedCheckpoint = {
      format: CHECKPOINT_FORMAT,
      run,
      attempt,
      n,
      kind,
      triggeredAt,
      completedAt: this.#now(),
      operators,
      states,
      confirmed,
      stateBytes: stateBytes(states),
      ...(savepoint === undefined ? {} : { savepoint }),
    }
    const forgotten = this.#forget.splice(0)
    this.#options.fault?.('before-commit-point')
    const offsets = this.#groupOffsets(states)
    const groups = [...new Set(offsets.map(({ groupId }) => groupId))]
    const outcome = await store.commitPoint(checkpoint, offsets, forgotten)
    const now = this.#now()
    switch (outcome.type) {
      case 'written':
        this.#options.fault?.('after-commit-point')
        this.#retain(checkpoint)
        this.#groups = groups
        this.#track(this.#afterwards(checkpoint, forgotten))
        world.metrics.histogram('checkpoint_duration_ms').record(now - triggeredAt)
        this.#handle({ type: 'CommitPointWritten', n, now })
        this.#options.onCompleted(checkpoint)
        return
      case 'refused':
        this.#forget.push(...forgotten)
        this.#savepoints.unseal(n)
        this.#handle({ type: 'CommitPointRefused', n, reason: outcome.reason, cause: outcome.cause, now })
        return
      case 'unknown':
        this.#handle({ type: 'CommitPointUnknown', n, reason: outcome.reason, now })
        return
    }
  }

  #groupOffsets(states: readonly OperatorSubtaskState[]): GroupOffset[] {
    const offsets: GroupOffset[] = []
    for (const state of states) {
      const source = state.splits === undefined ? undefined : this.#options.sources.get(state.uid)
      if (source?.groupOffsets !== undefined) offsets.push(...source.groupOffsets(state.splits as never[]))
    }
    return offsets
  }

  #commit(n: number, permit: CommitPermit, states: readonly OperatorSubtaskState[]): Promise<void> {
    const committed = this.#commits.then(async () => {
      await commitAll(this.#options.committers, permit, states, this.#options.fault)
      // Before confirmed(n), which may carry the end of the run: a stopped job without its savepoint would be lost.
      await this.#savepoints.finish(this.#retained.get(n))
    })
    this.#commits = committed
    return committed.then(
      () => {
        this.#committed = n
        this.#options.fault?.('before-confirm')
        this.#handle({ type: 'Committed', n, now: this.#now() })
      },
      (error: unknown) => {
        this.failure ??= error
        this.#handle({ type: 'CommitFailed', n, error, now: this.#now() })
      },
    )
  }

  /** What follows a commit point, off its way: metadata for people beside the files, and the files of checkpoints that no record names. */
  async #afterwards(checkpoint: CompletedCheckpoint, forgotten: readonly number[]): Promise<void> {
    const old = forgotten.flatMap((n) => this.#retained.get(n) ?? [])
    for (const n of forgotten) this.#retained.delete(n)
    await this.#files.afterwards(checkpoint, old)
    if (forgotten.length === 0) return
    const oldest = Math.min(...this.#retained.keys())
    for (const task of this.#options.tasks) task.retainedFrom(oldest)
  }
}

function stopFailed(detail: string): MillraceError {
  return new MillraceError(
    'MILLRACE_CHECKPOINT_FAILED',
    `the savepoint with which the job was to stop failed (${detail}); the job goes on from its latest checkpoint`,
  )
}

/** Forgets the checkpoint, then deletes what it named; `handles`: what nobody else names. */
export async function discardCheckpoint(
  checkpoint: CompletedCheckpoint,
  storage: StateStorage,
  store: CheckpointStore,
  handles: readonly StateHandle[],
): Promise<void> {
  await store.forget(checkpoint.run, checkpoint.n)
  await discardFiles(checkpoint, handles, storage)
}

function stateBytes(states: readonly OperatorSubtaskState[]): number {
  let bytes = 0
  for (const handle of handlesOf({ states })) bytes += handle.size
  for (const { keyed } of states) if (keyed?.kind === 'external') bytes += keyed.size
  return bytes
}

/** Committables may carry a deadline (epoch ms) after which nobody knows whether they can still be committed. */
function expiredCommittable(states: readonly OperatorSubtaskState[], now: number): string | undefined {
  for (const state of states)
    for (const committable of state.committables ?? []) {
      const { deadline, transactionalId } = committable as { deadline?: unknown; transactionalId?: unknown }
      if (typeof deadline === 'number' && deadline <= now)
        return `output of sink '${state.uid}' (${String(transactionalId)})`
    }
  return undefined
}
