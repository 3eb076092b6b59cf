/** Restart strategies as a job's code sets them. */
import { DEFAULT_RESTART_STRATEGY, type RestartStrategyConfig } from '../core/restart-strategy-config.ts'
import { checkNumber } from './settings.ts'

/** Settings of `RestartStrategies.exponentialDelay`; what is left out is as in Flink. */
export interface ExponentialDelayOptions {
  /** First delay; 1 s. */
  readonly initialMs?: number
  /** Longest delay; 1 min. */
  readonly maxMs?: number
  /** Growth from one delay to the next; 1.5. */
  readonly multiplier?: number
  /** Time without a failure after which the delay is the first one again; 1 h. */
  readonly resetMs?: number
  /** Share of the delay that is added or taken by chance, 0 to 1; 0.1. */
  readonly jitter?: number
  /** Restarts before the job is FAILED; no limit unless given. */
  readonly attempts?: number
}

/**
 * Makes what `env.setRestartStrategy` takes.
 * @example
 * env.setRestartStrategy(RestartStrategies.fixedDelay(3, 10_000))
 */
export const RestartStrategies = {
  /** Up to `attempts` restarts, `delayMs` apart; 0 attempts are `none()`. */
  fixedDelay(attempts: number, delayMs: number): RestartStrategyConfig {
    checkNumber('restart-strategy.fixed-delay.attempts', attempts, { whole: true, min: 0 })
    checkNumber('restart-strategy.fixed-delay.delay', delayMs, { whole: true, min: 0 })
    if (attempts === 0) return { kind: 'none' }
    return { kind: 'fixed-delay', attempts, delayMs }
  },

  /** Delays that grow with each failure. The default strategy. */
  exponentialDelay(options: ExponentialDelayOptions = {}): RestartStrategyConfig {
    const { initialMs, maxMs, multiplier, resetMs, jitter, attempts } = {
      ...DEFAULT_RESTART_STRATEGY,
      ...options,
    }
    const key = 'restart-strategy.exponential-delay'
    checkNumber(`${key}.initial-backoff`, initialMs, { whole: true, min: 1 })
    checkNumber(`${key}.max-backoff`, maxMs, { whole: true, min: initialMs })
    checkNumber(`${key}.backoff-multiplier`, multiplier, { min: 1 })
    checkNumber(`${key}.reset-backoff-threshold`, resetMs, { whole: true, min: 1 })
    checkNumber(`${key}.jitter-factor`, jitter, { min: 0, max: 1 })
    if (attempts !== undefined)
      checkNumber(`${key}.attempts-before-reset-backoff`, attempts, { whole: true, min: 0 })
    return { kind: 'exponential-delay', initialMs, maxMs, multiplier, resetMs, jitter, attempts }
  },

  /** Restarts until more than `maxFailures` failures happen within `intervalMs`. */
  failureRate(maxFailures: number, intervalMs: number, delayMs: number): RestartStrategyConfig {
    checkNumber('restart-strategy.failure-rate.max-failures-per-interval', maxFailures, {
      whole: true,
      min: 1,
    })
    checkNumber('restart-strategy.failure-rate.failure-rate-interval', intervalMs, { whole: true, min: 1 })
    checkNumber('restart-strategy.failure-rate.delay', delayMs, { whole: true, min: 0 })
    return { kind: 'failure-rate', maxFailures, intervalMs, delayMs }
  },

  /** The first failure is the end. */
  none(): RestartStrategyConfig {
    return { kind: 'none' }
  },
} as const
