/** What happened to a job in this process: kept for `info`, and told to whoever follows the job's events. */
import type { RecoveryFacts } from '../checkpoint/checkpoint-store.ts'
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { JobStatus } from '../core/constants.ts'
import type { JobControl, JobEventType } from '../core/job-control.ts'
import type { Clock } from '../core/ports.ts'
import { isMillraceError } from '../errors.ts'

export class JobHistory {
  /** The run that this process began or resumed; '' before the first. */
  run = ''
  /** What the latest take-over found, whether or not it came to anything; checkpoints oldest first. */
  latest: { readonly run: string; readonly checkpoints: readonly number[] } = { run: '', checkpoints: [] }
  attempt: { readonly number: number; readonly at: number } | undefined
  lastCompleted: { readonly n: number; readonly at: number } | undefined
  lastFailure: { readonly at: number; readonly message: string } | undefined
  #moved: PromiseWithResolvers<JobStatus> | undefined
  readonly #jobName: string
  readonly #clock: Clock
  readonly #control: Pick<JobControl, 'publish'> | undefined

  constructor(jobName: string, clock: Clock, control: Pick<JobControl, 'publish'> | undefined) {
    this.#jobName = jobName
    this.#clock = clock
    this.#control = control
  }

  /** Resolves with the state that the job moves to next; never if it does not move any more. */
  nextMove(): Promise<JobStatus> {
    this.#moved ??= Promise.withResolvers()
    return this.#moved.promise
  }

  moved(from: JobStatus, to: JobStatus): void {
    this.#moved?.resolve(to)
    this.#moved = undefined
    this.#publish('status', `${from} → ${to}`, { from, to })
  }

  found({ attempt, completed }: RecoveryFacts): void {
    this.latest = { run: attempt?.run ?? '', checkpoints: completed.map(({ n }) => n) }
  }

  /** `base`: the checkpoint that the attempt goes on from. */
  started(run: string, attempt: number, base: CompletedCheckpoint): void {
    const checkpoint = base.n
    this.run = run
    this.lastCompleted = { n: checkpoint, at: base.completedAt }
    this.attempt = { number: attempt, at: this.#clock.now() }
    const details = { job: this.#jobName, run, attempt, checkpoint }
    this.#publish('attempt-started', `attempt ${attempt} goes on from checkpoint ${checkpoint}`, details)
  }

  completed({ n, kind, triggeredAt, stateBytes }: CompletedCheckpoint): void {
    const now = this.#clock.now()
    this.lastCompleted = { n, at: now }
    const details = { n, kind, ms: now - triggeredAt, bytes: stateBytes }
    this.#publish('checkpoint-completed', `checkpoint ${n} is complete`, details)
  }

  aborted(n: number, reason: string, detail: string): void {
    this.#publish('checkpoint-aborted', `checkpoint ${n} was aborted (${reason}): ${detail}`, { n, reason })
  }

  failed(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error)
    this.lastFailure = { at: this.#clock.now(), message }
    this.#publish('failure', message, { code: isMillraceError(error) ? error.code : undefined })
  }

  #publish(type: JobEventType, message: string, details: Readonly<Record<string, unknown>>): void {
    this.#control?.publish({ at: this.#clock.now(), type, message, details })
  }
}
