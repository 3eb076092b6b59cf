/**
 * Kafka's variable-length integers: 7 bits a byte, lowest first, zigzag (0, -1, 1, -2 … as 0, 1, 2, 3 …).
 * The functions here are the general case; the reader's and the builder's loops have the one- and two-byte cases inline.
 */

/** Where the last read varint ended. A variable of the module and not a result, since an object per varint would cost more than the varint. */
let end = 0

/** Beyond any buffer: makes the caller's bounds check fail. */
const OUT_OF_BOUNDS = 0x7fffffff

/** Position just behind the varint that was read last; beyond any buffer if it was longer than its type allows. */
export function varintEnd(): number {
  return end
}

/**
 * Raw (still zigzag) value, as an unsigned 32-bit number, of the varint at `at`. Bytes beyond the buffer count as 0, so the caller
 * must check the end against its bounds. Decode with `(v >>> 1) ^ -(v & 1)`.
 */
export function varintValue(bytes: Buffer, at: number): number {
  let value = 0
  for (let i = 0; i < 5; i++) {
    const byte = bytes[at + i]!
    value |= (byte & 127) << (7 * i)
    if (!(byte > 127)) {
      end = at + i + 1
      return value >>> 0
    }
  }
  end = OUT_OF_BOUNDS
  return 0
}

/**
 * `base` plus the 64-bit varint at `at`, as a number. Up to 49 bits are added as numbers; longer ones exactly as bigints with
 * `exactBase`, since base and delta may both be beyond what a number holds while their sum is not.
 */
export function readVarlong(bytes: Buffer, at: number, base: number, exactBase: bigint): number {
  let value = 0
  for (let i = 0; i < 7; i++) {
    const byte = bytes[at + i]!
    value += (byte & 127) * 2 ** (7 * i)
    if (!(byte > 127)) {
      end = at + i + 1
      return base + (value % 2 === 0 ? value / 2 : -(value + 1) / 2)
    }
  }
  let raw = BigInt(value)
  for (let i = 7; i < 10; i++) {
    const byte = bytes[at + i] ?? 0
    raw |= BigInt(byte & 127) << BigInt(7 * i)
    if (byte < 128) {
      end = at + i + 1
      const unsigned = BigInt.asUintN(64, raw)
      return Number(BigInt.asIntN(64, exactBase + ((unsigned >> 1n) ^ -(unsigned & 1n))))
    }
  }
  end = OUT_OF_BOUNDS
  return base
}

/** Bytes that `value` (a signed 32-bit integer) takes. */
export function varintSize(value: number): number {
  const v = ((value << 1) ^ (value >> 31)) >>> 0
  return v < 0x80 ? 1 : v < 0x4000 ? 2 : v < 0x200000 ? 3 : v < 0x10000000 ? 4 : 5
}

/** Writes a signed 32-bit integer and returns the position behind it. */
export function writeVarint(bytes: Buffer, at: number, value: number): number {
  let v = ((value << 1) ^ (value >> 31)) >>> 0
  let p = at
  while (v > 127) {
    bytes[p++] = (v & 127) | 128
    v >>>= 7
  }
  bytes[p++] = v
  return p
}

/** Writes an integer as a 64-bit varint and returns the position behind it. */
export function writeVarlong(bytes: Buffer, at: number, value: number): number {
  if (value >= -0x40000000 && value < 0x40000000) return writeVarint(bytes, at, value)
  let v = zigzag(value)
  let p = at
  while (v > 127n) {
    bytes[p++] = Number(v & 127n) | 128
    v >>= 7n
  }
  bytes[p++] = Number(v)
  return p
}

function zigzag(value: number): bigint {
  const v = BigInt(value)
  return v < 0n ? -v * 2n - 1n : v * 2n
}
