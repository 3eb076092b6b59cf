/**
 * Keeps each split of one reader supplied with fetched bytes: one long poll a leader, at most two buffers a split, so memory is flat
 * whatever the lag. Positions move by batch headers, so the next fetch goes out while the last answer is being decoded.
 */
import type { World } from '../core/ports.ts'
import { isMillraceError, KafkaError } from '../errors.ts'
import {
  type AbortedTransaction,
  type FetchedPartition,
  type IsolationLevel,
  type KafkaCluster,
  KafkaCode,
} from './kafka-cluster.ts'
import { BatchField, LOG_OVERHEAD } from './record-batch-header.ts'

/** Answers waiting to be decoded, per split. More would only cost memory. */
const BUFFERS_PER_SPLIT = 2
/** Long polls that leave a busy split out must not hold it up when it has room again. */
const SHORT_WAIT_MS = 10
const RETRY_MS = 100
const MAX_RETRY_MS = 2_000

/** Bytes of one fetch answer for one split. */
export interface FetchedBytes {
  readonly records: Buffer
  readonly fetchOffset: bigint
  readonly aborted: readonly AbortedTransaction[] | undefined
  readonly requestedBytes: number
}

/** One split as the fetcher sees it. */
export interface FetchedSplit {
  readonly topic: string
  readonly partition: number
  /** Where the next fetch begins. */
  fetchOffset: bigint
  /** First offset that is not wanted; undefined = unbounded. */
  readonly stop: bigint | undefined
  readonly buffers: FetchedBytes[]
  maxBytes: number
  highWatermark: bigint
  lastStableOffset: bigint
}

export interface FetcherOptions {
  readonly cluster: KafkaCluster
  readonly isolation: IsolationLevel
  readonly maxBytes: number
  readonly maxWaitMs: number
  readonly world: World
  /** New bytes, or an error to be found by `poll`. */
  readonly onData: () => void
  /** An answer with an error code that is not transient. */
  readonly onPartitionError: (split: FetchedSplit, answer: FetchedPartition) => Promise<void>
  readonly onError: (error: unknown) => void
}

export class KafkaFetcher {
  readonly #options: FetcherOptions
  readonly #splits: FetchedSplit[] = []
  /** Leaders with a fetch under way. */
  readonly #busy = new Set<number>()
  #closed = false
  #assigning = false
  #retryMs = RETRY_MS
  #backingOff = false

  constructor(options: FetcherOptions) {
    this.#options = options
  }

  add(split: FetchedSplit): void {
    this.#splits.push(split)
    this.pump()
  }

  close(): void {
    this.#closed = true
  }

  /** Sends fetches wherever a leader is free and a split has room. Called when a buffer was used up. */
  pump(): void {
    if (this.#closed || this.#assigning || this.#backingOff) return
    this.#assigning = true
    this.#assign()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#assigning = false
      })
  }

  async #assign(): Promise<void> {
    const { cluster } = this.#options
    const byLeader = new Map<number, FetchedSplit[]>()
    let leftOut = false
    for (const split of this.#splits) {
      if (split.stop !== undefined && split.fetchOffset >= split.stop) continue
      if (split.buffers.length >= BUFFERS_PER_SPLIT) {
        leftOut = true
        continue
      }
      const leader = await cluster.leaderOf(split.topic, split.partition)
      if (this.#busy.has(leader)) continue
      const splits = byLeader.get(leader)
      if (splits === undefined) byLeader.set(leader, [split])
      else splits.push(split)
    }
    for (const [leader, splits] of byLeader) {
      this.#busy.add(leader)
      this.#fetch(splits, leftOut).then(
        () => {
          this.#busy.delete(leader)
          this.#retryMs = RETRY_MS
          this.pump()
        },
        (error: unknown) => {
          this.#busy.delete(leader)
          this.#failed(error)
        },
      )
    }
  }

  async #fetch(splits: readonly FetchedSplit[], leftOut: boolean): Promise<void> {
    const { cluster, isolation, maxBytes, maxWaitMs, onData } = this.#options
    const answers = await cluster.fetch({
      isolation,
      partitions: splits.map((s) => ({
        topic: s.topic,
        partition: s.partition,
        offset: s.fetchOffset,
        maxBytes: s.maxBytes,
      })),
      maxWaitMs: leftOut ? Math.min(SHORT_WAIT_MS, maxWaitMs) : maxWaitMs,
      minBytes: 1,
      maxBytes: Math.max(maxBytes * splits.length, maxBytes),
    })
    if (this.#closed) return
    let arrived = false
    for (const answer of answers) {
      const split = splits.find((s) => s.topic === answer.topic && s.partition === answer.partition)
      if (split === undefined) continue
      if (answer.errorCode !== KafkaCode.NONE) {
        await this.#options.onPartitionError(split, answer)
        continue
      }
      split.highWatermark = answer.highWatermark
      split.lastStableOffset = answer.lastStableOffset
      if (answer.records.length > 0 && this.#take(split, answer)) arrived = true
    }
    if (arrived) onData()
  }

  #take(split: FetchedSplit, answer: FetchedPartition): boolean {
    const fetchOffset = split.fetchOffset
    const next = offsetAfter(answer.records, fetchOffset)
    if (next === undefined) {
      // The first batch is larger than what was asked for: ask for more. (Brokers since 0.10.1 send it whole, so this is a safeguard.)
      split.maxBytes = Math.min(split.maxBytes * 2, 1 << 30)
      return false
    }
    split.buffers.push({
      records: answer.records,
      fetchOffset,
      aborted: this.#options.isolation === 'read_committed' ? answer.abortedTransactions : undefined,
      requestedBytes: split.maxBytes,
    })
    split.fetchOffset = next
    return true
  }

  #failed(error: unknown): void {
    if (this.#closed) return
    if (
      !isMillraceError(error) ||
      !(error instanceof KafkaError || error.code.startsWith('MILLRACE_KAFKA')) ||
      !error.retriable
    ) {
      this.#options.onError(error)
      return
    }
    const delay = this.#retryMs
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS)
    this.#options.world.logger.warn(`fetching failed, trying again in ${delay} ms: ${error.message}`)
    this.#backingOff = true
    this.#options.world.timers.schedule(delay, () => {
      this.#backingOff = false
      this.pump()
    })
  }
}

/**
 * The offset after the last whole batch, by the batches' lengths alone: damage is found, and named, when they are decoded.
 * Undefined = not one whole batch.
 */
function offsetAfter(records: Buffer, fetchOffset: bigint): bigint | undefined {
  let last = -1
  for (let start = 0; start + BatchField.RECORDS <= records.length; ) {
    const size = LOG_OVERHEAD + records.readInt32BE(start + BatchField.LENGTH)
    if (size < BatchField.RECORDS) return fetchOffset
    if (start + size > records.length) break
    last = start
    start += size
  }
  if (last < 0) return undefined
  const after =
    records.readBigInt64BE(last) + BigInt(records.readInt32BE(last + BatchField.LAST_OFFSET_DELTA)) + 1n
  return after > fetchOffset ? after : fetchOffset
}
