/**
 * All that core ever sees of the world. The shell hands in real ones; simulation hands in its own.
 */

/** Wall clock. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number
}

/** Handle of a pending timer. */
export interface TimerHandle {
  cancel(): void
}

/** Schedules work later. In simulation this is the only thing that moves time. */
export interface Timers {
  /** Runs `action` once after `delayMs` milliseconds. The timer does not keep the process alive when `unref` is true. */
  schedule(delayMs: number, action: () => void, unref?: boolean): TimerHandle
  /** Resolves in a later turn of the event loop, after pending IO had its chance. */
  turn(): Promise<void>
  /** Resolves after `delayMs` milliseconds. */
  sleep(delayMs: number): Promise<void>
}

/** Randomness. */
export interface Random {
  /** A number in [0, 1). */
  next(): number
  /** A version-4 uuid. */
  uuid(): string
}

/** Facts attached to a log line. */
export type LogFields = Readonly<Record<string, unknown>>

/** Structured log. Messages are sentences a tired operator understands. */
export interface Logger {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
  /** A logger that adds `fields` to every line. */
  child(fields: LogFields): Logger
}

/** A number that only grows. */
export interface Counter {
  inc(by?: number): void
  readonly count: number
}

/** Named metrics of one job, operator or subtask. */
export interface MetricGroup {
  counter(name: string): Counter
  /** A value read when somebody looks. */
  gauge(name: string, read: () => number): void
  /** Adds a sample, e.g. a duration in ms. */
  histogram(name: string): { record(value: number): void }
  /** A group below this one, with labels. */
  group(labels: Readonly<Record<string, string>>): MetricGroup
}

/** The world, in one bundle. */
export interface World {
  readonly clock: Clock
  readonly timers: Timers
  readonly random: Random
  readonly logger: Logger
  readonly metrics: MetricGroup
  /**
   * Hears of each promise of a user function that an operator waits for: whose it is, and whether it waits for the output by now and not for
   * the function. With virtual time somebody must let real time pass for functions; in production nobody listens.
   */
  readonly onUserPromise?:
    | ((promise: PromiseLike<unknown>, whose: string, waitsForOutput: () => boolean) => void)
    | undefined
}
