/**
 * A walk over an LZ4 frame that unpacks nothing. The native decoder has no output limit, so this one reads what the frame could
 * grow to before the decoder sees it.
 *
 *   magic | FLG BD [content size] [dictionary id] HC | block size, block [checksum] … | 0 | [content checksum]
 */

const MAGIC = 0x184d2204
/** An LZ4 sequence yields at most 255 bytes for each byte of input. */
const MAX_EXPANSION = 255

const Flag = {
  DICTIONARY: 0x01,
  CONTENT_CHECKSUM: 0x04,
  CONTENT_SIZE: 0x08,
  BLOCK_CHECKSUM: 0x10,
  VERSION: 0xc0,
} as const

/**
 * Checks that `bytes` is exactly one LZ4 frame that unpacks to at most `limit` bytes.
 * The bound counts each block at its largest (the frame's block size, or 255 times its bytes), so it is never too low.
 * @throws Error saying what is wrong.
 */
export function checkLz4Frame(bytes: Buffer, limit: number): void {
  if (bytes.length < 11 || bytes.readUInt32LE(0) !== MAGIC) throw new Error('not an LZ4 frame')
  const flags = bytes[4]!
  if ((flags & Flag.VERSION) !== 0x40) throw new Error('unknown LZ4 frame version')
  if (flags & Flag.DICTIONARY) throw new Error('LZ4 frame needs a dictionary')
  const blockSizeId = (bytes[5]! >>> 4) & 7
  if (blockSizeId < 4) throw new Error(`unknown LZ4 block size ${blockSizeId}`)
  const maxBlock = 1 << (8 + 2 * blockSizeId)
  let at = 6
  if (flags & Flag.CONTENT_SIZE) {
    if (bytes.readBigUInt64LE(at) > BigInt(limit)) throw tooLarge(limit)
    at += 8
  }
  at++
  let bound = 0
  for (;;) {
    if (at + 4 > bytes.length) throw new Error('LZ4 frame is cut off')
    const word = bytes.readUInt32LE(at)
    at += 4
    if (word === 0) break
    const size = word & 0x7fffffff
    if (size > maxBlock) throw new Error(`LZ4 block of ${size} bytes is above the frame's block size`)
    bound += word > 0x7fffffff ? size : Math.min(maxBlock, size * MAX_EXPANSION)
    if (bound > limit) throw tooLarge(limit)
    at += size + (flags & Flag.BLOCK_CHECKSUM ? 4 : 0)
  }
  if (flags & Flag.CONTENT_CHECKSUM) at += 4
  if (at !== bytes.length) throw new Error('LZ4 frame does not end where the batch ends')
}

function tooLarge(limit: number): Error {
  return new Error(`it would unpack to more than ${limit} bytes`)
}
