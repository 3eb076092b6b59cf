/**
 * A whole job in one thread: workers, brokers, input and faults on virtual time, all drawn from one seed.
 *
 *   topics, input ──► workers start ──► faults strike; dead workers are replaced ──► all input is seen in the output (unbounded: stop)
 *        └─ at every step: the invariants                                                or the job is FINISHED ──► last checks
 *
 * The same seed gives the same run to the last step; a failing one is run again with a trace to read.
 */
import type { PlainRecordInput } from './plain-batch.ts'
import { forbidRealWorld } from './real-world-guard.ts'
import { SeededRandom } from './seeded-random.ts'
import { SimulatedKafka } from './simulated-cluster.ts'
import { SimulatedDirectory } from './simulated-directory.ts'
import type { JobDeclaration } from './simulated-worker.ts'
import { drawFaults, FaultPlan } from './simulation-faults.ts'
import { SimulationInput } from './simulation-input.ts'
import { type SeenRecord, SimulationInvariants } from './simulation-invariants.ts'
import { drawScenario, mayLoseTransactions, type Scenario } from './simulation-scenario.ts'
import { SimulationSupervisor } from './simulation-supervisor.ts'
import { describeError, SimulationTrace } from './simulation-trace.ts'
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
  /** What is wrong with the output, given the whole input; empty = nothing. `healed`: some of it was written again, so behind what came after it. */
  verify(input: RecordsByTopic, output: RecordsByTopic, healed: boolean): string[]
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
  readonly #supervisor: SimulationSupervisor
  readonly #violations: string[] = []
  #input!: SimulationInput
  #invariants!: SimulationInvariants
  #expected: number | undefined
  /** Attempts before the workers were told to stop. */
  #attempts: number | undefined
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
    this.#kafka = new SimulatedKafka({
      clock: this.#time,
      timers: this.#time,
      random: this.#random.fork('kafka'),
      brokers,
      latency,
      markerDelay,
      configs: { 'default.replication.factor': String(brokers) },
      intercept: (call) => {
        const worker = this.#supervisor.workerOf(call.clientId)
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
    this.#supervisor = new SimulationSupervisor({
      job,
      scenario: this.#scenario,
      kafka: this.#kafka,
      time: this.#time,
      trace: this.#trace,
      random: this.#random,
      directory: this.#directory,
      faults: () => this.#faults,
      onViolation: (what) => this.#violate(what),
    })
    this.#faults = new FaultPlan({
      faults: drawFaults(this.#random.fork('faults'), faults),
      noise,
      random: this.#random.fork('noise'),
      target: {
        strike: (fault, worker) => this.#supervisor.strike(fault, worker),
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
      workers: this.#supervisor.workers.length,
      faults: this.#supervisor.struck,
      scenario: this.#scenario,
    }
  }

  async #run(): Promise<void> {
    const { job } = this.#options
    const { bounded, workers } = this.#scenario
    await this.#prepare()
    this.#faults.start()
    this.#supervisor.startTogether(workers)
    const ended = (): boolean => this.#step()
    let outcome = await this.#time.runUntil(ended, { maxMs: STORMY_MS, maxFirings: MAX_STEPS })
    if (outcome === 'time-limit') {
      this.#trace.note('world', 'is calm from now on')
      this.#faults.calm()
      outcome = await this.#time.runUntil(ended, { maxMs: CALM_MS, maxFirings: MAX_STEPS })
    }
    if (outcome !== 'reached') {
      const workers = this.#supervisor.workers
        .filter((worker) => worker.alive)
        .map((worker) => worker.describe())
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
    const healed = this.#supervisor.workers.reduce((sum, worker) => sum + worker.healed, 0)
    // A late InitProducerId with an older epoch aborts what its id has open: brokers compare epochs only while nothing is.
    const undisturbed = this.#supervisor.struck === 0 && this.#scenario.noise === 0
    if (healed > 0 && undisturbed && !mayLoseTransactions(this.#scenario))
      this.#violate(`${healed} transactions were healed though nothing had happened to them`)
    // Checkpoints may time out by themselves; nothing else makes an attempt fail.
    const attempts = this.#attempts ?? this.#invariants.attempt
    if (undisturbed && attempts > 1 && this.#scenario.tolerableFailures > 1_000)
      this.#violate(`${attempts} attempts were made though nothing had happened`)
    for (const problem of job.verify(input, this.#invariants.output, healed > 0)) this.#violate(problem)
    if (!bounded || this.#violations.length > 0) return
    await this.#runAgain()
  }

  /** A finished job that is started again finds that there is nothing to do. */
  async #runAgain(): Promise<void> {
    if (!this.#random.fork('again').chance(0.2)) return
    this.#faults.calm()
    const seen = this.#invariants.changes
    this.#end = undefined
    this.#supervisor.startAgain()
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
    const supervisor = this.#supervisor
    this.#end ??= supervisor.end
    if (this.#end !== undefined) return !supervisor.anyAlive
    if (supervisor.stopping && supervisor.deserted) {
      if (!supervisor.wasStoppedInOrder(this.#invariants.leader)) supervisor.startWorker()
      else this.#end = 'SUSPENDED'
      return this.#end !== undefined
    }
    if (!this.#scenario.bounded && this.#input.done && !supervisor.stopping && this.#allSeen()) {
      this.#trace.note('world', 'all output is there: the workers are told to stop')
      this.#attempts = this.#invariants.attempt
      supervisor.stopAll()
    }
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

function describeArgs(args: readonly unknown[]): string {
  const text = JSON.stringify(args, (_key, value: unknown) => {
    if (typeof value === 'bigint') return Number(value)
    if (typeof value === 'object' && value !== null && 'type' in value && value.type === 'Buffer')
      return 'bytes'
    return value
  })
  return text.length > 300 ? `${text.slice(0, 300)}…` : text
}
