/**
 * Values as they lie in Redis. A key without value (removed, or with timers only) has an empty one; to keep that apart from a value of no
 * bytes, values of nothing but zero bytes, the empty one among them, are stored with one zero byte more.
 */

/** True if the value is stored with one more zero byte. */
export function needsZero(value: Uint8Array): boolean {
  if (value.length > 0 && value[0] !== 0) return false
  return value.every((byte) => byte === 0)
}

/** What was stored, undefined = no value. A view into the bytes. */
export function decodeValue(stored: Uint8Array): Uint8Array | undefined {
  if (stored.length === 0) return undefined
  return needsZero(stored) ? stored.subarray(0, stored.length - 1) : stored
}
