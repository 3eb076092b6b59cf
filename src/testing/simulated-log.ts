/**
 * One partition's log: encoded batches at their offsets, with what the leader derives from them.
 *
 *   log start ≤ first batch … last stable offset ≤ high watermark = log end (every stored batch counts as replicated)
 *
 * Batches are kept as they were sent; only base offset and leader epoch are filled in. Markers are real control batches and take offsets.
 */
import type {
  AbortedTransaction,
  DescribedProducer,
  IsolationLevel,
  OffsetSpec,
} from '../kafka/kafka-cluster.ts'
import {
  type BatchHeader,
  decodePlainRecords,
  encodeControlBatch,
  encodePlainBatch,
  isIntact,
  placeBatch,
  readBatchHeader,
  stampBatch,
} from './plain-batch.ts'
import { BrokerCode } from './simulated-broker-error.ts'
import { ProducerStates } from './simulated-producer-state.ts'

/** Settings of a topic that its logs obey. */
export interface LogSettings {
  readonly maxMessageBytes: number
  readonly compacted: boolean
  readonly logAppendTime: boolean
  readonly retentionMs: number
}

/** What became of a batch. */
export interface Appended {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly baseOffset: bigint
}

/** What a fetch at one offset gives. */
export interface LogSlice {
  readonly errorCode: number
  readonly records: Buffer
  readonly abortedTransactions: readonly AbortedTransaction[]
}

/** Facts of a transaction marker. */
export interface MarkerFacts {
  readonly commit: boolean
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly coordinatorEpoch: number
}

/** A batch in the log. */
export interface LogBatch {
  readonly baseOffset: bigint
  readonly lastOffset: bigint
  readonly header: BatchHeader
  readonly bytes: Buffer
}

const NO_BYTES = Buffer.alloc(0)

function refused(errorCode: number, errorMessage: string): Appended {
  return { errorCode, errorMessage, baseOffset: -1n }
}

/** The log of one partition. */
export class SimulatedLog {
  readonly #settings: () => LogSettings
  readonly #now: () => number
  readonly #producers = new ProducerStates()
  readonly #watchers = new Set<() => void>()
  #batches: LogBatch[] = []
  #logStartOffset = 0n
  #nextOffset = 0n

  constructor(settings: () => LogSettings, now: () => number) {
    this.#settings = settings
    this.#now = now
  }

  get logStartOffset(): bigint {
    return this.#logStartOffset
  }

  get highWatermark(): bigint {
    return this.#nextOffset
  }

  get lastStableOffset(): bigint {
    const unstable = this.#producers.firstUnstableOffset() ?? this.#nextOffset
    // Records of an open transaction may have been deleted.
    if (unstable < this.#logStartOffset) return this.#logStartOffset
    return unstable
  }

  /** Calls `watcher` after each change until the returned function is called. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  /** Wakes those who wait for a change, e.g. when the leader moved. */
  wake(): void {
    for (const watcher of [...this.#watchers]) watcher()
  }

  hasOpenTransaction(producerId: bigint, epoch: number): boolean {
    return this.#producers.hasOpenTransaction(producerId, epoch)
  }

  describeProducers(): DescribedProducer[] {
    return this.#producers.describe()
  }

  /** Stores one batch, unless it is damaged, too large, known already, fenced or out of order. */
  append(batch: Buffer, leaderEpoch: number): Appended {
    const header = readBatchHeader(batch)
    if (header === undefined || header.sizeBytes !== batch.length || !isIntact(batch)) {
      return refused(BrokerCode.CORRUPT_MESSAGE, 'The batch is cut off or its checksum is wrong.')
    }
    const settings = this.#settings()
    if (batch.length > settings.maxMessageBytes) {
      return refused(
        BrokerCode.MESSAGE_TOO_LARGE,
        `${batch.length} bytes are more than ${settings.maxMessageBytes}.`,
      )
    }
    if (header.control || header.count < 1 || header.lastOffsetDelta !== header.count - 1) {
      return refused(
        BrokerCode.INVALID_RECORD,
        'Clients send batches of 1 or more records with offsets 0, 1, 2, …',
      )
    }
    if (header.logAppendTime)
      return refused(
        BrokerCode.INVALID_TIMESTAMP,
        'Only brokers say that a batch has the time of its append.',
      )
    if (settings.compacted && decodePlainRecords(batch).some((record) => record.key === null)) {
      return refused(BrokerCode.INVALID_RECORD, 'A compacted topic takes no record without a key.')
    }
    if (header.producerId >= 0n) {
      const verdict = this.#producers.check(header)
      if (verdict.kind === 'refused') return refused(verdict.code, verdict.message)
      if (verdict.kind === 'duplicate')
        return { errorCode: 0, errorMessage: null, baseOffset: verdict.baseOffset }
    }
    const stored = Buffer.from(batch)
    if (settings.logAppendTime) stampBatch(stored, this.#now())
    const baseOffset = this.#store(stored, leaderEpoch)
    if (header.producerId >= 0n) this.#producers.append(header, baseOffset)
    this.wake()
    return { errorCode: 0, errorMessage: null, baseOffset }
  }

  /** Writes a COMMIT or ABORT marker, also where the transaction wrote nothing. A marker of an older epoch is dropped. */
  appendMarker(marker: MarkerFacts, leaderEpoch: number): void {
    if (!this.#producers.acceptsMarker(marker.producerId, marker.producerEpoch)) return
    const timestamp = this.#now()
    const offset = this.#store(encodeControlBatch({ ...marker, timestamp }), leaderEpoch)
    this.#producers.endTransaction({ ...marker, timestamp, offset })
    this.wake()
  }

  /**
   * Bytes from the batch that holds `offset` on, as a broker slices its segment file: at most `maxBytes`, so that the last batch may be cut
   * off, but with `atLeastOne` never less than the first batch.
   */
  read(offset: bigint, maxBytes: number, isolation: IsolationLevel, atLeastOne: boolean): LogSlice {
    if (offset < this.#logStartOffset || offset > this.#nextOffset) {
      return { errorCode: BrokerCode.OFFSET_OUT_OF_RANGE, records: NO_BYTES, abortedTransactions: [] }
    }
    const bound = isolation === 'read_committed' ? this.lastStableOffset : this.#nextOffset
    const chunks: Buffer[] = []
    let budget = maxBytes
    let readUpTo = offset
    for (let i = this.#indexOf(offset); i < this.#batches.length; i++) {
      const batch = this.#batches[i]!
      const whole = chunks.length === 0 && atLeastOne
      if (batch.baseOffset >= bound || (budget <= 0 && !whole)) break
      chunks.push(whole ? batch.bytes : batch.bytes.subarray(0, budget))
      budget -= batch.bytes.length
      readUpTo = batch.lastOffset + 1n
    }
    return {
      errorCode: 0,
      records: chunks.length === 0 ? NO_BYTES : Buffer.concat(chunks),
      abortedTransactions:
        isolation === 'read_committed' ? this.#producers.abortedBetween(offset, readUpTo) : [],
    }
  }

  /** The committed batches that reach `from` or lie behind it, markers included, and the aborted transactions among them: read, not copied. */
  committedFrom(from: bigint): {
    readonly batches: readonly LogBatch[]
    readonly abortedTransactions: readonly AbortedTransaction[]
  } {
    const bound = this.lastStableOffset
    const first = this.#indexOf(from)
    let end = first
    while (end < this.#batches.length && this.#batches[end]!.baseOffset < bound) end++
    return {
      batches: this.#batches.slice(first, end),
      abortedTransactions: this.#producers.abortedBetween(from, bound),
    }
  }

  /** Answer of ListOffsets; -1n when no record is at or after the time. */
  offsetAt(spec: OffsetSpec, isolation: IsolationLevel): bigint {
    if (spec === 'earliest') return this.#logStartOffset
    const bound = isolation === 'read_committed' ? this.lastStableOffset : this.#nextOffset
    if (spec === 'latest') return bound
    for (const batch of this.#batches) {
      if (batch.baseOffset >= bound) break
      if (batch.header.maxTimestamp < BigInt(spec.timestamp) || batch.lastOffset < this.#logStartOffset)
        continue
      const found = decodePlainRecords(batch.bytes).find(
        (record) => record.timestamp >= spec.timestamp && record.offset >= this.#logStartOffset,
      )
      if (found !== undefined) return found.offset
    }
    return -1n
  }

  /** Moves the log start up (DeleteRecords); -1n = to the high watermark. Gives the error code. */
  deleteRecords(beforeOffset: bigint): number {
    const target = beforeOffset === -1n ? this.#nextOffset : beforeOffset
    if (target < 0n || target > this.#nextOffset) return BrokerCode.OFFSET_OUT_OF_RANGE
    this.#moveStart(target)
    return 0
  }

  /** Drops the batches at the start that are older than the topic's retention.ms. */
  applyRetention(): void {
    const { retentionMs } = this.#settings()
    if (retentionMs < 0) return
    const oldest = BigInt(this.#now() - retentionMs)
    const kept = this.#batches.find(
      (batch) => batch.header.maxTimestamp >= oldest || batch.lastOffset >= this.lastStableOffset,
    )
    this.#moveStart(kept?.baseOffset ?? this.#nextOffset)
  }

  /**
   * Log compaction up to the last stable offset: of each key the latest record stays, aborted records go; batches keep their offsets, so
   * gaps appear, and a producer's last batch stays though it may be empty.
   * `withTombstones`: tombstones go too, as they do after delete.retention.ms.
   */
  compact(options: { readonly withTombstones?: boolean } = {}): void {
    const stable = this.lastStableOffset
    const closed = this.#batches.filter((b) => b.baseOffset < stable && !b.header.control)
    const isAborted = (b: LogBatch): boolean =>
      b.header.transactional && this.#producers.isAborted(b.header.producerId, b.baseOffset)
    const latest = new Map<string, bigint>()
    for (const batch of closed) {
      if (isAborted(batch)) continue
      for (const record of decodePlainRecords(batch.bytes))
        latest.set(record.key!.toString('hex'), record.offset)
    }
    const compacted = new Set(closed)
    this.#batches = this.#batches.flatMap((batch) => {
      if (!compacted.has(batch)) return [batch]
      const kept = isAborted(batch)
        ? []
        : decodePlainRecords(batch.bytes).filter(
            (record) =>
              latest.get(record.key!.toString('hex')) === record.offset &&
              !(options.withTombstones === true && record.value === null),
          )
      if (kept.length === batch.header.count) return [batch]
      if (kept.length === 0 && !this.#producers.isLastBatch(batch.header.producerId, batch.lastOffset))
        return []
      return [this.#rewritten(batch, kept)]
    })
    this.wake()
  }

  #rewritten(batch: LogBatch, kept: ReturnType<typeof decodePlainRecords>): LogBatch {
    const { header } = batch
    const bytes = encodePlainBatch({
      ...header,
      timestamp: Number(header.baseTimestamp),
      records: kept.map((record) => ({ ...record, offsetDelta: Number(record.offset - batch.baseOffset) })),
    })
    return { ...batch, bytes, header: readBatchHeader(bytes)! }
  }

  #store(bytes: Buffer, leaderEpoch: number): bigint {
    const baseOffset = this.#nextOffset
    placeBatch(bytes, baseOffset, leaderEpoch)
    const header = readBatchHeader(bytes)!
    const lastOffset = baseOffset + BigInt(header.lastOffsetDelta)
    this.#batches.push({ baseOffset, lastOffset, header, bytes })
    this.#nextOffset = lastOffset + 1n
    return baseOffset
  }

  #moveStart(offset: bigint): void {
    if (offset <= this.#logStartOffset) return
    this.#logStartOffset = offset
    const first = this.#indexOf(offset)
    this.#batches = this.#batches.slice(first)
    this.wake()
  }

  /** Index of the first batch that reaches `offset`. */
  #indexOf(offset: bigint): number {
    let low = 0
    let high = this.#batches.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#batches[middle]!.lastOffset < offset) low = middle + 1
      else high = middle
    }
    return low
  }
}
