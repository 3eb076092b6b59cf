/**
 * Reads the records of fetched record batches: millions a second, one pass over the bytes, no object or closure per record.
 * The reader is a cursor; after `next()` its public fields describe the current record, and the next call overwrites them.
 *
 *   open ──▶ between batches ──whole batch──▶ in a batch ──record──▶ (next: true)
 *                │      ▲                        │
 *                │      └──── last record, or control, aborted, below the position: skipped
 *                └── no whole batch left ──▶ (next: false)
 *
 * The position (`nextOffset`) moves past everything that was consumed, also past what has no record: control batches, aborted
 * batches, compacted gaps. So a reader that stands behind a commit marker does not fetch it for ever.
 */
import type { CorruptBatchError } from '../errors.ts'
import type { AbortedTransaction } from './kafka-cluster.ts'
import {
  BatchAttribute,
  BatchField,
  type BatchLimits,
  batchSize,
  checkCounts,
  corruptBatch,
  DEFAULT_BATCH_LIMITS,
  readControlRecord,
  unpackRecords,
  verifyCrc,
} from './record-batch-header.ts'
import { readVarlong, varintEnd, varintValue } from './varint.ts'

const NO_BYTES = Buffer.alloc(0)

/** A record's headers: in order, duplicates and null values kept. */
export type RecordHeaders = [string, Uint8Array | null][]

/**
 * A cursor over the records of one partition. Reused for every fetch; use one per partition.
 * Every batch's CRC, counts and bounds are checked before a record of it is shown, and each record's as it is reached:
 * damaged bytes give a CorruptBatchError that names topic, partition and offset, never a wrong record.
 */
export class RecordBatchReader {
  readonly topic: string
  readonly partition: number
  /** Holds the current record's bytes; valid as long as somebody refers to it. */
  buffer: Buffer = NO_BYTES
  /** The key is `buffer[keyStart, keyEnd)`; both are -1 for a null key. */
  keyStart = -1
  keyEnd = -1
  /** The value is `buffer[valueStart, valueEnd)`; both are -1 for a null value (a tombstone). */
  valueStart = -1
  valueEnd = -1
  /** Epoch ms; -1 when the producer gave none. */
  timestamp: number = Number.NaN
  /** Where the headers begin in `buffer`, and how many there are. */
  headersStart = 0
  headerCount = 0
  /** Offset of the current record = `baseOffset` + `offsetDelta`. */
  offsetDelta = -1
  baseOffset = 0n
  /**
   * True when `next()` is false because the first batch is larger than what was fetched: fetch again with at least `neededBytes`.
   */
  truncated = false
  /** Bytes of that batch; 0 when even its length was cut off. */
  neededBytes = 0

  private readonly limits: BatchLimits
  private records: Buffer = NO_BYTES
  private requestedBytes = Number.POSITIVE_INFINITY
  /** Next offset once the batches before the current one are done. */
  private consumed = 0n
  /** Next offset once the current batch is done. */
  private afterBatch = 0n
  /** The next batch of this fetch begins no lower than here. */
  private lowest = 0n
  private batchStart = 0
  /** Where the batch after the current one begins in `records`. */
  private batchEnd = 0
  /** Records of the current batch that are not read yet, where they begin, and where the batch's records end in `buffer`. */
  private remaining = 0
  private cursor = 0
  private end = 0
  private lastOffsetDelta = 0
  /** Records below this delta lie before the asked position. */
  private skipBelow = 0
  private baseTimestamp = 0
  private baseTimestampExact = 0n
  private logAppendTime = false
  /** Aborted transactions that begin further on, nearest last; producers that are inside one. */
  private upcomingAborts: AbortedTransaction[] = []
  private readonly abortedProducers = new Set<bigint>()

  constructor(topic: string, partition: number, limits: Partial<BatchLimits> = {}) {
    this.topic = topic
    this.partition = partition
    this.limits = { ...DEFAULT_BATCH_LIMITS, ...limits }
  }

  /**
   * Starts over with newly fetched bytes.
   * `fetchOffset` is the position that was asked for; records below it are skipped (a broker sends whole batches).
   * `aborted` is the fetch answer's list for read_committed; undefined reads uncommitted.
   * `requestedBytes` is the fetch's limit for this partition: a first batch that is said to fit in and yet is cut off is damaged.
   */
  open(
    records: Buffer,
    fetchOffset: bigint,
    aborted: readonly AbortedTransaction[] | undefined,
    requestedBytes: number = Number.POSITIVE_INFINITY,
  ): void {
    this.records = records
    this.requestedBytes = requestedBytes
    this.consumed = fetchOffset
    this.afterBatch = fetchOffset
    this.lowest = 0n
    this.batchStart = 0
    this.batchEnd = 0
    this.remaining = 0
    this.offsetDelta = -1
    this.truncated = false
    this.neededBytes = 0
    this.abortedProducers.clear()
    this.upcomingAborts =
      aborted === undefined || aborted.length === 0
        ? []
        : aborted.toSorted((a, b) =>
            a.firstOffset < b.firstOffset ? 1 : a.firstOffset > b.firstOffset ? -1 : 0,
          )
  }

  /** The position: next offset to read once the records returned so far are done. Never goes back. */
  get nextOffset(): bigint {
    if (this.remaining === 0 || this.offsetDelta < 0) return this.consumed
    const next = this.baseOffset + BigInt(this.offsetDelta + 1)
    return next > this.consumed ? next : this.consumed
  }

  /** Offset of the current record. */
  offset(): bigint {
    return this.baseOffset + BigInt(this.offsetDelta)
  }

  /** Producer of the current batch; -1n for one that is not idempotent. */
  get producerId(): bigint {
    return this.records.readBigInt64BE(this.batchStart + BatchField.PRODUCER_ID)
  }

  /** Epoch of the current batch's producer. */
  get producerEpoch(): number {
    return this.records.readInt16BE(this.batchStart + BatchField.PRODUCER_EPOCH)
  }

  /** True when the current batch was written in a transaction. */
  get isTransactional(): boolean {
    return (
      (this.records.readInt16BE(this.batchStart + BatchField.ATTRIBUTES) & BatchAttribute.TRANSACTIONAL) !== 0
    )
  }

  /**
   * Moves to the next record that the reader may see. False when the fetched bytes hold no further whole batch.
   * @throws CorruptBatchError; the position stays before the damaged record, and calling again throws again.
   */
  next(): boolean {
    do {
      if (this.remaining === 0 && !this.openBatch()) return false
      const b = this.buffer
      let p = this.cursor
      let byte: number

      // Record length. A varint of one byte is the common case, then two; longer ones are read out of line.
      let v = b[p++]!
      if (v > 127) {
        byte = b[p++]!
        if (byte < 128) v = (v & 127) | (byte << 7)
        else {
          v = varintValue(b, p - 2)
          p = varintEnd()
        }
      }
      const recordEnd = v & 1 ? -1 : p + (v >>> 1)
      if (!(recordEnd <= this.end && recordEnd > p)) throw this.damaged('a record runs past its batch')
      p++ // attributes: unused in this format

      v = b[p++]!
      if (v < 128) {
        this.timestamp = this.baseTimestamp + ((v >>> 1) ^ -(v & 1))
      } else {
        byte = b[p++]!
        if (byte < 128) {
          v = (v & 127) | (byte << 7)
          this.timestamp = this.baseTimestamp + ((v >>> 1) ^ -(v & 1))
        } else {
          this.timestamp = readVarlong(b, p - 2, this.baseTimestamp, this.baseTimestampExact)
          p = varintEnd()
        }
      }
      if (this.logAppendTime) this.timestamp = this.baseTimestamp

      v = b[p++]!
      if (v > 127) {
        byte = b[p++]!
        if (byte < 128) v = (v & 127) | (byte << 7)
        else {
          v = varintValue(b, p - 2)
          p = varintEnd()
        }
      }
      const offsetDelta = (v >>> 1) ^ -(v & 1)

      v = b[p++]!
      if (v > 127) {
        v = varintValue(b, p - 1)
        p = varintEnd()
      }
      if (v & 1) {
        if (v !== 1) throw this.damaged('a key has a negative length')
        this.keyStart = -1
        this.keyEnd = -1
      } else {
        this.keyStart = p
        p += v >>> 1
        this.keyEnd = p
      }

      if (p >= recordEnd) throw this.damaged('a record is cut off')
      v = b[p++]!
      if (v > 127) {
        byte = b[p++]!
        if (byte < 128) v = (v & 127) | (byte << 7)
        else {
          v = varintValue(b, p - 2)
          p = varintEnd()
        }
      }
      if (v & 1) {
        if (v !== 1) throw this.damaged('a value has a negative length')
        this.valueStart = -1
        this.valueEnd = -1
      } else {
        this.valueStart = p
        p += v >>> 1
        this.valueEnd = p
      }

      if (p >= recordEnd) throw this.damaged('a record is cut off')
      v = b[p++]!
      if (v === 0) this.headerCount = 0
      else p = this.walkHeaders(p - 1, recordEnd)

      if (p !== recordEnd) throw this.damaged("a record's fields do not fill its length")
      if (offsetDelta <= this.offsetDelta || offsetDelta > this.lastOffsetDelta) {
        throw this.damaged(
          `offset delta ${offsetDelta} after ${this.offsetDelta}, in a range up to ${this.lastOffsetDelta}`,
        )
      }
      if (this.remaining === 1) {
        if (p !== this.end) throw this.damaged('bytes are left behind the last record')
        this.consumed = this.afterBatch
      }
      this.remaining--
      this.cursor = p
      this.offsetDelta = offsetDelta
    } while (this.offsetDelta < this.skipBelow)
    return true
  }

  /** Headers of the current record, copied out of the buffer. */
  headers(): RecordHeaders {
    const headers: RecordHeaders = []
    const b = this.buffer
    let at = this.headersStart
    for (let i = 0; i < this.headerCount; i++) {
      const keyLength = varintValue(b, at) >>> 1
      at = varintEnd() + keyLength
      const key = b.toString('utf8', at - keyLength, at)
      const length = varintValue(b, at)
      at = varintEnd()
      if (length & 1) headers.push([key, null])
      else {
        headers.push([key, new Uint8Array(b.subarray(at, at + (length >>> 1)))])
        at += length >>> 1
      }
    }
    return headers
  }

  /** Checks the headers that begin with their count at `at` and returns where they end. */
  private walkHeaders(at: number, recordEnd: number): number {
    const b = this.buffer
    const count = varintValue(b, at)
    let p = varintEnd()
    // A header has two bytes at the least; so a false count cannot make this loop long.
    if (count & 1 || count >>> 1 > (recordEnd - p) / 2)
      throw this.damaged('a record has an impossible number of headers')
    this.headersStart = p
    this.headerCount = count >>> 1
    for (let i = this.headerCount; i > 0; i--) {
      const keyLength = varintValue(b, p)
      p = varintEnd() + (keyLength >>> 1)
      if (keyLength & 1 || p >= recordEnd) throw this.damaged('a header key is cut off')
      const valueLength = varintValue(b, p)
      p = varintEnd()
      if (!(valueLength & 1)) p += valueLength >>> 1
      else if (valueLength !== 1) throw this.damaged('a header value has a negative length')
      if (p > recordEnd) throw this.damaged('a header value is cut off')
    }
    return p
  }

  /** Goes to the next batch with records to show; false when there is none. */
  private openBatch(): boolean {
    const { records } = this
    for (;;) {
      this.consumed = this.afterBatch
      this.offsetDelta = -1
      const start = this.batchEnd
      if (start === records.length) return false
      const size = batchSize(records, start, this, this.consumed, this.limits.maxBatchBytes)
      const end = start + size
      if (size < 0 || end > records.length) return this.cutOff(start, size)

      const baseOffset = records.readBigInt64BE(start)
      verifyCrc(records, start, end, this, baseOffset)
      const attributes = records.readInt16BE(start + BatchField.ATTRIBUTES)
      const lastOffsetDelta = records.readInt32BE(start + BatchField.LAST_OFFSET_DELTA)
      const count = records.readInt32BE(start + BatchField.COUNT)
      checkCounts(this, baseOffset, lastOffsetDelta, count)
      if (baseOffset < this.lowest) {
        throw corruptBatch(this, baseOffset, `offsets go back: ${this.lowest} was expected at the least`)
      }
      const afterBatch = baseOffset + BigInt(lastOffsetDelta) + 1n
      const skip = this.isHidden(start, end, attributes, baseOffset, afterBatch, count)
      if (!skip && count > 0 && afterBatch > this.consumed) {
        this.enter(start, end, attributes, baseOffset)
        this.lastOffsetDelta = lastOffsetDelta
        this.remaining = count
      } else if (
        !skip &&
        count === 0 &&
        end - start !== BatchField.RECORDS &&
        (attributes & BatchAttribute.CODEC) === 0
      ) {
        throw corruptBatch(this, baseOffset, 'a batch without records has bytes for some')
      }
      this.batchStart = start
      this.batchEnd = end
      this.lowest = afterBatch
      if (afterBatch > this.consumed) this.afterBatch = afterBatch
      if (this.remaining > 0) return true
    }
  }

  /** Points the cursor at the first record of the batch `records[start, end)`. */
  private enter(start: number, end: number, attributes: number, baseOffset: bigint): void {
    const { records } = this
    const codec = attributes & BatchAttribute.CODEC
    if (codec === 0) {
      this.buffer = records
      this.cursor = start + BatchField.RECORDS
      this.end = end
    } else {
      this.buffer = unpackRecords(
        records,
        start,
        end,
        codec,
        this,
        baseOffset,
        this.limits.maxUncompressedBytes,
      )
      this.cursor = 0
      this.end = this.buffer.length
    }
    this.baseOffset = baseOffset
    this.skipBelow = this.consumed > baseOffset ? Number(this.consumed - baseOffset) : 0
    this.logAppendTime = (attributes & BatchAttribute.LOG_APPEND_TIME) !== 0
    // With log append time the broker's clock counts; it stands in the maximum.
    const timestampField = this.logAppendTime ? BatchField.MAX_TIMESTAMP : BatchField.BASE_TIMESTAMP
    this.baseTimestampExact = records.readBigInt64BE(start + timestampField)
    this.baseTimestamp = Number(this.baseTimestampExact)
  }

  /**
   * True for a batch without records to show: control batches, and those of an aborted transaction. As in Kafka's own consumer:
   * a producer's batches are aborted from the first offset of its listed transaction up to its abort marker.
   */
  private isHidden(
    start: number,
    end: number,
    attributes: number,
    firstOffset: bigint,
    afterBatch: bigint,
    count: number,
  ): boolean {
    const isControl = (attributes & BatchAttribute.CONTROL) !== 0
    const { upcomingAborts, abortedProducers } = this
    while (upcomingAborts.length > 0 && upcomingAborts.at(-1)!.firstOffset < afterBatch) {
      abortedProducers.add(upcomingAborts.pop()!.producerId)
    }
    if (abortedProducers.size === 0) return isControl
    const producerId = this.records.readBigInt64BE(start + BatchField.PRODUCER_ID)
    if (isControl) {
      const marker = readControlRecord(this.records, { start, end, count, firstOffset }, this)
      if (marker.type === 'abort') abortedProducers.delete(producerId)
      return true
    }
    return (attributes & BatchAttribute.TRANSACTIONAL) !== 0 && abortedProducers.has(producerId)
  }

  /** The batch at `start` is not whole. The end of a fetch may always be so; its beginning only if the fetch was too small. */
  private cutOff(start: number, size: number): false {
    if (start === 0) {
      this.truncated = true
      this.neededBytes = Math.max(size, 0)
      if (size > 0 && size <= this.requestedBytes && this.requestedBytes !== Number.POSITIVE_INFINITY) {
        throw corruptBatch(
          this,
          this.consumed,
          `it is cut off at ${this.records.length} bytes though its ${size} were asked for`,
        )
      }
    }
    return false
  }

  private damaged(reason: string): CorruptBatchError {
    return corruptBatch(this, this.nextOffset, reason)
  }
}
