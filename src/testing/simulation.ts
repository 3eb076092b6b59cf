/**
 * A whole job in one thread: workers, brokers, input and faults on virtual time, all drawn from one seed.
 *
 *   topics, input ──► workers start ──► faults strike; dead workers are replaced ──► all input is seen in the output (unbounded: stop)
 *        └─ at every step: the invariants                                                or the job is FINISHED ──► last checks
 *
 * The same seed gives the same run to the last step; a failing one is run again with a trace to read.
 */
import { coordinatorId } from '../kafka/transactional-id.ts'
import { forbidRealWorld } from './real-world-guard.ts'
import { SeededRandom } from './seeded-random.ts'
import { SimulatedKafka } from './simulated-cluster.ts'
import { SimulatedDirectory } from './simulated-directory.ts'
import { SimulatedDisk } from './simulated-disk.ts'
import { missingOrigins, type RecordsByTopic, type SimulatedJob } from './simulated-job.ts'
import { drawFaults, type Fault, FaultPlan } from './simulation-faults.ts'
import { SimulationFencing } from './simulation-fencing.ts'
import { SimulationInput } from './simulation-input.ts'
import { type Origin, type SeenRecord, SimulationInvariants } from './simulation-invariants.ts'
import { drawScenario, mayLoseTransactions, type Scenario } from './simulation-scenario.ts'
import { SimulationSupervisor } from './simulation-supervisor.ts'
import { describeError, SimulationTrace } from './simulation-trace.ts'
import { VirtualTime } from './virtual-time.ts'

/** One run to make. */
export interface SimulationOptions {
  readonly seed: number
  readonly job: SimulatedJob
  /** Little input, few faults. */
  readonly small?: boolean
  /** Circumstances that do not follow from the seed. */
  readonly scenario?: Partial<Scenario>
  /** Faults that do not follow from the seed. */
  readonly faults?: readonly Fault[]
  /**
   * A turn of the event loop after every step, so that a rejection that nobody handles is told at that step, not some steps later, or
   * never when it is handled late. By default only some seeds are so strict: it makes a run slower, and changes nothing of it.
   */
  readonly strict?: boolean
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
  /** Records of the input that were written. */
  readonly records: number
  readonly workers: number
  readonly faults: number
  /** How often each kind of fault struck. */
  readonly faultKinds: ReadonlyMap<string, number>
  readonly scenario: Scenario
}

/** Virtual ms that a run may take until the world is calm, and after. */
const STORMY_MS = 180_000
const CALM_MS = 600_000
const MAX_STEPS = 200_000
/** Between two closing records. */
const CLOSING_MS = 1_000
/** One in so many seeds is strict about rejections that are handled late. */
const STRICT_EVERY = 8
/** Steps between two turns of the event loop otherwise. */
const TURN_EVERY = 64
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
  readonly #disk: SimulatedDisk
  readonly #fencing: SimulationFencing
  readonly #faults: FaultPlan
  readonly #supervisor: SimulationSupervisor
  readonly #violations: string[] = []
  #input!: SimulationInput
  #invariants!: SimulationInvariants
  #expected: ReadonlyMap<string, readonly Origin[]> | undefined
  /** Partitions that the inputs are still to get. */
  #growing = false
  /** The ending that comes half-way: waited for, under way (a cancel is asked for until it is obeyed), or over. */
  #early: 'waiting' | 'cancelling' | 'over'
  /** Runs there were before the one that --fresh asks for; undefined = nobody asks. */
  #runsBefore: number | undefined
  /** Attempts before the workers were told to stop. */
  #attempts: number | undefined
  #checkedAt = -1
  #end: string | undefined

  constructor(options: SimulationOptions) {
    const { seed, job } = options
    this.#options = options
    this.#random = new SeededRandom(seed).fork(job.name)
    this.#scenario = {
      ...drawScenario(this.#random.fork('scenario'), {
        small: options.small ?? false,
        limits: job.limits ?? {},
      }),
      ...options.scenario,
    }
    this.#early = this.#scenario.ending === 'stop' ? 'over' : 'waiting'
    const { brokers, latency, markerDelay, noise, faults } = this.#scenario
    const strict = options.strict ?? seed % STRICT_EVERY === 0
    this.#time = new VirtualTime({
      random: this.#random.fork('order'),
      turnEvery: strict ? 1 : TURN_EVERY,
    })
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
        this.#fencing.sent(call)
        this.#trace.note(
          call.clientId,
          call.api,
          () => `${describeArgs(call.args)}${fate === 'pass' ? '' : ` → ${JSON.stringify(fate)}`}`,
        )
        return fate
      },
      observe: (call, answer) => this.#fencing.answered(call, answer),
    })
    this.#fencing = new SimulationFencing({
      coordinatorId: coordinatorId(job.name),
      workerOf: (clientId) => this.#supervisor.workerOf(clientId)?.name,
      onViolation: (what) => this.#violate(what),
    })
    this.#disk = new SimulatedDisk(this.#time)
    this.#directory =
      this.#scenario.storage === 'directory'
        ? new SimulatedDirectory({
            failures: noise > 0 ? 0.02 : 0,
            writeMs: 30,
            onOverwrite: (name) => this.#violate(`snapshot ${name} was written a second time`),
          })
        : undefined
    this.#supervisor = new SimulationSupervisor({
      job,
      scenario: this.#scenario,
      kafka: this.#kafka,
      time: this.#time,
      trace: this.#trace,
      random: this.#random,
      directory: this.#directory,
      disk: this.#disk,
      faults: () => this.#faults,
      onViolation: (what) => this.#violate(what),
    })
    this.#faults = new FaultPlan({
      faults:
        options.faults ??
        drawFaults(this.#random.fork('faults'), faults, {
          losesTransactions: mayLoseTransactions(this.#scenario),
        }),
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
      records: this.#input?.written ?? 0,
      workers: this.#supervisor.workers.length,
      faults: this.#supervisor.struck,
      faultKinds: this.#faults.struck,
      scenario: this.#scenario,
    }
  }

  async #run(): Promise<void> {
    const { bounded, workers } = this.#scenario
    await this.#prepare()
    this.#faults.start()
    this.#supervisor.startTogether(workers)
    this.#plan()
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
    const healed = this.#supervisor.workers.reduce((sum, worker) => sum + worker.healed, 0)
    // A late InitProducerId with an older epoch aborts what its id has open: brokers compare epochs only while nothing is.
    const { noise, ending } = this.#scenario
    const undisturbed = this.#supervisor.struck === 0 && noise === 0 && ending === 'stop'
    if (healed > 0 && undisturbed && !mayLoseTransactions(this.#scenario))
      this.#violate(`${healed} transactions were healed though nothing had happened to them`)
    // Checkpoints may time out by themselves; nothing else makes an attempt fail.
    const attempts = this.#attempts ?? this.#invariants.attempt
    if (undisturbed && attempts > 1 && this.#scenario.tolerableFailures > 1_000)
      this.#violate(`${attempts} attempts were made though nothing had happened`)
    this.#verify(healed > 0)
    if (!bounded || this.#violations.length > 0) return
    await this.#runAgain()
  }

  /** What is drawn to happen to the job and its input on the way. */
  #plan(): void {
    const { newPartitions, inputMs, endAfterMs, partitions } = this.#scenario
    const { inputs } = this.#options.job
    if (newPartitions > 0) {
      this.#growing = true
      this.#time.schedule(Math.ceil(inputMs / 2), () => {
        const client = this.#kafka.client('growth')
        void Promise.all(inputs.map((topic) => client.createPartitions(topic, partitions + newPartitions)))
          .then(() => {
            const grown = Array.from({ length: newPartitions }, (_, i) => partitions + i)
            const written = this.#input.write(
              inputs.flatMap((topic) => grown.map((partition) => ({ topic, partition }))),
            )
            this.#growing = false
            return written
          })
          .catch((error: unknown) => this.#violate(`the input failed: ${describeError(error)}`))
      })
    }
    this.#closeLater()
    if (this.#early === 'waiting') this.#time.schedule(endAfterMs, () => this.#endEarly())
  }

  #closeLater(): void {
    const { job } = this.#options
    if (job.closing === undefined || this.#scenario.bounded || this.#supervisor.stopping) return
    this.#time.schedule(CLOSING_MS, () => {
      if (this.#input.done && !this.#supervisor.stopping)
        this.#input
          .append(job.closing!(this.#time.now()))
          .catch((error: unknown) => this.#violate(`the input failed: ${describeError(error)}`))
      this.#closeLater()
    })
  }

  #endEarly(): void {
    const { ending } = this.#scenario
    if (this.#invariants.runs === 0 || !this.#invariants.begun) {
      // There is no run yet that could end.
      this.#time.schedule(100, () => this.#endEarly())
      return
    }
    this.#trace.note('world', ending === 'fresh-after-crash' ? 'kills all, to start anew' : 'cancels the job')
    if (ending === 'fresh-after-crash') {
      this.#supervisor.killAll()
      this.#goOnFresh()
      return
    }
    const cancel = (): void => {
      this.#early = 'cancelling'
    }
    const random = this.#random.fork('cancel')
    if (random.chance(0.4))
      this.#supervisor.cancelAsZombie(this.#invariants.leader, random.integer(12_500, 16_000), cancel)
    else cancel()
  }

  #goOnFresh(): void {
    this.#early = 'over'
    this.#expected = undefined
    this.#runsBefore = this.#invariants.runs
    this.#supervisor.startFresh(true)
    this.#supervisor.startWorker()
  }

  /** Judges the output of each run. */
  #verify(healed: boolean): void {
    const { job } = this.#options
    const { mode } = this.#scenario
    const inputOf = (read: (topic: string) => readonly SeenRecord[]): RecordsByTopic =>
      new Map(job.inputs.map((topic) => [topic, read(topic)]))
    // What is cancelled is a prefix; what goes to its end is everything.
    const covered = this.#end === 'CANCELED'
    const input = inputOf((topic) => this.#invariants.input(topic, covered))
    if (mode === 'AT_LEAST_ONCE') {
      for (const problem of missingOrigins(job.expected(input), this.#invariants.output))
        this.#violate(problem)
      return
    }
    const outputs = this.#invariants.outputByRun()
    for (const [run, output] of outputs.entries()) {
      const own =
        run === outputs.length - 1
          ? input
          : inputOf((topic) => this.#invariants.earlierInput(topic)[run] as readonly SeenRecord[])
      for (const problem of job.verify(own, output, healed))
        this.#violate(outputs.length === 1 ? problem : `run ${run + 1} of ${outputs.length}: ${problem}`)
    }
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
      mayRepeat: this.#scenario.mode === 'AT_LEAST_ONCE',
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
      record: (random, _sequence, now) => job.record(random, this.#scenario, now),
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
    if (this.#early === 'cancelling') return this.#cancelled()
    // Whoever starts a run anew asks for it until it is there, and not once more.
    if (this.#runsBefore !== undefined && this.#invariants.runs > this.#runsBefore) {
      this.#runsBefore = undefined
      supervisor.startFresh(false)
    }
    if (supervisor.stopping && supervisor.deserted) {
      if (!supervisor.wasStoppedInOrder(this.#invariants.leader)) supervisor.startWorker()
      else this.#end = 'SUSPENDED'
      return this.#end !== undefined
    }
    if (
      !this.#scenario.bounded &&
      this.#early === 'over' &&
      this.#runsBefore === undefined &&
      !this.#growing &&
      this.#input.done &&
      !supervisor.stopping &&
      this.#allSeen()
    ) {
      this.#trace.note('world', 'all output is there: the workers are told to stop')
      this.#attempts = this.#invariants.attempt
      supervisor.stopAll()
    }
    return false
  }

  /** Asks for the cancel until it is durable; then everybody leaves, and a new run begins if that was drawn. */
  #cancelled(): boolean {
    const supervisor = this.#supervisor
    if (this.#invariants.endedAs !== 'CANCELED') {
      supervisor.cancel()
      if (supervisor.deserted) supervisor.startWorker()
      return false
    }
    if (supervisor.anyAlive || !supervisor.deserted) return false
    if (this.#scenario.ending === 'cancel') this.#end = 'CANCELED'
    else this.#goOnFresh()
    return this.#end !== undefined
  }

  #allSeen(): boolean {
    const { changes } = this.#invariants
    if (changes === this.#checkedAt || !this.#invariants.begun) return false
    const { job } = this.#options
    // The markers of the last input transactions may be under way.
    if (this.#expected === undefined && !this.#invariants.isDecided(job.inputs)) return false
    this.#checkedAt = changes
    this.#expected ??= job.expected(
      new Map(job.inputs.map((topic) => [topic, this.#invariants.input(topic)])),
    )
    return this.#invariants.holds(this.#expected)
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
