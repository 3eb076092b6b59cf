/**
 * The batches of one partition on their way out. One of them is in flight at a time: that keeps their order, and so the sequence
 * numbers, whatever the cluster has to retry.
 *
 *   records ──append──▶ open batch ──seal──▶ sealed batches ──begin──▶ in flight ──acknowledge──▶ written
 *
 * A sealed batch has its sequence number; sealing is the moment at which it is fixed what the batch holds.
 */
import { digestText, EMPTY_DIGEST, extendDigest } from './batch-digest.ts'
import { type SealedBatch, sequenceAfter, splitBatch } from './batch-splitter.ts'
import type { ProducerIdentity, TopicPartition } from './kafka-cluster.ts'
import { NO_PRODUCER, type RecordBatchBuilder } from './record-batch-builder.ts'

/** What was stored on one partition since a transaction began. */
export interface WrittenPartition extends TopicPartition {
  /** -1n when the broker did not say (a batch that it had stored before). */
  readonly firstOffset: bigint
  readonly lastOffset: bigint
  readonly count: number
  /** See batch-digest.ts. */
  readonly digest: string
}

/** One partition's batches and what became of them. */
export class PartitionQueue implements TopicPartition {
  readonly topic: string
  readonly partition: number
  readonly builder: RecordBatchBuilder
  /** Node id of the leader when it was last asked for; -1 before. */
  leader = -1
  inFlight = false
  /** True once the partition is part of the transaction. */
  added = false
  /** Which `use` of the producer the fields below belong to. */
  generation = -1
  private readonly sealed: SealedBatch[] = []
  private nextSequence = 0
  private count = 0
  private digest = EMPTY_DIGEST
  private firstOffset = -1n
  private lastOffset = -1n
  private offsetsKnown = true

  constructor(topic: string, partition: number, builder: RecordBatchBuilder) {
    this.topic = topic
    this.partition = partition
    this.builder = builder
  }

  /** Starts anew under another identity. Nothing may be pending. */
  restart(generation: number): void {
    this.generation = generation
    this.added = false
    this.nextSequence = 0
    this.count = 0
    this.digest = EMPTY_DIGEST
    this.firstOffset = -1n
    this.lastOffset = -1n
    this.offsetsKnown = true
  }

  /** The sealed batch whose turn it is, if any. */
  get head(): SealedBatch | undefined {
    return this.sealed[0]
  }

  /** True while there is a record that is not in flight or stored. */
  get hasWork(): boolean {
    return this.builder.count > 0 || this.sealed.length > (this.inFlight ? 1 : 0)
  }

  /** Finishes the open batch, which must have records, and returns by how many bytes the partition's memory changed. */
  seal(identity: ProducerIdentity | undefined): number {
    const { builder } = this
    const { count, filledBytes } = builder
    const bytes = builder.build(
      identity === undefined
        ? NO_PRODUCER
        : {
            producerId: identity.producerId,
            producerEpoch: identity.producerEpoch,
            baseSequence: this.nextSequence,
            transactional: true,
          },
    )
    this.sealed.push({ bytes, count, recordsCrc: builder.recordsCrc })
    this.nextSequence = sequenceAfter(this.nextSequence, count)
    builder.reset()
    return bytes.length - filledBytes
  }

  /**
   * The batch in flight was refused as too large: halves take its place, and later batches are no larger than a half.
   * Returns by how many bytes the partition's memory changed, or undefined for a batch of one record, which cannot be split.
   */
  split(): number | undefined {
    const batch = this.sealed[0]!
    if (batch.count === 1) return undefined
    const halves = splitBatch(batch, this, this.builder.options)
    this.inFlight = false
    this.sealed.splice(0, 1, ...halves)
    this.builder.shrink(Math.ceil(batch.bytes.length / 2))
    this.builder.release(batch.bytes)
    return halves.reduce((sum, { bytes }) => sum + bytes.length, -batch.bytes.length)
  }

  /** The batch in flight is stored from `baseOffset` on (-1n = the broker does not know any more). Returns the bytes that are free now. */
  acknowledge(baseOffset: bigint): number {
    const batch = this.sealed.shift()!
    this.inFlight = false
    if (baseOffset < 0n) this.offsetsKnown = false
    else {
      if (this.count === 0) this.firstOffset = baseOffset
      this.lastOffset = baseOffset + BigInt(batch.count) - 1n
    }
    this.count += batch.count
    this.digest = extendDigest(this.digest, batch.recordsCrc)
    this.builder.release(batch.bytes)
    return batch.bytes.length
  }

  /** What is stored; undefined when nothing is. */
  written(): WrittenPartition | undefined {
    if (this.count === 0) return undefined
    const { topic, partition, count, offsetsKnown } = this
    return {
      topic,
      partition,
      firstOffset: offsetsKnown ? this.firstOffset : -1n,
      lastOffset: offsetsKnown ? this.lastOffset : -1n,
      count,
      digest: digestText(this.digest),
    }
  }

  /** Sets the bounds of what is stored after the broker was asked again. */
  locate(firstOffset: bigint, lastOffset: bigint): void {
    this.firstOffset = firstOffset
    this.lastOffset = lastOffset
    this.offsetsKnown = true
  }
}
