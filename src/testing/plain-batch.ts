/**
 * Record batches (v2) written and read the plain way: written uncompressed, one record at a time, for the simulated broker and the contract suite.
 * It shares nothing but compression with kafka/record-batch.ts, on purpose: where the two disagree, one of them is wrong and a test says so.
 *
 *   0 base offset │ 8 length │ 12 leader epoch │ 16 magic │ 17 crc │ 21 attributes │ 23 last offset delta │ 27 base timestamp
 *   35 max timestamp │ 43 producer id │ 51 producer epoch │ 53 base sequence │ 57 count │ 61 records
 */
import { crc32c } from '@node-rs/crc32'
import { CorruptBatchError } from '../errors.ts'
import { codecOf, decompress } from '../kafka/compression.ts'

/** Bytes before the first record. */
export const BATCH_HEADER_BYTES = 61
const OVERHEAD_BYTES = 12
const ATTRIBUTES_AT = 21
const COMPRESSION_MASK = 0x07
const LOG_APPEND_TIME = 0x08
const TRANSACTIONAL = 0x10
const CONTROL = 0x20
const NO_ATTRIBUTES = Buffer.alloc(1)

/** The fixed part of a batch. */
export interface BatchHeader {
  readonly baseOffset: bigint
  /** Whole size, length field included. */
  readonly sizeBytes: number
  readonly leaderEpoch: number
  readonly transactional: boolean
  /** The broker has stamped it with its own time. */
  readonly logAppendTime: boolean
  readonly control: boolean
  readonly lastOffsetDelta: number
  readonly baseTimestamp: bigint
  readonly maxTimestamp: bigint
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly baseSequence: number
  readonly count: number
}

/** A record of a batch. */
export interface PlainRecord {
  readonly offset: bigint
  readonly timestamp: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: readonly (readonly [string, Buffer | null])[]
}

/** A record to write. `offsetDelta` counts up from 0 unless given. */
export interface PlainRecordInput {
  readonly key?: Buffer | string | null
  readonly value: Buffer | string | null
  readonly timestamp?: number
  readonly offsetDelta?: number
  readonly headers?: readonly (readonly [string, Buffer | null])[]
}

/** What a batch is made of. */
export interface PlainBatchInput {
  readonly records: readonly PlainRecordInput[]
  readonly baseOffset?: bigint
  readonly leaderEpoch?: number
  readonly producerId?: bigint
  readonly producerEpoch?: number
  readonly baseSequence?: number
  readonly transactional?: boolean
  readonly control?: boolean
  /** For records without a timestamp of their own. */
  readonly timestamp?: number
  /** Larger than the last record's for a batch whose tail was compacted away. */
  readonly lastOffsetDelta?: number
}

/** Header of the batch at `at`, or undefined if it isn't whole. */
export function readBatchHeader(buffer: Buffer, at = 0): BatchHeader | undefined {
  if (buffer.length < at + BATCH_HEADER_BYTES) return undefined
  const sizeBytes = buffer.readInt32BE(at + 8) + OVERHEAD_BYTES
  if (sizeBytes < BATCH_HEADER_BYTES || buffer.length < at + sizeBytes) return undefined
  const attributes = buffer.readInt16BE(at + ATTRIBUTES_AT)
  return {
    baseOffset: buffer.readBigInt64BE(at),
    sizeBytes,
    leaderEpoch: buffer.readInt32BE(at + 12),
    transactional: (attributes & TRANSACTIONAL) !== 0,
    logAppendTime: (attributes & LOG_APPEND_TIME) !== 0,
    control: (attributes & CONTROL) !== 0,
    lastOffsetDelta: buffer.readInt32BE(at + 23),
    baseTimestamp: buffer.readBigInt64BE(at + 27),
    maxTimestamp: buffer.readBigInt64BE(at + 35),
    producerId: buffer.readBigInt64BE(at + 43),
    producerEpoch: buffer.readInt16BE(at + 51),
    baseSequence: buffer.readInt32BE(at + 53),
    count: buffer.readInt32BE(at + 57),
  }
}

/** True if magic and checksum of a whole batch are right. */
export function isIntact(batch: Buffer): boolean {
  return batch[16] === 2 && batch.readUInt32BE(17) === crc32c(batch.subarray(ATTRIBUTES_AT))
}

/** Gives a stored batch its place in the log; the checksum doesn't cover these fields. */
export function placeBatch(batch: Buffer, baseOffset: bigint, leaderEpoch: number): void {
  batch.writeBigInt64BE(baseOffset, 0)
  batch.writeInt32BE(leaderEpoch, 12)
}

/** Stamps a stored batch with the broker's time (topics with LogAppendTime). */
export function stampBatch(batch: Buffer, timestamp: number): void {
  batch.writeInt16BE(batch.readInt16BE(ATTRIBUTES_AT) | LOG_APPEND_TIME, ATTRIBUTES_AT)
  batch.writeBigInt64BE(BigInt(timestamp), 35)
  batch.writeUInt32BE(crc32c(batch.subarray(ATTRIBUTES_AT)), 17)
}

const INT32_MAX = 0x7fff_ffff
/** Bytes that a number takes at the most. */
const VARINT_BYTES = 10

/** Writes zig-zag varints and length-prefixed bytes into a buffer that grows. */
class Pen {
  #buffer = Buffer.allocUnsafe(256)
  #at = 0

  get length(): number {
    return this.#at
  }

  varint(value: number): void {
    this.#reserve(VARINT_BYTES)
    if (value >= -INT32_MAX && value <= INT32_MAX) {
      let rest = ((value << 1) ^ (value >> 31)) >>> 0
      while (rest > 0x7f) {
        this.#buffer[this.#at++] = (rest & 0x7f) | 0x80
        rest >>>= 7
      }
      this.#buffer[this.#at++] = rest
      return
    }
    const wide = BigInt(value)
    let rest = BigInt.asUintN(64, (wide << 1n) ^ (wide >> 63n))
    while (rest > 0x7fn) {
      this.#buffer[this.#at++] = Number(rest & 0x7fn) | 0x80
      rest >>= 7n
    }
    this.#buffer[this.#at++] = Number(rest)
  }

  bytes(bytes: Buffer): void {
    this.#reserve(bytes.length)
    this.#at += bytes.copy(this.#buffer, this.#at)
  }

  lengthPrefixed(bytes: Buffer | null): void {
    this.varint(bytes === null ? -1 : bytes.length)
    if (bytes !== null) this.bytes(bytes)
  }

  /** What was written; the next word begins an empty sheet. */
  take(): Buffer {
    const written = this.#buffer.subarray(0, this.#at)
    this.#at = 0
    return written
  }

  #reserve(count: number): void {
    if (this.#at + count <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(2 * (this.#at + count))
    this.#buffer.copy(larger, 0, 0, this.#at)
    this.#buffer = larger
  }
}

function toBytes(value: Buffer | string | null | undefined): Buffer | null {
  return value === null || value === undefined ? null : Buffer.from(value as string)
}

/** Encodes one uncompressed batch. */
export function encodePlainBatch(input: PlainBatchInput): Buffer {
  const stamps = input.records.map((record) => record.timestamp ?? input.timestamp ?? 0)
  const baseTimestamp = stamps[0] ?? input.timestamp ?? 0
  const body = new Pen()
  const pen = new Pen()
  for (const [index, record] of input.records.entries()) {
    pen.bytes(NO_ATTRIBUTES)
    pen.varint(stamps[index]! - baseTimestamp)
    pen.varint(record.offsetDelta ?? index)
    pen.lengthPrefixed(toBytes(record.key))
    pen.lengthPrefixed(toBytes(record.value))
    pen.varint(record.headers?.length ?? 0)
    for (const [name, value] of record.headers ?? []) {
      pen.lengthPrefixed(Buffer.from(name))
      pen.lengthPrefixed(value)
    }
    body.lengthPrefixed(pen.take())
  }
  const batch = Buffer.alloc(BATCH_HEADER_BYTES + body.length)
  body.take().copy(batch, BATCH_HEADER_BYTES)
  batch.writeInt32BE(batch.length - OVERHEAD_BYTES, 8)
  placeBatch(batch, input.baseOffset ?? 0n, input.leaderEpoch ?? -1)
  batch[16] = 2
  batch.writeInt16BE((input.transactional ? TRANSACTIONAL : 0) | (input.control ? CONTROL : 0), ATTRIBUTES_AT)
  batch.writeInt32BE(
    input.lastOffsetDelta ?? input.records.at(-1)?.offsetDelta ?? input.records.length - 1,
    23,
  )
  batch.writeBigInt64BE(BigInt(baseTimestamp), 27)
  batch.writeBigInt64BE(BigInt(stamps.reduce((max, stamp) => Math.max(max, stamp), baseTimestamp)), 35)
  batch.writeBigInt64BE(input.producerId ?? -1n, 43)
  batch.writeInt16BE(input.producerEpoch ?? -1, 51)
  batch.writeInt32BE(input.baseSequence ?? -1, 53)
  batch.writeInt32BE(input.records.length, 57)
  batch.writeUInt32BE(crc32c(batch.subarray(ATTRIBUTES_AT)), 17)
  return batch
}

/** A commit or abort marker as the broker writes it. */
export function encodeControlBatch(marker: {
  readonly commit: boolean
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly coordinatorEpoch: number
  readonly timestamp: number
}): Buffer {
  const key = Buffer.from([0, 0, 0, marker.commit ? 1 : 0])
  const value = Buffer.alloc(6)
  value.writeInt32BE(marker.coordinatorEpoch, 2)
  return encodePlainBatch({
    records: [{ key, value }],
    producerId: marker.producerId,
    producerEpoch: marker.producerEpoch,
    transactional: true,
    control: true,
    timestamp: marker.timestamp,
  })
}

/** 'COMMIT' or 'ABORT' of a control batch. */
export function markerOf(batch: Buffer): 'COMMIT' | 'ABORT' {
  return decodePlainRecords(batch)[0]!.key!.readInt16BE(2) === 1 ? 'COMMIT' : 'ABORT'
}

/** Reads zig-zag varints, up to 2^53, and length-prefixed bytes. */
class Cursor {
  readonly #buffer: Buffer
  #at = 0

  constructor(buffer: Buffer) {
    this.#buffer = buffer
  }

  varint(): number {
    let value = 0
    let scale = 1
    for (;;) {
      const byte = this.#buffer[this.#at++]
      if (byte === undefined)
        throw new CorruptBatchError('MILLRACE_CORRUPT_BATCH', 'A record ends in the middle of a number.')
      value += (byte & 0x7f) * scale
      scale *= 0x80
      if (byte < 0x80) return value % 2 === 0 ? value / 2 : -(value + 1) / 2
    }
  }

  bytes(): Buffer | null {
    const length = this.varint()
    if (length < 0) return null
    this.#at += length
    return this.#buffer.subarray(this.#at - length, this.#at)
  }

  skip(count: number): void {
    this.#at += count
  }
}

/** Most bytes that the records of one batch may unpack to. */
const UNPACKED_LIMIT = 64 * 1024 * 1024

/** Records of one whole batch that starts at byte 0. @throws CorruptBatchError for a cut batch or an unknown codec. */
export function decodePlainRecords(batch: Buffer): PlainRecord[] {
  const header = readBatchHeader(batch)
  const attributes = header === undefined ? 0 : batch.readInt16BE(ATTRIBUTES_AT)
  const compression = codecOf(attributes & COMPRESSION_MASK)
  if (header === undefined || compression === undefined) {
    throw new CorruptBatchError(
      'MILLRACE_CORRUPT_BATCH',
      'The batch is cut off or packed with an unknown codec.',
    )
  }
  const packed = batch.subarray(BATCH_HEADER_BYTES, header.sizeBytes)
  const cursor = new Cursor(decompress(compression, packed, UNPACKED_LIMIT))
  const appendTime = (attributes & LOG_APPEND_TIME) !== 0
  const baseTimestamp = Number(header.baseTimestamp)
  return Array.from({ length: header.count }, () => {
    cursor.varint()
    cursor.skip(1)
    const delta = cursor.varint()
    const timestamp = appendTime ? Number(header.maxTimestamp) : baseTimestamp + delta
    const offset = header.baseOffset + BigInt(cursor.varint())
    const key = cursor.bytes()
    const value = cursor.bytes()
    const headers = Array.from(
      { length: cursor.varint() },
      () => [cursor.bytes()!.toString(), cursor.bytes()] as const,
    )
    return { offset, timestamp, key, value, headers }
  })
}

/** Splits fetched bytes into whole batches; a cut-off tail is left out. */
export function splitBatches(records: Buffer): Buffer[] {
  const batches: Buffer[] = []
  for (
    let at = 0, header = readBatchHeader(records, at);
    header !== undefined;
    header = readBatchHeader(records, at)
  ) {
    batches.push(records.subarray(at, at + header.sizeBytes))
    at += header.sizeBytes
  }
  return batches
}
