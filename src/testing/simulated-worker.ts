/**
 * One worker process of a simulated job: composed by the same function as a real one, over simulated leaves.
 *
 *   Starting ──► Working ──► Ended (the job master says how)
 *       └──────────┴── kill ──► Killed: nothing of it runs any more        pause / resume: it stands still and wakes as a zombie
 *
 * The record thread and the membership thread have a connection and timers each, and speak by messages: either can stand still alone.
 */

import { StreamExecutionEnvironment } from '../api/environment.ts'
import { type JobSubmission, registerJobExecutor } from '../api/job-executor.ts'
import { jobSettings } from '../config/job-settings.ts'
import { settingsOfCode } from '../config/setting.ts'
import { resolveConfig } from '../config.ts'
import { buildJobGraph } from '../core/graph/job-graph-builder.ts'
import type { RestoreChoice } from '../core/job-settings.ts'
import type { Clock, Timers, World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { MetricRegistry } from '../metrics/metrics.ts'
import { type Composition, composeKafkaJob, createMaster } from '../runtime/deployment.ts'
import type { FaultPoint } from '../runtime/fault-points.ts'
import type { JobMaster } from '../runtime/job-master.ts'
import type { JobEnd } from '../runtime/running-attempt.ts'
import { ProcessTimers } from './process-timers.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { SimulatedClient } from './simulated-client.ts'
import type { SimulatedKafka } from './simulated-cluster.ts'
import { simulatedMembership } from './simulated-membership.ts'
import type { SimulatedState } from './simulated-state.ts'
import type { StateKind } from './simulation-scenario.ts'
import type { SimulationTrace } from './simulation-trace.ts'

/** What user code of a simulated job may wait for: it stands still and dies with its process. */
export interface JobWorld {
  readonly random: SeededRandom
  sleep(ms: number): Promise<void>
}

/** Declares the job, as a user's module would: every process does it anew. */
export type JobDeclaration = (env: StreamExecutionEnvironment, world: JobWorld) => void

/** What a simulated worker is made of. */
export interface SimulatedWorkerOptions {
  readonly name: string
  readonly jobName: string
  readonly declare: JobDeclaration
  /** Options of the configuration that the deployment of this worker sets. */
  readonly config: Readonly<Record<string, string | number | boolean>>
  readonly kafka: SimulatedKafka
  readonly clock: Clock
  readonly timers: Timers
  readonly random: SeededRandom
  readonly trace: SimulationTrace
  /** How many started before it. */
  readonly index: number
  readonly state: SimulatedState
  readonly stateKind: StateKind
  /** Started with --fresh. */
  readonly fresh: boolean
  /** Started with --from-savepoint or --from-checkpoint. */
  readonly restoreFrom: RestoreChoice | undefined
  /** A timer of the process is about to run its action. */
  readonly onTimer: (worker: string) => void
  readonly onPoint: (worker: string, point: FaultPoint) => void
  readonly onEnd: (worker: SimulatedWorker, end: JobEnd) => void
}

/** A worker process. */
export class SimulatedWorker {
  readonly name: string
  readonly #options: SimulatedWorkerOptions
  readonly #records: SimulatedClient
  readonly #membership: SimulatedClient
  readonly #recordTimers: ProcessTimers
  readonly #memberTimers: ProcessTimers
  readonly #metrics = new MetricRegistry()
  #master: JobMaster | undefined
  #end: JobEnd | undefined
  #killed = false
  #endedAt: number | undefined
  #stopAskedAt: number | undefined
  #incarnation = ''

  constructor(options: SimulatedWorkerOptions) {
    const { name, kafka, timers } = options
    this.name = name
    this.#options = options
    this.#records = kafka.client(name)
    this.#membership = kafka.client(`${name}-group`)
    this.#recordTimers = new ProcessTimers(timers, () => options.onTimer(name))
    this.#memberTimers = new ProcessTimers(timers, () => options.onTimer(name))
  }

  /** Runs, or stands still: not killed and not ended. */
  get alive(): boolean {
    return !this.#killed && this.#end === undefined
  }

  get status(): string {
    if (this.#killed) return 'killed'
    return this.#end?.status ?? this.#master?.status ?? 'starting'
  }

  /** Transactions that the brokers gave up and that it wrote again. */
  get healed(): number {
    return this.#metrics.total('healed_transactions')
  }

  /** What the process calls itself in the records of its attempts; '' before it knows. */
  get incarnation(): string {
    return this.#incarnation
  }

  /** Virtual ms between SIGTERM and its end, or now. */
  get stoppingFor(): number {
    return this.#stopAskedAt === undefined
      ? 0
      : (this.#endedAt ?? this.#options.clock.now()) - this.#stopAskedAt
  }

  describe(): string {
    const tasks = this.#master?.describeTasks() ?? []
    return `${this.name} is ${this.status}${tasks.length === 0 ? '' : `: ${tasks.join('; ')}`}`
  }

  start(): void {
    void this.#run().then(
      (end) => this.#ended(end),
      (error: unknown) => this.#ended({ status: 'FAILED', error }),
    )
  }

  /** SIGTERM. */
  stop(): void {
    this.#stopAskedAt ??= this.#options.clock.now()
    this.#master?.stop()
  }

  /** What JobClient.cancel does in the process of a leader that runs the job; false when this one cannot. */
  cancel(): boolean {
    if (!this.alive || this.#master?.status !== 'RUNNING') return false
    void this.#master.cancel()
    return true
  }

  /** kill -9: nothing of it runs any more; requests on their way may still be executed. */
  kill(): void {
    if (!this.alive) return
    this.#killed = true
    this.#recordTimers.cut()
    this.#memberTimers.cut()
    this.#records.kill()
    this.#membership.kill()
  }

  /** SIGSTOP, or with 'records' a record thread that is busy for long while the membership thread goes on. */
  pause(what: 'process' | 'records'): void {
    this.#recordTimers.pause()
    this.#records.pause()
    if (what === 'records') return
    this.#memberTimers.pause()
    this.#membership.pause()
  }

  resume(what: 'process' | 'records'): void {
    this.#records.resume()
    this.#recordTimers.resume()
    if (what === 'records') return
    this.#membership.resume()
    this.#memberTimers.resume()
  }

  #ended(end: JobEnd): void {
    if (this.#killed) return
    this.#end = end
    this.#endedAt = this.#options.clock.now()
    // A process that ends takes its threads and timers with it.
    this.#recordTimers.cut()
    this.#memberTimers.cut()
    this.#records.kill()
    this.#membership.kill()
    this.#options.onEnd(this, end)
  }

  async #run(): Promise<JobEnd> {
    const { jobName, config: deployed, fresh, restoreFrom, clock, random, trace, name } = this.#options
    const submission = await this.#submit()
    const config = resolveConfig(settingsOfCode({ ...submission.settings.config, ...deployed }))
    const settings = jobSettings(config)
    const parallelism = config.get('parallelism.default')
    const graph = buildJobGraph(submission.graph, {
      jobName,
      defaultParallelism: parallelism === 'auto' ? config.get('taskmanager.numberOfTaskSlots') : parallelism,
      maxParallelism: config.get('pipeline.max-parallelism'),
    })
    const world: World = {
      clock,
      timers: this.#recordTimers,
      random: random.fork('records'),
      logger: trace.logger(name),
      metrics: this.#metrics,
    }
    const incarnation = world.random.uuid()
    this.#incarnation = incarnation
    const state = this.#options.state.of({
      index: this.#options.index,
      kind: this.#options.stateKind,
      timers: this.#recordTimers,
      random: random.fork('state'),
      world,
    })
    const composition: Composition = await composeKafkaJob({
      jobName,
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
          world: { ...world, random: this.#options.random.fork('member') },
          member,
        }),
      openStorage: (own) => state.storage(own),
      fault: (point) => this.#options.onPoint(name, point),
    })
    this.#master = createMaster(composition, {
      jobName,
      graph,
      settings,
      world,
      incarnation,
      start: { fresh, allowNonRestoredState: false, acceptLostTransactions: [], restoreFrom },
      keyedState: state.keyedState,
      fault: (point) => this.#options.onPoint(name, point),
    })
    if (this.#stopAskedAt !== undefined) this.#master.stop()
    const end = await this.#master.run()
    await composition.close()
    return end
  }

  /** The job as its module submits it. */
  async #submit(): Promise<JobSubmission> {
    const { declare, jobName } = this.#options
    const env = StreamExecutionEnvironment.getExecutionEnvironment()
    declare(env, {
      random: this.#options.random.fork('user code'),
      sleep: (ms) => this.#recordTimers.sleep(ms),
    })
    let submission: JobSubmission | undefined
    registerJobExecutor(async () => ({
      execute: async (submitted) => {
        submission = submitted
        throw new Submitted()
      },
    }))
    await env.executeAsync(jobName).catch((error: unknown) => {
      if (!(error instanceof Submitted)) throw error
    })
    if (submission === undefined)
      throw new MillraceError('MILLRACE_INTERNAL', `job '${jobName}' was not submitted`)
    return submission
  }
}

/** The job was handed over: nothing else of the submission is wanted. */
class Submitted extends Error {}
