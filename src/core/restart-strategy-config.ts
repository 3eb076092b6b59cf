/** What happens after a failure, as plain data: made by `RestartStrategies` or from the `restart-strategy.*` options. */

/** Up to `attempts` restarts, `delayMs` apart; then the job is FAILED. */
export interface FixedDelayRestart {
  readonly kind: 'fixed-delay'
  readonly attempts: number
  readonly delayMs: number
}

/** Delays grow from `initialMs` by `multiplier` up to `maxMs`; `resetMs` without a failure starts over at `initialMs`. */
export interface ExponentialDelayRestart {
  readonly kind: 'exponential-delay'
  readonly initialMs: number
  readonly maxMs: number
  readonly multiplier: number
  readonly resetMs: number
  /** Share of the delay that is added or taken by chance, 0 to 1, so that jobs do not all come back at once. */
  readonly jitter: number
  /** Restarts before the job is FAILED, counted anew after `resetMs` without a failure; undefined = no limit. */
  readonly attempts: number | undefined
}

/** Restarts until more than `maxFailures` failures happen within `intervalMs`. */
export interface FailureRateRestart {
  readonly kind: 'failure-rate'
  readonly maxFailures: number
  readonly intervalMs: number
  readonly delayMs: number
}

/** The first failure is the end. */
export interface NoRestart {
  readonly kind: 'none'
}

export type RestartStrategyConfig =
  | FixedDelayRestart
  | ExponentialDelayRestart
  | FailureRateRestart
  | NoRestart

/** What holds when nothing is set: exponential delay from 1 s to 1 min, without a limit. */
export const DEFAULT_RESTART_STRATEGY: ExponentialDelayRestart = {
  kind: 'exponential-delay',
  initialMs: 1_000,
  maxMs: 60_000,
  multiplier: 1.5,
  resetMs: 3_600_000,
  jitter: 0.1,
  attempts: undefined,
}
