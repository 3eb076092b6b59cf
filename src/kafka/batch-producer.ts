/**
 * Sends records as fast as the brokers take them, in order, within fixed memory.
 *
 * Records gather per partition in an open batch. A batch goes out when it is full, when the producer is flushed, or, in an eager producer,
 * as soon as nothing is in flight to its leader: so a quiet stream is not delayed, and batches grow by themselves under load. What a
 * transaction holds is invisible until its end anyway, so a transactional writer is not eager: small requests would only cost both sides. One request carries one batch each of many partitions of one leader.
 *
 *              append                 leader idle, full, flush                acknowledged
 *   (nothing) ───────▶ open batch ───────────────────────────▶ in flight ────────────────▶ written
 *                                          any refusal ▼
 *                                                  failed: every call throws the first error; the owner drops the producer
 *
 * A partition has one batch in flight at a time (see partition-queue.ts), a leader `maxInFlight` requests.
 */
import { IllegalTransitionError, KafkaError } from '../errors.ts'
import { BatchBufferPool } from './batch-buffer-pool.ts'
import type { Compression } from './compression.ts'
import {
  type KafkaCluster,
  KafkaCode,
  type ProducedPartition,
  type ProducerIdentity,
  type TopicPartition,
} from './kafka-cluster.ts'
import { PartitionQueue, type WrittenPartition } from './partition-queue.ts'
import { produceError } from './produce-error.ts'
import { RecordBatchBuilder, type RecordData } from './record-batch-builder.ts'

/** What the producer needs of a cluster. */
export type ProducerCluster = Pick<KafkaCluster, 'leaderOf' | 'produce' | 'describeProducers' | 'listOffsets'>

export interface BatchProducerOptions {
  readonly cluster: ProducerCluster
  /** Default 'none'. */
  readonly compression?: Compression
  /** Size at which a batch is full, before compression. Default 256 KiB. */
  readonly batchBytes?: number
  /** Largest batch for a single large record; more is a SerializationError. Default 1 MiB, as Kafka's `max.request.size`. */
  readonly maxRecordBatchBytes?: number
  /** Batches of one request together, unless one alone is larger. Default 1 MiB. */
  readonly maxRequestBytes?: number
  /** Requests in flight to one leader. Default 5. */
  readonly maxInFlight?: number
  /** Bytes not yet acknowledged at which `ready` asks the owner to wait. Default 8 MiB. */
  readonly maxBufferedBytes?: number
  /** Default -1: all in-sync replicas. */
  readonly acks?: -1 | 1
  /** Passed on to `KafkaCluster.produce`. */
  readonly timeoutMs?: number
  /** Send what there is as soon as nothing is in flight. Default true. */
  readonly eager?: boolean
  /** Awaited before the first batch goes to partitions that the transaction does not have yet; once a partition and identity. */
  readonly beforeFirst?: (partitions: readonly TopicPartition[]) => Promise<void>
}

interface Waiter {
  /** Resolve when at most this many bytes are pending. */
  readonly level: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Batches and sends the records of one sink subtask. All records between two `use` calls belong to one transaction. */
export class BatchProducer {
  private readonly options: BatchProducerOptions
  private readonly cluster: ProducerCluster
  private readonly maxRequestBytes: number
  private readonly maxInFlight: number
  private readonly eager: boolean
  /** Partly filled batches go out with the next dispatch although the producer is not eager. */
  private pushing = false
  private readonly maxBufferedBytes: number
  private readonly pool = new BatchBufferPool()
  private readonly topics = new Map<string, (PartitionQueue | undefined)[]>()
  /** Partitions of the current identity, in the order of their first record. */
  private active: PartitionQueue[] = []
  /** Requests in flight by leader. */
  private readonly inFlight = new Map<number, number>()
  private identity: ProducerIdentity | undefined
  private generation = 0
  /** Bytes of open, sealed and flying batches. */
  private buffered = 0
  private waiters: Waiter[] = []
  private dispatching = false
  private dispatchAgain = false
  private failure: Error | undefined
  /** The topic that was written to last: most jobs write to one. */
  private lastTopic = ''
  private lastPartitions: (PartitionQueue | undefined)[] = []
  /** Rotates who is served first, so that no partition starves behind others. */
  private turn = 0

  constructor(options: BatchProducerOptions) {
    this.options = options
    this.cluster = options.cluster
    this.maxRequestBytes = options.maxRequestBytes ?? 1_048_576
    this.maxInFlight = options.maxInFlight ?? 5
    this.eager = options.eager ?? true
    this.maxBufferedBytes = options.maxBufferedBytes ?? 8_388_608
  }

  /** Bytes that are not acknowledged yet. */
  get bufferedBytes(): number {
    return this.buffered
  }

  /**
   * Takes a record. Never waits: call `ready` after each vector and await what it returns, or memory grows.
   * @throws SerializationError for a record that is too large, and the producer's failure once it has failed.
   */
  append(
    topic: string,
    partition: number,
    key: RecordData,
    value: RecordData,
    timestamp: number,
    headers?: readonly (readonly [string, RecordData])[],
  ): void {
    if (this.failure !== undefined) throw this.failure
    if (topic !== this.lastTopic) this.selectTopic(topic)
    let queue = this.lastPartitions[partition]
    if (queue === undefined || queue.generation !== this.generation) queue = this.activate(topic, partition)
    const { builder } = queue
    const before = builder.filledBytes
    if (builder.append(key, value, timestamp, headers)) {
      this.buffered += builder.filledBytes - before
      return
    }
    this.buffered += queue.seal(this.identity)
    this.dispatch()
    builder.append(key, value, timestamp, headers)
    this.buffered += builder.filledBytes
  }

  /**
   * Call after each vector: sends what may go, and answers undefined when more records are welcome, or else a promise to wait for.
   * @throws the producer's failure; the promise rejects with it.
   */
  ready(): Promise<void> | undefined {
    this.tick()
    return this.buffered < this.maxBufferedBytes ? undefined : this.drained(this.maxBufferedBytes / 2)
  }

  /** Sends the open batches of leaders that have nothing in flight. Call it when a vector is over. @throws the producer's failure. */
  tick(): void {
    if (this.failure !== undefined) throw this.failure
    if (this.buffered > 0) this.dispatch()
  }

  /** Sends what there is to leaders that have nothing in flight, however little: for an owner that let records linger. */
  push(): void {
    this.pushing = true
    this.tick()
  }

  /** Sends everything; resolves when all of it is stored. Nothing may be appended meanwhile. @throws the first failure. */
  async flush(): Promise<void> {
    if (this.failure !== undefined) throw this.failure
    if (this.buffered > 0) await this.drained(0)
    for (const queue of this.active) {
      if (this.identity !== undefined && queue.written()?.lastOffset === -1n)
        await this.locate(queue, this.identity)
    }
  }

  /**
   * Writes from now on as `identity`: in its transaction, with sequence numbers from 0. Undefined = without a transaction.
   * The identity that is in use already is left as it is. @throws IllegalTransitionError while records are pending.
   */
  use(identity: ProducerIdentity | undefined): void {
    if (this.failure !== undefined) throw this.failure
    if (this.buffered > 0)
      throw new IllegalTransitionError('batch producer', 'records pending', 'use another identity')
    const current = this.identity
    if (
      identity !== undefined &&
      current?.producerId === identity.producerId &&
      current.producerEpoch === identity.producerEpoch
    ) {
      return
    }
    this.identity = identity
    this.generation++
    this.active = []
  }

  /** What is stored since `use`, sorted by topic and partition. Complete after `flush`. */
  written(): WrittenPartition[] {
    return this.active
      .map((queue) => queue.written())
      .filter((written) => written !== undefined)
      .sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition))
  }

  private selectTopic(topic: string): void {
    let partitions = this.topics.get(topic)
    if (partitions === undefined) {
      partitions = []
      this.topics.set(topic, partitions)
    }
    this.lastTopic = topic
    this.lastPartitions = partitions
  }

  /** The partition's queue, made or restarted for the current identity. */
  private activate(topic: string, partition: number): PartitionQueue {
    let queue = this.lastPartitions[partition]
    if (queue === undefined) {
      const { batchBytes = 262_144, compression = 'none', maxRecordBatchBytes = 1_048_576 } = this.options
      const { pool } = this
      queue = new PartitionQueue(
        topic,
        partition,
        new RecordBatchBuilder({
          maxBytes: batchBytes,
          compression,
          maxRecordBatchBytes,
          topic,
          partition,
          pool,
        }),
      )
      this.lastPartitions[partition] = queue
    }
    queue.restart(this.generation)
    this.active.push(queue)
    return queue
  }

  /** Sends what may go, after the code that runs now is done: so a vector's records are not torn into many small batches. */
  private dispatch(): void {
    if (this.dispatching) {
      this.dispatchAgain = true
      return
    }
    this.dispatching = true
    void this.dispatchAll()
  }

  private async dispatchAll(): Promise<void> {
    try {
      await undefined
      do {
        this.dispatchAgain = false
        // Records may wait for a full batch; that their partitions are part of the transaction need not.
        if (!this.eager) await this.addToTransaction(this.active)
        if (this.failure !== undefined) break
        const due = this.due()
        if (due.length === 0) continue
        await Promise.all(
          due.map(async (queue) => {
            queue.leader = await this.cluster.leaderOf(queue.topic, queue.partition)
          }),
        )
        await this.addToTransaction(due)
        if (this.failure === undefined) this.sendAll(due)
      } while (this.dispatchAgain && this.failure === undefined)
    } catch (error) {
      this.fail(error as Error)
    } finally {
      this.dispatching = false
    }
  }

  /** True while somebody waits: then batches go out before they are full, also to a busy leader. */
  private get urgent(): boolean {
    return this.waiters.length > 0
  }

  /** Partitions that have something to send now. */
  private due(): PartitionQueue[] {
    const due: PartitionQueue[] = []
    const { active } = this
    this.turn = active.length === 0 ? 0 : (this.turn + 1) % active.length
    for (let i = 0; i < active.length; i++) {
      const queue = active[(i + this.turn) % active.length]!
      if (queue.inFlight || !queue.hasWork) continue
      const flying = this.inFlight.get(queue.leader) ?? 0
      const worthwhile = this.urgent || queue.head !== undefined
      if (flying === 0 ? worthwhile || this.eager || this.pushing : flying < this.maxInFlight && worthwhile)
        due.push(queue)
    }
    this.pushing = false
    return due
  }

  private async addToTransaction(due: readonly PartitionQueue[]): Promise<void> {
    const { beforeFirst } = this.options
    const fresh = due.filter((queue) => !queue.added)
    if (fresh.length === 0) return
    if (this.identity !== undefined && beforeFirst !== undefined) {
      await beforeFirst(fresh.map(({ topic, partition }) => ({ topic, partition })))
    }
    for (const queue of fresh) queue.added = true
  }

  /** Groups the partitions by leader and sends as many requests as are allowed. */
  private sendAll(due: readonly PartitionQueue[]): void {
    const requests = new Map<number, { queues: PartitionQueue[]; bytes: number }>()
    const busy = new Set(
      due.map(({ leader }) => leader).filter((leader) => (this.inFlight.get(leader) ?? 0) > 0),
    )
    for (const queue of due) {
      const { leader } = queue
      if (queue.head === undefined && busy.has(leader) && !this.urgent) continue
      let request = requests.get(leader)
      if (request === undefined && (this.inFlight.get(leader) ?? 0) >= this.maxInFlight) continue
      if (queue.head === undefined) this.buffered += queue.seal(this.identity)
      const size = queue.head!.bytes.length
      if (request !== undefined && request.bytes + size > this.maxRequestBytes) {
        void this.send(leader, request.queues)
        requests.delete(leader)
        request = undefined
        if (this.inFlight.get(leader)! >= this.maxInFlight) continue
      }
      if (request === undefined) requests.set(leader, { queues: [queue], bytes: size })
      else {
        request.queues.push(queue)
        request.bytes += size
      }
    }
    for (const [leader, { queues }] of requests) void this.send(leader, queues)
  }

  private async send(leader: number, queues: readonly PartitionQueue[]): Promise<void> {
    this.inFlight.set(leader, (this.inFlight.get(leader) ?? 0) + 1)
    for (const queue of queues) queue.inFlight = true
    const { acks = -1, timeoutMs } = this.options
    try {
      const results = await this.cluster.produce({
        acks,
        transactionalId: this.identity?.transactionalId ?? null,
        partitions: queues.map(({ topic, partition, head }) => ({ topic, partition, batch: head!.bytes })),
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      })
      if (this.failure !== undefined) return
      for (const result of results) this.settle(result)
      const unanswered = queues.find((queue) => queue.inFlight)
      if (unanswered !== undefined) throw noAnswer(unanswered)
      this.inFlight.set(leader, this.inFlight.get(leader)! - 1)
      this.wakeWaiters()
      if (this.buffered > 0) this.dispatch()
    } catch (error) {
      this.fail(error as Error)
    }
  }

  /** Notes one partition's answer. @throws the error of a refused batch. */
  private settle(result: ProducedPartition): void {
    const queue = this.topics.get(result.topic)?.[result.partition]
    if (queue === undefined || !queue.inFlight) return
    if (result.errorCode !== KafkaCode.NONE && result.errorCode !== KafkaCode.DUPLICATE_SEQUENCE_NUMBER) {
      const change = result.errorCode === KafkaCode.MESSAGE_TOO_LARGE ? queue.split() : undefined
      if (change === undefined) throw produceError(result, queue.head!.bytes.length, this.identity)
      this.buffered += change
      return
    }
    this.buffered -= queue.acknowledge(result.baseOffset)
  }

  /**
   * Bounds of what the transaction stored on a partition whose offsets an answer left out: from the transaction's first offset there
   * to the end of the log. Between them may be other producers' records; whoever reads them goes by producer id and epoch.
   */
  private async locate(queue: PartitionQueue, identity: ProducerIdentity): Promise<void> {
    const { topic, partition } = queue
    const producers = await this.cluster.describeProducers({ topic, partition })
    const own = producers.find((producer) => producer.producerId === identity.producerId)
    const [end] = await this.cluster.listOffsets([{ topic, partition }], 'latest', 'read_uncommitted')
    if (own === undefined || own.currentTxnStartOffset < 0n || end === undefined || end.errorCode !== 0)
      throw noAnswer(queue)
    queue.locate(own.currentTxnStartOffset, end.offset - 1n)
  }

  /** Resolves when no more than `level` bytes are pending. */
  private drained(level: number): Promise<void> {
    const waiting = new Promise<void>((resolve, reject) => {
      this.waiters.push({ level, resolve, reject })
    })
    this.dispatch()
    return waiting
  }

  private wakeWaiters(): void {
    if (this.waiters.length === 0) return
    const woken = this.waiters.filter(({ level }) => this.buffered <= level)
    this.waiters = this.waiters.filter(({ level }) => this.buffered > level)
    for (const { resolve } of woken) resolve()
  }

  private fail(error: Error): void {
    if (this.failure !== undefined) return
    this.failure = error
    const { waiters } = this
    this.waiters = []
    for (const { reject } of waiters) reject(error)
  }
}

function noAnswer({ topic, partition }: TopicPartition): KafkaError {
  return new KafkaError(
    'MILLRACE_KAFKA_PROTOCOL',
    `The broker did not say what it stored on ${topic}-${partition}`,
    { brokerCode: -1, brokerError: 'NO_ANSWER', api: 'Produce' },
    { details: { topic, partition }, retriable: true },
  )
}
