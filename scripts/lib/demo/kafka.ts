/** What the demo does with Kafka besides running the job: topics, the input, how far outputs are, and reading them back. */
import { Kafka, logLevel } from 'kafkajs'
import type { Logger } from '../../../src/core/ports.ts'
import { BatchProducer } from '../../../src/kafka/batch-producer.ts'
import type { IsolationLevel } from '../../../src/kafka/kafka-cluster.ts'
import { KafkajsCluster } from '../../../src/kafka/kafkajs/kafkajs-cluster.ts'
import { partitionForKey } from '../../../src/kafka/partitioner.ts'
import { readCommitted } from './committed-records.ts'
import { orderAt } from './orders.ts'

export const PARTITIONS = 4
/** Orders that are appended between two looks at the producer's room. */
const APPEND_AT_ONCE = 500
const QUIET: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => QUIET }

const PARTITION_NUMBERS = Array.from({ length: PARTITIONS }, (_, partition) => partition)

export class DemoKafka {
  readonly #brokers: readonly string[]
  readonly #cluster: KafkajsCluster

  constructor(brokers: readonly string[]) {
    this.#brokers = brokers
    this.#cluster = new KafkajsCluster({ brokers, clientId: 'millrace-demo' }, QUIET)
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
    const admin = new Kafka({ brokers: [...this.#brokers], logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    try {
      const listed = (await admin.listGroups()).groups.map(({ groupId }) => groupId)
      await admin.deleteGroups(groups.filter((group) => listed.includes(group)))
    } finally {
      await admin.disconnect()
    }
  }

  /**
   * Writes the first `records` orders; a user's orders go to one partition, in order. Their time in Kafka is now, not that of the order:
   * retention would remove them, and the output, which keeps the time, while the demo runs.
   */
  async produceOrders(topic: string, records: number): Promise<void> {
    const producer = new BatchProducer({ cluster: this.#cluster })
    const now = Date.now()
    for (let i = 0; i < records; i++) {
      const order = orderAt(i)
      const partition = partitionForKey(order.user, PARTITIONS)
      producer.append(topic, partition, order.user, JSON.stringify(order), now)
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

  /** Reads a whole topic read_committed. @throws Error if a transaction was left open in it. */
  async read(topic: string, visit: (value: string) => void, timeoutMs: number): Promise<void> {
    for (const partition of PARTITION_NUMBERS)
      await readCommitted(this.#cluster, { topic, partition }, visit, timeoutMs)
  }
}
