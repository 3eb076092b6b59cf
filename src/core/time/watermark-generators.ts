/**
 * Watermark generators: how watermarks follow from the timestamps of records.
 */
import { MIN_WATERMARK } from '../element.ts'

/** Milliseconds between two periodic emits, as Flink's auto watermark interval. */
export const WATERMARK_INTERVAL_MS = 200

/** Where a generator puts its watermarks. One that is not above the last one is dropped. */
export interface WatermarkOutput {
  /** Also ends what `markIdle` began. */
  emitWatermark(timestamp: number): void
  /** The split, or the stream, holds nobody back until it is active again. Records alone don't make it so: the generator says when. */
  markIdle(): void
  markActive(): void
}

/** Makes watermarks for one split or one subtask. */
export interface WatermarkGenerator<T> {
  /** Called for each record, after its timestamp was assigned (epoch ms, NaN = none). It may emit at once. */
  onEvent(value: T, timestamp: number, output: WatermarkOutput): void
  /** Called every WATERMARK_INTERVAL_MS. */
  onPeriodicEmit(output: WatermarkOutput): void
  /** Fast path: all records of a vector at once, in place of `onEvent`. Only for generators that never emit on a record. */
  onVector?(timestamps: readonly number[]): void
}

/** Event time of a record: epoch ms; what is behind the decimal point is cut off. `recordTimestamp` is what the source knows (Kafka's timestamp), NaN if nothing. */
export type TimestampAssigner<T> = (value: T, recordTimestamp: number) => number

/** Event time of one stream, as a WatermarkStrategy holds it. */
export interface EventTimeSettings<T> {
  /** A generator for one more split or subtask. */
  createGenerator(): WatermarkGenerator<T>
  readonly timestampAssigner: TimestampAssigner<T> | undefined
  /** Silence after which a split no longer counts; undefined = never. */
  readonly idleTimeoutMs: number | undefined
  /** No watermark ever comes before the end of input, so that nothing waits for one. */
  readonly silent?: boolean
}

/** Never emits. */
export class NoWatermarks implements WatermarkGenerator<unknown> {
  onEvent(): void {}
  onVector(): void {}
  onPeriodicEmit(): void {}
}

/** The newest timestamp so far less the bound less 1: records with exactly the watermark's time may not follow. */
export class BoundedOutOfOrderness implements WatermarkGenerator<unknown> {
  private readonly bound: number
  private newest = MIN_WATERMARK

  constructor(bound: number) {
    this.bound = bound
  }

  onEvent(_value: unknown, timestamp: number): void {
    // Written so that NaN changes nothing.
    if (timestamp > this.newest) this.newest = timestamp
  }

  onVector(timestamps: readonly number[]): void {
    let newest = this.newest
    for (let i = 0; i < timestamps.length; i++) if (timestamps[i]! > newest) newest = timestamps[i]!
    this.newest = newest
  }

  onPeriodicEmit(output: WatermarkOutput): void {
    if (this.newest !== MIN_WATERMARK) output.emitWatermark(this.newest - this.bound - 1)
  }
}
