/**
 * The job's own facts in its checkpoint topic, and the commit point: one fenced transaction that writes completed(n) and commits the
 * group offsets. If it commits, n is complete; what the next leader does is decided by this log alone.
 *
 * Keys (entries too large for one record: large-entries.ts): `attempt` AttemptRecord · `completed/<run>/<n>` CompletedCheckpoint · `confirmed` {run, n} · `job` JobRecord ·
 *       `lost/<transaction>` accepted loss · `healed/<transaction>/<partition>` how far it is healed · `chunk/<name>/<i>` snapshot bytes
 */
import {
  type AttemptRecord,
  type CheckpointStore,
  type CommitPointOutcome,
  finalRefusal,
  type JobRecord,
  type RecoveryFacts,
} from '../checkpoint/checkpoint-store.ts'
import { type CompletedCheckpoint, encodeCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { GroupOffset } from '../core/connector.ts'
import type { World } from '../core/ports.ts'
import { isMillraceError, KafkaError, MillraceError } from '../errors.ts'
import type { HealingLog, RewrittenBatch } from './healing-log.ts'
import { completedIn, confirmedOf, parsedEntry } from './job-records.ts'
import { type KafkaCluster, KafkaCode, type TopicDescription } from './kafka-cluster.ts'
import { LargeEntries } from './large-entries.ts'
import { ownTopic } from './own-topics.ts'
import { isChunkKey, TopicBlobStore } from './topic-blob-store.ts'
import { FencedProducer, type LogEntry, readLog } from './topic-log.ts'
import { coordinatorId, jobTopic } from './transactional-id.ts'

/** How long an EndTxn of the commit point is repeated before its outcome counts as unknown. */
const END_TIMEOUT_MS = 30_000
/** How long closing may take. */
const CLOSE_TIMEOUT_MS = 2_000
/** A prepared transaction that was not used for this long is ended: well below the time-out of the broker. */
const MAX_PREPARED_MS = 20_000
/** The coordinator's transactions last some ms; a dead leader's open one must not hold its successor up for long. */
const TRANSACTION_TIMEOUT_MS = 60_000
const TAKEN_OVER_AGAIN = 'this worker has taken the job over again since'

export interface JobTopicsOptions {
  readonly cluster: KafkaCluster
  readonly jobName: string
  readonly world: World
  /** -1 = min(3, brokers). */
  readonly replicationFactor: number
  /** Succeeds only while this worker is the group's leader in its generation (protocol §2.2). */
  readonly assertLeader: () => Promise<void>
  /** Called where a fault test may end the process while lost output is written again. */
  readonly fault?: ((point: 'before-heal-end-txn' | 'after-heal-end-txn') => void) | undefined
}

export class JobTopics implements CheckpointStore, HealingLog {
  readonly blobs: TopicBlobStore
  readonly #options: JobTopicsOptions
  readonly #topic: string
  readonly #large = new LargeEntries()
  #producer: FencedProducer | undefined
  /** Why there is no producer. */
  #ended = 'this worker did not take the job over'
  /** Serialises transactions of the one producer. */
  #queue: Promise<unknown> = Promise.resolve()
  /** Progress of healing, by key, as far as it is not confirmed yet. */
  readonly #healed = new Map<string, string>()

  constructor(options: JobTopicsOptions) {
    this.#options = options
    this.#topic = jobTopic(options.jobName, 'checkpoints')
    this.blobs = new TopicBlobStore(options.cluster, this.#topic, options.world)
  }

  /** Makes the checkpoint topic if need be, and checks it. */
  async prepareTopic(): Promise<void> {
    const { cluster, jobName, replicationFactor } = this.#options
    let [topic] = await cluster.describeTopics([this.#topic])
    if (topic === undefined) {
      await cluster.createTopics([await ownTopic(cluster, jobName, 'checkpoints', replicationFactor)])
      ;[topic] = await cluster.describeTopics([this.#topic])
    }
    if (topic !== undefined && topic.partitions.length !== 1)
      throw new MillraceError(
        'MILLRACE_INVALID_OPTION',
        `topic ${this.#topic} has ${topic.partitions.length} partitions; the checkpoint topic must have one`,
        {
          remedy: 'Delete the topic if it holds nothing you need, or give the job another name.',
        },
      )
    const configs = await cluster.describeConfigs({ type: 'topic', name: this.#topic }, [
      'cleanup.policy',
      'min.insync.replicas',
    ])
    const policy = configs.find(({ name }) => name === 'cleanup.policy')
    if (policy !== undefined && policy.value !== 'compact')
      throw new MillraceError(
        'MILLRACE_INVALID_OPTION',
        `topic ${this.#topic} has cleanup.policy ${policy.value}; the checkpoint topic must be compacted`,
        {
          remedy: `Set cleanup.policy=compact on ${this.#topic}.`,
        },
      )
    if (topic !== undefined)
      await this.#checkReplication(
        topic,
        Number(configs.find(({ name }) => name === 'min.insync.replicas')?.value ?? 1),
      )
  }

  /** A topic that somebody made by hand may keep the job's facts on fewer disks than the cluster could. */
  async #checkReplication({ topic, partitions }: TopicDescription, minIsr: number): Promise<void> {
    const { cluster, world, replicationFactor } = this.#options
    const replicas = partitions[0]?.replicas.length ?? 0
    const wanted =
      replicationFactor > 0
        ? replicationFactor
        : Math.min(3, (await cluster.describeCluster()).brokers.length)
    if (replicas < wanted)
      world.logger.warn(
        `topic ${topic} has ${replicas} of ${wanted} replicas: the loss of a broker may lose the job's checkpoints`,
      )
    if (minIsr > replicas)
      throw new MillraceError(
        'MILLRACE_INVALID_OPTION',
        `topic ${topic} has min.insync.replicas ${minIsr} but ${replicas} replicas: nothing can be written to it`,
        {
          remedy: `Lower min.insync.replicas of ${topic}, or add replicas.`,
        },
      )
  }

  async takeOver(): Promise<RecoveryFacts> {
    const { cluster, jobName, world, assertLeader } = this.#options
    await this.prepareTopic()
    this.#producer = await FencedProducer.fence(
      cluster,
      coordinatorId(jobName),
      this.#topic,
      world,
      TRANSACTION_TIMEOUT_MS,
    )
    this.#queue = Promise.resolve()
    await assertLeader()
    const entries = new Map<string, string>()
    const chunks = new Map<string, Buffer>()
    const visit = (key: string, value: Buffer | null): void => {
      const target: Map<string, unknown> = isChunkKey(key) ? chunks : entries
      if (value === null) target.delete(key)
      else target.set(key, isChunkKey(key) ? value : value.toString('utf8'))
    }
    await readLog(cluster, this.#topic, world, this.#large.joining(visit))
    this.blobs.holdChunks(chunks)
    this.#healed.clear()
    for (const [key, value] of entries) if (key.startsWith('healed/')) this.#healed.set(key, value)
    return factsOf(entries, this.#topic)
  }

  startAttempt(record: AttemptRecord): Promise<void> {
    return this.#mustWrite('attempt-started', [
      { key: 'attempt', value: JSON.stringify(record) },
      // Whatever end an earlier attempt of this or another run had, it is history now.
      { key: 'job', value: null },
    ])
  }

  commitPoint(
    checkpoint: CompletedCheckpoint,
    offsets: readonly GroupOffset[],
    forget: readonly number[] = [],
  ): Promise<CommitPointOutcome> {
    const entries: LogEntry[] = [
      { key: `completed/${checkpoint.run}/${checkpoint.n}`, value: encodeCheckpoint(checkpoint) },
      ...forget.map((n) => ({ key: `completed/${checkpoint.run}/${n}`, value: null })),
    ]
    return this.#transact(entries, offsets)
  }

  restored(): void {
    this.blobs.forgetChunks()
  }

  prepareCommitPoint(groupIds: readonly string[]): void {
    const producer = this.#producer
    if (producer === undefined) return
    const prepared = this.#queue.then(async () => {
      if (this.#producer !== producer || producer.openFor !== undefined) return
      await producer.open(groupIds)
      // A checkpoint that never comes to its commit point must not leave a transaction to the broker's time-out.
      this.#options.world.timers.schedule(MAX_PREPARED_MS, () => this.#dropPrepared(producer), true)
    })
    // What failed here fails again, and is told, when the commit point is written.
    this.#queue = prepared.catch(() => undefined)
  }

  #dropPrepared(producer: FencedProducer): void {
    this.#queue = this.#queue.then(async () => {
      if (this.#producer === producer && (producer.openFor ?? 0) >= MAX_PREPARED_MS)
        await this.#abortPrepared(producer, END_TIMEOUT_MS)
    })
  }

  async #abortPrepared(producer: FencedProducer, timeoutMs: number): Promise<void> {
    try {
      await producer.end('abort', timeoutMs)
    } catch (error) {
      // It is empty: a fence or the broker's time-out ends it as well, only later.
      this.#options.world.logger.debug('could not end a prepared transaction that is not needed', { error })
    }
  }

  writeConfirmed(run: string, n: number, end?: JobRecord): Promise<void> {
    const entries: LogEntry[] = [{ key: 'confirmed', value: JSON.stringify({ run, n }) }]
    if (end !== undefined) entries.push({ key: 'job', value: JSON.stringify(end) })
    // What was healed is committed now, with the rest: nobody asks for its progress any more.
    for (const key of this.#healed.keys()) entries.push({ key, value: null })
    this.#healed.clear()
    return this.#mustWrite(`confirmed(${n})`, entries)
  }

  writeEnd(end: JobRecord): Promise<void> {
    return this.#mustWrite(`end ${end.status}`, [{ key: 'job', value: JSON.stringify(end) }])
  }

  proveLeadership(): Promise<void> {
    return this.#mustWrite('proof of leadership', [])
  }

  acceptLost(transactions: readonly string[]): Promise<void> {
    if (transactions.length === 0) return Promise.resolve()
    return this.#mustWrite(
      'accepted losses',
      transactions.map((id) => ({
        key: `lost/${id}`,
        value: JSON.stringify({ at: this.#options.world.clock.now() }),
      })),
    )
  }

  forget(run: string, n: number): Promise<void> {
    return this.#mustWrite(`discard of checkpoint ${n}`, [{ key: `completed/${run}/${n}`, value: null }])
  }

  async close(): Promise<void> {
    await this.#queue.catch(() => undefined)
    const producer = this.#producer
    this.#producer = undefined
    this.#ended = 'this worker has given the job up'
    if (producer?.openFor !== undefined) await this.#abortPrepared(producer, CLOSE_TIMEOUT_MS)
    this.blobs.forgetChunks()
  }

  progress(transaction: string): ReadonlyMap<string, bigint> {
    const prefix = `healed/${transaction}/`
    return new Map(
      [...this.#healed]
        .filter(([key]) => key.startsWith(prefix))
        .map(([key, value]) => [key.slice(prefix.length), BigInt(value)]),
    )
  }

  async write(
    transaction: string,
    batches: readonly RewrittenBatch[],
    progress: ReadonlyMap<string, bigint>,
  ): Promise<void> {
    const entries = [...progress].map(([partition, next]) => ({
      key: `healed/${transaction}/${partition}`,
      value: String(next),
    }))
    await this.#mustWrite(`healed records of ${transaction}`, entries, batches)
    for (const { key, value } of entries) this.#healed.set(key, value)
  }

  async #mustWrite(
    what: string,
    entries: readonly LogEntry[],
    rewritten: readonly RewrittenBatch[] = [],
  ): Promise<void> {
    const outcome = await this.#transact(entries, [], rewritten)
    const final = finalRefusal(outcome)
    if (final !== undefined) throw final
    if (outcome.type !== 'written')
      throw new MillraceError(
        'MILLRACE_ATTEMPT_LOST',
        `could not write ${what} to ${this.#topic}: ${outcome.reason}`,
        { details: { outcome: outcome.type } },
      )
    if (rewritten.length > 0) this.#options.fault?.('after-heal-end-txn')
  }

  #transact(
    entries: readonly LogEntry[],
    offsets: readonly GroupOffset[],
    rewritten: readonly RewrittenBatch[] = [],
  ): Promise<CommitPointOutcome> {
    const producer = this.#producer
    const outcome = this.#queue.then(() => this.#transaction(producer, entries, offsets, rewritten))
    this.#queue = outcome
    return outcome
  }

  /** `producer`: of the leader that asked. What it asked for must not come in between what a later take-over of this worker writes. */
  async #transaction(
    producer: FencedProducer | undefined,
    entries: readonly LogEntry[],
    offsets: readonly GroupOffset[],
    rewritten: readonly RewrittenBatch[],
  ): Promise<CommitPointOutcome> {
    if (producer === undefined || producer !== this.#producer)
      return { type: 'unknown', reason: this.#producer === undefined ? this.#ended : TAKEN_OVER_AGAIN }
    const groups = Map.groupBy(offsets, (offset) => offset.groupId)
    try {
      if ((producer.openFor ?? 0) > MAX_PREPARED_MS) await this.#abortPrepared(producer, END_TIMEOUT_MS)
      await producer.open([...groups.keys()], rewritten)
      // Different logs: they are written at the same time. Both must have ended before anything is decided.
      const written = await Promise.allSettled([
        producer.write(this.#large.split(entries), rewritten),
        ...[...groups].map(([groupId, own]) =>
          producer.commitOffsets(
            groupId,
            own.map(({ topic, partition, offset }) => ({ topic, partition, offset })),
          ),
        ),
      ])
      for (const result of written) if (result.status === 'rejected') throw result.reason
    } catch (error) {
      return this.#giveUp(producer, error)
    }
    if (rewritten.length > 0) this.#options.fault?.('before-heal-end-txn')
    try {
      await producer.end('commit', END_TIMEOUT_MS)
      return { type: 'written' }
    } catch (error) {
      if (error instanceof KafkaError && error.brokerCode === KafkaCode.INVALID_TXN_STATE)
        return {
          type: 'refused',
          reason: `EndTxn answered ${error.brokerError}: the transaction was aborted`,
        }
      return this.#unknown(producer, messageOf(error))
    }
  }

  /** Nothing was asked to commit yet: if our own abort succeeds, the commit point never happened. */
  async #giveUp(producer: FencedProducer, cause: unknown): Promise<CommitPointOutcome> {
    const reason = messageOf(cause)
    if (isFenced(cause)) return this.#unknown(producer, reason)
    try {
      await producer.end('abort', END_TIMEOUT_MS)
      return { type: 'refused', reason, cause }
    } catch (error) {
      // 48 under our own epoch: nothing is open, so nothing can commit.
      if (error instanceof KafkaError && error.brokerCode === KafkaCode.INVALID_TXN_STATE)
        return { type: 'refused', reason, cause }
      return this.#unknown(producer, `${reason}; and the abort: ${messageOf(error)}`)
    }
  }

  /** The transaction may still be open: writing more with this producer could commit it. Only a new take-over writes again. */
  #unknown(producer: FencedProducer, reason: string): CommitPointOutcome {
    if (this.#producer === producer) {
      this.#producer = undefined
      this.#ended = `the outcome of an earlier write is unknown: ${reason}`
    }
    return { type: 'unknown', reason }
  }
}

function isFenced(error: unknown): boolean {
  if (isMillraceError(error) && error.code === 'MILLRACE_ATTEMPT_LOST') return true
  return (
    error instanceof KafkaError &&
    (error.brokerCode === KafkaCode.INVALID_PRODUCER_EPOCH ||
      error.brokerCode === KafkaCode.PRODUCER_FENCED ||
      error.brokerCode === KafkaCode.INVALID_PRODUCER_ID_MAPPING)
  )
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function factsOf(entries: ReadonlyMap<string, string>, topic: string): RecoveryFacts {
  const attempt = parsedEntry<AttemptRecord>(entries, 'attempt')
  const recorded = attempt === undefined ? [] : completedIn(entries, topic)
  return {
    attempt,
    job: parsedEntry<JobRecord>(entries, 'job'),
    completed: recorded.filter(({ run }) => run === attempt?.run),
    ofEarlierRuns: recorded.filter(({ run }) => run !== attempt?.run),
    confirmed: confirmedOf(entries, attempt?.run, recorded),
    acceptedLost: [...entries.keys()]
      .filter((key) => key.startsWith('lost/'))
      .map((key) => key.slice('lost/'.length)),
  }
}
