/**
 * Snappy as Kafka's Java client writes it (the xerial stream): a header, then raw snappy blocks, each behind its length.
 * Other clients write one raw snappy block without a header; both are read, the stream is written.
 *
 *   82 'SNAPPY' 0 | version 1 (int32) | compatible with 1 (int32) | length (int32), block | length, block | …
 */

const MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0])
const HEADER = Buffer.concat([MAGIC, Buffer.from([0, 0, 0, 1, 0, 0, 0, 1])])
/** Snappy itself looks back no further than 64 KiB, so larger blocks gain nothing. */
const BLOCK_BYTES = 65_536

/** Packs bytes into a xerial stream; `compressBlock` makes one raw snappy block. */
export function packXerial(bytes: Buffer, compressBlock: (block: Uint8Array) => Buffer): Buffer {
  const parts: Buffer[] = [HEADER]
  for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
    const block = compressBlock(bytes.subarray(at, at + BLOCK_BYTES))
    const length = Buffer.allocUnsafe(4)
    length.writeInt32BE(block.length)
    parts.push(length, block)
  }
  return Buffer.concat(parts)
}

/**
 * Unpacks a xerial stream or a raw block to at most `limit` bytes; `uncompressBlock` unpacks one raw block.
 * @throws Error saying what is wrong.
 */
export function unpackSnappy(
  bytes: Buffer,
  limit: number,
  uncompressBlock: (block: Buffer) => Buffer,
): Buffer {
  if (bytes.length < HEADER.length || bytes.compare(MAGIC, 0, MAGIC.length, 0, MAGIC.length) !== 0) {
    checkBlock(bytes, limit)
    return uncompressBlock(bytes)
  }
  const blocks: Buffer[] = []
  let total = 0
  for (let at = HEADER.length; at < bytes.length; ) {
    const length = at + 4 <= bytes.length ? bytes.readInt32BE(at) : -1
    at += 4
    if (length <= 0 || at + length > bytes.length) throw new Error('snappy stream is cut off')
    const block = bytes.subarray(at, at + length)
    total += checkBlock(block, limit - total)
    blocks.push(uncompressBlock(block))
    at += length
  }
  return blocks.length === 1 ? blocks[0]! : Buffer.concat(blocks)
}

/** The size that a raw block says it unpacks to; the decoder holds it to that. */
function checkBlock(block: Buffer, limit: number): number {
  let size = 0
  for (let i = 0; i < 5; i++) {
    const byte = block[i]
    if (byte === undefined) break
    size += (byte & 0x7f) * 2 ** (7 * i)
    if (byte < 0x80) {
      if (size > limit) throw new Error(`it would unpack to more bytes than the limit allows (${limit} left)`)
      return size
    }
  }
  throw new Error('snappy block has no length')
}
