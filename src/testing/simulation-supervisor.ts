/**
 * Whoever runs the worker processes of a simulated job: starts them, replaces those that died or left, stops them at the end, and does to
 * them and to the brokers what the faults say.
 */
import type { RestoreChoice } from '../core/job-settings.ts'
import { isMillraceError } from '../errors.ts'
import { jobTopic } from '../kafka/transactional-id.ts'
import type { JobEnd } from '../runtime/running-attempt.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { SimulatedKafka } from './simulated-cluster.ts'
import type { SimulatedDisk } from './simulated-disk.ts'
import type { Interception } from './simulated-network.ts'
import type { SimulatedState } from './simulated-state.ts'
import { type JobDeclaration, SimulatedWorker } from './simulated-worker.ts'
import type { Fault, FaultPlan } from './simulation-faults.ts'
import type { Scenario, StateKind } from './simulation-scenario.ts'
import { describeError, type SimulationTrace } from './simulation-trace.ts'
import type { VirtualTime } from './virtual-time.ts'

/** What the supervisor works with. */
export interface SupervisorOptions {
  readonly job: { readonly name: string; declare(scenario: Scenario): JobDeclaration }
  readonly scenario: Scenario
  readonly kafka: SimulatedKafka
  readonly time: VirtualTime
  readonly trace: SimulationTrace
  readonly random: SeededRandom
  readonly state: SimulatedState
  readonly disk: SimulatedDisk
  readonly faults: () => FaultPlan
  readonly onViolation: (what: string) => void
}

const MAX_WORKERS_ALIVE = 4
/** A stop that takes so long may have been cut short, which is like a crash. */
const HASTY_STOP_MS = 6_500

/** Runs the workers of one job. */
export class SimulationSupervisor {
  readonly #options: SupervisorOptions
  readonly #random: SeededRandom
  readonly #workers: SimulatedWorker[] = []
  #started = 0
  /** Workers that are to start. */
  #starting = 0
  #struck = 0
  #stopping = false
  /** Until a blackout is over nothing starts. */
  #darkUntil = Number.NEGATIVE_INFINITY
  /** Somebody asked for CANCELED. */
  #cancelling = false
  /** The job may end as FINISHED without being over. */
  #mayFinish = false
  /** Workers start with --fresh, --from-savepoint or --from-checkpoint. */
  #newRun: 'fresh' | RestoreChoice | undefined
  #stateKind: StateKind
  #end: string | undefined

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#random = options.random.fork('supervisor')
    this.#stateKind = options.scenario.stateKind
  }

  /** Every worker that ever started. */
  get workers(): readonly SimulatedWorker[] {
    return this.#workers
  }

  /** Faults that struck. */
  get struck(): number {
    return this.#struck
  }

  get stopping(): boolean {
    return this.#stopping
  }

  /** How the job ended. */
  get end(): string | undefined {
    return this.#end
  }

  get anyAlive(): boolean {
    return this.#workers.some((worker) => worker.alive)
  }

  /** Nobody works, and nobody is about to. */
  get deserted(): boolean {
    return this.#starting === 0 && !this.anyAlive
  }

  /** The first worker, and those that start along with it. */
  startTogether(workers: number): void {
    this.#starting += workers
    for (let i = 0; i < workers; i++)
      this.#later(i === 0 ? 0 : this.#random.integer(0, 3_000), () => {
        this.#starting--
        if (this.#end === undefined) this.startWorker()
      })
  }

  /** Forgets how the job ended: it is started once more. */
  startAgain(): void {
    this.#end = undefined
    this.startWorker()
  }

  /** Only who led last has ended what was open: not a zombie that wakes up and stops, nor one that had no time to stop in order. */
  wasStoppedInOrder(leaderIncarnation: string): boolean {
    const leader = this.#workers.find(({ incarnation }) => incarnation === leaderIncarnation)
    return leader?.status === 'SUSPENDED' && leader.stoppingFor < HASTY_STOP_MS
  }

  /** Cancels the job through every process that takes itself for the leader: one that stood still may, too. */
  cancel(): void {
    this.#cancelling = true
    for (const worker of this.#workers) worker.cancel()
  }

  /** Somebody cancels the job in another way. */
  mayCancel(): void {
    this.#cancelling = true
  }

  /** Somebody stops the job with a savepoint, or does not any more. */
  mayFinish(may: boolean): void {
    this.#mayFinish = may
  }

  /** A worker stands still until another one leads, and hears of the cancel as it wakes up. */
  cancelAsZombie(incarnation: string, ms: number, then: () => void): void {
    const worker = this.#workers.find((one) => one.incarnation === incarnation && one.alive)
    if (worker === undefined) {
      then()
      return
    }
    worker.pause('process')
    this.#replaceLater(worker)
    this.#later(ms, () => {
      worker.resume('process')
      this.#cancelling = true
      worker.cancel()
      then()
    })
  }

  /** kill -9 for everybody. */
  killAll(): void {
    for (const worker of this.#workers) worker.kill()
  }

  /** From now on workers ask for a new run, or not any more. A savepoint goes to any backend. */
  startNew(how: 'fresh' | RestoreChoice | undefined): void {
    this.#newRun = how
    if (how === undefined) return
    this.#cancelling = false
    this.#end = undefined
    if (how !== 'fresh' && how.type === 'path') this.#stateKind = this.#options.scenario.laterStateKind
  }

  /** SIGTERM for everybody. */
  stopAll(): void {
    this.#stopping = true
    for (const worker of this.#workers) if (worker.alive) worker.stop()
  }

  startWorker(): void {
    const { job, scenario, kafka, time, trace, state, faults } = this.#options
    const { parallelism } = scenario
    const index = this.#started++
    const name = `w${index + 1}`
    const own = parallelism[index % parallelism.length]!
    const how = this.#newRun
    trace.note(
      'world',
      `starts ${name} with parallelism ${own}${how === undefined ? '' : ` and ${JSON.stringify(how)}`}`,
    )
    const worker = new SimulatedWorker({
      name,
      jobName: job.name,
      declare: job.declare(scenario),
      config: this.#config(own),
      kafka,
      clock: time,
      timers: time,
      random: this.#options.random.fork(name),
      trace,
      index,
      state,
      stateKind: this.#stateKind,
      fresh: how === 'fresh',
      restoreFrom: how === 'fresh' ? undefined : how,
      onTimer: (timerOf) => faults().onTimer(timerOf),
      onPoint: (at, point) => {
        trace.note(at, point)
        faults().onPoint(at, point)
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
      unalignedAfterMs,
    } = this.#options.scenario
    return {
      'execution.checkpointing.mode': this.#options.scenario.mode,
      'execution.checkpointing.interval': intervalMs,
      'execution.checkpointing.timeout': timeoutMs,
      'execution.checkpointing.min-pause': minPauseMs,
      'execution.checkpointing.max-concurrent-checkpoints':
        minPauseMs > 0 || unalignedAfterMs !== undefined ? 1 : maxConcurrent,
      'execution.checkpointing.tolerable-failed-checkpoints': tolerableFailures,
      'state.checkpoints.num-retained': retained,
      'state.backend.async': asyncSnapshots,
      'parallelism.default': parallelism,
      'pipeline.max-parallelism': maxParallelism,
      'kafka.fetch.max-bytes': fetchMaxBytes,
      'kafka.fetch.max-wait': fetchMaxWaitMs,
      ...(unalignedAfterMs === undefined
        ? {}
        : {
            'execution.checkpointing.unaligned': true,
            'execution.checkpointing.aligned-checkpoint-timeout': unalignedAfterMs,
          }),
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
    this.#options.trace.note('world', `${worker.name} ended as ${end.status}`, () =>
      end.error === undefined ? '' : describeError(end.error),
    )
    switch (end.status) {
      case 'FINISHED':
        if (this.#mayFinish) return
        if (this.#end === undefined && !this.#options.scenario.bounded)
          this.#options.onViolation('an unbounded job ended as FINISHED')
        this.#end ??= 'FINISHED'
        return
      case 'SUSPENDED':
        if (!this.#stopping) this.#replaceLater(worker)
        return
      case 'FAILED':
        this.#onFailed(worker, end.error)
        return
      case 'CANCELED':
        if (!this.#cancelling) this.#options.onViolation('a job that nobody cancelled ended as CANCELED')
    }
  }

  #onFailed(worker: SimulatedWorker, error: unknown): void {
    if (
      isMillraceError(error) &&
      hasCode(error, 'MILLRACE_CHECKPOINT_MISSING') &&
      this.#newRun !== undefined
    ) {
      // What somebody chose was forgotten by a commit point that was on its way.
      this.#newRun = { type: 'checkpoint', n: 'latest' }
      this.#replaceLater(worker)
      return
    }
    // What the world did to it is mended by whoever starts processes; anything else is a defect.
    if (isMillraceError(error) && error.retriable) this.#replaceLater(worker)
    else this.#options.onViolation(`${worker.name} FAILED: ${describeError(error)}`)
  }

  #replaceLater(dead: SimulatedWorker): void {
    if (this.#end !== undefined) return
    const dark = Math.max(0, this.#darkUntil - this.#options.time.now())
    const delayMs = dark + this.#random.pick([100, 500, 2_000, 8_000])
    this.#starting++
    this.#later(delayMs, () => {
      this.#starting--
      const alive = this.#workers.filter((worker) => worker.alive).length
      if (this.#end !== undefined || alive >= MAX_WORKERS_ALIVE) return
      this.#options.trace.note('world', `replaces ${dead.name}`)
      this.startWorker()
    })
  }

  #later(delayMs: number, action: () => void): void {
    this.#options.time.schedule(delayMs, action)
  }

  /** Whose connection it is. */
  workerOf(clientId: string): SimulatedWorker | undefined {
    const name = clientId.endsWith('-group') ? clientId.slice(0, -'-group'.length) : clientId
    return this.#workers.find((worker) => worker.name === name)
  }

  /** Obeys a fault that a call or timer of worker `at` brought about; the answer is the fate of the call. */
  strike(fault: Fault, at: string | undefined): Interception {
    const alive = this.#workers.filter((worker) => worker.alive)
    const worker =
      this.#workers.find((w) => w.name === at) ?? (alive.length === 0 ? undefined : this.#random.pick(alive))
    const { action } = fault
    this.#struck++
    this.#options.trace.note(
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
          this.#options.trace.note('world', `${worker.name} goes on`)
          worker.resume(what)
          if (action.thenStop === true) worker.stop()
        })
        if (this.#random.chance(0.8)) this.#replaceLater(worker)
        return 'pass'
      }
      case 'isolate': {
        if (worker === undefined) return 'pass'
        const clients =
          action.connection === 'both'
            ? [worker.name, `${worker.name}-group`]
            : [action.connection === 'records' ? worker.name : `${worker.name}-group`]
        for (const client of clients) this.#options.kafka.isolate(client)
        this.#later(action.ms, () => {
          for (const client of clients) this.#options.kafka.reconnect(client)
        })
        if (this.#random.chance(0.5)) this.#replaceLater(worker)
        return 'pass'
      }
      default:
        this.#strikeCluster(action)
        return 'pass'
    }
  }

  #strikeCluster(
    action: Extract<
      Fault['action'],
      {
        kind: 'move-leaders' | 'move-coordinators' | 'restart-broker' | 'blackout' | 'slow-disk' | 'compact'
      }
    >,
  ): void {
    const { kafka, scenario, job, disk } = this.#options
    switch (action.kind) {
      case 'move-coordinators':
        kafka.moveCoordinators(action.ms)
        return
      case 'restart-broker': {
        const node = this.#random.integer(1, scenario.brokers)
        kafka.stopBroker(node)
        this.#later(action.ms, () => kafka.startBroker(node))
        return
      }
      case 'blackout':
        this.#blackout(action.ms)
        return
      case 'slow-disk':
        disk.slowDown(action.ms, action.forMs)
        return
      case 'compact':
        kafka.compact(jobTopic(job.name, 'checkpoints'), { withTombstones: true })
        return
      case 'move-leaders':
        if (scenario.brokers > 1) this.#moveLeaders()
    }
  }

  #blackout(ms: number): void {
    const { kafka, time } = this.#options
    this.#darkUntil = time.now() + ms
    const dead = this.#workers.filter((worker) => worker.alive)
    for (const worker of dead) worker.kill()
    // An offset-less group that stands empty is forgotten: its generations start at 1 again.
    this.#later(ms, () => kafka.expireEmptyGroups())
    const [first] = dead
    if (first !== undefined) this.#replaceLater(first)
  }

  #moveLeaders(): void {
    const { topics } = this.#options.kafka.inside
    for (const topic of topics.names())
      for (const [partition, { replicas }] of topics.get(topic)!.partitions.entries())
        if (
          replicas.some(
            (node) => topics.live.has(node) && node !== topics.get(topic)!.partitions[partition]!.leader,
          )
        )
          this.#options.kafka.moveLeader({ topic, partition })
  }
}

/** True if it, or what brought it about, has the code. */
function hasCode(error: unknown, code: string): boolean {
  for (
    let link: unknown = error, depth = 0;
    depth < 10 && typeof link === 'object' && link !== null;
    depth++
  ) {
    if (isMillraceError(link) && link.code === code) return true
    link = 'cause' in link ? link.cause : undefined
  }
  return false
}
