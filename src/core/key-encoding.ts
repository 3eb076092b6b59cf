/**
 * The canonical bytes of a key: one encoding for partitioning, state and rescaling. Format 1, held by test/compat/key-encoding.json;
 * it may never change, because stored key groups are found by the hash of these bytes.
 *
 *   key      bytes
 *   string   01, then UTF-8; a lone surrogate takes its three bytes as if it were a character (WTF-8), so no two strings share bytes
 *   number   02, then 4 bytes little-endian two's complement, for every integer of 32 bits; -0 is 0
 *            03, then 8 bytes little-endian IEEE 754, for every other number; NaN is refused (a failed parse, not a key)
 *   bigint   04, then 00 (positive or zero) or 01 (negative), then the magnitude little-endian without zeros at its end
 *   false    05
 *   true     06
 *   bytes    07, then the bytes
 *   array    08, then for each element the length of its encoding (unsigned LEB128) and its encoding
 *
 * 09 and 0a begin no key: they name parts of what a key holds (state/map-part.ts).
 * Injective: different keys have different bytes (1, 1n, '1' and true are four keys). Total: every `Key` has bytes.
 */
import { MillraceError, StateLostError } from '../errors.ts'
import type { Key } from './state.ts'

/** First byte of a string's encoding; key-groups.ts hashes strings without making the bytes. */
export const STRING_TAG = 1
/** First byte of the encoding of an integer of 32 bits. */
export const INT32_TAG = 2
const DOUBLE_TAG = 3
const BIGINT_TAG = 4
const FALSE_TAG = 5
const TRUE_TAG = 6
const BYTES_TAG = 7
const ARRAY_TAG = 8

const MAX_DEPTH = 32

/** Grows as needed and is used again for each key: encoding a key to hash it allocates nothing. */
class KeyBuffer {
  bytes: Uint8Array = new Uint8Array(256)
  length = 0

  reserve(count: number): void {
    const needed = this.length + count
    if (needed <= this.bytes.length) return
    const grown = new Uint8Array(Math.max(needed, this.bytes.length * 2))
    grown.set(this.bytes.subarray(0, this.length))
    this.bytes = grown
  }

  byte(value: number): void {
    this.bytes[this.length++] = value
  }
}

const scratch = new KeyBuffer()

const floatBytes = new DataView(new ArrayBuffer(8))

function invalidKey(what: string, path: string, operatorName: string | undefined): MillraceError {
  const where = operatorName === undefined ? '' : `Operator '${operatorName}': `
  const place = path === '' ? 'The key' : `The key's element ${path}`
  return new MillraceError('MILLRACE_INVALID_KEY', `${where}${place} is ${what}`, {
    details: { operator: operatorName },
  })
}

/** Names a value that is no key, for the message. */
function describe(value: unknown): string {
  if (value === null || value === undefined) return `${value}`
  if (typeof value !== 'object') return `a ${typeof value}`
  const name = (value as { constructor?: { name?: unknown } }).constructor?.name
  return typeof name === 'string' && name !== 'Object' && name !== '' ? `an instance of ${name}` : 'an object'
}

/** True for Uint8Array and its subclasses of any realm. */
function isBytes(value: object): value is Uint8Array {
  return ArrayBuffer.isView(value) && (value as Uint8Array)[Symbol.toStringTag] === 'Uint8Array'
}

function appendString(out: KeyBuffer, text: string): void {
  out.reserve(text.length * 3)
  for (let i = 0; i < text.length; i++) {
    let c = text.charCodeAt(i)
    if (c < 0x80) {
      out.byte(c)
      continue
    }
    if (c < 0x800) {
      out.byte(0xc0 | (c >> 6))
      out.byte(0x80 | (c & 0x3f))
      continue
    }
    const low = c >= 0xd800 && c <= 0xdbff ? text.charCodeAt(i + 1) : 0
    if (low >= 0xdc00 && low <= 0xdfff) {
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
      i++
      out.byte(0xf0 | (c >> 18))
      out.byte(0x80 | ((c >> 12) & 0x3f))
    } else {
      out.byte(0xe0 | (c >> 12))
    }
    out.byte(0x80 | ((c >> 6) & 0x3f))
    out.byte(0x80 | (c & 0x3f))
  }
}

function appendNumber(out: KeyBuffer, value: number): void {
  if ((value | 0) === value) {
    out.byte(INT32_TAG)
    for (let shift = 0; shift < 32; shift += 8) out.byte((value >> shift) & 0xff)
    return
  }
  out.byte(DOUBLE_TAG)
  // By DataView, not in the machine's own order: the bytes are stored.
  floatBytes.setFloat64(0, value, true)
  for (let i = 0; i < 8; i++) out.byte(floatBytes.getUint8(i))
}

function appendBigint(out: KeyBuffer, value: bigint): void {
  out.byte(BIGINT_TAG)
  out.byte(value < 0n ? 1 : 0)
  const magnitude = value < 0n ? -value : value
  if (magnitude === 0n) return
  const hex = magnitude.toString(16)
  out.reserve((hex.length + 1) >> 1)
  for (let end = hex.length; end > 0; end -= 2)
    out.byte(Number.parseInt(hex.slice(Math.max(0, end - 2), end), 16))
}

function appendArray(
  out: KeyBuffer,
  elements: readonly unknown[],
  operatorName: string | undefined,
  path: string,
  depth: number,
): void {
  if (depth >= MAX_DEPTH) throw invalidKey(`nested deeper than ${MAX_DEPTH} arrays`, '', operatorName)
  out.byte(ARRAY_TAG)
  for (let i = 0; i < elements.length; i++) {
    // The length goes before the element: leave it five bytes, then close the gap.
    out.reserve(5)
    const gap = out.length
    out.length += 5
    append(out, elements[i], operatorName, `${path}[${i}]`, depth + 1)
    const size = out.length - gap - 5
    let at = gap
    let rest = size
    for (; rest > 0x7f; rest >>>= 7) out.bytes[at++] = (rest & 0x7f) | 0x80
    out.bytes[at++] = rest
    out.bytes.copyWithin(at, gap + 5, out.length)
    out.length = at + size
  }
}

function append(
  out: KeyBuffer,
  key: unknown,
  operatorName: string | undefined,
  path: string,
  depth: number,
): void {
  out.reserve(16)
  switch (typeof key) {
    case 'string':
      out.byte(STRING_TAG)
      appendString(out, key)
      return
    case 'number':
      if (Number.isNaN(key)) throw invalidKey('NaN', path, operatorName)
      appendNumber(out, key)
      return
    case 'bigint':
      appendBigint(out, key)
      return
    case 'boolean':
      out.byte(key ? TRUE_TAG : FALSE_TAG)
      return
    case 'object':
      if (key === null) break
      if (Array.isArray(key)) {
        appendArray(out, key, operatorName, path, depth)
        return
      }
      if (isBytes(key)) {
        out.byte(BYTES_TAG)
        out.reserve(key.length)
        out.bytes.set(key, out.length)
        out.length += key.length
        return
      }
  }
  throw invalidKey(describe(key), path, operatorName)
}

/**
 * Encodes a key into a buffer that the next call uses again, and hands it to `use` with the number of bytes that count.
 * For hashing and lookups; nothing may keep the buffer.
 * @throws MillraceError MILLRACE_INVALID_KEY
 */
export function withEncodedKey<R>(
  key: unknown,
  operatorName: string | undefined,
  use: (bytes: Uint8Array, length: number) => R,
): R {
  scratch.length = 0
  append(scratch, key, operatorName, '', 0)
  return use(scratch.bytes, scratch.length)
}

/**
 * The canonical bytes of a key.
 * @throws MillraceError MILLRACE_INVALID_KEY for anything that is no key, naming the operator and the element
 */
export function encodeKey(key: Key, operatorName?: string): Uint8Array {
  return withEncodedKey(key, operatorName, (bytes, length) => bytes.slice(0, length))
}

/** @throws MillraceError MILLRACE_INVALID_KEY if `key` is no key. Cheap for primitives; called for each record. */
export function checkKey(key: unknown, operatorName: string): asserts key is Key {
  const type = typeof key
  if (
    type === 'string' ||
    type === 'bigint' ||
    type === 'boolean' ||
    (type === 'number' && !Number.isNaN(key))
  )
    return
  encodeKey(key as Key, operatorName)
}

function decodeString(bytes: Uint8Array): string {
  let text = ''
  for (let i = 0; i < bytes.length; i++) {
    const lead = bytes[i]!
    if (lead < 0x80) {
      text += String.fromCharCode(lead)
      continue
    }
    const more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1
    let code = lead & (0x3f >> more)
    for (let k = 0; k < more; k++) code = (code << 6) | ((bytes[++i] ?? 0) & 0x3f)
    text += String.fromCodePoint(Math.min(code, 0x10ffff))
  }
  return text
}

function decodeBigint(bytes: Uint8Array): bigint {
  let hex = ''
  for (let i = bytes.length - 1; i > 0; i--) hex += bytes[i]!.toString(16).padStart(2, '0')
  const magnitude = hex === '' ? 0n : BigInt(`0x${hex}`)
  return bytes[0] === 1 ? -magnitude : magnitude
}

function decodeArray(bytes: Uint8Array, depth: number): Key[] {
  const elements: Key[] = []
  let at = 1
  while (at < bytes.length) {
    let size = 0
    let shift = 0
    let byte = 0x80
    for (; byte > 0x7f && shift < 35; shift += 7) {
      byte = bytes[at++] ?? 0
      size += (byte & 0x7f) * 2 ** shift
    }
    if (size > bytes.length - at) throw damagedKey()
    elements.push(decode(bytes.subarray(at, at + size), depth + 1))
    at += size
  }
  return elements
}

function damagedKey(): StateLostError {
  return new StateLostError(
    'MILLRACE_STATE_LOST',
    'A stored key is damaged: its bytes are no canonical encoding',
  )
}

function decode(bytes: Uint8Array, depth: number): Key {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  switch (bytes[0]) {
    case STRING_TAG:
      return decodeString(bytes.subarray(1))
    case INT32_TAG:
      if (bytes.length === 5) return view.getInt32(1, true)
      break
    case DOUBLE_TAG:
      if (bytes.length === 9 && !Number.isNaN(view.getFloat64(1, true))) return view.getFloat64(1, true)
      break
    case BIGINT_TAG:
      if (bytes.length >= 2) return decodeBigint(bytes.subarray(1))
      break
    case FALSE_TAG:
      return false
    case TRUE_TAG:
      return true
    case BYTES_TAG:
      return bytes.slice(1)
    case ARRAY_TAG:
      if (depth < MAX_DEPTH) return decodeArray(bytes, depth)
  }
  throw damagedKey()
}

/**
 * The key of canonical bytes, as a new object. Bytes come back as a plain Uint8Array, -0 as 0.
 * @throws StateLostError if the bytes are not exactly what `encodeKey` makes
 */
export function decodeKey(bytes: Uint8Array): Key {
  // A view of plain bytes: `slice` of a Buffer would share its memory.
  const plain = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
  const key = decode(plain, 0)
  const same = withEncodedKey(key, undefined, (again, length) => {
    if (length !== plain.length) return false
    for (let i = 0; i < length; i++) if (again[i] !== plain[i]) return false
    return true
  })
  if (!same) throw damagedKey()
  return key
}
