/**
 * What a partition leader knows of each producer: epoch, the last five batches, the open transaction; and the index of aborted transactions.
 *
 *              data batch (transactional)            marker
 *   no open transaction ──────────────► open since offset f ──────► closed: COMMIT, or ABORT = one entry of the aborted index
 *
 * The rules are those of Kafka's ProducerStateManager: an older epoch is refused (47), a known batch is a duplicate (same base offset again),
 * a new epoch starts at sequence 0, everything else must follow the last sequence (45).
 */
import type { AbortedTransaction, DescribedProducer } from '../kafka/kafka-cluster.ts'
import type { BatchHeader } from './plain-batch.ts'
import { BrokerCode } from './simulated-broker-error.ts'

/** Batches that a leader remembers per producer to recognise duplicates. */
const REMEMBERED_BATCHES = 5
const MAX_SEQUENCE = 0x7fffffff

interface StoredBatch {
  readonly firstSequence: number
  readonly lastSequence: number
  readonly baseOffset: bigint
  readonly lastOffset: bigint
}

interface ProducerEntry {
  readonly producerId: bigint
  epoch: number
  batches: StoredBatch[]
  coordinatorEpoch: number
  lastTimestamp: bigint
  openSince: bigint | undefined
}

interface AbortedEntry extends AbortedTransaction {
  /** Offset of the ABORT marker. */
  readonly lastOffset: bigint
}

/** What to do with a batch of an idempotent producer. */
export type ProducerVerdict =
  | { readonly kind: 'append' }
  | { readonly kind: 'duplicate'; readonly baseOffset: bigint }
  | { readonly kind: 'refused'; readonly code: number; readonly message: string }

function sequenceAfter(sequence: number, by: number): number {
  return sequence > MAX_SEQUENCE - by ? by - (MAX_SEQUENCE - sequence) - 1 : sequence + by
}

/** Producer states of one partition. */
export class ProducerStates {
  readonly #entries = new Map<bigint, ProducerEntry>()
  readonly #aborted: AbortedEntry[] = []

  /** True while this (producer id, epoch) has a transaction open here. */
  hasOpenTransaction(producerId: bigint, epoch: number): boolean {
    const entry = this.#entries.get(producerId)
    return entry?.openSince !== undefined && entry.epoch === epoch
  }

  /** Offset of the oldest open transaction; undefined when none is open. */
  firstUnstableOffset(): bigint | undefined {
    let first: bigint | undefined
    for (const { openSince } of this.#entries.values()) {
      if (openSince !== undefined && (first === undefined || openSince < first)) first = openSince
    }
    return first
  }

  check(header: BatchHeader): ProducerVerdict {
    const entry = this.#entries.get(header.producerId)
    if (entry === undefined) return { kind: 'append' }
    if (header.producerEpoch < entry.epoch) {
      return {
        kind: 'refused',
        code: BrokerCode.INVALID_PRODUCER_EPOCH,
        message: `epoch ${header.producerEpoch} of producer ${header.producerId} is older than ${entry.epoch}`,
      }
    }
    if (header.producerEpoch === entry.epoch && entry.openSince !== undefined && !header.transactional) {
      return {
        kind: 'refused',
        code: BrokerCode.INVALID_TXN_STATE,
        message: 'the producer has a transaction open here',
      }
    }
    const outOfOrder = (expected: number): ProducerVerdict => ({
      kind: 'refused',
      code: BrokerCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
      message: `producer ${header.producerId} sent sequence ${header.baseSequence}, expected ${expected}`,
    })
    if (header.producerEpoch > entry.epoch)
      return header.baseSequence === 0 ? { kind: 'append' } : outOfOrder(0)
    const last = sequenceAfter(header.baseSequence, header.count - 1)
    const known = entry.batches.find(
      (b) => b.firstSequence === header.baseSequence && b.lastSequence === last,
    )
    if (known !== undefined) return { kind: 'duplicate', baseOffset: known.baseOffset }
    const next = sequenceAfter(entry.batches.at(-1)?.lastSequence ?? -1, 1)
    return header.baseSequence === next ? { kind: 'append' } : outOfOrder(next)
  }

  /** Notes a stored data batch. */
  append(header: BatchHeader, baseOffset: bigint): void {
    const entry = this.#entryAt(header.producerId, header.producerEpoch)
    entry.batches.push({
      firstSequence: header.baseSequence,
      lastSequence: sequenceAfter(header.baseSequence, header.count - 1),
      baseOffset,
      lastOffset: baseOffset + BigInt(header.lastOffsetDelta),
    })
    if (entry.batches.length > REMEMBERED_BATCHES) entry.batches.shift()
    entry.lastTimestamp = header.maxTimestamp
    if (header.transactional) entry.openSince ??= baseOffset
  }

  /** True if a marker of this epoch may be written: a late one of an older epoch is refused. */
  acceptsMarker(producerId: bigint, epoch: number): boolean {
    return epoch >= (this.#entries.get(producerId)?.epoch ?? -1)
  }

  /** Notes a stored marker: the transaction is closed and older epochs are fenced. */
  endTransaction(marker: {
    readonly commit: boolean
    readonly producerId: bigint
    readonly producerEpoch: number
    readonly coordinatorEpoch: number
    readonly timestamp: number
    readonly offset: bigint
  }): void {
    const entry = this.#entryAt(marker.producerId, marker.producerEpoch)
    if (entry.openSince !== undefined && !marker.commit) {
      this.#aborted.push({
        producerId: marker.producerId,
        firstOffset: entry.openSince,
        lastOffset: marker.offset,
      })
    }
    entry.openSince = undefined
    entry.coordinatorEpoch = marker.coordinatorEpoch
    entry.lastTimestamp = BigInt(marker.timestamp)
  }

  /** Aborted transactions that overlap [from, to), in the order they were aborted. */
  abortedBetween(from: bigint, to: bigint): AbortedTransaction[] {
    return this.#aborted
      .filter((entry) => entry.lastOffset >= from && entry.firstOffset < to)
      .map(({ producerId, firstOffset }) => ({ producerId, firstOffset }))
  }

  /** True if the batch belongs to an aborted transaction. */
  isAborted(producerId: bigint, offset: bigint): boolean {
    return this.#aborted.some(
      (entry) => entry.producerId === producerId && entry.firstOffset <= offset && offset < entry.lastOffset,
    )
  }

  /** True if it is the last batch that the producer wrote: compaction keeps it, empty if need be, so that its sequence isn't forgotten. */
  isLastBatch(producerId: bigint, lastOffset: bigint): boolean {
    return this.#entries.get(producerId)?.batches.at(-1)?.lastOffset === lastOffset
  }

  describe(): DescribedProducer[] {
    return [...this.#entries.values()].map((entry) => ({
      producerId: entry.producerId,
      producerEpoch: entry.epoch,
      lastSequence: entry.batches.at(-1)?.lastSequence ?? -1,
      lastTimestamp: entry.lastTimestamp,
      coordinatorEpoch: entry.coordinatorEpoch,
      currentTxnStartOffset: entry.openSince ?? -1n,
    }))
  }

  /** Entry of the producer, moved up to this epoch: an epoch starts without batches. */
  #entryAt(producerId: bigint, epoch: number): ProducerEntry {
    const known = this.#entries.get(producerId)
    if (known !== undefined) {
      if (known.epoch !== epoch) {
        known.epoch = epoch
        known.batches = []
      }
      return known
    }
    const entry: ProducerEntry = {
      producerId,
      epoch,
      batches: [],
      coordinatorEpoch: -1,
      lastTimestamp: -1n,
      openSince: undefined,
    }
    this.#entries.set(producerId, entry)
    return entry
  }
}
