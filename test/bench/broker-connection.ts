/** Requests of the benchmark on kafkajs's connections, without the product's port: topics, offsets, fetch and produce as raw bytes. */
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'

const require = createRequire(import.meta.url)
const Cluster = require('kafkajs/src/cluster')
const loggers = require('kafkajs/src/loggers')
const consoleLogger = require('kafkajs/src/loggers/console')
const socketFactory = require('kafkajs/src/network/socketFactory')
const Encoder = require('kafkajs/src/protocol/encoder')
const fetchRequest = require('kafkajs/src/protocol/requests/fetch/v11/request')
const produceResponse = require('kafkajs/src/protocol/requests/produce/v7/response')
const coordinatorTypes = require('kafkajs/src/protocol/coordinatorTypes')

/** What the broker knows a transactional producer by. */
export interface TransactionalProducer {
  readonly transactionalId: string
  readonly producerId: string
  readonly producerEpoch: number
}

/** A connection to the leader of one topic; all its partitions must have the same leader. */
export class BrokerConnection {
  readonly #cluster: any
  readonly #bootstrap: string

  constructor(bootstrap: string, clientId: string) {
    this.#bootstrap = bootstrap
    this.#cluster = new Cluster({
      logger: loggers.createLogger({ level: logLevel.NOTHING, logCreator: consoleLogger }),
      socketFactory: socketFactory(),
      brokers: bootstrap.split(','),
      clientId,
      connectionTimeout: 3_000,
      authenticationTimeout: 3_000,
      reauthenticationThreshold: 10_000,
      requestTimeout: 30_000,
      metadataMaxAge: 300_000,
      retry: {},
      allowAutoTopicCreation: false,
      maxInFlightRequests: 5,
    })
  }

  async connect(...topics: readonly string[]): Promise<void> {
    await this.#cluster.connect()
    for (const topic of topics) await this.#cluster.addTargetTopic(topic)
    await this.#cluster.refreshMetadata()
  }

  async close(): Promise<void> {
    await this.#cluster.disconnect()
  }

  /** Runs admin calls on a client of their own. */
  async admin<R>(action: (admin: ReturnType<Kafka['admin']>) => Promise<R>): Promise<R> {
    const admin = new Kafka({ brokers: this.#bootstrap.split(','), logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    try {
      return await action(admin)
    } finally {
      await admin.disconnect()
    }
  }

  /** Creates a topic that keeps its records however old their timestamps are. */
  async createTopic(topic: string, partitions: number): Promise<void> {
    await this.admin((admin) =>
      admin.createTopics({
        waitForLeaders: true,
        topics: [
          { topic, numPartitions: partitions, configEntries: [{ name: 'retention.ms', value: '-1' }] },
        ],
      }),
    )
  }

  async #leader(topic: string): Promise<any> {
    const leaders = new Set<number>(this.#cluster.findTopicPartitionMetadata(topic).map((p: any) => p.leader))
    if (leaders.size !== 1)
      throw new Error(
        `the partitions of ${topic} have ${leaders.size} leaders; the benchmark needs one broker`,
      )
    return this.#cluster.findBroker({ nodeId: String([...leaders][0]) })
  }

  /** Offsets of all partitions of a topic: `end` with read_committed is the last stable offset. */
  async offsets(topic: string, at: 'start' | 'end', partitions: readonly number[]): Promise<number[]> {
    const broker = await this.#leader(topic)
    const { responses } = await broker.listOffsets({
      replicaId: -1,
      isolationLevel: 1,
      topics: [
        {
          topic,
          partitions: partitions.map((partition) => ({ partition, timestamp: at === 'end' ? -1 : -2 })),
        },
      ],
    })
    const found = new Map<number, string>(responses[0].partitions.map((p: any) => [p.partition, p.offset]))
    return partitions.map((partition) => Number(found.get(partition)))
  }

  /** The raw answer to one read_committed fetch. */
  async fetch(
    topic: string,
    positions: ReadonlyMap<number, number>,
    maxWaitTime: number,
    maxBytes: number,
  ): Promise<Buffer> {
    const broker = await this.#leader(topic)
    const partitions = [...positions].map(([partition, offset]) => ({
      partition,
      fetchOffset: String(offset),
      maxBytes,
    }))
    return broker.connectionPool.send({
      request: fetchRequest({
        replicaId: -1,
        maxWaitTime,
        minBytes: 1,
        maxBytes: 10 << 20,
        isolationLevel: 1,
        topics: [{ topic, partitions }],
      }),
      response: { decode: async (raw: Buffer) => raw, parse: async (raw: Buffer) => raw },
    })
  }

  /** Stores batches, acknowledged by all replicas. Order is that of the calls. */
  async produce(
    topic: string,
    batches: readonly (readonly [number, Buffer])[],
    transactionalId: string | null = null,
  ): Promise<void> {
    const broker = await this.#leader(topic)
    await broker.connectionPool.send({
      request: {
        apiKey: 0,
        apiVersion: 7,
        apiName: 'Produce',
        expectResponse: () => true,
        encode: async () => {
          const encoder = new Encoder(1 << 20).writeString(transactionalId).writeInt16(-1).writeInt32(30_000)
          encoder.writeInt32(1).writeString(topic).writeInt32(batches.length)
          for (const [partition, batch] of batches)
            encoder.writeInt32(partition).writeInt32(batch.length).writeBufferInternal(batch)
          return encoder
        },
      },
      response: produceResponse,
    })
  }

  async #transactionCoordinator(transactionalId: string): Promise<any> {
    return this.#cluster.findGroupCoordinator({
      groupId: transactionalId,
      coordinatorType: coordinatorTypes.TRANSACTION,
    })
  }

  async initProducer(transactionalId: string): Promise<TransactionalProducer> {
    const coordinator = await this.#transactionCoordinator(transactionalId)
    const { producerId, producerEpoch } = await retried(() =>
      coordinator.initProducerId({ transactionalId, transactionTimeout: 60_000 }),
    )
    return { transactionalId, producerId, producerEpoch }
  }

  async addPartitions(
    producer: TransactionalProducer,
    topic: string,
    partitions: readonly number[],
  ): Promise<void> {
    const coordinator = await this.#transactionCoordinator(producer.transactionalId)
    await retried(() => coordinator.addPartitionsToTxn({ ...producer, topics: [{ topic, partitions }] }))
  }

  async commit(producer: TransactionalProducer): Promise<void> {
    const coordinator = await this.#transactionCoordinator(producer.transactionalId)
    await retried(() => coordinator.endTxn({ ...producer, transactionResult: true }))
  }
}

/** Repeats a request while the broker says that it is still busy with the last one. */
async function retried(request: () => Promise<any>): Promise<any> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await request()
    } catch (error) {
      if (attempt > 200 || !(error as { retriable?: boolean }).retriable) throw error
      await sleep(10)
    }
  }
}
