/**
 * MurmurHash3 (Austin Appleby, public domain): the 32-bit variant places keys in key groups, the 128-bit one names things that are too
 * long or illegal as they are. Both decide where stored state is found again, so neither may ever change.
 */

const C1 = 0xcc9e2d51
const C2 = 0x1b873593

/** What `murmur3OfTaggedAscii` answers for a text with other characters. */
export const NOT_ASCII = -1

function mixBlock(hash: number, block: number): number {
  let k = Math.imul(block, C1)
  k = (k << 15) | (k >>> 17)
  let h = hash ^ Math.imul(k, C2)
  h = (h << 13) | (h >>> 19)
  return (Math.imul(h, 5) + 0xe6546b64) | 0
}

function mixTail(hash: number, tail: number): number {
  const k = Math.imul(tail, C1)
  return hash ^ Math.imul((k << 15) | (k >>> 17), C2)
}

function finalMix(hash: number): number {
  let h = hash
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return h ^ (h >>> 16)
}

/** MurmurHash3_x86_32 with seed 0 of the first `length` bytes, as a signed 32-bit integer. */
export function murmur3(bytes: Uint8Array, length: number = bytes.length): number {
  let hash = 0
  const blocks = length & ~3
  for (let i = 0; i < blocks; i += 4)
    hash = mixBlock(hash, bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24))
  let tail = 0
  for (let i = length - 1; i >= blocks; i--) tail = (tail << 8) | bytes[i]!
  if (length !== blocks) hash = mixTail(hash, tail)
  return finalMix(hash ^ length)
}

/**
 * `murmur3` of the byte `tag` followed by the characters of an ASCII text, without making the bytes; `NOT_ASCII` for any other text.
 * The answer is cut to 31 bits, so that it is never negative and stays a small integer. This is the hot path of every keyed record.
 */
export function murmur3OfTaggedAscii(tag: number, text: string): number {
  const length = text.length
  let hash = 0
  let tail = tag
  let seen = 0
  let at = 0
  if (length >= 3) {
    const a = text.charCodeAt(0)
    const b = text.charCodeAt(1)
    const c = text.charCodeAt(2)
    seen = a | b | c
    hash = mixBlock(0, tag | (a << 8) | (b << 16) | (c << 24))
    for (at = 3; at + 4 <= length; at += 4) {
      const p = text.charCodeAt(at)
      const q = text.charCodeAt(at + 1)
      const r = text.charCodeAt(at + 2)
      const s = text.charCodeAt(at + 3)
      seen |= p | q | r | s
      hash = mixBlock(hash, p | (q << 8) | (r << 16) | (s << 24))
    }
    tail = 0
    for (let i = length - 1; i >= at; i--) {
      const c = text.charCodeAt(i)
      seen |= c
      tail = (tail << 8) | c
    }
    if (at !== length) hash = mixTail(hash, tail)
  } else {
    for (; at < length; at++) {
      const c = text.charCodeAt(at)
      seen |= c
      tail |= c << (8 * (at + 1))
    }
    hash = mixTail(hash, tail)
  }
  return seen > 0x7f ? NOT_ASCII : finalMix(hash ^ (length + 1)) & 0x7fffffff
}

/** `murmur3` of the byte `tag` followed by `value` as four little-endian bytes, cut to 31 bits. */
export function murmur3OfTaggedInt32(tag: number, value: number): number {
  const hash = mixTail(mixBlock(0, tag | (value << 8)), value >>> 24)
  return finalMix(hash ^ 5) & 0x7fffffff
}

const rotl = (x: number, by: number): number => (x << by) | (x >>> (32 - by))
const hex = (x: number): string => (x >>> 0).toString(16).padStart(8, '0')

/** MurmurHash3_x86_128 with seed 0, as 32 hexadecimal digits. Not for secrets: collisions can be made on purpose, not met by chance. */
export function murmur3Hex128(bytes: Uint8Array): string {
  const K1 = 0x239b961b
  const K2 = 0xab0e9789
  const K3 = 0x38b34ae5
  const K4 = 0xa1e38b93
  let h1 = 0
  let h2 = 0
  let h3 = 0
  let h4 = 0
  const word = (at: number): number =>
    (bytes[at] ?? 0) |
    ((bytes[at + 1] ?? 0) << 8) |
    ((bytes[at + 2] ?? 0) << 16) |
    ((bytes[at + 3] ?? 0) << 24)
  const scramble = (k: number, a: number, by: number, b: number): number =>
    Math.imul(rotl(Math.imul(k, a), by), b)
  const blocks = bytes.length & ~15
  for (let i = 0; i < blocks; i += 16) {
    h1 = (Math.imul(rotl(h1 ^ scramble(word(i), K1, 15, K2), 19) + h2, 5) + 0x561ccd1b) | 0
    h2 = (Math.imul(rotl(h2 ^ scramble(word(i + 4), K2, 16, K3), 17) + h3, 5) + 0x0bcaa747) | 0
    h3 = (Math.imul(rotl(h3 ^ scramble(word(i + 8), K3, 17, K4), 15) + h4, 5) + 0x96cd1c35) | 0
    h4 = (Math.imul(rotl(h4 ^ scramble(word(i + 12), K4, 18, K1), 13) + h1, 5) + 0x32ac3b17) | 0
  }
  // A word of zeros scrambles to zero, so bytes past the end change nothing.
  h4 ^= scramble(word(blocks + 12), K4, 18, K1)
  h3 ^= scramble(word(blocks + 8), K3, 17, K4)
  h2 ^= scramble(word(blocks + 4), K2, 16, K3)
  h1 ^= scramble(word(blocks), K1, 15, K2)
  h1 ^= bytes.length
  h2 ^= bytes.length
  h3 ^= bytes.length
  h4 ^= bytes.length
  h1 = (h1 + h2 + h3 + h4) | 0
  h2 = (h2 + h1) | 0
  h3 = (h3 + h1) | 0
  h4 = (h4 + h1) | 0
  h1 = finalMix(h1)
  h2 = finalMix(h2)
  h3 = finalMix(h3)
  h4 = finalMix(h4)
  h1 = (h1 + h2 + h3 + h4) | 0
  h2 = (h2 + h1) | 0
  h3 = (h3 + h1) | 0
  h4 = (h4 + h1) | 0
  return hex(h1) + hex(h2) + hex(h3) + hex(h4)
}
