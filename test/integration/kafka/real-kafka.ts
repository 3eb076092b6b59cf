import { randomUUID } from 'node:crypto'
import type { LogFields, Logger } from '../../../src/core/ports.ts'
import type { FetchedPartition, KafkaCluster, ProducerIdentity } from '../../../src/kafka/kafka-cluster.ts'
import { KafkajsCluster } from '../../../src/kafka/kafkajs/kafkajs-cluster.ts'
import {
  decodePlainRecords,
  encodePlainBatch,
  readBatchHeader,
  splitBatches,
} from '../../../src/testing/plain-batch.ts'

/** Addresses of the brokers that integration tests run against. */
export function brokersUnderTest(): readonly string[] {
  const brokers = process.env['KAFKA_BROKERS']
  if (brokers === undefined || brokers === '')
    throw new Error('KAFKA_BROKERS is not set: integration tests need a real Kafka')
  return brokers.split(',')
}

/** Keeps the lines that a user would see: everything but debug. */
export class RecordingLogger implements Logger {
  readonly lines: string[] = []
  debug(): void {}
  info(message: string, fields?: LogFields): void {
    this.#keep('info', message, fields)
  }
  warn(message: string, fields?: LogFields): void {
    this.#keep('warn', message, fields)
  }
  error(message: string, fields?: LogFields): void {
    this.#keep('error', message, fields)
  }
  child(): Logger {
    return this
  }
  #keep(level: string, message: string, fields?: LogFields): void {
    this.lines.push(`${level} ${message} ${JSON.stringify(fields ?? {})}`)
  }
}

/** A client that is not connected yet. */
export function newCluster(
  brokers: readonly string[] = brokersUnderTest(),
  logger: Logger = new RecordingLogger(),
): KafkajsCluster {
  return new KafkajsCluster({ brokers, clientId: 'millrace-test' }, logger)
}

/** A name that no other test uses. */
export function randomName(prefix: string): string {
  return `${prefix}-${randomUUID()}`
}

/** A new topic of `partitions` partitions. */
export async function newTopic(
  cluster: KafkaCluster,
  partitions: number,
  configs: Record<string, string> = {},
): Promise<string> {
  const topic = randomName('it')
  await cluster.createTopics([{ topic, partitions, replicationFactor: -1, configs }])
  return topic
}

/** A batch of text records, with the producer's identity and sequence if it has them. */
export function batchOf(values: readonly string[], producer?: ProducerIdentity, baseSequence = 0): Buffer {
  const records = values.map((value) => ({ value, timestamp: Date.now() }))
  if (producer === undefined) return encodePlainBatch({ records })
  const { producerId, producerEpoch } = producer
  return encodePlainBatch({ records, producerId, producerEpoch, baseSequence, transactional: true })
}

/** Values in what was fetched; aborted transactions and markers left out, as a read_committed reader does. */
export function valuesIn(fetched: FetchedPartition): string[] {
  const aborted = [...fetched.abortedTransactions].sort((a, b) => Number(a.firstOffset - b.firstOffset))
  const dropping = new Set<bigint>()
  const values: string[] = []
  for (const batch of splitBatches(fetched.records)) {
    const header = readBatchHeader(batch)
    if (header === undefined) continue
    for (const { producerId, firstOffset } of aborted)
      if (firstOffset === header.baseOffset) dropping.add(producerId)
    if (header.control) dropping.delete(header.producerId)
    else if (!(header.transactional && dropping.has(header.producerId)))
      values.push(...decodePlainRecords(batch).map(({ value }) => String(value)))
  }
  return values
}

/** All values of a partition; waits while a transaction is open or its markers are being written. */
export async function readCommitted(
  cluster: KafkaCluster,
  topic: string,
  partition: number,
): Promise<string[]> {
  const values: string[] = []
  let offset = 0n
  for (;;) {
    const [fetched] = await cluster.fetch({
      isolation: 'read_committed',
      partitions: [{ topic, partition, offset, maxBytes: 4 << 20 }],
      maxWaitMs: 50,
      minBytes: 1,
      maxBytes: 8 << 20,
    })
    if (fetched === undefined || fetched.errorCode !== 0)
      throw new Error(`fetch failed with ${fetched?.errorCode}`)
    values.push(...valuesIn(fetched))
    const batches = splitBatches(fetched.records)
    const last = batches.length === 0 ? undefined : readBatchHeader(batches[batches.length - 1] as Buffer)
    if (last !== undefined) offset = last.baseOffset + BigInt(last.lastOffsetDelta) + 1n
    if (fetched.lastStableOffset === fetched.highWatermark && offset >= fetched.highWatermark) return values
  }
}
