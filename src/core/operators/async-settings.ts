/** Asynchronous map: the function, and what may be set. */
import type { Serde } from '../connector.ts'
import type { RichFunction } from '../functions.ts'

/** What an asynchronous function gets with a record. */
export interface AsyncContext {
  /** 1 for the first attempt of a record, 2 for its first repeat, … After a restore it starts at 1 again. */
  readonly attempt: number
  /** Aborted when nobody waits for this attempt any more: its time is up, or the task is closed. */
  readonly signal: AbortSignal
  /** Event time of the record (epoch ms), or null. */
  timestamp(): number | null
}

/**
 * Asks something outside for each record. Many calls run at a time, so it has no keyed state, and must not change the record.
 * @example async (order, { signal }) => ({ ...order, user: await fetchUser(order.userId, signal) })
 */
export type AsyncMapFunction<T, R> =
  | ((value: T, context: AsyncContext) => R)
  | (RichFunction & { asyncMap(value: T, context: AsyncContext): R })

/** When and how often a record is asked for again. */
export interface AsyncRetry<R> {
  /** All attempts, the first one included. */
  readonly maxAttempts: number
  /** Milliseconds before the second attempt. Default 0. */
  readonly backoffMs?: number
  /** By how much each back-off is longer than the one before. Default 1: all are of one length. */
  readonly multiplier?: number
  readonly maxBackoffMs?: number
  /** Which errors are worth another attempt. Default: all. When no attempt is left the last error fails the job. */
  readonly retryIf?: (error: unknown) => boolean
  /** Which results are worth another attempt. Default: none. When no attempt is left the last result is taken. */
  readonly retryResultIf?: (result: R) => boolean
}

/** Settings of `asyncMap`. */
export interface AsyncMapOptions<T, R, F = never> {
  /** True (default): results in the order of their records. False: as they come, but never past a watermark. */
  readonly ordered?: boolean
  /** Records of a subtask that are asked for, or whose results wait for their turn, at the most. Default 100. */
  readonly capacity?: number
  /** How long a record may take, all attempts together. Default: as long as it likes. */
  readonly timeoutMs?: number
  /** Gives the result of a record whose time is up. Without it the job fails. */
  readonly onTimeout?: (value: T) => F
  readonly retry?: AsyncRetry<Awaited<R>>
  /** Stores records in flight in a checkpoint; needed for class instances only. */
  readonly serde?: Serde<T>
}

/** The same with defaults, checked, as the operator gets it. */
export interface AsyncMapSettings {
  readonly ordered: boolean
  readonly capacity: number
  readonly timeoutMs: number | undefined
  readonly onTimeout: ((value: any) => unknown) | undefined
  readonly retry: AsyncRetry<any> | undefined
  readonly serde: Serde<any> | undefined
}
