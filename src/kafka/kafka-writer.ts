/**
 * Writes the records of one sink subtask: records between two barriers go to one transaction, those after the barrier to another one.
 * With no id free the writer holds records back until the newest prepared checkpoint is decided: complete → another id comes free;
 * aborted → it goes on in the same transaction.
 */
import type { SerdeContext, SinkWriterContext, TwoPhaseSinkWriter } from '../core/connector.ts'
import { deadline } from '../core/deadline.ts'
import type { RecordVector } from '../core/element.ts'
import { userError } from '../core/operators/user-error.ts'
import type { TimerHandle } from '../core/ports.ts'
import { KafkaError, MillraceError, SerializationError } from '../errors.ts'
import { BatchProducer } from './batch-producer.ts'
import { type KafkaCluster, KafkaCode, type ProducerIdentity } from './kafka-cluster.ts'
import type { KafkaCommittable, WrittenRange } from './kafka-committable.ts'
import type { KafkaSinkOptions, SinkKey } from './kafka-sink-options.ts'
import { KeylessPartitioner, partitionForKey } from './partitioner.ts'
import { RetentionWatch } from './topic-retention.ts'
import { type TransactionSlot, TransactionSlots } from './transaction-slots.ts'

export interface KafkaWriterOptions<T> {
  readonly sink: KafkaSinkOptions<T>
  readonly cluster: KafkaCluster
  /** Transactional ids to write with; undefined = no transactions. */
  readonly leases: readonly ProducerIdentity[] | undefined
  readonly acks: -1 | 1
  readonly transactionTimeoutMs: number
  readonly assertAlive: () => void
  /** For opening the serde. */
  readonly serdes?: SerdeContext
  readonly context: SinkWriterContext
}

interface KnownTopic {
  readonly topicId: string
  readonly partitions: number
  readonly asOf: number
}

/** How long `close` waits for requests on their way. */
const CLOSE_MS = 1_000
/** Milliseconds that a record of a transaction may wait for others before it goes to the broker. */
const LINGER_MS = 50
/** Milliseconds after which a topic's number of partitions is looked up again. */
const TOPIC_REFRESH_MS = 60_000

export class KafkaWriter<T> implements TwoPhaseSinkWriter<T, KafkaCommittable> {
  readonly #options: KafkaWriterOptions<T>
  readonly #producer: BatchProducer
  readonly #slots: TransactionSlots | undefined
  readonly #topics = new Map<string, KnownTopic>()
  readonly #keyless: KeylessPartitioner
  readonly #retention: RetentionWatch
  #open: TransactionSlot | undefined
  /** Facts of prepared transactions, by slot. */
  readonly #committables = new Map<TransactionSlot, KafkaCommittable>()
  #waiters: (() => void)[] = []
  #failure: unknown
  #linger: TimerHandle | undefined
  #closed = false
  /** Requests that may begin or extend a transaction, on their way. */
  #calls = 0
  #quiet: (() => void) | undefined

  constructor(options: KafkaWriterOptions<T>) {
    this.#options = options
    const { cluster, sink, acks, leases, context } = options
    this.#slots = leases === undefined ? undefined : new TransactionSlots(leases)
    this.#keyless = new KeylessPartitioner(context.info.subtaskIndex)
    this.#retention = new RetentionWatch(cluster, (message) =>
      context.world.logger.warn(`${context.info.operatorName}: ${message}`),
    )
    this.#producer = new BatchProducer({
      cluster: {
        leaderOf: (topic, partition) => cluster.leaderOf(topic, partition),
        produce: (request) => this.#calling(() => cluster.produce(request)),
        describeProducers: (partition) => cluster.describeProducers(partition),
        listOffsets: (partitions, at, isolation) => cluster.listOffsets(partitions, at, isolation),
      },
      acks,
      compression: sink.compression ?? 'none',
      eager: leases === undefined,
      beforeFirst: async (partitions) => {
        const slot = this.#open
        if (slot !== undefined)
          await this.#calling(() => cluster.addPartitionsToTxn(slot.identity, partitions))
      },
    })
  }

  describe(): string | undefined {
    const slots = this.#slots
    if (slots === undefined) return undefined
    const open = this.#open
    const now = this.#options.context.world.clock.now()
    const prepared = slots.prepared.map(({ identity, n }) => `${identity.transactionalId} (checkpoint ${n})`)
    const parts = [
      open === undefined
        ? 'no transaction is open'
        : `transaction ${open.identity.transactionalId} is open for ${now - open.openedAt} ms`,
    ]
    if (prepared.length > 0) parts.push(`prepared: ${prepared.join(', ')}`)
    if (this.#waiters.length > 0) parts.push('records wait for a free transactional id')
    return parts.join('; ')
  }

  async open(): Promise<void> {
    const { sink, serdes = {} } = this.#options
    await sink.value.open?.(serdes)
    if (typeof sink.topic === 'string') await this.#lookUp(sink.topic)
  }

  /** A request that changes a log or a transaction: never after `close`, nor after a silence in which another worker may have taken over. */
  async #calling<R>(call: () => Promise<R>): Promise<R> {
    if (this.#closed) throw this.#failure
    this.#options.assertAlive()
    this.#calls++
    try {
      return await call()
    } finally {
      if (--this.#calls === 0) this.#quiet?.()
    }
  }

  write(vector: RecordVector<T>): void | Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    if (vector.values.length === 0) return
    this.#options.assertAlive()
    if (this.#slots !== undefined && this.#open === undefined && !this.#begin())
      return this.#held().then(() => this.write(vector))
    return this.#append(vector, 0)
  }

  /** False when the writer must hold records back. */
  #begin(): boolean {
    const slots = this.#slots as TransactionSlots
    const slot = slots.take(this.#options.context.world.clock.now())
    if (slot !== undefined) {
      this.#open = slot
      this.#producer.use(slot.identity)
      return true
    }
    // Nothing was begun after the newest prepared one: the producer still has its identity and its sequence numbers.
    this.#open = slots.reopen()
    if (this.#open === undefined) return false
    this.#committables.delete(this.#open)
    return true
  }

  #append(vector: RecordVector<T>, from: number): void | Promise<void> {
    const { sink, context } = this.#options
    const { values, timestamps } = vector
    const { value: serde, key: keyOf, headers: headersOf, timestamp: timestampOf } = sink
    const fixedTopic = typeof sink.topic === 'string' ? sink.topic : undefined
    const now = context.world.clock.now()
    let given = Number.NaN
    let topic = fixedTopic ?? ''
    let known = fixedTopic === undefined ? undefined : this.#topics.get(fixedTopic)
    let i = from
    try {
      for (; i < values.length; i++) {
        const value = values[i] as T
        if (fixedTopic === undefined) {
          topic = (sink.topic as (value: T) => string)(value)
          known = this.#topics.get(topic)
        }
        if (known === undefined || now - known.asOf > TOPIC_REFRESH_MS) {
          context.recordsOut.inc(i - from)
          return this.#lookUp(topic).then(() => this.#append(vector, i))
        }
        const preparing = serde.prepareSerialize?.(value, topic)
        if (preparing !== undefined) {
          context.recordsOut.inc(i - from)
          return preparing.then(() => this.#append(vector, i))
        }
        const bytes = this.#serialize(value, topic)
        const key = keyOf === undefined ? null : keyBytes(keyOf(value))
        const partition =
          sink.partition === undefined
            ? key === null
              ? this.#keyless.next(bytes === null ? 16 : bytes.length + 16, known.partitions)
              : partitionForKey(key, known.partitions)
            : this.#chosen(sink.partition(value, known.partitions), topic, known.partitions)
        given = timestampOf === undefined ? (timestamps[i] as number) : timestampOf(value)
        this.#producer.append(
          topic,
          partition,
          key,
          bytes,
          Number.isNaN(given) ? now : given,
          headersOf?.(value),
        )
      }
    } catch (error) {
      throw userError(error, context.info, 'a selector', values[i])
    }
    context.recordsOut.inc(values.length - from)
    // One record of a vector stands for all: a job that writes old ones writes many.
    this.#retention.saw(topic, given, now)
    if (this.#slots !== undefined)
      this.#linger ??= context.world.timers.schedule(LINGER_MS, () => this.#push(), true)
    return this.#producer.ready()
  }

  /** Under load batches are full long before this; a slow stream's records must not wait for the barrier to reach the broker. */
  #push(): void {
    this.#linger = undefined
    if (this.#closed) return
    try {
      this.#producer.push()
    } catch (error) {
      this.#failure ??= error
    }
  }

  #serialize(value: T, topic: string): string | Uint8Array | null {
    const { value: serde } = this.#options.sink
    try {
      const bytes =
        serde.toText === undefined || value === null ? serde.serialize(value, topic) : serde.toText(value)
      if (bytes === undefined) throw new TypeError('the serde returned undefined')
      return bytes
    } catch (cause) {
      throw new SerializationError(
        'MILLRACE_SERIALIZATION',
        `${this.#options.context.info.operatorName}: cannot encode a value for topic ${topic} with ${serde.name}: ${cause instanceof Error ? cause.message : String(cause)}`,
        { cause, details: { topic } },
      )
    }
  }

  #chosen(partition: number, topic: string, partitions: number): number {
    if (Number.isInteger(partition) && partition >= 0 && partition < partitions) return partition
    throw new SerializationError(
      'MILLRACE_SERIALIZATION',
      `the partition selector chose ${partition} for topic ${topic}, which has partitions 0 to ${partitions - 1}`,
    )
  }

  async #lookUp(topic: string): Promise<void> {
    const { cluster, context } = this.#options
    const [described] = await cluster.describeTopics([topic])
    if (described === undefined)
      throw new MillraceError(
        'MILLRACE_TOPIC_MISSING',
        `${context.info.operatorName}: no such topic: ${topic}`,
        { details: { topic } },
      )
    this.#topics.set(topic, {
      topicId: described.topicId,
      partitions: described.partitions.length,
      asOf: context.world.clock.now(),
    })
  }

  async flush(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    await this.#producer.flush()
  }

  prepareCommit(checkpointId: number): readonly KafkaCommittable[] {
    const slots = this.#slots
    if (slots === undefined) return []
    const open = this.#open
    if (open !== undefined) {
      const ranges = this.#producer.written().map(
        (w): WrittenRange => ({
          topic: w.topic,
          topicId: (this.#topics.get(w.topic) as KnownTopic).topicId,
          partition: w.partition,
          firstOffset: String(w.firstOffset),
          lastOffset: String(w.lastOffset),
          count: w.count,
          digest: w.digest,
        }),
      )
      // Nothing was written to the transaction: the broker does not know it, and it could not be committed.
      if (ranges.length > 0) {
        slots.prepare(open, checkpointId)
        this.#open = undefined
        this.#committables.set(open, {
          transactionalId: open.identity.transactionalId,
          producerId: String(open.identity.producerId),
          producerEpoch: open.identity.producerEpoch,
          attempt: this.#options.context.info.attempt,
          n: checkpointId,
          deadline: open.openedAt + this.#options.transactionTimeoutMs,
          ranges,
        })
      }
    }
    slots.hold(checkpointId)
    return slots.prepared.map((slot) => this.#committables.get(slot) as KafkaCommittable)
  }

  notifyCheckpointComplete(checkpointId: number): void {
    this.#slots?.complete(checkpointId)
    this.#wake()
  }

  notifyCheckpointAborted(checkpointId: number): void {
    this.#slots?.aborted(checkpointId)
    this.#wake()
  }

  notifyCheckpointConfirmed(checkpointId: number): void {
    for (const slot of this.#slots?.confirmed(checkpointId) ?? []) {
      this.#committables.delete(slot)
      void this.#renew(slot)
    }
  }

  /** A new epoch for the id's next transaction, by compare-and-set: whoever took the id meanwhile keeps it. */
  async #renew(slot: TransactionSlot): Promise<void> {
    const { cluster, transactionTimeoutMs } = this.#options
    const { transactionalId, producerId, producerEpoch } = slot.identity
    if (this.#closed) return
    try {
      // A compare-and-set that another worker has made void is refused, and yet aborts what that one has open.
      const identity = await this.#calling(() =>
        cluster.initProducerId({
          transactionalId,
          transactionTimeoutMs,
          expected: { producerId, producerEpoch },
        }),
      )
      ;(this.#slots as TransactionSlots).renewed(slot, identity)
    } catch (error) {
      if (this.#closed) return
      const fenced =
        error instanceof KafkaError &&
        (error.brokerCode === KafkaCode.INVALID_PRODUCER_EPOCH ||
          error.brokerCode === KafkaCode.PRODUCER_FENCED)
      this.#failure = fenced
        ? new MillraceError(
            'MILLRACE_TRANSACTION_FENCED',
            `transactional id ${transactionalId} was taken by another producer`,
            { cause: error },
          )
        : error
    }
    this.#wake()
  }

  /** Resolves when a held-back write may be tried again. */
  #held(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.push(resolve)
    })
  }

  #wake(): void {
    const waiters = this.#waiters
    this.#waiters = []
    for (const wake of waiters) wake()
  }

  /** Waits a moment for requests on their way: one that arrived later would begin the transaction again that the end of the job aborts. */
  async close(): Promise<void> {
    this.#closed = true
    this.#linger?.cancel()
    this.#failure ??= new MillraceError('MILLRACE_ATTEMPT_LOST', 'the sink is closed')
    this.#wake()
    if (this.#calls === 0) return
    const quiet = new Promise<void>((resolve) => {
      this.#quiet = resolve
    })
    const wait = deadline(this.#options.context.world.timers, CLOSE_MS)
    await Promise.race([quiet, wait.expired])
    wait.cancel()
  }
}

function keyBytes(key: SinkKey): string | Uint8Array | null {
  if (key === null || typeof key === 'string' || key instanceof Uint8Array) return key
  if (typeof key === 'number' || typeof key === 'bigint') return String(key)
  if (ArrayBuffer.isView(key))
    return new Uint8Array(
      (key as Uint8Array).buffer,
      (key as Uint8Array).byteOffset,
      (key as Uint8Array).byteLength,
    )
  throw new SerializationError(
    'MILLRACE_SERIALIZATION',
    `the key selector returned ${key === undefined ? 'undefined' : typeof key}; return text, bytes, a number, or null for no key`,
  )
}
