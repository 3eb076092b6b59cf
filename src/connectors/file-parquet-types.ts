/** Column types of Parquet files: how a file declares them, and which values they take. */

/** A column of a file's schema, as Parquet's own format has it. */
export interface SchemaElement {
  readonly name: string
  readonly type?: string
  readonly converted_type?: string
  readonly logical_type?: Readonly<Record<string, unknown>>
  readonly repetition_type?: 'REQUIRED' | 'OPTIONAL'
  readonly num_children?: number
}

interface TypeSpec {
  readonly element: Omit<SchemaElement, 'name'>
  /** The value as the package takes it. @throws TypeError, RangeError */
  readonly stored: (value: unknown) => unknown
}

const INT32_MIN = -0x8000_0000
const INT32_MAX = 0x7fff_ffff
const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n

const TYPES = {
  /** Text. */
  string: { element: { type: 'BYTE_ARRAY', converted_type: 'UTF8' }, stored: text },
  boolean: { element: { type: 'BOOLEAN' }, stored: truth },
  int32: { element: { type: 'INT32' }, stored: int32 },
  /** A bigint, or a number that is whole and exact. */
  int64: { element: { type: 'INT64' }, stored: int64 },
  float: { element: { type: 'FLOAT' }, stored: number },
  double: { element: { type: 'DOUBLE' }, stored: number },
  /** A Date or epoch milliseconds; in UTC. */
  timestamp: { element: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' }, stored: moment },
  /** Anything that has a JSON form, as its text. */
  json: { element: { type: 'BYTE_ARRAY', converted_type: 'JSON' }, stored: jsonForm },
  bytes: { element: { type: 'BYTE_ARRAY' }, stored: bytes },
} as const satisfies Record<string, TypeSpec>

/** Type of a column. */
export type ParquetType = keyof typeof TYPES

/** All types. */
export const PARQUET_TYPES = Object.keys(TYPES) as readonly ParquetType[]

/** A column as the file declares it. */
export function elementOf(column: {
  readonly name: string
  readonly type: ParquetType
  readonly optional: boolean
}): SchemaElement {
  const { element } = TYPES[column.type]
  return { name: column.name, ...element, repetition_type: column.optional ? 'OPTIONAL' : 'REQUIRED' }
}

/** A value as the file takes it. @throws TypeError, RangeError saying what is wrong with it */
export function storedValue(type: ParquetType, optional: boolean, value: unknown): unknown {
  if (value !== null && value !== undefined) return TYPES[type].stored(value)
  if (optional) return null
  throw new TypeError(`${value} in a column that is not optional`)
}

function refuse(type: string, value: unknown): never {
  throw new TypeError(`a value of type ${typeof value} is no ${type}`)
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : refuse('text', value)
}

function truth(value: unknown): boolean {
  return typeof value === 'boolean' ? value : refuse('boolean', value)
}

function number(value: unknown): number {
  return typeof value === 'number' ? value : refuse('number', value)
}

function int32(value: unknown): number {
  const given = number(value)
  if (!Number.isInteger(given) || given < INT32_MIN || given > INT32_MAX)
    throw new RangeError(`${given} is not a whole number of 32 bits`)
  return given
}

function int64(value: unknown): bigint {
  if (typeof value !== 'bigint' && !Number.isSafeInteger(number(value)))
    throw new RangeError(`${String(value)} is not a whole number that is exact; give a bigint`)
  const given = BigInt(value as bigint | number)
  if (given < INT64_MIN || given > INT64_MAX)
    throw new RangeError(`${given} is not a whole number of 64 bits`)
  return given
}

/** Epoch milliseconds, as the package takes them besides dates. */
function moment(value: unknown): bigint {
  const isDate = Object.prototype.toString.call(value) === '[object Date]'
  const at = isDate ? (value as Date).getTime() : number(value)
  if (!Number.isSafeInteger(at)) throw new RangeError(`${String(value)} is no moment in epoch milliseconds`)
  return BigInt(at)
}

/** Refused now what has no JSON form: later it would be too late to name the value. */
function jsonForm(value: unknown): unknown {
  const json = JSON.stringify(value)
  if (json === undefined) return refuse('value with a JSON form', value)
  return JSON.parse(json)
}

function bytes(value: unknown): Uint8Array {
  if (!ArrayBuffer.isView(value)) return refuse('bytes', value)
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
}
