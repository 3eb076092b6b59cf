/**
 * A whole job in one thread: workers, brokers, input and faults on virtual time, all drawn from one seed.
 *
 *   topics, input ──► workers start ──► faults strike; dead workers are replaced ──► all input is seen in the output (unbounded: stop)
 *        └─ at every step: the invariants                                                or the job is FINISHED ──► last checks
 *
 * The same seed gives the same run to the last step; a failing one is run again with a trace to read.
 */
import { isMillraceError } from '../errors.ts'
import type { JobEnd } from '../runtime/job-master.ts'
import type { PlainRecordInput } from './plain-batch.ts'
import { forbidRealWorld } from './real-world-guard.ts'
import { SeededRandom } from './seeded-random.ts'
import { SimulatedKafka } from './simulated-cluster.ts'
import { SimulatedDirectory } from './simulated-directory.ts'
import type { Interception } from './simulated-network.ts'
import { type JobDeclaration, SimulatedWorker } from './simulated-worker.ts'
import { drawFaults, type Fault, FaultPlan } from './simulation-faults.ts'
import { SimulationInput } from './simulation-input.ts'
import { type SeenRecord, SimulationInvariants } from './simulation-invariants.ts'
import { drawScenario, mayLoseTransactions, type Scenario } from './simulation-scenario.ts'
import { SimulationTrace } from './simulation-trace.ts'
import { VirtualTime } from './virtual-time.ts'

/** Records by topic. */
export type RecordsByTopic = ReadonlyMap<string, readonly SeenRecord[]>

/** A job as the simulation runs it. Output values carry `from`, the topic, partition and offset of the record they were made of. */
export interface SimulatedJob {
  readonly name: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  /** Group of its sources. */
  readonly groupId: string
  declare(scenario: Scenario): JobDeclaration
  /** A record of the input. */
  record(random: SeededRandom, scenario: Scenario): PlainRecordInput
  /** How many records the outputs hold in the end. */
  expected(input: RecordsByTopic): number
  /** What is wrong with the output, given the whole input; empty = nothing. */
  verify(input: RecordsByTopic, output: RecordsByTopic): string[]
}

/** One run to make. */
export interface SimulationOptions {
  readonly seed: number
  readonly job: SimulatedJob
  /** Little input, few faults. */
  readonly small?: boolean
  /** Circumstances that do not follow from the seed. */
  readonly scenario?: Partial<Scenario>
  /** Gets every step in words. */
  readonly trace?: (line: string) => void
}

/** What became of a run. */
export interface SimulationResult {
  readonly seed: number
  readonly job: string
  readonly violations: readonly string[]
  /** How the job ended; 'stuck' when it did not. */
  readonly end: string
  /** The same for each run of the seed. */
  readonly hash: string
  readonly virtualMs: number
  readonly steps: number
  readonly checkpoints: number
  readonly workers: number
  readonly faults: number
  readonly scenario: Scenario
}

/** Virtual ms that a run may take until the world is calm, and after. */
const STORMY_MS = 180_000
const CALM_MS = 600_000
const MAX_STEPS = 400_000
/** Markers and leaves that are under way when the last worker ends. */
const SETTLE_MS = 2_000
const MAX_WORKERS_ALIVE = 4
/** A stop that takes so long may have been cut short, which is like a crash. */
const HASTY_STOP_MS = 6_500
const MAX_VIOLATIONS = 5

/** One run. */
export class Simulation {
  readonly #options: SimulationOptions
  readonly #random: SeededRandom
  readonly #time: VirtualTime
  readonly #trace: SimulationTrace
  readonly #scenario: Scenario
  readonly #kafka: SimulatedKafka
  readonly #directory: SimulatedDirectory | undefined
  readonly #faults: FaultPlan
  readonly #supervisor: SeededRandom
  readonly #workers: SimulatedWorker[] = []
  readonly #violations: string[] = []
  #struck = 0
  #started = 0
  #input!: SimulationInput
  #invariants!: SimulationInvariants
  #stopping = false
  /** Workers that are to start. */
  #starting = 0
  #expected: number | undefined
  #checkedAt = -1
  #end: string | undefined

  constructor(options: SimulationOptions) {
    const { seed, job } = options
    this.#options = options
    this.#random = new SeededRandom(seed).fork(job.name)
    this.#scenario = {
      ...drawScenario(this.#random.fork('scenario'), { small: options.small ?? false }),
      ...options.scenario,
    }
    const { brokers, latency, markerDelay, noise, faults } = this.#scenario
    this.#time = new VirtualTime({ random: this.#random.fork('order') })
    this.#trace = new SimulationTrace(this.#time, options.trace)
    this.#supervisor = this.#random.fork('supervisor')
    this.#kafka = new SimulatedKafka({
      clock: this.#time,
      timers: this.#time,
      random: this.#random.fork('kafka'),
      brokers,
      latency,
      markerDelay,
      configs: { 'default.replication.factor': String(brokers) },
      intercept: (call) => {
        const worker = this.#workerOf(call.clientId)
        const fate = worker === undefined ? 'pass' : this.#faults.onCall(worker.name, call)
        this.#trace.note(
          call.clientId,
          call.api,
          () => `${describeArgs(call.args)}${fate === 'pass' ? '' : ` → ${JSON.stringify(fate)}`}`,
        )
        return fate
      },
    })
    this.#directory =
      this.#scenario.storage === 'directory'
        ? new SimulatedDirectory({ failures: noise > 0 ? 0.02 : 0, writeMs: 30 })
        : undefined
    this.#faults = new FaultPlan({
      faults: drawFaults(this.#random.fork('faults'), faults),
      noise,
      random: this.#random.fork('noise'),
      target: {
        strike: (fault, worker) => this.#strike(fault, worker),
        schedule: (delayMs, action) => void this.#time.schedule(delayMs, action),
      },
    })
  }

  /** Runs it. Never rejects for what the job does wrong: that is in the violations. */
  async run(): Promise<SimulationResult> {
    const unhandled = (error: unknown): void => this.#violate(`unhandled rejection: ${describeError(error)}`)
    process.on('unhandledRejection', unhandled)
    const before = resources()
    const allow = forbidRealWorld((what) => this.#violate(what))
    // Refusals are everyday events here, and nobody reads their stacks unless the run is traced.
    const { stackTraceLimit } = Error
    if (this.#options.trace === undefined) Error.stackTraceLimit = 0
    try {
      await this.#run()
    } catch (error) {
      this.#violate(`the simulation broke: ${describeError(error)}`)
    } finally {
      allow()
      Error.stackTraceLimit = stackTraceLimit
      process.off('unhandledRejection', unhandled)
    }
    for (const [kind, count] of resources())
      if (count > (before.get(kind) ?? 0))
        this.#violate(`the run uses ${kind}: a simulation has no real sockets, files and threads`)
    return {
      seed: this.#options.seed,
      job: this.#options.job.name,
      violations: this.#violations,
      end: this.#end ?? 'stuck',
      hash: this.#trace.hash,
      virtualMs: this.#time.now() - new Date(Date.UTC(2026, 0, 1)).getTime(),
      steps: this.#time.fired,
      checkpoints: this.#invariants?.completedCount ?? 0,
      workers: this.#started,
      faults: this.#struck,
      scenario: this.#scenario,
    }
  }

  async #run(): Promise<void> {
    const { job } = this.#options
    const { bounded, workers } = this.#scenario
    await this.#prepare()
    for (let i = 0; i < workers; i++)
      this.#later(i === 0 ? 0 : this.#supervisor.integer(0, 3_000), () => {
        if (this.#end === undefined) this.#startWorker()
      })
    const ended = (): boolean => this.#step()
    let outcome = await this.#time.runUntil(ended, { maxMs: STORMY_MS, maxFirings: MAX_STEPS })
    if (outcome === 'time-limit') {
      this.#trace.note('world', 'is calm from now on')
      this.#faults.calm()
      outcome = await this.#time.runUntil(ended, { maxMs: CALM_MS, maxFirings: MAX_STEPS })
    }
    if (outcome !== 'reached') {
      const workers = this.#workers.filter((worker) => worker.alive).map((worker) => worker.describe())
      this.#violate(
        `the run did not come to an end (${outcome}): ${workers.join(' | ') || 'no worker is alive'}`,
      )
    }
    if (this.#violations.length > 0) return
    await this.#time.advance(SETTLE_MS)
    this.#invariants.step()
    if (this.#end === 'FAILED') {
      // Lost output was said to be lost; what is there must still be right.
      return
    }
    this.#invariants.atEnd()
    const input = new Map(job.inputs.map((topic) => [topic, this.#invariants.input(topic)]))
    for (const problem of job.verify(input, this.#invariants.output)) this.#violate(problem)
    if (!bounded || this.#violations.length > 0) return
    await this.#runAgain()
  }

  /** A finished job that is started again finds that there is nothing to do. */
  async #runAgain(): Promise<void> {
    if (!this.#supervisor.chance(0.2)) return
    this.#faults.calm()
    const seen = this.#invariants.changes
    this.#end = undefined
    this.#startWorker()
    const outcome = await this.#time.runUntil(() => this.#step(), { maxMs: CALM_MS, maxFirings: MAX_STEPS })
    if (outcome !== 'reached' || this.#end !== 'FINISHED')
      this.#violate(`a second start of the finished job ended as ${this.#end ?? 'stuck'}`)
    for (const records of this.#invariants.output.values())
      if (records.length > 0 && this.#invariants.changes !== seen) {
        this.#violate('a second start of the finished job wrote something')
        return
      }
  }

  async #prepare(): Promise<void> {
    const { job } = this.#options
    const { brokers, partitions, bounded, inputMs, recordsPerPartition } = this.#scenario
    const client = this.#kafka.client('input')
    await this.#time.settle(
      client.createTopics(
        [...job.inputs, ...job.outputs].map((topic) => ({ topic, partitions, replicationFactor: brokers })),
      ),
    )
    this.#invariants = new SimulationInvariants({
      kafka: this.#kafka,
      clock: this.#time,
      jobName: job.name,
      groupId: job.groupId,
      inputs: job.inputs,
      outputs: job.outputs,
      directory: this.#directory === undefined ? undefined : () => this.#directory!.names,
      onViolation: (what) => this.#violate(what),
    })
    this.#input = new SimulationInput({
      client,
      timers: this.#time,
      random: this.#random.fork('input'),
      partitions: job.inputs.flatMap((topic) =>
        Array.from({ length: partitions }, (_, partition) => ({ topic, partition })),
      ),
      recordsPerPartition,
      overMs: bounded ? 0 : inputMs,
      now: () => this.#time.now(),
      record: (random) => job.record(random, this.#scenario),
    })
    const written = this.#input.write()
    if (bounded) await this.#time.settle(written)
    else written.catch((error: unknown) => this.#violate(`the input failed: ${describeError(error)}`))
    if (bounded) await this.#time.advance(1_000)
  }

  /** After every timer; true ends the run. */
  #step(): boolean {
    if (this.#violations.length > 0) return true
    this.#invariants.step()
    if (this.#end !== undefined) return !this.#workers.some((worker) => worker.alive)
    if (this.#stopping && this.#starting === 0 && !this.#workers.some((worker) => worker.alive)) {
      if (!this.#wasStoppedInOrder()) this.#startWorker()
      else this.#end = 'SUSPENDED'
      return this.#end !== undefined
    }
    if (!this.#scenario.bounded && this.#input.done && !this.#stopping && this.#allSeen()) this.#stopAll()
    return false
  }

  #allSeen(): boolean {
    const { changes, output } = this.#invariants
    if (changes === this.#checkedAt) return false
    const { job } = this.#options
    // The markers of the last input transactions may be under way.
    if (this.#expected === undefined && !this.#invariants.isDecided(job.inputs)) return false
    this.#checkedAt = changes
    this.#expected ??= job.expected(
      new Map(job.inputs.map((topic) => [topic, this.#invariants.input(topic)])),
    )
    let count = 0
    for (const records of output.values()) count += records.length
    return count >= this.#expected
  }

  /** Only who led last has ended what was open: not a zombie that wakes up and stops, nor one that had no time to stop in order. */
  #wasStoppedInOrder(): boolean {
    const leader = this.#workers.find(({ incarnation }) => incarnation === this.#invariants.leader)
    return leader?.status === 'SUSPENDED' && leader.stoppingFor < HASTY_STOP_MS
  }

  #stopAll(): void {
    this.#trace.note('world', 'all output is there: the workers are told to stop')
    this.#stopping = true
    for (const worker of this.#workers) if (worker.alive) worker.stop()
  }

  #startWorker(): void {
    const { job } = this.#options
    const { parallelism, directory } = { parallelism: this.#scenario.parallelism, directory: this.#directory }
    const index = this.#started++
    const name = `w${index + 1}`
    const own = parallelism[index % parallelism.length]!
    this.#trace.note('world', `starts ${name} with parallelism ${own}`)
    const worker = new SimulatedWorker({
      name,
      jobName: job.name,
      declare: job.declare(this.#scenario),
      config: this.#config(own),
      kafka: this.#kafka,
      clock: this.#time,
      timers: this.#time,
      random: this.#random.fork(name),
      trace: this.#trace,
      directory: directory === undefined ? undefined : (timers, random) => directory.view(timers, random),
      onTimer: (timerOf) => this.#faults.onTimer(timerOf),
      onPoint: (at, point) => {
        this.#trace.note(at, point)
        this.#faults.onPoint(at, point)
      },
      onEnd: (ended, end) => this.#onEnd(ended, end),
    })
    this.#workers.push(worker)
    worker.start()
    if (this.#stopping) this.#stopWhenItRan(worker)
  }

  #config(parallelism: number): Record<string, string | number | boolean> {
    const {
      intervalMs,
      timeoutMs,
      minPauseMs,
      maxConcurrent,
      tolerableFailures,
      retained,
      asyncSnapshots,
      maxParallelism,
      fetchMaxBytes,
      fetchMaxWaitMs,
    } = this.#scenario
    return {
      'execution.checkpointing.interval': intervalMs,
      'execution.checkpointing.timeout': timeoutMs,
      'execution.checkpointing.min-pause': minPauseMs,
      'execution.checkpointing.max-concurrent-checkpoints': minPauseMs > 0 ? 1 : maxConcurrent,
      'execution.checkpointing.tolerable-failed-checkpoints': tolerableFailures,
      'state.checkpoints.num-retained': retained,
      'state.backend.async': asyncSnapshots,
      'parallelism.default': parallelism,
      'pipeline.max-parallelism': maxParallelism,
      'kafka.fetch.max-bytes': fetchMaxBytes,
      'kafka.fetch.max-wait': fetchMaxWaitMs,
    }
  }

  /** A worker that starts while the job is being stopped cleans up after the one that died, then stops. */
  #stopWhenItRan(worker: SimulatedWorker): void {
    const look = (): void => {
      if (!worker.alive) return
      if (worker.status === 'RUNNING') worker.stop()
      else this.#later(50, look)
    }
    look()
  }

  #onEnd(worker: SimulatedWorker, end: JobEnd): void {
    this.#trace.note('world', `${worker.name} ended as ${end.status}`, () =>
      end.error === undefined ? '' : describeError(end.error),
    )
    switch (end.status) {
      case 'FINISHED':
        if (this.#end === undefined && !this.#scenario.bounded)
          this.#violate('an unbounded job ended as FINISHED')
        this.#end ??= 'FINISHED'
        return
      case 'SUSPENDED':
        if (!this.#stopping) this.#replaceLater(worker)
        return
      case 'FAILED':
        this.#onFailed(worker, end.error)
        return
      case 'CANCELED':
        this.#violate('a job that nobody cancelled ended as CANCELED')
    }
  }

  #onFailed(worker: SimulatedWorker, error: unknown): void {
    if (isLost(error) && mayLoseTransactions(this.#scenario)) {
      this.#end ??= 'FAILED'
      for (const other of this.#workers) other.kill()
      return
    }
    // What the world did to it is mended by whoever starts processes; anything else is a defect.
    if (isMillraceError(error) && error.retriable) this.#replaceLater(worker)
    else this.#violate(`${worker.name} FAILED: ${describeError(error)}`)
  }

  #replaceLater(dead: SimulatedWorker): void {
    if (this.#end !== undefined) return
    const delayMs = this.#supervisor.pick([100, 500, 2_000, 8_000])
    this.#starting++
    this.#later(delayMs, () => {
      this.#starting--
      const alive = this.#workers.filter((worker) => worker.alive).length
      if (this.#end !== undefined || alive >= MAX_WORKERS_ALIVE) return
      this.#trace.note('world', `replaces ${dead.name}`)
      this.#startWorker()
    })
  }

  #later(delayMs: number, action: () => void): void {
    this.#time.schedule(delayMs, action)
  }

  #workerOf(clientId: string): SimulatedWorker | undefined {
    const name = clientId.endsWith('-group') ? clientId.slice(0, -'-group'.length) : clientId
    return this.#workers.find((worker) => worker.name === name)
  }

  #strike(fault: Fault, at: string | undefined): Interception {
    const alive = this.#workers.filter((worker) => worker.alive)
    const worker =
      this.#workers.find((w) => w.name === at) ??
      (alive.length === 0 ? undefined : this.#supervisor.pick(alive))
    const { action } = fault
    this.#struck++
    this.#trace.note(
      'FAULT',
      `${JSON.stringify(action)} hits ${worker?.name ?? 'nobody'} by ${JSON.stringify(fault.trigger)}`,
    )
    switch (action.kind) {
      case 'interception':
        return action.what
      case 'crash-before':
      case 'crash-after':
        if (worker === undefined) return 'pass'
        worker.kill()
        this.#replaceLater(worker)
        return action.kind === 'crash-before' ? 'drop-request' : 'pass'
      case 'terminate':
        worker?.stop()
        return 'pass'
      case 'pause':
      case 'stall': {
        if (worker === undefined) return 'pass'
        const what = action.kind === 'pause' ? 'process' : 'records'
        worker.pause(what)
        this.#later(action.ms, () => {
          this.#trace.note('world', `${worker.name} goes on`)
          worker.resume(what)
        })
        if (this.#supervisor.chance(0.8)) this.#replaceLater(worker)
        return 'pass'
      }
      case 'isolate': {
        if (worker === undefined) return 'pass'
        const clients =
          action.connection === 'both'
            ? [worker.name, `${worker.name}-group`]
            : [action.connection === 'records' ? worker.name : `${worker.name}-group`]
        for (const client of clients) this.#kafka.isolate(client)
        this.#later(action.ms, () => {
          for (const client of clients) this.#kafka.reconnect(client)
        })
        if (this.#supervisor.chance(0.5)) this.#replaceLater(worker)
        return 'pass'
      }
      default:
        this.#strikeCluster(action)
        return 'pass'
    }
  }

  #strikeCluster(
    action: Extract<Fault['action'], { kind: 'move-leaders' | 'move-coordinators' | 'restart-broker' }>,
  ): void {
    const { topics } = this.#kafka.inside
    const { brokers } = this.#scenario
    if (action.kind === 'move-coordinators') this.#kafka.moveCoordinators(action.ms)
    else if (action.kind === 'restart-broker') {
      const node = this.#supervisor.integer(1, brokers)
      this.#kafka.stopBroker(node)
      this.#later(action.ms, () => this.#kafka.startBroker(node))
    } else if (brokers > 1)
      for (const topic of topics.names())
        for (const [partition, { replicas }] of topics.get(topic)!.partitions.entries())
          if (
            replicas.some(
              (node) => topics.live.has(node) && node !== topics.get(topic)!.partitions[partition]!.leader,
            )
          )
            this.#kafka.moveLeader({ topic, partition })
  }

  #violate(what: string): void {
    if (this.#violations.length >= MAX_VIOLATIONS) return
    this.#trace.note('VIOLATION', what)
    this.#violations.push(what)
  }
}

/** Sockets, files and threads that the process holds open. Real timers are forbidden, so those that count here are the test runner's. */
function resources(): Map<string, number> {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo())
    if (kind !== 'Immediate' && kind !== 'Timeout') counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

function isLost(error: unknown): boolean {
  for (
    let link: unknown = error, depth = 0;
    depth < 10 && typeof link === 'object' && link !== null;
    depth++
  ) {
    if (isMillraceError(link) && link.code === 'MILLRACE_TRANSACTION_LOST') return true
    link = 'cause' in link ? link.cause : undefined
  }
  return false
}

function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = isMillraceError(error) ? ` [${error.code}]` : ''
  const own = `${error.message}${code}`
  if (error.cause !== undefined) return `${own} ← ${describeError(error.cause)}`
  return isMillraceError(error) ? own : `${own} ${error.stack?.split('\n').slice(1, 4).join(' ') ?? ''}`
}

function describeArgs(args: readonly unknown[]): string {
  const text = JSON.stringify(args, (_key, value: unknown) => {
    if (typeof value === 'bigint') return Number(value)
    if (typeof value === 'object' && value !== null && 'type' in value && value.type === 'Buffer')
      return 'bytes'
    return value
  })
  return text.length > 300 ? `${text.slice(0, 300)}…` : text
}
