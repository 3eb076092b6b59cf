/**
 * One record's way through an asynchronous function: attempts, back-off, time-out.
 *
 *            ┌────────── refused, or not acceptable, attempts left ──────────┐
 *            ▼                                                               │
 *   start ─► asking ─── answer ─────────────────────────────────────────► settled (result | failure)
 *              │  ▲ back-off is over                                         ▲
 *              ▼  │                                                          │
 *            backing off                                                     │
 *              └───────────── time is up ─► handler of time-outs, if any ────┘
 *
 * The time-out runs from the first attempt on and over all of them, as in Flink. What an attempt answers after it was given up is ignored.
 */
import { UserFunctionError } from '../../errors.ts'
import type { SubtaskInfo } from '../connector.ts'
import type { TimerHandle, World } from '../ports.ts'
import type { AsyncContext, AsyncMapSettings, AsyncRetry } from './async-settings.ts'
import { isThenable } from './continuation.ts'
import { excerpt, userError } from './user-error.ts'

/** What a call needs of its operator. */
export interface AsyncCallHost {
  readonly info: SubtaskInfo
  readonly world: World
  readonly settings: AsyncMapSettings
  invoke(value: unknown, context: AsyncContext): unknown
  retried(): void
  timedOut(): void
}

/** How a call ends. */
export type AsyncOutcome = { readonly result: unknown } | { readonly failure: unknown }

/** Asks until there is an answer; tells `settle` once, unless it was closed before. */
export class AsyncCall {
  private readonly host: AsyncCallHost
  private readonly value: unknown
  private readonly timestamp: number
  private readonly settle: (outcome: AsyncOutcome) => void
  private attempt = 0
  /** The attempt whose answer counts; undefined when none does. */
  private current: AsyncAttempt | undefined
  private timeout: TimerHandle | undefined
  private backoff: TimerHandle | undefined
  private settled = false

  constructor(
    host: AsyncCallHost,
    value: unknown,
    timestamp: number,
    settle: (outcome: AsyncOutcome) => void,
  ) {
    this.host = host
    this.value = value
    this.timestamp = timestamp
    this.settle = settle
  }

  start(): void {
    const { settings, world } = this.host
    this.ask()
    if (this.settled || settings.timeoutMs === undefined) return
    this.timeout = world.timers.schedule(settings.timeoutMs, () => this.timeIsUp())
  }

  /** Nobody waits for the answer any more. */
  close(): void {
    if (this.settled) return
    this.settled = true
    this.giveUp(new Error('the task was closed'))
  }

  private ask(): void {
    const attempt = new AsyncAttempt(++this.attempt, this.timestamp)
    this.current = attempt
    this.wait(
      attempt,
      'asyncMap',
      () => this.host.invoke(this.value, attempt),
      (result) => this.answered(attempt, result),
      (error) => this.refused(attempt, error),
    )
  }

  /** Runs a function of the user and hears what becomes of it, as long as `attempt` counts. */
  private wait(
    attempt: AsyncAttempt,
    method: string,
    run: () => unknown,
    answered: (result: unknown) => void,
    refused: (error: unknown) => void,
  ): void {
    const { world, info } = this.host
    let outcome: unknown
    try {
      outcome = run()
    } catch (error) {
      refused(error)
      return
    }
    if (!isThenable(outcome)) {
      answered(outcome)
      return
    }
    world.onUserPromise?.(outcome, `${method} of operator '${info.operatorName}'`, () => this.settled)
    outcome.then(
      (result) => {
        if (this.current === attempt) answered(result)
      },
      (error: unknown) => {
        if (this.current === attempt) refused(error)
      },
    )
  }

  private answered(attempt: AsyncAttempt, result: unknown): void {
    const { retry } = this.host.settings
    const again = retry?.retryResultIf
    this.endOrAskAgain(attempt, { result }, again === undefined ? undefined : () => again(result))
  }

  private refused(attempt: AsyncAttempt, error: unknown): void {
    const { retry } = this.host.settings
    const again = retry === undefined ? undefined : () => retry.retryIf?.(error) ?? true
    this.endOrAskAgain(attempt, { failure: this.failure(error) }, again)
  }

  /** Asks again if it is worth it and there is an attempt left; otherwise that is the outcome. */
  private endOrAskAgain(
    attempt: AsyncAttempt,
    outcome: AsyncOutcome,
    isWorthIt: (() => boolean) | undefined,
  ): void {
    const { settings, world } = this.host
    const { retry } = settings
    let again: boolean
    try {
      again = retry !== undefined && attempt.attempt < retry.maxAttempts && isWorthIt?.() === true
    } catch (error) {
      this.end({ failure: this.failure(error, 'The retry condition of asyncMap') })
      return
    }
    if (!again) {
      this.end(outcome)
      return
    }
    this.current = undefined
    this.host.retried()
    this.backoff = world.timers.schedule(backoffOf(retry!, attempt.attempt), () => this.ask())
  }

  private timeIsUp(): void {
    const { settings, timedOut } = this.host
    this.giveUp(new Error(`no result within ${settings.timeoutMs} ms`))
    timedOut()
    const { onTimeout } = settings
    if (onTimeout === undefined) {
      this.end({ failure: this.tooLate() })
      return
    }
    const handling = new AsyncAttempt(this.attempt, this.timestamp)
    this.current = handling
    this.wait(
      handling,
      'onTimeout of asyncMap',
      () => onTimeout(this.value),
      (result) => this.end({ result }),
      (error) => this.end({ failure: this.failure(error, 'onTimeout of asyncMap') }),
    )
  }

  private end(outcome: AsyncOutcome): void {
    if (this.settled) return
    this.settled = true
    this.timeout?.cancel()
    this.current = undefined
    this.settle(outcome)
  }

  private giveUp(reason: Error): void {
    this.timeout?.cancel()
    this.backoff?.cancel()
    const { current } = this
    this.current = undefined
    current?.abort(reason)
  }

  private failure(error: unknown, method = 'asyncMap'): unknown {
    return userError(error, this.host.info, method, this.value)
  }

  private tooLate(): UserFunctionError {
    const { info, settings } = this.host
    const attempts = this.attempt === 1 ? '1 attempt' : `${this.attempt} attempts`
    return new UserFunctionError(
      'MILLRACE_ASYNC_TIMEOUT',
      `asyncMap of operator '${info.operatorName}' (uid ${info.uid}, subtask ${info.subtaskIndex + 1}/${info.parallelism}) ` +
        `had no result within ${settings.timeoutMs} ms, in ${attempts}; the record is ${excerpt(this.value)}`,
      {
        details: {
          operator: info.operatorName,
          uid: info.uid,
          subtaskIndex: info.subtaskIndex,
          method: 'asyncMap',
          record: excerpt(this.value),
        },
      },
    )
  }
}

/** What the function gets with a record. The signal is made when somebody asks for it. */
class AsyncAttempt implements AsyncContext {
  readonly attempt: number
  private readonly time: number
  private controller: AbortController | undefined

  constructor(attempt: number, time: number) {
    this.attempt = attempt
    this.time = time
  }

  timestamp(): number | null {
    return Number.isNaN(this.time) ? null : this.time
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController()
    return this.controller.signal
  }

  abort(reason: Error): void {
    this.controller?.abort(reason)
  }
}

/** Milliseconds to wait after attempt number `attempt` (from 1). */
export function backoffOf(retry: AsyncRetry<any>, attempt: number): number {
  const { backoffMs = 0, multiplier = 1, maxBackoffMs = Number.POSITIVE_INFINITY } = retry
  return Math.min(backoffMs * multiplier ** (attempt - 1), maxBackoffMs)
}
