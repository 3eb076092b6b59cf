/**
 * What the contract tests of the KafkaCluster port work with: topics and ids of their own, a plain transactional producer, a plain reader.
 */
import { randomUUID } from 'node:crypto'
import type {
  IsolationLevel,
  KafkaCluster,
  ProducedPartition,
  ProducerIdentity,
  TopicPartition,
} from '../kafka/kafka-cluster.ts'
import {
  decodePlainRecords,
  encodePlainBatch,
  markerOf,
  type PlainRecordInput,
  readBatchHeader,
  splitBatches,
} from './plain-batch.ts'

/** One cluster under test. */
export interface ContractSubject {
  readonly cluster: KafkaCluster
  /** A second client on the same brokers. */
  another(): Promise<KafkaCluster>
  close(): Promise<void>
  /** Lets time pass: real or virtual. */
  waitMs(ms: number): Promise<void>
}

/** The checks that the suite uses; jest's `expect(value)` has them. */
export interface ContractMatchers {
  toBe(expected: unknown): void
  toEqual(expected: unknown): void
  toContain(expected: any): void
  toContainEqual(expected: any): void
  toBeGreaterThan(expected: number | bigint): void
  toBeGreaterThanOrEqual(expected: number | bigint): void
  readonly not: { toBe(expected: unknown): void; toContain(expected: any): void }
}

/** The test framework, handed in so that this kit doesn't import one. */
export interface ContractFramework {
  describe(name: string, body: () => void): void
  test(name: string, body: () => Promise<void>, timeoutMs?: number): void
  expect(value: unknown): ContractMatchers
  beforeAll(body: () => Promise<void>, timeoutMs?: number): void
  afterAll(body: () => Promise<void>, timeoutMs?: number): void
}

/** Gives the scene once `beforeAll` has run. */
export type SceneOf = () => ContractScene

/** A marker as a reader of the raw log sees it. */
export interface SeenMarker {
  readonly type: 'COMMIT' | 'ABORT'
  readonly offset: bigint
  readonly producerId: bigint
  readonly producerEpoch: number
}

/** What is in a partition. */
export interface SeenPartition {
  readonly values: string[]
  readonly offsets: bigint[]
  readonly markers: SeenMarker[]
  readonly aborted: { readonly producerId: bigint; readonly firstOffset: bigint }[]
  readonly lastStableOffset: bigint
  readonly highWatermark: bigint
}

const FETCH_BYTES = 1_048_576
/** Longer than a broker's scan for timed-out transactions at its default of 10 s. */
const PATIENCE_MS = 30_000

/** A batch of strings, not of any producer. */
export function plainBatch(values: readonly string[], timestamp = 0): Buffer {
  return encodePlainBatch({ records: values.map((value) => ({ value })), timestamp })
}

/** Names, helpers and clients of one run of the suite. */
export class ContractScene {
  readonly cluster: KafkaCluster
  readonly #subject: ContractSubject
  readonly #run = randomUUID().slice(0, 8)
  #named = 0

  constructor(subject: ContractSubject) {
    this.#subject = subject
    this.cluster = subject.cluster
  }

  another(): Promise<KafkaCluster> {
    return this.#subject.another()
  }

  waitMs(ms: number): Promise<void> {
    return this.#subject.waitMs(ms)
  }

  /** A name that nobody else uses, on a shared broker neither. */
  name(kind: string): string {
    return `contract-${kind}-${this.#run}-${++this.#named}`
  }

  /** Creates a topic of its own. Its records are never too old: their timestamps are what a test needs. */
  async topic(partitions = 1, configs: Readonly<Record<string, string>> = {}): Promise<string> {
    const topic = this.name('topic')
    await this.cluster.createTopics([
      { topic, partitions, replicationFactor: -1, configs: { 'retention.ms': '-1', ...configs } },
    ])
    return topic
  }

  /** Asks until the answer is right. @throws Error naming what was waited for. */
  async until(reason: string, holds: () => Promise<boolean>): Promise<void> {
    const stepMs = 50
    for (let waited = 0; waited < PATIENCE_MS; waited += stepMs) {
      if (await holds()) return
      await this.waitMs(stepMs)
    }
    throw new Error(`Waited ${PATIENCE_MS} ms in vain until ${reason}.`)
  }

  /** Initialises an id (a new one unless given) and gives a producer for it. */
  async producer(
    options: { readonly id?: string; readonly timeoutMs?: number; readonly on?: KafkaCluster } = {},
  ): Promise<ContractProducer> {
    const cluster = options.on ?? this.cluster
    const identity = await cluster.initProducerId({
      transactionalId: options.id ?? this.name('id'),
      transactionTimeoutMs: options.timeoutMs ?? 60_000,
    })
    return new ContractProducer(cluster, identity)
  }

  /** Stores values in partition 0 outside any transaction. */
  async store(topic: string, values: readonly string[], timestamp = 0): Promise<ProducedPartition> {
    const partitions = [{ topic, partition: 0, batch: plainBatch(values, timestamp) }]
    const [produced] = await this.cluster.produce({ acks: -1, transactionalId: null, partitions })
    return produced!
  }

  /** Reads a partition from `offset` to the end that this isolation level shows. */
  async read(topic: string, isolation: IsolationLevel, offset = 0n, partition = 0): Promise<SeenPartition> {
    const seen: SeenPartition = {
      values: [],
      offsets: [],
      markers: [],
      aborted: [],
      lastStableOffset: -1n,
      highWatermark: -1n,
    }
    const aborting = new Set<bigint>()
    for (let position = offset; ; ) {
      const partitions = [{ topic, partition, offset: position, maxBytes: FETCH_BYTES }]
      const request = { isolation, partitions, maxWaitMs: 0, minBytes: 0, maxBytes: FETCH_BYTES }
      const [fetched] = await this.cluster.fetch(request)
      if (fetched!.errorCode !== 0)
        throw new Error(`Fetch of ${topic}-${partition} at ${position}: error code ${fetched!.errorCode}`)
      const { highWatermark, lastStableOffset } = fetched!
      Object.assign(seen, { highWatermark, lastStableOffset })
      const batches = splitBatches(fetched!.records)
      if (batches.length === 0) return seen
      for (const entry of fetched!.abortedTransactions) {
        if (
          !seen.aborted.some((a) => a.producerId === entry.producerId && a.firstOffset === entry.firstOffset)
        )
          seen.aborted.push(entry)
      }
      for (const batch of batches) {
        const header = readBatchHeader(batch)!
        position = header.baseOffset + BigInt(header.lastOffsetDelta) + 1n
        const { producerId, producerEpoch } = header
        if (header.control) {
          const type = markerOf(batch)
          if (type === 'ABORT') aborting.delete(producerId)
          seen.markers.push({ type, offset: header.baseOffset, producerId, producerEpoch })
          continue
        }
        for (const a of seen.aborted) {
          if (a.producerId === producerId && a.firstOffset === header.baseOffset) aborting.add(producerId)
        }
        if (header.transactional && aborting.has(producerId)) continue
        for (const record of decodePlainRecords(batch)) {
          if (record.offset < offset) continue
          seen.values.push(record.value!.toString())
          seen.offsets.push(record.offset)
        }
      }
    }
  }

  /** Waits until the last stable offset has reached the high watermark: every marker is written. */
  async settled(topic: string, partition = 0): Promise<void> {
    await this.until(`no transaction is open on ${topic}-${partition}`, async () => {
      const [stable] = await this.cluster.listOffsets([{ topic, partition }], 'latest', 'read_committed')
      const [end] = await this.cluster.listOffsets([{ topic, partition }], 'latest', 'read_uncommitted')
      return stable!.offset === end!.offset
    })
  }
}

/** A transactional producer without any policy: what it is told is what it sends. */
export class ContractProducer {
  readonly cluster: KafkaCluster
  readonly identity: ProducerIdentity
  readonly #sequences = new Map<string, number>()

  constructor(cluster: KafkaCluster, identity: ProducerIdentity) {
    this.cluster = cluster
    this.identity = identity
  }

  /** Adds the partition to the transaction and writes there. @throws KafkaError; Error when the partition refused the batch. */
  async write(topic: string, values: readonly string[], partition = 0): Promise<bigint> {
    await this.cluster.addPartitionsToTxn(this.identity, [{ topic, partition }])
    const key = `${topic}/${partition}`
    const sequence = this.#sequences.get(key) ?? 0
    const produced = await this.send(
      { topic, partition },
      values.map((value) => ({ value })),
      sequence,
    )
    if (produced.errorCode !== 0)
      throw new Error(`Produce to ${key}: error code ${produced.errorCode} ${produced.errorMessage}`)
    this.#sequences.set(key, sequence + values.length)
    return produced.baseOffset
  }

  /** Sends one batch with the given first sequence, and nothing else. */
  async send(
    to: TopicPartition,
    records: readonly PlainRecordInput[],
    baseSequence: number,
  ): Promise<ProducedPartition> {
    const { transactionalId, producerId, producerEpoch } = this.identity
    const batch = encodePlainBatch({ records, producerId, producerEpoch, baseSequence, transactional: true })
    const [produced] = await this.cluster.produce({
      acks: -1,
      transactionalId,
      partitions: [{ ...to, batch }],
    })
    return produced!
  }

  commit(): Promise<void> {
    return this.cluster.endTxn(this.identity, 'commit')
  }

  abort(): Promise<void> {
    return this.cluster.endTxn(this.identity, 'abort')
  }
}

/** The broker's code with which a call was refused; 0 when it wasn't. @throws what isn't a broker's refusal. */
export async function codeOf(call: Promise<unknown>): Promise<number> {
  try {
    await call
    return 0
  } catch (error) {
    if (typeof error === 'object' && error !== null && 'brokerCode' in error) return Number(error.brokerCode)
    throw error
  }
}
