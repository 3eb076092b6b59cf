/**
 * A whole job in one thread: workers, brokers, input and faults on virtual time, all drawn from one seed.
 *
 *   topics, input ──► workers start ──► faults strike; dead workers are replaced ──► all input is seen in the output (unbounded: stop)
 *        └─ at every step: the invariants                                                or the job is FINISHED ──► last checks
 *
 * The same seed gives the same run to the last step; a failing one is run again with a trace to read.
 */
import { coordinatorId } from '../kafka/transactional-id.ts'
import { forbidRealWorld, resources } from './real-world-guard.ts'
import { SeededRandom } from './seeded-random.ts'
import { SimulatedKafka } from './simulated-cluster.ts'
import { SimulatedDirectory } from './simulated-directory.ts'
import { SimulatedDisk } from './simulated-disk.ts'
import { missingOrigins, type RecordsByTopic, type SimulatedJob } from './simulated-job.ts'
import { SimulatedState } from './simulated-state.ts'
import { SimulationEnding } from './simulation-ending.ts'
import { drawFaults, type Fault, FaultPlan } from './simulation-faults.ts'
import { SimulationFencing } from './simulation-fencing.ts'
import { SimulationInput } from './simulation-input.ts'
import { SimulationInvariants } from './simulation-invariants.ts'
import { OPERATOR, SimulationOperator } from './simulation-operator.ts'
import { drawScenario, mayTimeOut, type Scenario } from './simulation-scenario.ts'
import { SimulationSupervisor } from './simulation-supervisor.ts'
import { describeArgs, describeError, SimulationTrace } from './simulation-trace.ts'
import type { SeenRecord, Unit } from './simulation-units.ts'
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
  /** How often things came up that not every run has, by name. */
  readonly counts: ReadonlyMap<string, number>
  readonly scenario: Scenario
}

/** Virtual ms that a run may take until the world is calm, and after. */
const STORMY_MS = 180_000
const CALM_MS = 600_000
const MAX_STEPS = 200_000
/** Virtual ms that a command may be without an answer when everything is over. */
const LAST_ANSWERS_MS = 120_000
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
  readonly #state: SimulatedState
  readonly #operator: SimulationOperator
  readonly #ending: SimulationEnding
  readonly #fencing: SimulationFencing
  readonly #faults: FaultPlan
  readonly #supervisor: SimulationSupervisor
  readonly #violations: string[] = []
  #input!: SimulationInput
  #invariants!: SimulationInvariants
  #expected: ReadonlyMap<string, readonly Unit[]> | undefined
  /** Partitions that the inputs are still to get. */
  #growing = false
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
    const { brokers, latency, markerDelay, noise, faults } = this.#scenario
    const turnEvery = (options.strict ?? seed % STRICT_EVERY === 0) ? 1 : TURN_EVERY
    this.#time = new VirtualTime({ random: this.#random.fork('order'), turnEvery })
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
        const fate =
          worker !== undefined
            ? this.#faults.onCall(worker.name, call)
            : call.clientId === OPERATOR
              ? this.#faults.noiseFor()
              : 'pass'
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
    const disk = new SimulatedDisk(this.#time)
    this.#state = new SimulatedState({
      scenario: this.#scenario,
      time: this.#time,
      disk,
      directory:
        this.#scenario.storage === 'directory'
          ? new SimulatedDirectory({
              failures: noise > 0 ? 0.02 : 0,
              writeMs: 30,
              onOverwrite: (name) => this.#violate(`snapshot ${name} was written a second time`),
              onDiscard: () => this.#invariants.removed(),
            })
          : undefined,
    })
    this.#supervisor = new SimulationSupervisor({
      job,
      scenario: this.#scenario,
      kafka: this.#kafka,
      time: this.#time,
      trace: this.#trace,
      random: this.#random,
      state: this.#state,
      disk,
      faults: () => this.#faults,
      onViolation: (what) => this.#violate(what),
    })
    const parts = {
      time: this.#time,
      trace: this.#trace,
      invariants: () => this.#invariants,
    }
    this.#operator = new SimulationOperator({
      ...parts,
      kafka: this.#kafka,
      random: this.#random.fork(OPERATOR),
      jobName: job.name,
      savepoints: this.#state.savepoints,
      workers: () => this.#supervisor.workers.length,
      onViolation: (what) => this.#violate(what),
    })
    this.#ending = new SimulationEnding({
      ...parts,
      scenario: this.#scenario,
      random: this.#random,
      supervisor: this.#supervisor,
      operator: this.#operator,
      onNewRun: () => {
        this.#expected = undefined
      },
    })
    this.#faults = new FaultPlan({
      faults:
        options.faults ??
        drawFaults(this.#random.fork('faults'), faults, {
          timesOut: mayTimeOut(this.#scenario),
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
      counts: new Map([
        ...(this.#invariants?.counts ?? []),
        ...this.#operator.counts,
        ['keys loaded from a store', this.#state.loaded],
      ]),
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
      this.#calm()
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
    await this.#lastAnswers()
    this.#invariants.atEnd()
    const healed = this.#supervisor.workers.reduce((sum, worker) => sum + worker.healed, 0)
    // A late InitProducerId with an older epoch aborts what its id has open: brokers compare epochs only while nothing is.
    const { noise, ending } = this.#scenario
    const undisturbed = this.#supervisor.struck === 0 && noise === 0 && ending === 'stop'
    if (healed > 0 && undisturbed && !mayTimeOut(this.#scenario))
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
    const { newPartitions, inputMs, partitions, commands } = this.#scenario
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
    this.#ending.plan()
    this.#operator.plan(commands, inputMs + 1_000)
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

  /** From now on the world is kind. */
  #calm(): void {
    this.#faults.calm()
    this.#state.calm()
  }

  /** Nobody waits for ever for the answer to a command. */
  async #lastAnswers(): Promise<void> {
    this.#calm()
    const answered = await this.#time.runUntil(() => this.#operator.outstanding === 0, {
      maxMs: LAST_ANSWERS_MS,
      maxFirings: MAX_STEPS,
    })
    if (answered !== 'reached') this.#violate(`${this.#operator.outstanding} commands were never answered`)
    this.#operator.atEnd()
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
      if (this.#invariants.isRest(run)) {
        // What followed a snapshot, until the job was taken back to it: its totals go on from there.
        for (const problem of missingOrigins(job.expected(own), output)) this.#violate(problem)
        continue
      }
      for (const problem of job.verify(own, output, { healed, scenario: this.#scenario }))
        this.#violate(outputs.length === 1 ? problem : `run ${run + 1} of ${outputs.length}: ${problem}`)
    }
  }

  /** A finished job that is started again finds that there is nothing to do. */
  async #runAgain(): Promise<void> {
    if (!this.#random.fork('again').chance(0.2)) return
    this.#calm()
    const seen = this.#invariants.writes
    this.#end = undefined
    this.#supervisor.startAgain()
    const outcome = await this.#time.runUntil(() => this.#step(), { maxMs: CALM_MS, maxFirings: MAX_STEPS })
    if (outcome !== 'reached' || this.#end !== 'FINISHED')
      this.#violate(`a second start of the finished job ended as ${this.#end ?? 'stuck'}`)
    for (const records of this.#invariants.output.values())
      if (records.length > 0 && this.#invariants.writes !== seen) {
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
      state: this.#state,
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
    this.#end = this.#ending.step()
    if (this.#end !== undefined || this.#ending.isUnderWay) return this.#end !== undefined
    if (supervisor.stopping && supervisor.deserted) {
      if (!supervisor.wasStoppedInOrder(this.#invariants.leader)) supervisor.startWorker()
      else this.#end = 'SUSPENDED'
      return this.#end !== undefined
    }
    if (
      !this.#scenario.bounded &&
      this.#ending.isOver &&
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
