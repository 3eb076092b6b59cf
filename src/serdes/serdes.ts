/**
 * Serdes that need nothing but Node: json, string, bytes, and Java's fixed-width numbers.
 * Null in, null out: a null value is a tombstone and never reaches the encoding. Errors say what is wrong with the value or the bytes;
 * the source or sink adds which record it was.
 */
import type { Serde } from '../core/connector.ts'

/**
 * JSON text in UTF-8. The type is a promise of the topic's producers: it is not checked.
 * @example kafkaSource({ topics: ['orders'], groupId: 'etl', value: json<Order>() })
 */
export function json<T = any>(): Serde<T> {
  const toText = (value: T): string => {
    const text = JSON.stringify(value)
    if (text === undefined) throw new TypeError(`json: a value of type ${typeof value} has no JSON form`)
    return text
  }
  return textSerde('json', toText, (text) => JSON.parse(text) as T)
}

/** Text in UTF-8. */
export function string(): Serde<string> {
  const toText = (value: string): string => {
    if (typeof value !== 'string')
      throw new TypeError(`string: expected a string, not a value of type ${typeof value}`)
    return value
  }
  return textSerde('string', toText, (text) => text)
}

/** Bytes as they are. */
export function bytes(): Serde<Uint8Array> {
  return {
    name: 'bytes',
    serialize: (value) => value,
    deserialize: (data) => data,
    // A copy: the buffer of a whole fetch must not stay alive, or change, under a value of a few bytes.
    readSlice: (buffer, start, end) => new Uint8Array(buffer.subarray(start, end)),
  }
}

/** A whole number in 4 bytes, big-endian, as Java's IntegerSerializer. */
export function integer(): Serde<number> {
  return fixedWidth<number>(
    'integer',
    4,
    (view, value) => {
      if (!Number.isInteger(value) || value < -0x8000_0000 || value > 0x7fff_ffff)
        throw new RangeError(`integer: ${value} is not a whole number of 32 bits`)
      view.setInt32(0, value)
    },
    (view, at) => view.getInt32(at),
  )
}

/** A bigint in 8 bytes, big-endian, as Java's LongSerializer. */
export function long(): Serde<bigint> {
  return fixedWidth<bigint>(
    'long',
    8,
    (view, value) => {
      if (typeof value !== 'bigint' || value !== BigInt.asIntN(64, value))
        throw new RangeError(`long: ${String(value)} (${typeof value}) is not a bigint of 64 bits`)
      view.setBigInt64(0, value)
    },
    (view, at) => view.getBigInt64(at),
  )
}

/** A number in 8 bytes, big-endian, as Java's DoubleSerializer. */
export function float64(): Serde<number> {
  return fixedWidth<number>(
    'float64',
    8,
    (view, value) => {
      if (typeof value !== 'number')
        throw new TypeError(`float64: expected a number, not a value of type ${typeof value}`)
      view.setFloat64(0, value)
    },
    (view, at) => view.getFloat64(at),
  )
}

function textSerde<T>(name: string, toText: (value: T) => string, fromText: (text: string) => T): Serde<T> {
  return {
    name,
    serialize: (value) => (value === null ? null : Buffer.from(toText(value))),
    deserialize: (data) => fromText(Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString()),
    readSlice: (buffer, start, end) => fromText(buffer.toString('utf8', start, end)),
    toText,
  }
}

function fixedWidth<T extends number | bigint>(
  name: string,
  width: number,
  write: (view: DataView, value: T) => void,
  read: (view: DataView, at: number) => T,
): Serde<T> {
  const readAt = (data: Uint8Array, start: number, length: number): T => {
    if (length !== width) throw new RangeError(`${name}: expected ${width} bytes, got ${length}`)
    return read(new DataView(data.buffer, data.byteOffset, data.byteLength), start)
  }
  return {
    name,
    serialize: (value) => {
      if (value === null) return null
      const data = new Uint8Array(width)
      write(new DataView(data.buffer), value)
      return data
    },
    deserialize: (data) => readAt(data, 0, data.byteLength),
    readSlice: (buffer, start, end) => readAt(buffer, start, end - start),
  }
}
