/**
 * The fixed part of a Kafka record batch (magic 2), and control records. Everything here works on whole batches; single records
 * are the business of record-batch.ts.
 *
 *   0        8           12               16    17    21          23                27              35
 *   | offset | length    | leader epoch   |magic| crc | attributes| last off. delta | base timestamp|
 *   35              43            51      53              57        61
 *   | max timestamp | producer id | epoch | base sequence | count   | records (maybe compressed) …
 *
 * `length` counts from byte 12. The CRC-32C covers bytes 21 to the end, so a broker may set the offset and the leader epoch without it.
 */
import { crc32c } from '@node-rs/crc32'
import { CorruptBatchError, isMillraceError } from '../errors.ts'
import { codecOf, decompress } from './compression.ts'
import type { TopicPartition } from './kafka-cluster.ts'

/** Byte positions of the header's fields. */
export const BatchField = {
  BASE_OFFSET: 0,
  LENGTH: 8,
  LEADER_EPOCH: 12,
  MAGIC: 16,
  CRC: 17,
  ATTRIBUTES: 21,
  LAST_OFFSET_DELTA: 23,
  BASE_TIMESTAMP: 27,
  MAX_TIMESTAMP: 35,
  PRODUCER_ID: 43,
  PRODUCER_EPOCH: 51,
  BASE_SEQUENCE: 53,
  COUNT: 57,
  RECORDS: 61,
} as const

/** Bits of the attributes. */
export const BatchAttribute = {
  CODEC: 0x07,
  LOG_APPEND_TIME: 0x08,
  TRANSACTIONAL: 0x10,
  CONTROL: 0x20,
} as const

/** Bytes before what `length` counts. */
export const LOG_OVERHEAD = 12

/** Bounds that keep a damaged or hostile batch from taking the process down. */
export interface BatchLimits {
  /** Largest batch as it lies on the broker, in bytes. */
  readonly maxBatchBytes: number
  /** Largest size that compressed records may have once unpacked, in bytes. */
  readonly maxUncompressedBytes: number
}

/**
 * Limits unless told otherwise: 128 MiB on the wire, 64 MiB unpacked. Kafka's own defaults are 1 MiB each for a batch and for a
 * request, so a batch beyond these is damaged or an attack rather than data.
 */
export const DEFAULT_BATCH_LIMITS: BatchLimits = {
  maxBatchBytes: 128 * 1024 * 1024,
  maxUncompressedBytes: 64 * 1024 * 1024,
}

/** What a batch says of itself, without its records. Offsets are the broker's. */
export interface BatchHeader {
  /** The batch is `records[start, end)`. */
  readonly start: number
  readonly end: number
  readonly firstOffset: bigint
  readonly lastOffset: bigint
  readonly crc: number
  /** 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd. */
  readonly codec: number
  readonly baseTimestamp: bigint
  readonly maxTimestamp: bigint
  /** -1n for a producer that is not idempotent. */
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly baseSequence: number
  readonly isTransactional: boolean
  readonly isControl: boolean
  /** Records in it now; compaction makes it smaller than the offset range. */
  readonly count: number
}

/** What a control batch says: how a producer's transaction ended on this partition. */
export interface ControlRecord {
  /** 'other' = a type that says nothing about transactions (Kafka's own metadata log has some). */
  readonly type: 'commit' | 'abort' | 'other'
  /** Epoch of the transaction coordinator that wrote the marker; -1 for 'other'. */
  readonly coordinatorEpoch: number
}

/** The error of a damaged batch: says where and what. */
export function corruptBatch(
  place: TopicPartition,
  offset: bigint,
  reason: string,
  cause?: unknown,
): CorruptBatchError {
  const { topic, partition } = place
  return new CorruptBatchError(
    'MILLRACE_CORRUPT_BATCH',
    `Damaged record batch in ${topic}-${partition} at offset ${offset}: ${reason}`,
    { details: { topic, partition, offset, reason }, ...(cause === undefined ? {} : { cause }) },
  )
}

/**
 * Bytes of the batch that begins at `start`, or -1 when too few bytes are at hand to tell. The answer may be more than there is.
 * @throws CorruptBatchError for a format that is not magic 2 and for an impossible length.
 */
export function batchSize(
  records: Buffer,
  start: number,
  place: TopicPartition,
  expectedOffset: bigint,
  maxBatchBytes: number,
): number {
  if (records.length - start <= BatchField.MAGIC) return -1
  const magic = records[start + BatchField.MAGIC]!
  if (magic !== 2) {
    const old =
      magic < 2
        ? ' (a message set written by a producer older than Kafka 0.11, or log.message.format.version is below it)'
        : ''
    throw corruptBatch(place, expectedOffset, `message format magic ${magic} is not supported, only 2${old}`)
  }
  const size = LOG_OVERHEAD + records.readInt32BE(start + BatchField.LENGTH)
  if (size < BatchField.RECORDS) throw corruptBatch(place, expectedOffset, `impossible batch length ${size}`)
  if (size > maxBatchBytes) {
    throw corruptBatch(
      place,
      expectedOffset,
      `batch length ${size} is above the limit of ${maxBatchBytes} bytes`,
    )
  }
  return size
}

/** @throws CorruptBatchError unless the CRC of the whole batch `records[start, end)` is right. */
export function verifyCrc(
  records: Buffer,
  start: number,
  end: number,
  place: TopicPartition,
  offset: bigint,
): void {
  const stored = records.readUInt32BE(start + BatchField.CRC)
  const computed = crc32c(records.subarray(start + BatchField.ATTRIBUTES, end))
  if (stored !== computed) {
    throw corruptBatch(place, offset, `CRC-32C is ${hex(computed)}, the batch says ${hex(stored)}`)
  }
}

/**
 * Headers of all whole batches in fetched bytes, in order, control batches and aborted ones included; a cut-off batch at the end is left out.
 * Every CRC is checked: whoever decides a transaction's fate by this must not decide by damaged bytes.
 */
export function readBatchHeaders(
  records: Buffer,
  place: TopicPartition,
  limits: BatchLimits = DEFAULT_BATCH_LIMITS,
): BatchHeader[] {
  const headers: BatchHeader[] = []
  let expected = 0n
  for (let start = 0; start < records.length; ) {
    const size = batchSize(records, start, place, expected, limits.maxBatchBytes)
    if (size < 0 || start + size > records.length) break
    const header = readBatchHeader(records, start, start + size, place)
    if (header.firstOffset < expected) {
      throw corruptBatch(place, header.firstOffset, `offsets go back: ${expected} was expected at the least`)
    }
    headers.push(header)
    expected = header.lastOffset + 1n
    start += size
  }
  return headers
}

/** Header of the whole batch `records[start, end)`. @throws CorruptBatchError when its CRC or its counts are wrong. */
export function readBatchHeader(
  records: Buffer,
  start: number,
  end: number,
  place: TopicPartition,
): BatchHeader {
  const firstOffset = records.readBigInt64BE(start)
  verifyCrc(records, start, end, place, firstOffset)
  const attributes = records.readInt16BE(start + BatchField.ATTRIBUTES)
  const lastOffsetDelta = records.readInt32BE(start + BatchField.LAST_OFFSET_DELTA)
  const count = records.readInt32BE(start + BatchField.COUNT)
  checkCounts(place, firstOffset, lastOffsetDelta, count)
  return {
    start,
    end,
    firstOffset,
    lastOffset: firstOffset + BigInt(lastOffsetDelta),
    crc: records.readUInt32BE(start + BatchField.CRC),
    codec: attributes & BatchAttribute.CODEC,
    baseTimestamp: records.readBigInt64BE(start + BatchField.BASE_TIMESTAMP),
    maxTimestamp: records.readBigInt64BE(start + BatchField.MAX_TIMESTAMP),
    producerId: records.readBigInt64BE(start + BatchField.PRODUCER_ID),
    producerEpoch: records.readInt16BE(start + BatchField.PRODUCER_EPOCH),
    baseSequence: records.readInt32BE(start + BatchField.BASE_SEQUENCE),
    isTransactional: (attributes & BatchAttribute.TRANSACTIONAL) !== 0,
    isControl: (attributes & BatchAttribute.CONTROL) !== 0,
    count,
  }
}

/** @throws CorruptBatchError when a batch's offsets and record count contradict each other. */
export function checkCounts(
  place: TopicPartition,
  offset: bigint,
  lastOffsetDelta: number,
  count: number,
): void {
  if (offset < 0n || lastOffsetDelta < 0 || count < 0 || count > lastOffsetDelta + 1) {
    throw corruptBatch(place, offset, `${count} records in an offset range of ${lastOffsetDelta + 1}`)
  }
}

/**
 * Reads a control batch. A compacted one may have lost its record: then the answer is 'other'.
 * Layout: length, attributes, two deltas, key length, key (version int16, type int16), value length, value (version int16, coordinator epoch int32).
 */
export function readControlRecord(
  records: Buffer,
  batch: Pick<BatchHeader, 'start' | 'end' | 'count' | 'firstOffset'>,
  place: TopicPartition,
): ControlRecord {
  if (batch.count === 0) return { type: 'other', coordinatorEpoch: -1 }
  let at = batch.start + BatchField.RECORDS
  const damaged = () => corruptBatch(place, batch.firstOffset, 'control record is cut off')
  const skipVarint = () => {
    for (let bytes = 0; bytes < 10; bytes++) if (at >= batch.end || records[at++]! < 128) return
    throw damaged()
  }
  const shortVarint = (): number => {
    const byte = at < batch.end ? records[at++]! : 255
    if (byte > 127 || byte & 1) throw damaged()
    return byte >>> 1
  }
  skipVarint()
  at++
  skipVarint()
  skipVarint()
  const keyEnd = shortVarint() + at
  if (keyEnd - at < 4 || keyEnd > batch.end) throw damaged()
  const type = records.readInt16BE(at + 2)
  if (type !== 0 && type !== 1) return { type: 'other', coordinatorEpoch: -1 }
  at = keyEnd
  const valueLength = shortVarint()
  if (valueLength < 6 || at + valueLength > batch.end) throw damaged()
  return { type: type === 1 ? 'commit' : 'abort', coordinatorEpoch: records.readInt32BE(at + 2) }
}

/** The records of a batch, unpacked. @throws CorruptBatchError when they do not unpack, or to more than the limit. */
export function unpackRecords(
  records: Buffer,
  start: number,
  end: number,
  codec: number,
  place: TopicPartition,
  offset: bigint,
  maxUncompressedBytes: number,
): Buffer {
  const packed = records.subarray(start + BatchField.RECORDS, end)
  if (codec === 0) return packed
  const compression = codecOf(codec)
  if (compression === undefined) throw corruptBatch(place, offset, `unknown compression codec ${codec}`)
  try {
    return decompress(compression, packed, maxUncompressedBytes)
  } catch (error) {
    if (isMillraceError(error)) throw error
    throw corruptBatch(
      place,
      offset,
      `${compression} data does not unpack: ${(error as Error).message}`,
      error,
    )
  }
}

function hex(crc: number): string {
  return `0x${crc.toString(16).padStart(8, '0')}`
}
