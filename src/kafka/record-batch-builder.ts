/**
 * Writes records into a Kafka record batch (magic 2). Text goes straight into the batch's bytes, without a buffer in between.
 *
 * A record's length stands before it as a varint, and so do its key's and value's. All of them are guessed as if the text were ASCII,
 * which it mostly is; when it is not and a length needs more bytes than were left for it, what follows is moved.
 */
import { crc32c } from '@node-rs/crc32'
import { IllegalTransitionError, SerializationError } from '../errors.ts'
import { BatchBufferPool } from './batch-buffer-pool.ts'
import { type Compression, codecNumber, compress } from './compression.ts'
import { crc32cAppend } from './crc32c-append.ts'
import { BatchAttribute, BatchField, LOG_OVERHEAD } from './record-batch-header.ts'
import { varintSize, writeVarint, writeVarlong } from './varint.ts'

/** Varints and attributes of a record at their longest: length 5, attributes 1, timestamp 10, offset 5, key 5, value 5, headers 5. */
const RECORD_OVERHEAD = 36
/** Text up to this length is written byte by byte: the call into the engine costs more. */
const SHORT_TEXT = 20

/** A key, value or header value: bytes, text (written as UTF-8), or null. */
export type RecordData = Uint8Array | string | null

/** Who writes a batch. A producer without idempotence is `NO_PRODUCER`. */
export interface BatchProducerFields {
  readonly producerId: bigint
  readonly producerEpoch: number
  /** Sequence number of the batch's first record. */
  readonly baseSequence: number
  readonly transactional: boolean
}

/** The fields of a batch whose producer is not idempotent. */
export const NO_PRODUCER: BatchProducerFields = {
  producerId: -1n,
  producerEpoch: -1,
  baseSequence: -1,
  transactional: false,
}

export interface RecordBatchBuilderOptions {
  /** Size at which a batch is full, header included, before compression. */
  readonly maxBytes: number
  readonly compression: Compression
  /** A record that alone is larger than `maxBytes` gets a batch of its own up to this size. */
  readonly maxRecordBatchBytes?: number
  /** For messages of errors. */
  readonly topic?: string
  readonly partition?: number
  /** Where buffers come from; share it among builders. */
  readonly pool?: BatchBufferPool
}

/**
 * One batch in the making. `append` until it answers false, then `build`, then `reset`.
 * The built bytes are the builder's no longer: they stay as they are until somebody gives them to `release`.
 */
export class RecordBatchBuilder {
  /** Records so far. */
  count = 0
  private position: number = BatchField.RECORDS
  private buffer: Buffer = NO_BUFFER
  /** Bytes of `buffer` that may be filled: the lesser of its size and `maxBytes`. */
  private limit = 0
  private built = false
  private baseTimestamp = 0
  private maxTimestamp = 0
  private lastRecordsCrc = 0
  /** Buffer to start the next batch with: as large as the last batch was, so that a slow partition holds little memory. */
  private startSize = 0
  private maxBytes: number
  private readonly maxRecordBatchBytes: number
  private readonly compression: Compression
  private readonly pool: BatchBufferPool
  private readonly place: string
  readonly options: RecordBatchBuilderOptions

  constructor(options: RecordBatchBuilderOptions) {
    this.options = options
    this.maxBytes = options.maxBytes
    this.maxRecordBatchBytes = Math.max(options.maxRecordBatchBytes ?? 1_048_576, options.maxBytes)
    this.compression = options.compression
    this.pool = options.pool ?? new BatchBufferPool()
    this.place = options.topic === undefined ? '' : ` for ${options.topic}-${options.partition ?? '?'}`
  }

  /** Bytes of the batch so far, header included, before compression. */
  get sizeBytes(): number {
    return this.position
  }

  /** Bytes of the records so far. */
  get filledBytes(): number {
    return this.position - BatchField.RECORDS
  }

  /** CRC-32C of the last built batch's records before compression: the link that `extendDigest` takes. */
  get recordsCrc(): number {
    return this.lastRecordsCrc
  }

  /**
   * Adds a record; false when the batch is full, and then nothing was written. `timestamp` is epoch ms, or -1 for none.
   * @throws SerializationError for a record above `maxRecordBatchBytes`, or with a timestamp that is no whole number.
   */
  append(
    key: RecordData,
    value: RecordData,
    timestamp: number,
    headers?: readonly (readonly [string, RecordData])[],
  ): boolean {
    const keyLength = key === null ? 0 : key.length
    const valueLength = value === null ? 0 : value.length
    // A UTF-16 unit becomes three bytes at the most.
    const bound =
      RECORD_OVERHEAD +
      (typeof key === 'string' ? keyLength * 3 : keyLength) +
      (typeof value === 'string' ? valueLength * 3 : valueLength) +
      (headers === undefined || headers.length === 0 ? 0 : headersBound(headers))
    if (this.position + bound > this.limit && !this.makeRoom(key, value, timestamp, headers)) return false

    const { buffer, count } = this
    if (count === 0) {
      checkTimestamp(timestamp, this.place)
      this.baseTimestamp = timestamp
      this.maxTimestamp = timestamp
    } else if (timestamp > this.maxTimestamp) {
      checkTimestamp(timestamp, this.place)
      this.maxTimestamp = timestamp
    } else if (!(timestamp >= -1 && Math.floor(timestamp) === timestamp))
      checkTimestamp(timestamp, this.place)
    const timestampDelta = timestamp - this.baseTimestamp

    // Bytes left for the length: right unless text is not ASCII, there are headers, or the size lies next to a step of the varint.
    const start = this.position
    const lengthSize = varintSize(keyLength + valueLength + 9)
    let p = start + lengthSize
    buffer[p++] = 0
    if (timestampDelta >= 0 && timestampDelta < 8192) {
      if (timestampDelta < 64) buffer[p++] = timestampDelta << 1
      else {
        buffer[p++] = ((timestampDelta << 1) & 127) | 128
        buffer[p++] = timestampDelta >>> 6
      }
    } else p = writeVarlong(buffer, p, timestampDelta)
    if (count < 64) buffer[p++] = count << 1
    else if (count < 8192) {
      buffer[p++] = ((count << 1) & 127) | 128
      buffer[p++] = count >>> 6
    } else p = writeVarint(buffer, p, count)
    p = writeData(buffer, p, key)
    p = writeData(buffer, p, value)
    if (headers === undefined || headers.length === 0) buffer[p++] = 0
    else p = writeHeaders(buffer, p, headers)

    const length = p - start - lengthSize
    if (length >= 64 && length < 8192 && lengthSize === 2) {
      buffer[start] = ((length << 1) & 127) | 128
      buffer[start + 1] = length >>> 6
    } else p = this.finishLength(start, lengthSize, p)
    this.position = p
    this.count = count + 1
    return true
  }

  /**
   * The finished batch, base offset 0. The caller owns the bytes; call `reset` before the next record.
   * @throws MillraceError MILLRACE_MISSING_PACKAGE for a codec that is not installed.
   */
  build(fields: BatchProducerFields): Buffer {
    const records = this.buffer.subarray(BatchField.RECORDS, this.position)
    this.lastRecordsCrc = crc32c(records)
    let batch = this.buffer
    let recordsCrc = this.lastRecordsCrc
    let size = this.position
    if (this.compression !== 'none') {
      const packed = compress(this.compression, records)
      size = BatchField.RECORDS + packed.length
      batch = this.pool.acquire(size)
      batch.set(packed, BatchField.RECORDS)
      recordsCrc = crc32c(packed)
      this.pool.release(this.buffer)
    }
    this.buffer = NO_BUFFER
    this.limit = 0
    this.startSize = this.position
    this.built = true
    const attributes =
      codecNumber(this.compression) | (fields.transactional ? BatchAttribute.TRANSACTIONAL : 0)
    batch.writeBigInt64BE(0n, BatchField.BASE_OFFSET)
    batch.writeInt32BE(size - LOG_OVERHEAD, BatchField.LENGTH)
    batch.writeInt32BE(-1, BatchField.LEADER_EPOCH)
    batch[BatchField.MAGIC] = 2
    batch.writeInt16BE(attributes, BatchField.ATTRIBUTES)
    batch.writeInt32BE(this.count - 1, BatchField.LAST_OFFSET_DELTA)
    batch.writeBigInt64BE(BigInt(this.baseTimestamp), BatchField.BASE_TIMESTAMP)
    batch.writeBigInt64BE(BigInt(this.maxTimestamp), BatchField.MAX_TIMESTAMP)
    batch.writeBigInt64BE(fields.producerId, BatchField.PRODUCER_ID)
    batch.writeInt16BE(fields.producerEpoch, BatchField.PRODUCER_EPOCH)
    batch.writeInt32BE(fields.baseSequence, BatchField.BASE_SEQUENCE)
    batch.writeInt32BE(this.count, BatchField.COUNT)
    const headerCrc = crc32c(batch.subarray(BatchField.ATTRIBUTES, BatchField.RECORDS))
    batch.writeUInt32BE(crc32cAppend(headerCrc, recordsCrc, size - BatchField.RECORDS), BatchField.CRC)
    return batch.subarray(0, size)
  }

  /** Gives the bytes of a built batch back, once nobody needs them. */
  release(batch: Buffer): void {
    this.pool.release(batch)
  }

  /** Makes batches no larger than `maxBytes` from now on. */
  shrink(maxBytes: number): void {
    this.maxBytes = Math.min(this.maxBytes, maxBytes)
    this.limit = Math.min(this.limit, this.maxBytes)
  }

  /** Begins the next batch; records that were not built are dropped. */
  reset(): void {
    if (this.buffer !== NO_BUFFER) this.pool.release(this.buffer)
    this.buffer = NO_BUFFER
    this.limit = 0
    this.count = 0
    this.position = BatchField.RECORDS
    this.built = false
  }

  /** Writes a record's length before it, moving the record if its length needs another number of bytes than were left. */
  private finishLength(start: number, lengthSize: number, end: number): number {
    const length = end - start - lengthSize
    const actualSize = varintSize(length)
    if (actualSize !== lengthSize) this.buffer.copyWithin(start + actualSize, start + lengthSize, end)
    return writeVarint(this.buffer, start, length) + length
  }

  /** Called when a record might not fit: gets a first or a larger buffer, or says no. */
  private makeRoom(
    key: RecordData,
    value: RecordData,
    timestamp: number,
    headers: readonly (readonly [string, RecordData])[] | undefined,
  ): boolean {
    if (this.built) throw new IllegalTransitionError('record batch builder', 'built', 'append before reset')
    const size =
      RECORD_OVERHEAD +
      byteLength(key) +
      byteLength(value) +
      (headers === undefined
        ? 0
        : headers.reduce((sum, [k, v]) => sum + 10 + Buffer.byteLength(k) + byteLength(v), 0))
    const needed = this.position + size
    if (needed > this.maxBytes) {
      if (this.count > 0) return false
      if (needed > this.maxRecordBatchBytes) {
        throw new SerializationError(
          'MILLRACE_SERIALIZATION',
          `A record of ${size - RECORD_OVERHEAD} bytes${this.place} is above the limit of ${this.maxRecordBatchBytes} bytes for a batch`,
          {
            details: {
              topic: this.options.topic,
              partition: this.options.partition,
              size: size - RECORD_OVERHEAD,
              limit: this.maxRecordBatchBytes,
              timestamp,
            },
          },
        )
      }
    }
    if (needed > this.buffer.length) {
      const wanted = this.count === 0 ? this.startSize : this.buffer.length * 4
      const larger = this.pool.acquire(Math.max(needed, Math.min(wanted, this.maxBytes)))
      this.buffer.copy(larger, 0, 0, this.position)
      if (this.buffer !== NO_BUFFER) this.pool.release(this.buffer)
      this.buffer = larger
    }
    this.limit = Math.min(this.buffer.length, this.maxBytes)
    return true
  }
}

const NO_BUFFER = Buffer.alloc(0)

function checkTimestamp(timestamp: number, place: string): void {
  if (timestamp >= -1 && Number.isSafeInteger(timestamp)) return
  throw new SerializationError(
    'MILLRACE_SERIALIZATION',
    `A record's timestamp${place} is ${timestamp}; it must be whole milliseconds since 1970, or -1 for none`,
    { details: { timestamp } },
  )
}

function byteLength(data: RecordData): number {
  return data === null ? 0 : typeof data === 'string' ? Buffer.byteLength(data) : data.length
}

/** Bytes that headers take at the most. */
function headersBound(headers: readonly (readonly [string, RecordData])[]): number {
  let bound = 0
  for (const [key, value] of headers) {
    bound +=
      10 + key.length * 3 + (value === null ? 0 : typeof value === 'string' ? value.length * 3 : value.length)
  }
  return bound
}

/** Writes a length and the bytes behind it; -1 and nothing for null. Returns the position behind. */
function writeData(buffer: Buffer, at: number, data: RecordData): number {
  if (typeof data === 'string') return writeText(buffer, at, data)
  if (data === null) {
    buffer[at] = 1
    return at + 1
  }
  const p = writeVarint(buffer, at, data.length)
  buffer.set(data, p)
  return p + data.length
}

/** Writes text as UTF-8 behind its length. */
function writeText(buffer: Buffer, at: number, text: string): number {
  const chars = text.length
  if (chars <= SHORT_TEXT) {
    let p = at + 1
    let i = 0
    for (; i < chars; i++) {
      const unit = text.charCodeAt(i)
      if (unit > 127) break
      buffer[p++] = unit
    }
    if (i === chars) {
      buffer[at] = chars << 1
      return p
    }
  }
  const guess = chars < 64 ? 1 : chars < 8192 ? 2 : varintSize(chars)
  const written = buffer.write(text, at + guess)
  if (written >= 64 && written < 8192 && guess === 2) {
    buffer[at] = ((written << 1) & 127) | 128
    buffer[at + 1] = written >>> 6
    return at + 2 + written
  }
  const actual = varintSize(written)
  if (actual !== guess) buffer.copyWithin(at + actual, at + guess, at + guess + written)
  writeVarint(buffer, at, written)
  return at + actual + written
}

function writeHeaders(
  buffer: Buffer,
  at: number,
  headers: readonly (readonly [string, RecordData])[],
): number {
  let p = writeVarint(buffer, at, headers.length)
  for (const [key, value] of headers) {
    p = writeText(buffer, p, key)
    p = writeData(buffer, p, value)
  }
  return p
}
