/**
 * The worker process of a job under test: composed by the functions that compose a real one, over simulated brokers and virtual time.
 *
 *   Starting ──► Working ──► Ended (the job master says how)
 *       └──────────┴── kill ──► Killed: nothing of it runs any more
 *
 * A job without Kafka keeps its checkpoints in `local`, which outlives the worker: in production they would end with the process.
 */
import type { JobSubmission } from '../api/job-executor.ts'
import { jobSettings } from '../config/job-settings.ts'
import { settingsOfCode } from '../config/setting.ts'
import { type Config, type ProgrammaticSettings, resolveConfig } from '../config.ts'
import { JobStatus } from '../core/constants.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import { buildJobGraph } from '../core/graph/job-graph-builder.ts'
import type { JobSettings, StartOptions } from '../core/job-settings.ts'
import type { Logger, World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { usesKafka } from '../kafka/connector-binding.ts'
import { MetricRegistry } from '../metrics/metrics.ts'
import { type Composition, composeKafkaJob, createMaster } from '../runtime/deployment.ts'
import type { FaultPoint } from '../runtime/fault-points.ts'
import type { JobMaster } from '../runtime/job-master.ts'
import { LocalLeadership } from '../runtime/local-leadership.ts'
import type { JobEnd } from '../runtime/running-attempt.ts'
import { plainStorage } from '../runtime/state-storage.ts'
import type { MemoryBlobStore } from '../state/memory-blob-store.ts'
import { STATE_CODEC } from '../state/operator-state-codec.ts'
import type { CheckpointLog } from './checkpoint-log.ts'
import { ProcessTimers } from './process-timers.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { SimulatedClient } from './simulated-client.ts'
import type { SimulatedKafka } from './simulated-cluster.ts'
import { simulatedMembership } from './simulated-membership.ts'
import { UserPromises } from './user-promises.ts'
import type { VirtualTime } from './virtual-time.ts'
import { type NotePromise, watchSinks } from './watched-sinks.ts'

/** What a worker under test is made of. */
export interface DrivenWorkerOptions {
  /** Its connections are known to the brokers by it. */
  readonly name: string
  readonly submission: JobSubmission
  /** Weaker than what the job's code sets. */
  readonly defaults: ProgrammaticSettings
  /** Stronger than what the job's code sets. */
  readonly config: ProgrammaticSettings
  readonly start: StartOptions
  readonly kafka: SimulatedKafka
  readonly time: VirtualTime
  readonly random: SeededRandom
  readonly logger: Logger
  /** Checkpoints of a job without Kafka, and a place for snapshots of any job that does not keep them in Kafka. */
  readonly local: { readonly store: CheckpointLog; readonly blobs: MemoryBlobStore }
  /** Real milliseconds that a promise of a function or a sink may take. */
  readonly realWaitMs: number
  readonly onPoint: (point: FaultPoint) => void
  readonly onEnd: (end: JobEnd) => void
}

/** A worker under test. */
export class DrivenWorker {
  readonly promises: UserPromises
  readonly #options: DrivenWorkerOptions
  readonly #records: SimulatedClient
  readonly #membership: SimulatedClient
  readonly #recordTimers: ProcessTimers
  readonly #memberTimers: ProcessTimers
  readonly #metrics = new MetricRegistry()
  #master: JobMaster | undefined
  #end: JobEnd | undefined
  #killed = false

  constructor(options: DrivenWorkerOptions) {
    const { name, kafka, time, realWaitMs } = options
    this.#options = options
    this.promises = new UserPromises(realWaitMs)
    this.#records = kafka.client(name)
    this.#membership = kafka.client(`${name}-group`)
    this.#recordTimers = new ProcessTimers(time, () => undefined)
    this.#memberTimers = new ProcessTimers(time, () => undefined)
  }

  /** Runs: not killed and not ended. */
  get alive(): boolean {
    return !this.#killed && this.#end === undefined
  }

  get killed(): boolean {
    return this.#killed
  }

  /** How the job ended in this worker. */
  get end(): JobEnd | undefined {
    return this.#end
  }

  get status(): JobStatus {
    return this.#end?.status ?? this.#master?.status ?? JobStatus.CREATED
  }

  /** Sum of the counters and gauges of that name. */
  metric(name: string): number {
    let sum = 0
    for (const reading of this.#metrics.read()) if (reading.name === name) sum += reading.value
    return sum
  }

  /** What its tasks wait for, for messages. */
  describe(): string {
    const tasks = this.#master?.describeTasks() ?? []
    const status = this.#killed ? 'killed' : this.status
    return `the job is ${status}${tasks.length === 0 ? '' : ` (${tasks.join('; ')})`}`
  }

  start(): void {
    void this.#run().then(
      (end) => this.#ended(end),
      (error: unknown) => this.#ended({ status: 'FAILED', error }),
    )
  }

  /** SIGTERM. */
  stop(): void {
    this.#working('stopped').stop()
  }

  cancel(): Promise<void> {
    return this.#working('cancelled').cancel()
  }

  triggerCheckpoint(): Promise<number> {
    return this.#working('told to take a checkpoint').triggerCheckpoint()
  }

  /** kill -9: nothing of it runs any more; requests on their way may still be executed. */
  kill(): void {
    if (!this.alive) return
    this.#killed = true
    this.#cut()
  }

  #working(what: string): JobMaster {
    if (this.#master !== undefined) return this.#master
    throw new MillraceError('MILLRACE_TEST_DRIVER', `the job cannot be ${what}: its worker is still starting`)
  }

  #cut(): void {
    this.#recordTimers.cut()
    this.#memberTimers.cut()
    this.#records.kill()
    this.#membership.kill()
  }

  #ended(end: JobEnd): void {
    if (this.#killed) return
    this.#end = end
    // A process that ends takes its threads and timers with it.
    this.#cut()
    this.#options.onEnd(end)
  }

  async #run(): Promise<JobEnd> {
    const { submission, defaults, config: deployed, start, time, random, logger, onPoint } = this.#options
    const { jobName } = submission
    const config = resolveConfig(settingsOfCode({ ...defaults, ...submission.settings.config, ...deployed }))
    for (const { level, message } of config.findings)
      level === 'warning' ? logger.warn(message) : logger.info(message)
    const settings = jobSettings(config)
    const parallelism = config.get('parallelism.default')
    const noted: NotePromise = (...wait) => this.promises.note(...wait)
    const graph = buildJobGraph(watchSinks(submission.graph, { note: noted, isKilled: () => this.#killed }), {
      jobName,
      defaultParallelism: parallelism === 'auto' ? config.get('taskmanager.numberOfTaskSlots') : parallelism,
      maxParallelism: config.get('pipeline.max-parallelism'),
    })
    for (const warning of graph.warnings) logger.warn(warning)
    const world: World = {
      clock: time,
      timers: this.#recordTimers,
      random: random.fork('records'),
      logger,
      metrics: this.#metrics,
      onUserPromise: noted,
    }
    const incarnation = world.random.uuid()
    const composition = usesKafka(graph)
      ? await this.#composeKafka(graph, config, settings, world, incarnation)
      : this.#composeLocal()
    this.#master = createMaster(composition, {
      jobName,
      graph,
      settings,
      world,
      incarnation,
      start,
      fault: onPoint,
    })
    const end = await this.#master.run()
    await composition.close()
    return end
  }

  #composeKafka(
    graph: JobGraph,
    config: Config,
    settings: JobSettings,
    world: World,
    incarnation: string,
  ): Promise<Composition> {
    const { submission, local, random, onPoint } = this.#options
    const inTopic = config.get('state.backend') === 'jobmanager'
    return composeKafkaJob({
      jobName: submission.jobName,
      graph,
      config,
      settings,
      world,
      incarnation,
      cluster: this.#records,
      startMember: (member) =>
        simulatedMembership({
          client: this.#membership,
          timers: this.#memberTimers,
          recordTimers: this.#recordTimers,
          world: { ...world, random: random.fork('member') },
          member,
        }),
      openStorage: (own) => plainStorage(inTopic ? own : local.blobs, STATE_CODEC),
      fault: onPoint,
    })
  }

  #composeLocal(): Composition {
    const { store, blobs } = this.#options.local
    return {
      leadership: new LocalLeadership(),
      store,
      storage: plainStorage(blobs, STATE_CODEC),
      transactions: undefined,
      close: async () => undefined,
    }
  }
}
