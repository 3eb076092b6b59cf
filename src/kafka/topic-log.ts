/**
 * The checkpoint topic as a keyed log: one partition, compacted. Reads everything up to a fence, writes by the coordinator's fenced producer.
 */
import type { World } from '../core/ports.ts'
import { isMillraceError, KafkaError, MillraceError } from '../errors.ts'
import type { RewrittenBatch } from './healing-log.ts'
import {
  type FetchedPartition,
  type GroupOffsetCommit,
  type KafkaCluster,
  KafkaCode,
  type ProducerIdentity,
  type TopicPartition,
} from './kafka-cluster.ts'
import { RecordBatchReader } from './record-batch.ts'
import { type BatchProducerFields, NO_PRODUCER, RecordBatchBuilder } from './record-batch-builder.ts'
import { endOffset } from './topic-offsets.ts'

/** A keyed entry; null deletes. */
export interface LogEntry {
  readonly key: string
  readonly value: string | Uint8Array | null
}

/** Largest batch written: below the brokers' default limit of 1 MiB. */
const MAX_BATCH_BYTES = 1_000_000
const FETCH_BYTES = 4 << 20
/** Milliseconds between two tries while the log cannot be read, and how long that may go on. */
const RETRY_MS = 50
const RETRY_FOR_MS = 60_000

/**
 * Where a reader of the log stops: 'everything' that was written before it began, for which it waits until open transactions have ended; or
 * what is 'decided' now, without waiting. Only who changes nothing by what it read may do with the latter.
 */
export type LogExtent = 'everything' | 'decided'

/** Reads `topic` partition 0 from its start to its end as it is now; later entries of a key win, deleted ones are left out. */
export async function readLog(
  cluster: KafkaCluster,
  topic: string,
  world: World,
  visit: (key: string, value: Buffer | null) => void,
  extent: LogExtent = 'everything',
): Promise<void> {
  const end = await endOffset(cluster, topic, extent === 'everything' ? 'read_uncommitted' : 'read_committed')
  // Transactions that a fence aborted are closed a little later; what is behind them must be seen.
  for (
    let waited = 0;
    extent === 'everything' && (await endOffset(cluster, topic, 'read_committed')) < end;
    waited++
  ) {
    if (waited > 0 && waited % 250 === 0)
      world.logger.warn(`waiting for open transactions on ${topic} to end`)
    await world.timers.sleep(20)
  }
  const [start] = await cluster.listOffsets([{ topic, partition: 0 }], 'earliest', 'read_committed')
  let position = start?.offset ?? 0n
  const reader = new RecordBatchReader(topic, 0)
  let maxBytes = FETCH_BYTES
  let lastAnswerAt = world.clock.now()
  while (position < end) {
    const answer = await fetchOne(
      cluster,
      topic,
      position,
      maxBytes,
      world.clock.now() - lastAnswerAt < RETRY_FOR_MS,
    )
    if (answer === undefined || answer.errorCode === KafkaCode.NOT_LEADER) {
      await world.timers.sleep(RETRY_MS)
      continue
    }
    lastAnswerAt = world.clock.now()
    if (answer.errorCode === KafkaCode.OFFSET_OUT_OF_RANGE) {
      position = answer.logStartOffset > position ? answer.logStartOffset : position
      continue
    }
    if (answer.errorCode !== KafkaCode.NONE)
      throw new MillraceError(
        'MILLRACE_KAFKA_PROTOCOL',
        `cannot read ${topic}: broker error ${answer.errorCode}`,
        { retriable: true },
      )
    reader.open(answer.records, position, answer.abortedTransactions, maxBytes)
    while (reader.next()) {
      if (reader.keyStart < 0) continue
      const key = reader.buffer.toString('utf8', reader.keyStart, reader.keyEnd)
      visit(
        key,
        reader.valueStart < 0
          ? null
          : Buffer.from(reader.buffer.subarray(reader.valueStart, reader.valueEnd)),
      )
    }
    // Compaction may have taken everything up to the end.
    if (answer.records.length === 0 && answer.lastStableOffset >= end) return
    if (reader.truncated) maxBytes = Math.max(maxBytes * 2, reader.neededBytes)
    position = reader.nextOffset
  }
}

/** Undefined = try again: the connection was lost, or the leader moved. */
async function fetchOne(
  cluster: KafkaCluster,
  topic: string,
  offset: bigint,
  maxBytes: number,
  patient: boolean,
): Promise<FetchedPartition | undefined> {
  try {
    const [answer] = await cluster.fetch({
      isolation: 'read_committed',
      partitions: [{ topic, partition: 0, offset, maxBytes }],
      maxWaitMs: 100,
      minBytes: 1,
      maxBytes,
    })
    return answer
  } catch (error) {
    if (patient && isMillraceError(error) && error.retriable) return undefined
    throw error
  }
}

/** Stores entries outside of any transaction (snapshot chunks: their names are unique, so a duplicate is harmless). */
export async function appendPlain(
  cluster: KafkaCluster,
  topic: string,
  entries: readonly LogEntry[],
  now: number,
): Promise<void> {
  for (const batch of batchesOf(entries, topic, now, () => NO_PRODUCER))
    await produce(cluster, { topic, partition: 0 }, batch, null)
}

/** Writes entries in fenced transactions. One transaction at a time. */
export class FencedProducer {
  readonly #cluster: KafkaCluster
  readonly #topic: string
  readonly #world: World
  readonly #timeoutMs: number
  #identity: ProducerIdentity
  #sequence = 0
  /** Partitions and groups of the open transaction. */
  readonly #added = new Set<string>()
  #openedAt: number | undefined
  /** A new epoch for the next transaction is on its way; an (id, epoch) never serves two transactions. */
  #renewing: Promise<void> | undefined

  private constructor(
    cluster: KafkaCluster,
    topic: string,
    world: World,
    timeoutMs: number,
    identity: ProducerIdentity,
  ) {
    this.#cluster = cluster
    this.#topic = topic
    this.#world = world
    this.#timeoutMs = timeoutMs
    this.#identity = identity
  }

  /** Fences whoever held the id: the only bare initialisation that a leader ever sends for it. */
  static async fence(
    cluster: KafkaCluster,
    transactionalId: string,
    topic: string,
    world: World,
    timeoutMs: number,
  ): Promise<FencedProducer> {
    const identity = await cluster.initProducerId({ transactionalId, transactionTimeoutMs: timeoutMs })
    return new FencedProducer(cluster, topic, world, timeoutMs, identity)
  }

  /**
   * Adds partitions and groups to the transaction that is open, or begins one. What is in it already is not added again, so a commit point
   * can be prepared while its checkpoint is still being taken. Throws before anything is decided.
   */
  async open(groupIds: readonly string[], rewritten: readonly RewrittenBatch[] = []): Promise<void> {
    // A renewal that failed stays: without a new epoch there is no next transaction.
    await this.#renewing
    const wanted = [{ topic: this.#topic, partition: 0 }, ...partitionsOf(rewritten)]
    const fresh = wanted.filter(({ topic, partition }) => !this.#added.has(`${topic}-${partition}`))
    // Both go to the transaction coordinator, which takes one change of a transaction at a time.
    if (fresh.length > 0) {
      this.#openedAt ??= this.#world.clock.now()
      await this.#cluster.addPartitionsToTxn(this.#identity, fresh)
      for (const { topic, partition } of fresh) this.#added.add(`${topic}-${partition}`)
    }
    for (const groupId of groupIds) {
      if (this.#added.has(`group ${groupId}`)) continue
      await this.#cluster.addOffsetsToTxn(this.#identity, groupId)
      this.#added.add(`group ${groupId}`)
    }
  }

  /** Milliseconds since the open transaction was begun; undefined when none is open. */
  get openFor(): number | undefined {
    return this.#openedAt === undefined ? undefined : this.#world.clock.now() - this.#openedAt
  }

  /** Writes into the open transaction. */
  async write(entries: readonly LogEntry[], rewritten: readonly RewrittenBatch[] = []): Promise<void> {
    const identity = this.#identity
    for (const batch of batchesOf(entries, this.#topic, this.#world.clock.now(), (count) =>
      this.#fields(count),
    ))
      await produce(this.#cluster, { topic: this.#topic, partition: 0 }, batch, identity.transactionalId)
    // Records of other partitions begin with sequence 0: the epoch is new in every transaction.
    const sequences = new Map<string, number>()
    for (const batch of rewritten) {
      const partition = `${batch.topic}-${batch.partition}`
      const baseSequence = sequences.get(partition) ?? 0
      sequences.set(partition, baseSequence + batch.count)
      const { producerId, producerEpoch } = identity
      const bytes = batch.encode({ producerId, producerEpoch, baseSequence, transactional: true })
      await produce(this.#cluster, batch, bytes, identity.transactionalId)
    }
  }

  async commitOffsets(groupId: string, offsets: readonly GroupOffsetCommit[]): Promise<void> {
    await this.#cluster.txnOffsetCommit(this.#identity, groupId, offsets)
  }

  /** EndTxn, repeated by the port. Throws what the broker answered. */
  async end(result: 'commit' | 'abort', timeoutMs: number): Promise<void> {
    try {
      await this.#cluster.endTxn(this.#identity, result, { timeoutMs })
    } catch (error) {
      // Nothing is open: the request that should have opened it never arrived.
      if (error instanceof KafkaError && error.brokerCode === KafkaCode.INVALID_TXN_STATE) this.#closed()
      throw error
    }
    this.#closed()
    this.#renewing = this.#renew()
    // The error is thrown by the next `open`.
    this.#renewing.catch(() => undefined)
  }

  #closed(): void {
    this.#added.clear()
    this.#openedAt = undefined
  }

  async #renew(): Promise<void> {
    const { transactionalId, producerId, producerEpoch } = this.#identity
    this.#identity = await this.#cluster.initProducerId({
      transactionalId,
      transactionTimeoutMs: this.#timeoutMs,
      expected: { producerId, producerEpoch },
    })
    this.#sequence = 0
  }

  #fields(count: number): BatchProducerFields {
    const { producerId, producerEpoch } = this.#identity
    const baseSequence = this.#sequence
    this.#sequence += count
    return { producerId, producerEpoch, baseSequence, transactional: true }
  }
}

function* batchesOf(
  entries: readonly LogEntry[],
  topic: string,
  now: number,
  fields: (count: number) => BatchProducerFields,
): Generator<Buffer> {
  const builder = new RecordBatchBuilder({
    maxBytes: MAX_BATCH_BYTES,
    maxRecordBatchBytes: MAX_BATCH_BYTES,
    compression: 'none',
    topic,
    partition: 0,
  })
  for (const entry of entries) {
    if (builder.append(entry.key, entry.value, now)) continue
    yield builder.build(fields(builder.count))
    builder.reset()
    builder.append(entry.key, entry.value, now)
  }
  if (builder.count > 0) yield builder.build(fields(builder.count))
}

function partitionsOf(batches: readonly RewrittenBatch[]): TopicPartition[] {
  const partitions = new Map(
    batches.map(({ topic, partition }) => [`${topic}-${partition}`, { topic, partition }]),
  )
  return [...partitions.values()]
}

async function produce(
  cluster: KafkaCluster,
  { topic, partition }: TopicPartition,
  batch: Buffer,
  transactionalId: string | null,
): Promise<void> {
  const [answer] = await cluster.produce({
    acks: -1,
    transactionalId,
    partitions: [{ topic, partition, batch }],
  })
  if (answer === undefined || answer.errorCode === KafkaCode.NONE) return
  const fenced =
    answer.errorCode === KafkaCode.INVALID_PRODUCER_EPOCH || answer.errorCode === KafkaCode.PRODUCER_FENCED
  throw new MillraceError(
    fenced ? 'MILLRACE_ATTEMPT_LOST' : 'MILLRACE_KAFKA_PROTOCOL',
    `cannot write to ${topic}-${partition}: broker error ${answer.errorCode}${answer.errorMessage === null ? '' : ` (${answer.errorMessage})`}`,
    { details: { topic, brokerCode: answer.errorCode } },
  )
}
