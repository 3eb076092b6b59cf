/** What an operator emits while a test drives it alone. */
import type { RecordVector, WatermarkStatus } from '../core/element.ts'
import type { Output } from '../core/operators/stream-operator.ts'

/** A record that the operator emitted; the timestamp is null if it has none. */
export interface EmittedRecord<T> {
  readonly value: T
  readonly timestamp: number | null
}

/** Notes what the operator emits. */
export class RecordingOutput implements Output {
  readonly main: EmittedRecord<any>[] = []
  readonly sides = new Map<string, EmittedRecord<any>[]>()
  readonly watermarks: number[] = []
  readonly statuses: boolean[] = []

  emit(vector: RecordVector): void {
    append(this.main, vector)
  }
  emitSide(tagId: string, vector: RecordVector): void {
    const side = this.sides.get(tagId) ?? []
    this.sides.set(tagId, side)
    append(side, vector)
  }
  emitWatermark(timestamp: number): void {
    this.watermarks.push(timestamp)
  }
  emitStatus(status: WatermarkStatus): void {
    this.statuses.push(status.idle)
  }
}

function append(records: EmittedRecord<unknown>[], { values, timestamps }: RecordVector): void {
  values.forEach((value, i) => {
    const timestamp = timestamps[i]!
    records.push({ value, timestamp: Number.isNaN(timestamp) ? null : timestamp })
  })
}
