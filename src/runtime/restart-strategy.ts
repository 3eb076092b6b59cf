/**
 * What happens after a failure: how long to wait, or that it is over. Pure; `now` and chance come in as values.
 */
import type { RestartStrategyConfig } from '../core/restart-strategy-config.ts'
import { type ErrorCode, isMillraceError } from '../errors.ts'

export type RestartDecision =
  | { readonly type: 'restart'; readonly delayMs: number }
  | { readonly type: 'fail'; readonly reason: string }

/** A user's error that comes back this often without a completed checkpoint between is not worth another try. */
const SAME_ERROR_LIMIT = 3

/** Codes whose cause may be gone at the next try although `retriable` is false for the single action. */
const RESTARTABLE: ReadonlySet<ErrorCode> = new Set([
  'MILLRACE_USER_FUNCTION',
  'MILLRACE_INTERNAL',
  'MILLRACE_ILLEGAL_TRANSITION',
  'MILLRACE_KAFKA_PROTOCOL',
  'MILLRACE_CORRUPT_BATCH',
] satisfies ErrorCode[])

/** True when trying again is of no use: the same error would come back at once. */
export function isFinal(error: unknown): boolean {
  for (
    let link: unknown = error, depth = 0;
    depth < 10 && typeof link === 'object' && link !== null;
    depth++
  ) {
    if (isMillraceError(link) && !link.retriable && !RESTARTABLE.has(link.code)) return true
    link = 'cause' in link ? link.cause : undefined
  }
  return false
}

export class RestartStrategy {
  readonly #config: RestartStrategyConfig
  #restarts = 0
  #backoffMs = 0
  #lastFailure = Number.NEGATIVE_INFINITY
  #recent: number[] = []
  #signature = ''
  #same = 0

  constructor(config: RestartStrategyConfig) {
    this.#config = config
  }

  /** Restarts so far. */
  get restarts(): number {
    return this.#restarts
  }

  /** A checkpoint was completed: the job makes progress. */
  progressed(): void {
    this.#same = 0
  }

  /** `chance` is in [0, 1). */
  failed(error: unknown, now: number, chance: number): RestartDecision {
    if (isFinal(error)) return { type: 'fail', reason: 'trying again cannot help' }
    if (isMillraceError(error) && error.fault === 'user') {
      const signature = `${error.code} ${error.message}`
      this.#same = signature === this.#signature ? this.#same + 1 : 1
      this.#signature = signature
      if (this.#same >= SAME_ERROR_LIMIT)
        return {
          type: 'fail',
          reason: `the same error came ${this.#same} times without a completed checkpoint between`,
        }
    }
    const decision = this.#decide(now, chance)
    if (decision.type === 'restart') this.#restarts++
    this.#lastFailure = now
    return decision
  }

  #decide(now: number, chance: number): RestartDecision {
    const config = this.#config
    switch (config.kind) {
      case 'none':
        return { type: 'fail', reason: 'the restart strategy is none' }
      case 'fixed-delay':
        return this.#restarts < config.attempts
          ? { type: 'restart', delayMs: config.delayMs }
          : { type: 'fail', reason: `all ${config.attempts} restarts are used up` }
      case 'failure-rate': {
        this.#recent = [...this.#recent.filter((at) => at > now - config.intervalMs), now]
        return this.#recent.length <= config.maxFailures
          ? { type: 'restart', delayMs: config.delayMs }
          : {
              type: 'fail',
              reason: `more than ${config.maxFailures} failures within ${config.intervalMs} ms`,
            }
      }
      case 'exponential-delay': {
        if (now - this.#lastFailure > config.resetMs) {
          this.#backoffMs = 0
          this.#restarts = 0
        }
        if (config.attempts !== undefined && this.#restarts >= config.attempts)
          return { type: 'fail', reason: `all ${config.attempts} restarts are used up` }
        this.#backoffMs =
          this.#backoffMs === 0
            ? config.initialMs
            : Math.min(this.#backoffMs * config.multiplier, config.maxMs)
        const jitter = this.#backoffMs * config.jitter * (2 * chance - 1)
        return { type: 'restart', delayMs: Math.max(0, Math.round(this.#backoffMs + jitter)) }
      }
    }
  }
}
