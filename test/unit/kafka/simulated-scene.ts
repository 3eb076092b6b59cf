/** A simulated cluster on virtual time, and a world whose logs and metrics can be read: for tests of what talks to Kafka. */
import type { SinkWriterContext, SubtaskInfo } from '../../../src/core/connector.ts'
import type { Counter, Logger, MetricGroup, World } from '../../../src/core/ports.ts'
import {
  type IsolationLevel,
  type KafkaCluster,
  KafkaCode,
  type ProducerIdentity,
} from '../../../src/kafka/kafka-cluster.ts'
import { RecordBatchReader } from '../../../src/kafka/record-batch.ts'
import { encodePlainBatch, type PlainRecordInput } from '../../../src/testing/plain-batch.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import type { SimulatedClient } from '../../../src/testing/simulated-client.ts'
import { SimulatedKafka, type SimulatedKafkaOptions } from '../../../src/testing/simulated-cluster.ts'
import { VirtualTime } from '../../../src/testing/virtual-time.ts'

/** A line that was logged. */
export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly message: string
}

/** A record that a reader sees. */
export interface SeenRecord {
  readonly offset: bigint
  readonly key: string | null
  readonly value: string | null
  readonly headers: readonly (readonly [string, string | null])[]
  readonly timestamp: number
}

export function countingCounter(): Counter {
  let count = 0
  return {
    inc: (by = 1) => {
      count += by
    },
    get count() {
      return count
    },
  }
}

/** Metrics that a test can look at. */
export class RecordingMetrics implements MetricGroup {
  readonly counters = new Map<string, Counter>()
  readonly gauges = new Map<string, () => number>()

  counter(name: string): Counter {
    let counter = this.counters.get(name)
    if (counter === undefined) {
      counter = countingCounter()
      this.counters.set(name, counter)
    }
    return counter
  }
  gauge(name: string, read: () => number): void {
    this.gauges.set(name, read)
  }
  histogram(): { record(value: number): void } {
    return { record: () => undefined }
  }
  group(): MetricGroup {
    return this
  }
}

/** A logger that keeps its lines. */
export function recordingLogger(lines: LogLine[]): Logger {
  const at =
    (level: LogLine['level']) =>
    (message: string): void => {
      lines.push({ level, message })
    }
  const logger: Logger = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => logger,
  }
  return logger
}

/** Everything that a test needs. */
export class SimulatedScene {
  readonly time = new VirtualTime()
  readonly kafka: SimulatedKafka
  readonly cluster: SimulatedClient
  readonly lines: LogLine[] = []
  readonly metrics = new RecordingMetrics()
  readonly world: World
  /** A client that no fault is meant for. */
  readonly #other: SimulatedClient

  constructor(options: Omit<Partial<SimulatedKafkaOptions>, 'clock' | 'timers'> = {}) {
    this.kafka = new SimulatedKafka({
      random: new SeededRandom(7),
      ...options,
      clock: this.time,
      timers: this.time,
    })
    this.cluster = this.kafka.client('worker')
    this.#other = this.kafka.client('other')
    this.world = {
      clock: this.time,
      timers: this.time,
      random: new SeededRandom(11),
      logger: recordingLogger(this.lines),
      metrics: this.metrics,
    }
  }

  /** Moves time until the promise is settled. */
  run<T>(promise: Promise<T> | T, maxMs = 600_000): Promise<T> {
    return this.time.settle(Promise.resolve(promise), { maxMs })
  }

  /** The error that the promise rejects with. */
  async failure(promise: Promise<unknown>): Promise<any> {
    let rejected: { error: unknown } | undefined
    await this.run(
      promise.then(
        () => undefined,
        (error: unknown) => {
          rejected = { error }
        },
      ),
    )
    if (rejected === undefined) throw new Error('it did not fail')
    return rejected.error
  }

  warnings(): string[] {
    return this.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
  }

  topic(topic: string, partitions = 1, configs: Readonly<Record<string, string>> = {}): Promise<void> {
    return this.run(this.#other.createTopics([{ topic, partitions, replicationFactor: 1, configs }]))
  }

  /** Stores records outside of any transaction. */
  async produce(
    topic: string,
    records: readonly (string | PlainRecordInput)[],
    partition = 0,
  ): Promise<bigint> {
    return this.#append(
      topic,
      partition,
      encodePlainBatch({ records: records.map(inputOf), timestamp: 1_000 }),
      null,
    )
  }

  /** Stores records in a transaction and ends it, unless `end` is 'open'. */
  async transact(
    topic: string,
    values: readonly (string | PlainRecordInput)[],
    end: 'commit' | 'abort' | 'open',
    transactionalId = 'somebody',
    partition = 0,
  ): Promise<ProducerIdentity> {
    const producer = await this.run(
      this.#other.initProducerId({ transactionalId, transactionTimeoutMs: 900_000 }),
    )
    await this.run(this.#other.addPartitionsToTxn(producer, [{ topic, partition }]))
    const { producerId, producerEpoch } = producer
    await this.#append(
      topic,
      partition,
      encodePlainBatch({
        records: values.map(inputOf),
        producerId,
        producerEpoch,
        baseSequence: 0,
        transactional: true,
        timestamp: 1_000,
      }),
      transactionalId,
    )
    if (end !== 'open') {
      await this.run(this.#other.endTxn(producer, end))
      await this.time.advance(50)
    }
    return producer
  }

  async #append(
    topic: string,
    partition: number,
    batch: Buffer,
    transactionalId: string | null,
  ): Promise<bigint> {
    const [produced] = await this.run(
      this.#other.produce({ acks: -1, transactionalId, partitions: [{ topic, partition, batch }] }),
    )
    if (produced!.errorCode !== KafkaCode.NONE)
      throw new Error(`the broker refused with ${produced!.errorCode}`)
    return produced!.baseOffset
  }

  /** All records that a reader sees now. */
  async read(
    topic: string,
    partition = 0,
    isolation: IsolationLevel = 'read_committed',
  ): Promise<SeenRecord[]> {
    const seen: SeenRecord[] = []
    const reader = new RecordBatchReader(topic, partition)
    let offset = this.kafka.inside.topics.partition({ topic, partition })!.log.logStartOffset
    for (;;) {
      const [answer] = await this.run(
        this.#other.fetch({
          isolation,
          partitions: [{ topic, partition, offset, maxBytes: 50_000_000 }],
          maxWaitMs: 0,
          minBytes: 0,
          maxBytes: 50_000_000,
        }),
      )
      reader.open(
        answer!.records,
        offset,
        isolation === 'read_committed' ? answer!.abortedTransactions : undefined,
      )
      while (reader.next())
        seen.push({
          offset: reader.offset(),
          key: reader.keyStart < 0 ? null : reader.buffer.toString('utf8', reader.keyStart, reader.keyEnd),
          value:
            reader.valueStart < 0 ? null : reader.buffer.toString('utf8', reader.valueStart, reader.valueEnd),
          headers: reader
            .headers()
            .map(([name, value]) => [name, value === null ? null : Buffer.from(value).toString()]),
          timestamp: reader.timestamp,
        })
      if (reader.nextOffset === offset) return seen
      offset = reader.nextOffset
    }
  }

  async values(topic: string, partition = 0): Promise<(string | null)[]> {
    return (await this.read(topic, partition)).map(({ value }) => value)
  }

  /** End of the log as read_committed readers see it, and the real one. */
  ends(topic: string, partition = 0): { stable: bigint; high: bigint } {
    const { log } = this.kafka.inside.topics.partition({ topic, partition })!
    return { stable: log.lastStableOffset, high: log.highWatermark }
  }

  info(change: Partial<SubtaskInfo> = {}): SubtaskInfo {
    return {
      jobName: 'job',
      operatorName: 'operator',
      uid: 'uid',
      subtaskIndex: 0,
      parallelism: 1,
      attempt: 1,
      ...change,
    }
  }

  sinkContext(change: Partial<SinkWriterContext> = {}): SinkWriterContext {
    return {
      info: this.info(),
      world: this.world,
      recordsOut: countingCounter(),
      restoredCheckpointId: undefined,
      checkpointingEnabled: true,
      logger: this.world.logger,
      metrics: this.metrics,
      ...change,
    }
  }
}

/** The cluster with some calls answered by the test. */
export function overriding(cluster: KafkaCluster, calls: Partial<KafkaCluster>): KafkaCluster {
  return new Proxy(cluster, {
    get(target, name) {
      const own = calls[name as keyof KafkaCluster]
      if (own !== undefined) return own
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

function inputOf(record: string | PlainRecordInput): PlainRecordInput {
  return typeof record === 'string' ? { value: record } : record
}
