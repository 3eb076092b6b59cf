/**
 * What flows through a channel. Records travel in vectors, never one promise a record; everything else is an event.
 */

/** Timestamp of a record that has none (not a legal event time). Check with `Number.isNaN`. */
export const NO_TIMESTAMP: number = Number.NaN

/** The watermark that says no more records will come. */
export const MAX_WATERMARK: number = Number.MAX_SAFE_INTEGER
/** The watermark before the first one. */
export const MIN_WATERMARK: number = Number.MIN_SAFE_INTEGER

/**
 * A run of records. `values[i]` has event time `timestamps[i]` (epoch ms, NaN = none); both arrays have one length.
 * A vector is immutable once emitted: several receivers may share it.
 */
export interface RecordVector<T = unknown> {
  readonly kind: 'records'
  readonly values: readonly T[]
  readonly timestamps: readonly number[]
}

/** No record with a timestamp at or below `timestamp` (epoch ms) will follow, save late ones. */
export interface Watermark {
  readonly kind: 'watermark'
  readonly timestamp: number
}

/** The channel turned idle (its watermark no longer holds the minimum back) or active again. */
export interface WatermarkStatus {
  readonly kind: 'watermark-status'
  readonly idle: boolean
}

/** Why a checkpoint is taken. A savepoint is self-contained and owned by the user. */
export type CheckpointKind = 'checkpoint' | 'savepoint' | 'final'

/** Separates the records of checkpoint n from those after it. */
export interface CheckpointBarrier {
  readonly kind: 'barrier'
  /** Checkpoint id; grows over all attempts of a run. */
  readonly n: number
  readonly checkpointKind: CheckpointKind
  /** Epoch ms from which it may overtake what is queued before it; absent: never (an aligned checkpoint). */
  readonly overtakeAt?: number | undefined
}

/** Checkpoint n was aborted upstream: stop waiting for its barrier. */
export interface CancelCheckpointMarker {
  readonly kind: 'cancel-checkpoint'
  readonly n: number
}

/** The sender has no more records; barriers still flow until `EndOfChannel`. */
export interface EndOfData {
  readonly kind: 'end-of-data'
}

/** Nothing at all will follow on this channel. */
export interface EndOfChannel {
  readonly kind: 'end-of-channel'
}

/** Anything but records. */
export type StreamEvent =
  | Watermark
  | WatermarkStatus
  | CheckpointBarrier
  | CancelCheckpointMarker
  | EndOfData
  | EndOfChannel

/** All that a channel carries. */
export type StreamElement = RecordVector | StreamEvent

/** Makes a vector. The arrays must not be changed afterwards. */
export function recordVector<T>(values: readonly T[], timestamps: readonly number[]): RecordVector<T> {
  return { kind: 'records', values, timestamps }
}
