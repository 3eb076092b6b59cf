/** A job that takes thousands of checkpoints, over the end of its producers' epochs, with a crash at each change of a producer id. */
import { expect, test } from '@jest/globals'
import { DeliveryGuarantee } from '../../src/core/constants.ts'
import { WatermarkStrategy } from '../../src/core/time/watermarks.ts'
import { kafkaSink } from '../../src/kafka/kafka-sink.ts'
import { kafkaSource } from '../../src/kafka/kafka-source.ts'
import { OffsetsInitializer } from '../../src/kafka/offsets.ts'
import { coordinatorId, transactionalId, transactionalIdPrefix } from '../../src/kafka/transactional-id.ts'
import { json } from '../../src/serdes/serdes.ts'
import { encodePlainBatch } from '../../src/testing/plain-batch.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { SimulatedKafka } from '../../src/testing/simulated-cluster.ts'
import { SimulatedDisk } from '../../src/testing/simulated-disk.ts'
import { SimulatedState } from '../../src/testing/simulated-state.ts'
import { type JobDeclaration, SimulatedWorker } from '../../src/testing/simulated-worker.ts'
import { SimulationTrace } from '../../src/testing/simulation-trace.ts'
import { VirtualTime } from '../../src/testing/virtual-time.ts'
import { CommittedLog } from '../integration/committed-log.ts'

const JOB = 'long'
const PARALLELISM = 2
/** Max concurrent checkpoints + 2. */
const SLOTS = 3
/** LONG_RUN_CHECKPOINTS sets another number; ten thousand take half a minute. */
const CHECKPOINTS = Number(process.env['LONG_RUN_CHECKPOINTS'] ?? 1_500)
const INTERVAL_MS = 10
/** A record comes on one of the partitions this often. */
const RECORD_MS = 11
/** The last one that a producer can have is 32,766: ids of sinks get there one after another in the first thousand checkpoints. */
const FIRST_EPOCH = 32_600

const declare: JobDeclaration = (env) => {
  env
    .fromSource(
      kafkaSource<number>({
        topics: ['in'],
        groupId: 'readers',
        startingOffsets: OffsetsInitializer.earliest(),
        value: json(),
      }),
      WatermarkStrategy.noWatermarks(),
      'in',
    )
    .uid('in')
    .sinkTo(
      kafkaSink<number>({ topic: 'out', value: json(), deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE }),
    )
    .uid('out')
}

const sinkIds = Array.from({ length: PARALLELISM * SLOTS }, (_, i) =>
  transactionalId(transactionalIdPrefix(JOB, 'out', undefined), Math.floor(i / SLOTS), i % SLOTS),
)

class LongRun {
  readonly time = new VirtualTime({ random: new SeededRandom(1) })
  readonly kafka = new SimulatedKafka({ clock: this.time, timers: this.time, random: new SeededRandom(2) })
  readonly #trace = new SimulationTrace(this.time, (line) => this.#read(line))
  readonly #client = this.kafka.client('test')
  readonly #state = new SimulatedState({
    scenario: {
      localRecovery: false,
      incremental: false,
      cacheBytes: 0,
      latency: { minMs: 0, maxMs: 0 },
      noise: 0,
    },
    time: this.time,
    disk: new SimulatedDisk(this.time),
    directory: undefined,
  })
  #worker: SimulatedWorker | undefined
  #started = 0
  completed = 0
  written = 0
  crashes = 0
  /** The producers' ids as they were at the last crash. */
  #producers = ''
  readonly problems: string[] = []

  async prepare(): Promise<void> {
    const settled = <T>(promise: Promise<T>): Promise<T> => this.time.settle(promise)
    await settled(
      this.#client.createTopics(
        ['in', 'out'].map((topic) => ({ topic, partitions: PARALLELISM, replicationFactor: 1 })),
      ),
    )
    for (const [index, id] of [...sinkIds, coordinatorId(JOB)].entries()) {
      await settled(this.#client.initProducerId({ transactionalId: id, transactionTimeoutMs: 60_000 }))
      this.kafka.inside.transactions.setEpoch(id, FIRST_EPOCH + index * 20)
    }
    this.#producers = this.#producerIds()
    this.#feed()
  }

  start(): void {
    this.#worker = new SimulatedWorker({
      name: `w${++this.#started}`,
      jobName: JOB,
      declare,
      config: {
        'execution.checkpointing.interval': INTERVAL_MS,
        'execution.checkpointing.timeout': 10_000,
        'parallelism.default': PARALLELISM,
        'kafka.fetch.max-wait': 20,
      },
      kafka: this.kafka,
      clock: this.time,
      timers: this.time,
      random: new SeededRandom(this.#started),
      trace: this.#trace,
      index: this.#started,
      state: this.#state,
      stateKind: 'heap',
      fresh: false,
      restoreFrom: undefined,
      onTimer: () => undefined,
      onPoint: (_worker, point) => {
        if (point === 'after-commit-point') this.#crashIfProducerChanged()
      },
      onEnd: (worker, end) =>
        this.problems.push(`${worker.name} ended as ${end.status}: ${String(end.error)}`),
    })
    this.#worker.start()
  }

  /** A producer id has gone since the last look: the process dies with a checkpoint complete and nothing of it committed. */
  #crashIfProducerChanged(): void {
    const now = this.#producerIds()
    if (now === this.#producers) return
    this.#producers = now
    this.crashes++
    this.#worker?.kill()
    this.time.schedule(10, () => this.start())
  }

  #producerIds(): string {
    return [...sinkIds, coordinatorId(JOB)]
      .map((id) => this.kafka.inside.transactions.describe(id).producerId)
      .join()
  }

  #feed(): void {
    const next = (): void => {
      const value = this.written++
      const batch = encodePlainBatch({
        records: [{ value: String(value) }],
        timestamp: this.time.now(),
      })
      const produced = this.#client.produce({
        acks: -1,
        transactionalId: null,
        partitions: [{ topic: 'in', partition: value % PARALLELISM, batch }],
      })
      produced.catch((error: unknown) => this.problems.push(String(error)))
      if (this.completed < CHECKPOINTS) this.time.schedule(RECORD_MS, next)
    }
    next()
  }

  #read(line: string): void {
    const complete = /debug: checkpoint (\d+) is complete/.exec(line)
    if (complete !== null) this.completed = Math.max(this.completed, Number(complete[1]))
    if (line.includes('healed') || line.includes('MILLRACE_TRANSACTION')) this.problems.push(line)
  }

  async output(): Promise<number[]> {
    const log = new CommittedLog(this.#client, 'out')
    await this.time.settle(log.poll())
    return log.values.map(Number).sort((a, b) => a - b)
  }
}

test(`${CHECKPOINTS} checkpoints over the end of every epoch use no more ids than the first one, and are exact`, async () => {
  const run = new LongRun()
  await run.prepare()
  const ids = (): string[] =>
    run.kafka.inside.transactions
      .list()
      .map((each) => each.transactionalId)
      .sort()
  const before = ids()
  run.start()
  const outcome = await run.time.runUntil(() => run.completed >= CHECKPOINTS || run.problems.length > 0, {
    maxMs: 1_000_000,
  })
  expect({ outcome, problems: run.problems }).toEqual({ outcome: 'reached', problems: [] })
  await run.time.advance(1_000)
  expect(run.crashes).toBeGreaterThanOrEqual(sinkIds.length)
  expect(ids()).toEqual(before)
  expect(await run.output()).toEqual(Array.from({ length: run.written }, (_, value) => value))
}, 120_000)
