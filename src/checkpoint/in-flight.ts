/**
 * Elements that were in channels when an unaligned checkpoint was taken: they belong to the state of the subtask that would have read them.
 */
import type { RecordVector, Watermark, WatermarkStatus } from '../core/element.ts'

/** Elements worth keeping: ends are sent again by those who had ended, barriers and markers belong to their checkpoint. */
export type KeptElement = RecordVector | Watermark | WatermarkStatus

export interface InFlightElement {
  /** Names the edge by the uids at its ends, so that it is found in a graph that changed elsewhere. */
  readonly edge: string
  /** Upstream subtask. */
  readonly from: number
  readonly element: KeptElement
}

/** Encodes at once, because the receiver may change a value as soon as it has it. */
export interface InFlightWriter {
  /** @throws StateValueError for a record whose value cannot be kept. */
  add(element: InFlightElement): void
  /** The bytes; undefined if nothing was added. */
  finish(): Uint8Array | undefined
}

/** Bytes and back. */
export interface InFlightCodec {
  /** `operator` names the receiver in messages. */
  writer(operator: string): InFlightWriter
  /** @throws StateLostError for damaged bytes. */
  read(bytes: Uint8Array, operator: string): InFlightElement[]
}
