/**
 * The digest that a committable carries for each partition: proof that a transaction's records can still be read as they were written,
 * checked before any of them is written again (healing).
 *
 * It is a chain over the partition's batches in log order. A link is the CRC-32C of the batch's records before compression, not the
 * CRC in the header: a broker rewrites the header when the topic has log append time, and packs the records anew when the topic has a
 * compression type of its own. The record bytes stay the same.
 */
import { crc32c } from '@node-rs/crc32'
import type { TopicPartition } from './kafka-cluster.ts'
import {
  type BatchHeader,
  type BatchLimits,
  DEFAULT_BATCH_LIMITS,
  unpackRecords,
} from './record-batch-header.ts'

/** The digest of no batches. */
export const EMPTY_DIGEST = 0

const link = Buffer.alloc(4)

/** The digest with one more batch; `recordsCrc` comes from `RecordBatchBuilder.recordsCrc` or `recordsCrc`. Order matters. */
export function extendDigest(digest: number, recordsCrc: number): number {
  link.writeUInt32BE(recordsCrc)
  return crc32c(link, digest)
}

/** CRC-32C of a fetched batch's records before compression. @throws CorruptBatchError when they do not unpack. */
export function recordsCrc(
  records: Buffer,
  header: BatchHeader,
  place: TopicPartition,
  limits: BatchLimits = DEFAULT_BATCH_LIMITS,
): number {
  const { start, end, codec, firstOffset } = header
  return crc32c(unpackRecords(records, start, end, codec, place, firstOffset, limits.maxUncompressedBytes))
}

/** A digest as committables have it: eight hexadecimal digits. */
export function digestText(digest: number): string {
  return digest.toString(16).padStart(8, '0')
}
