/** What one test of a whole job has: a client of the brokers, topics of its own, the processes it started. Closed at the end of the test. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KafkaCluster, ProducerIdentity } from '../../src/kafka/kafka-cluster.ts'
import { encodePlainBatch, type PlainRecordInput } from '../../src/testing/plain-batch.ts'
import { CommittedLog } from './committed-log.ts'
import { JobProcess } from './job-process.ts'
import { brokersUnderTest, newCluster } from './kafka/real-kafka.ts'

/** Largest number of records in one batch of `produce`. */
const BATCH = 2_000
const POLL_MS = 50

export class JobScene {
  readonly cluster: KafkaCluster
  readonly brokers: string
  /** Name of the job; unlike any other test's. */
  readonly job: string
  readonly #topics = new Set<string>()
  readonly #processes: JobProcess[] = []

  private constructor(cluster: KafkaCluster, brokers: string, job: string) {
    this.cluster = cluster
    this.brokers = brokers
    this.job = job
  }

  static async open(brokers: readonly string[] = brokersUnderTest()): Promise<JobScene> {
    const cluster = newCluster(brokers)
    await cluster.connect()
    return new JobScene(cluster, brokers.join(','), `case-${randomUUID().slice(0, 13)}`)
  }

  async topic(
    role: string,
    partitions: number,
    configs: Readonly<Record<string, string>> = {},
    replicationFactor = -1,
  ): Promise<string> {
    const topic = `${this.job}.${role}`
    // Output keeps the event times of its job, and those may be of 1970: without this the broker removes it as too old.
    const kept = { 'retention.ms': '-1', ...configs }
    await this.cluster.createTopics([{ topic, partitions, replicationFactor, configs: kept }])
    this.#topics.add(topic)
    return topic
  }

  /** Starts a job module with the addresses of the brokers, the job's name, and what else it reads from the environment. */
  start(
    module: string,
    environment: Readonly<Record<string, string>> = {},
    command?: readonly string[],
  ): JobProcess {
    const job = new JobProcess({
      module,
      environment: { KAFKA_BROKERS: this.brokers, JOB_NAME: this.job, ...environment },
      command,
    })
    this.#processes.push(job)
    return job
  }

  /** Stores values on one partition, outside of any transaction unless a producer is named. */
  async produce(
    topic: string,
    partition: number,
    values: readonly (string | Buffer | null)[],
    producer?: { readonly identity: ProducerIdentity; readonly baseSequence: number },
  ): Promise<void> {
    for (let from = 0; from < values.length; from += BATCH) {
      const records = values
        .slice(from, from + BATCH)
        .map((value): PlainRecordInput => ({ value, timestamp: Date.now() }))
      const { producerId, producerEpoch } = producer?.identity ?? {}
      const batch = encodePlainBatch(
        producer === undefined
          ? { records }
          : {
              records,
              producerId: producerId as bigint,
              producerEpoch: producerEpoch as number,
              baseSequence: producer.baseSequence + from,
              transactional: true,
            },
      )
      const [answer] = await this.cluster.produce({
        acks: -1,
        transactionalId: producer?.identity.transactionalId ?? null,
        partitions: [{ topic, partition, batch }],
      })
      if (answer?.errorCode !== 0) throw new Error(`produce to ${topic} answered ${answer?.errorCode}`)
    }
  }

  /** Stores values in one transaction of its own and ends it. */
  async transaction(
    topic: string,
    partition: number,
    values: readonly string[],
    result: 'commit' | 'abort',
  ): Promise<void> {
    const identity = await this.cluster.initProducerId({
      transactionalId: `${this.job}.input`,
      transactionTimeoutMs: 60_000,
    })
    await this.cluster.addPartitionsToTxn(identity, [{ topic, partition }])
    await this.produce(topic, partition, values, { identity, baseSequence: 0 })
    await this.cluster.endTxn(identity, result)
  }

  /** Reads the topic until `enough` is true of its committed values. */
  async readUntil(
    topic: string,
    enough: (values: readonly (string | null)[]) => boolean,
    timeoutMs = 30_000,
  ): Promise<(string | null)[]> {
    const log = new CommittedLog(this.cluster, topic)
    await this.until(
      () => `${topic} holds what is expected; it holds ${log.records.length} records`,
      timeoutMs,
      async () => {
        await log.poll()
        return enough(log.values)
      },
    )
    return log.values
  }

  /** Committed values now. */
  async read(topic: string): Promise<(string | null)[]> {
    const log = new CommittedLog(this.cluster, topic)
    await log.poll()
    return log.values
  }

  /** Sum of the partitions' ends: the last stable offsets, or the high watermarks. */
  async endOf(topic: string, isolation: 'read_committed' | 'read_uncommitted'): Promise<bigint> {
    const partitions = (await this.#partitionsOf(topic)).map((partition) => ({ topic, partition }))
    const listed = await this.cluster.listOffsets(partitions, 'latest', isolation)
    return listed.reduce((sum, { offset }) => sum + offset, 0n)
  }

  /** Milliseconds until no open transaction holds readers of the topics back. @throws Error when it takes longer than `timeoutMs`. */
  async settled(topics: readonly string[], timeoutMs: number): Promise<number> {
    const began = Date.now()
    for (const topic of topics)
      await this.until(`the last stable offsets of ${topic} are the high watermarks`, timeoutMs, async () => {
        return (await this.endOf(topic, 'read_committed')) === (await this.endOf(topic, 'read_uncommitted'))
      })
    return Date.now() - began
  }

  /** Asks again and again. @throws Error naming what did not come true, with the logs of the processes that run. */
  async until(
    what: string | (() => string),
    timeoutMs: number,
    isTrue: () => Promise<boolean> | boolean,
  ): Promise<void> {
    const deadline = Date.now() + timeoutMs
    while (!(await isTrue())) {
      if (Date.now() > deadline)
        throw new Error(
          `not within ${timeoutMs} ms: ${typeof what === 'string' ? what : what()}\n${this.#processes.map((job) => `── process ${job.pid}\n${job.log}`).join('\n')}`,
        )
      await sleep(POLL_MS)
    }
  }

  /** Ends the processes, removes the topics and the client. */
  async close(): Promise<void> {
    await Promise.all(this.#processes.filter((job) => job.running).map((job) => job.kill()))
    try {
      const { cluster } = this
      const left = await cluster.describeTopics([...this.#topics])
      if (left.length > 0) await cluster.deleteTopics(left.map(({ topic }) => topic))
    } finally {
      await this.cluster.close()
    }
  }

  async #partitionsOf(topic: string): Promise<number[]> {
    const [described] = await this.cluster.describeTopics([topic])
    if (described === undefined) throw new Error(`no topic ${topic}`)
    return described.partitions.map(({ partition }) => partition)
  }
}
