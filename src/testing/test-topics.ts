/**
 * The topics of a test: what the test writes for the job to read, and what readers of the job's output see (read_committed).
 */
import type { Serde } from '../core/connector.ts'
import type { Clock } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { partitionForKey } from '../kafka/partitioner.ts'
import { json } from '../serdes/serdes.ts'
import { CommittedReader } from './committed-reader.ts'
import { encodePlainBatch, type PlainRecordInput } from './plain-batch.ts'
import type { SimulatedClient } from './simulated-client.ts'
import type { SimulatedKafka } from './simulated-cluster.ts'

/** How a topic is created: its number of partitions, or that and settings such as `cleanup.policy`. */
export type TestTopic =
  | number
  | { readonly partitions: number; readonly configs?: Readonly<Record<string, string>> }

/** A record that a test writes. */
export interface TestRecord<T = unknown> {
  readonly value: T | null
  /** Text and bytes as they are, numbers as decimal text; none by default. */
  readonly key?: string | Uint8Array | number | bigint | null
  /** Epoch ms; the clock of the test by default. */
  readonly timestamp?: number
  /** Default: that of the key as every Kafka client chooses it; records without a key are dealt out in turn. */
  readonly partition?: number
  readonly headers?: Readonly<Record<string, string | Uint8Array | null>>
}

/** A record that readers of a topic see. */
export interface CommittedRecord<T = unknown> {
  /** Null for a tombstone, so `T` must say so for a topic that has them. */
  readonly value: T
  /** As text. */
  readonly key: string | null
  readonly partition: number
  readonly offset: bigint
  /** Epoch ms. */
  readonly timestamp: number
  /** As text. */
  readonly headers: Readonly<Record<string, string | null>>
}

/** Below the brokers' limit for a batch. */
const BATCH_BYTES = 512 * 1024

/** Writes and reads the topics of one simulated cluster. */
export class TestTopics {
  readonly #kafka: SimulatedKafka
  readonly #client: SimulatedClient
  readonly #clock: Clock
  #dealt = 0

  constructor(kafka: SimulatedKafka, clock: Clock) {
    this.#kafka = kafka
    this.#client = kafka.client('test')
    this.#clock = clock
  }

  create(topics: Readonly<Record<string, TestTopic>>): Promise<void> {
    return this.#client.createTopics(
      Object.entries(topics).map(([topic, how]) => {
        const { partitions, configs = {} } = typeof how === 'number' ? { partitions: how } : how
        return { topic, partitions, replicationFactor: -1, configs }
      }),
    )
  }

  /** Writes records in order. @throws MILLRACE_TEST_DRIVER for a topic or partition that does not exist, before anything is written. */
  async produce<T>(
    topic: string,
    records: readonly TestRecord<T>[],
    serde: Serde<T> = json(),
  ): Promise<void> {
    await serde.open?.({})
    const partitions = this.#partitionsOf(topic).length
    const batches = new Map<number, PlainRecordInput[]>()
    for (const record of records) {
      if (record.value !== null) await serde.prepareSerialize?.(record.value, topic)
      const partition = this.#choose(topic, record, partitions)
      const batch = batches.get(partition) ?? []
      batches.set(partition, batch)
      batch.push(this.#encode(topic, record, serde))
    }
    for (const [partition, batch] of batches)
      for (const piece of pieces(batch)) await this.#write(topic, partition, piece)
  }

  /** All that is committed by now: partition by partition, each in the order of its log. */
  async committed<T>(topic: string, serde: Serde<T> = json()): Promise<CommittedRecord<T>[]> {
    await serde.open?.({})
    const found: CommittedRecord<T>[] = []
    for (const [partition, { log }] of this.#partitionsOf(topic).entries())
      for (const { offset, timestamp, key, value, headers } of new CommittedReader(log).read()) {
        if (value !== null) await serde.prepareDeserialize?.(value)
        found.push({
          value: value === null ? (null as T) : serde.deserialize(value, topic),
          key: key?.toString() ?? null,
          partition,
          offset,
          timestamp,
          headers: Object.fromEntries(headers.map(([name, bytes]) => [name, bytes?.toString() ?? null])),
        })
      }
    return found
  }

  /** True if somebody who reads the partition up to its end, as of now, is at `position`. */
  isAtEnd(topic: string, partition: number, position: bigint): boolean {
    const log = this.#kafka.inside.topics.partition({ topic, partition })?.log
    return log === undefined || position >= log.lastStableOffset
  }

  #partitionsOf(topic: string) {
    const { topics } = this.#kafka.inside
    const found = topics.get(topic)
    if (found !== undefined) return found.partitions
    throw new MillraceError('MILLRACE_TEST_DRIVER', `topic '${topic}' does not exist`, {
      remedy: `Name it in the option 'topics' of the test; there are ${topics.names().join(', ') || 'none'}.`,
    })
  }

  #choose(topic: string, { partition, key }: TestRecord, partitions: number): number {
    if (partition === undefined)
      return key === undefined || key === null
        ? this.#dealt++ % partitions
        : partitionForKey(typeof key === 'object' ? key : String(key), partitions)
    if (Number.isInteger(partition) && partition >= 0 && partition < partitions) return partition
    throw new MillraceError(
      'MILLRACE_TEST_DRIVER',
      `topic '${topic}' has no partition ${partition}: it has ${partitions}, numbered from 0`,
    )
  }

  #encode<T>(topic: string, record: TestRecord<T>, serde: Serde<T>): PlainRecordInput {
    const { key, value, timestamp = this.#clock.now(), headers = {} } = record
    const bytes = value === null ? null : serde.serialize(value, topic)
    return {
      key: key === undefined || key === null ? null : bufferOf(typeof key === 'object' ? key : String(key)),
      value: bytes === null ? null : bufferOf(bytes),
      timestamp,
      headers: Object.entries(headers).map(([name, text]) => [name, text === null ? null : bufferOf(text)]),
    }
  }

  async #write(topic: string, partition: number, records: readonly PlainRecordInput[]): Promise<void> {
    const batch = encodePlainBatch({ records })
    const [answer] = await this.#client.produce({
      acks: -1,
      transactionalId: null,
      partitions: [{ topic, partition, batch }],
    })
    if (answer?.errorCode !== 0)
      throw new MillraceError(
        'MILLRACE_TEST_DRIVER',
        `the brokers refused records for ${topic}-${partition}: error ${answer?.errorCode} ${answer?.errorMessage ?? ''}`,
      )
  }
}

function bufferOf(data: string | Uint8Array): Buffer {
  return typeof data === 'string'
    ? Buffer.from(data)
    : Buffer.from(data.buffer, data.byteOffset, data.byteLength)
}

/** Cuts records into batches that brokers take. */
function* pieces(records: readonly PlainRecordInput[]): Generator<readonly PlainRecordInput[]> {
  let piece: PlainRecordInput[] = []
  let bytes = 0
  for (const record of records) {
    const size = (record.value?.length ?? 0) + (record.key?.length ?? 0)
    if (piece.length > 0 && bytes + size > BATCH_BYTES) {
      yield piece
      piece = []
      bytes = 0
    }
    piece.push(record)
    bytes += size
  }
  if (piece.length > 0) yield piece
}
