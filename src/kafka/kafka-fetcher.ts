/**
 * Keeps each split of one reader supplied with fetched bytes: one long poll a leader, at most two buffers a split, so memory is flat
 * whatever the lag. Positions move by batch headers, so the next fetch goes out while the last answer is being decoded.
 */
import { deadline } from '../core/deadline.ts'
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
/** Bytes of all splits that wait to be decoded, beyond which nothing more is fetched: memory stays flat with any number of partitions. */
const BUFFER_BUDGET_BYTES = 16 << 20
/** Largest answer asked for at once. */
const MAX_ANSWER_BYTES = 8 << 20
/** Long polls that leave a busy split out must not hold it up when it has room again. */
const SHORT_WAIT_MS = 10
/** How long a fetch waits to know who leads each of its partitions. */
const LOCATE_MS = 50
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
  /** Room came free while fetches were being assigned: look again, or nobody would. */
  #again = false
  /** Splits whose leader is being asked for. */
  readonly #locating = new Set<FetchedSplit>()
  #retryMs = RETRY_MS
  #backingOff = false
  /** Brokers fill an answer in the order of the request: everybody is first in turn. */
  #rotation = 0

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
    if (this.#closed || this.#backingOff) return
    if (this.#assigning) {
      // What changed meanwhile may have been looked at already.
      this.#again = true
      return
    }
    this.#assigning = true
    this.#assign()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#assigning = false
        if (!this.#again) return
        this.#again = false
        this.pump()
      })
  }

  /** Leaders of the splits, as far as they are known in a moment: a partition that has none now must not hold up the others. */
  async #leaders(splits: readonly FetchedSplit[]): Promise<ReadonlyMap<FetchedSplit, number>> {
    const { cluster, world } = this.#options
    const leaders = new Map<FetchedSplit, number>()
    let late = false
    const asked = splits.map(async (split) => {
      this.#locating.add(split)
      try {
        leaders.set(split, await cluster.leaderOf(split.topic, split.partition))
        this.#locating.delete(split)
        if (late) this.pump()
      } catch (error) {
        this.#locating.delete(split)
        if (!late) throw error
        this.#failed(error)
      }
    })
    const wait = deadline(world.timers, LOCATE_MS)
    await Promise.race([Promise.all(asked), wait.expired])
    wait.cancel()
    late = true
    return new Map(leaders)
  }

  async #assign(): Promise<void> {
    // Splits that are added one after another go into one fetch: the first alone would keep its leader busy for a long poll.
    await undefined
    const wanting: FetchedSplit[] = []
    const byLeader = new Map<number, FetchedSplit[]>()
    let leftOut = false
    const buffered = this.#splits.reduce(
      (sum, split) => sum + split.buffers.reduce((bytes, b) => bytes + b.records.length, 0),
      0,
    )
    if (buffered >= BUFFER_BUDGET_BYTES) return
    this.#rotation = this.#splits.length === 0 ? 0 : (this.#rotation + 1) % this.#splits.length
    for (const split of [...this.#splits.slice(this.#rotation), ...this.#splits.slice(0, this.#rotation)]) {
      if (split.stop !== undefined && split.fetchOffset >= split.stop) continue
      if (split.buffers.length >= BUFFERS_PER_SPLIT) {
        leftOut = true
        continue
      }
      if (!this.#locating.has(split)) wanting.push(split)
    }
    if (wanting.length === 0) return
    for (const [split, leader] of await this.#leaders(wanting)) {
      if (this.#busy.has(leader) || split.buffers.length >= BUFFERS_PER_SPLIT) continue
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
      maxBytes: Math.min(maxBytes * splits.length, Math.max(MAX_ANSWER_BYTES, maxBytes)),
    })
    if (this.#closed) return
    let arrived = false
    const refused: Promise<void>[] = []
    for (const answer of answers) {
      const split = splits.find((s) => s.topic === answer.topic && s.partition === answer.partition)
      if (split === undefined) continue
      if (answer.errorCode !== KafkaCode.NONE) {
        refused.push(this.#options.onPartitionError(split, answer))
        continue
      }
      split.highWatermark = answer.highWatermark
      split.lastStableOffset = answer.lastStableOffset
      if (answer.records.length > 0 && this.#take(split, answer)) arrived = true
    }
    if (arrived) onData()
    await Promise.all(refused)
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
