/** Operator state as bytes: structured values behind a version. */
import type { OperatorStateSnapshot } from '../core/operators/stream-operator.ts'
import { StateLostError } from '../errors.ts'
import { IN_FLIGHT_CODEC } from './in-flight-codec.ts'
import { StructuredValueReader } from './structured-reader.ts'
import { StructuredValueWriter } from './structured-value.ts'

const VERSION = 1

/** @throws StateValueError for values that state cannot keep. */
export function encodeOperatorState(state: OperatorStateSnapshot, operator: string): Uint8Array {
  const writer = new StructuredValueWriter()
  writer.write([VERSION, state], operator)
  return writer.finish()
}

/** @throws StateLostError when the bytes are damaged or of a later version. */
export function decodeOperatorState(bytes: Uint8Array, operator: string): OperatorStateSnapshot {
  const value = new StructuredValueReader(bytes, `operator state of '${operator}'`).read()
  if (!Array.isArray(value) || value.length !== 2 || value[0] !== VERSION)
    throw new StateLostError(
      'MILLRACE_STATE_LOST',
      `operator state of '${operator}' has a form that this version cannot read`,
    )
  return value[1] as OperatorStateSnapshot
}

/** The forms in which all that is not keyed state is stored. */
export const STATE_CODEC = {
  encode: encodeOperatorState,
  decode: decodeOperatorState,
  inFlight: IN_FLIGHT_CODEC,
}
