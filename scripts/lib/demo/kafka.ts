/**
 * What the demo does with Kafka besides running the job: topics, the input, how far outputs are, and reading them back.
 * The reader is kafkajs's own consumer, so that nothing of the product takes part in the verdict.
 */
import { type Consumer, Kafka, logLevel } from 'kafkajs'
import type { Logger } from '../../../src/core/ports.ts'
import { BatchProducer } from '../../../src/kafka/batch-producer.ts'
import type { IsolationLevel } from '../../../src/kafka/kafka-cluster.ts'
import { KafkajsCluster } from '../../../src/kafka/kafkajs/kafkajs-cluster.ts'
import { partitionForKey } from '../../../src/kafka/partitioner.ts'
import { orderAt } from './orders.ts'

export const PARTITIONS = 4
/** Orders that are appended between two looks at the producer's room. */
const APPEND_AT_ONCE = 500
/** Key of the record that marks the end of a partition for the reader. No user has it. */
const END_KEY = 'end of the demo'
const QUIET: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => QUIET }

const PARTITION_NUMBERS = Array.from({ length: PARTITIONS }, (_, partition) => partition)

export class DemoKafka {
  readonly #cluster: KafkajsCluster
  readonly #client: Kafka

  constructor(brokers: readonly string[]) {
    this.#cluster = new KafkajsCluster({ brokers, clientId: 'millrace-demo' }, QUIET)
    this.#client = new Kafka({
      brokers: [...brokers],
      clientId: 'millrace-demo-reader',
      logLevel: logLevel.NOTHING,
    })
  }

  connect(): Promise<void> {
    return this.#cluster.connect()
  }

  close(): Promise<void> {
    return this.#cluster.close()
  }

  createTopics(topics: readonly string[]): Promise<void> {
    return this.#cluster.createTopics(
      topics.map((topic) => ({ topic, partitions: PARTITIONS, replicationFactor: -1 })),
    )
  }

  /** Removes topics and groups; those that do not exist are no error. */
  async remove(topics: readonly string[], groups: readonly string[]): Promise<void> {
    const existing = await this.#cluster.describeTopics(topics)
    await this.#cluster.deleteTopics(existing.map(({ topic }) => topic))
    const admin = this.#client.admin()
    await admin.connect()
    try {
      const listed = (await admin.listGroups()).groups.map(({ groupId }) => groupId)
      await admin.deleteGroups(groups.filter((group) => listed.includes(group)))
    } finally {
      await admin.disconnect()
    }
  }

  /** Writes the first `records` orders; a user's orders go to one partition, in order. */
  async produceOrders(topic: string, records: number): Promise<void> {
    const producer = new BatchProducer({ cluster: this.#cluster })
    for (let i = 0; i < records; i++) {
      const order = orderAt(i)
      producer.append(
        topic,
        partitionForKey(order.user, PARTITIONS),
        order.user,
        JSON.stringify(order),
        order.ts,
      )
      if (i % APPEND_AT_ONCE === 0) await producer.ready()
    }
    await producer.flush()
  }

  /** Sum of the ends of a topic's partitions: what readers of this isolation level can read up to. */
  async endOf(topic: string, isolation: IsolationLevel): Promise<number> {
    const partitions = PARTITION_NUMBERS.map((partition) => ({ topic, partition }))
    const listed = await this.#cluster.listOffsets(partitions, 'latest', isolation)
    return listed.reduce((sum, { offset }) => sum + Number(offset), 0)
  }

  /**
   * Marks the end of each partition, outside of any transaction. A read_committed reader that meets the mark has seen everything before it
   * decided; if a transaction was left open, it never meets it.
   */
  async markEnds(topics: readonly string[]): Promise<void> {
    const producer = new BatchProducer({ cluster: this.#cluster })
    for (const topic of topics)
      for (const partition of PARTITION_NUMBERS) producer.append(topic, partition, END_KEY, '', Date.now())
    await producer.flush()
  }

  /** Reads the topics read_committed from their start to the marks. @throws Error naming the partitions whose mark did not come in time. */
  async readToEnds(
    groupId: string,
    visitors: Readonly<Record<string, (value: string) => void>>,
    timeoutMs: number,
  ): Promise<void> {
    const consumer = this.#client.consumer({
      groupId,
      readUncommitted: false,
      maxBytesPerPartition: 4 << 20,
      maxWaitTimeInMs: 200,
    })
    await consumer.connect()
    try {
      await consumer.subscribe({ topics: Object.keys(visitors), fromBeginning: true })
      await untilMarks(consumer, visitors, timeoutMs)
    } finally {
      await consumer.disconnect()
    }
  }
}

function untilMarks(
  consumer: Consumer,
  visitors: Readonly<Record<string, (value: string) => void>>,
  timeoutMs: number,
): Promise<void> {
  const open = new Set(
    Object.keys(visitors).flatMap((topic) => PARTITION_NUMBERS.map((partition) => `${topic}-${partition}`)),
  )
  return new Promise((resolve, reject) => {
    const fail = (): void =>
      reject(
        new Error(
          `could not read to the end of ${[...open].join(', ')} within ${timeoutMs / 1_000} s: is a transaction still open?`,
        ),
      )
    const timer = setTimeout(fail, timeoutMs)
    const eachBatch: Parameters<Consumer['run']>[0] = {
      eachBatch: async ({ batch: { topic, partition, messages } }) => {
        const visit = visitors[topic]
        for (const { key, value } of messages) {
          if (key?.toString() !== END_KEY) {
            visit?.(value?.toString() ?? '')
            continue
          }
          open.delete(`${topic}-${partition}`)
          if (open.size > 0) continue
          clearTimeout(timer)
          resolve()
        }
      },
    }
    consumer.run(eachBatch).catch(reject)
  })
}
