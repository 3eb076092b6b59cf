/**
 * Leads a job: takes it over, runs attempts one after another, and ends it.
 *
 *                       ┌────────────── failure, restart strategy says restart ──────────────┐
 *                       ▼                                                                     │
 *   CREATED ──lead──► RUNNING ──failure──► FAILING ──► RESTARTING ────────────────────────────┘
 *                       │  │                  └──► FAILED
 *                       │  ├── cancel ──► CANCELLING ──► CANCELED
 *                       │  ├── stop ────► SUSPENDED      (a last checkpoint is complete and confirmed, or could not be taken in time)
 *                       │  └── all input read, last checkpoint confirmed ──► FINISHED
 *                       └── leadership lost ──► CREATED (standby)
 */
import type { CheckpointStore, JobRecord, OutputTransactions } from '../checkpoint/checkpoint-store.ts'
import type { Leadership } from '../checkpoint/leadership.ts'
import {
  type Committer,
  isTwoPhase,
  type Source,
  type SourceSplit,
  type SplitEnumerator,
  type SubtaskInfo,
} from '../core/connector.ts'
import { JobStatus } from '../core/constants.ts'
import { deadline } from '../core/deadline.ts'
import type { CheckpointKind } from '../core/element.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import type { JobSettings, StartOptions } from '../core/job-settings.ts'
import type { World } from '../core/ports.ts'
import type { KeyedStateBackend, KeyGroupRange } from '../core/state.ts'
import { isMillraceError, MillraceError } from '../errors.ts'
import { Attempt } from './attempt.ts'
import { CheckpointDriver, discardCheckpoint } from './checkpoint-driver.ts'
import type { FaultHook } from './fault-points.ts'
import { jobFailure } from './job-failure.ts'
import { RestartStrategy } from './restart-strategy.ts'
import { SplitDiscovery } from './split-discovery.ts'
import type { AttemptStorage, StateStorage } from './state-storage.ts'
import { shapesOf, type Taken, TakeOver } from './take-over.ts'

/** How long the last checkpoint may take when the job is stopped; the process must be gone 10 s after SIGTERM. */
const STOP_MS = 6_500
/** How long all of a stop may take. Leaving the group comes on top of it. */
const OVERDUE_MS = 8_000
/** A worker that lost the job looks again after this time. */
const REJOIN_MS = 500

export interface JobMasterOptions {
  readonly jobName: string
  readonly graph: JobGraph
  readonly world: World
  readonly settings: JobSettings
  readonly start: StartOptions
  readonly incarnation: string
  readonly leadership: Leadership
  readonly store: CheckpointStore
  readonly storage: StateStorage
  readonly transactions: OutputTransactions | undefined
  readonly createBackend: (options: {
    range: KeyGroupRange
    maxParallelism: number
    info: SubtaskInfo
  }) => KeyedStateBackend
  readonly fault?: FaultHook | undefined
}

/** How the job ended. */
export interface JobEnd {
  readonly status: 'FINISHED' | 'CANCELED' | 'FAILED' | 'SUSPENDED'
  readonly error?: unknown
}

type AttemptEnd =
  | { readonly type: 'ended'; readonly end: JobEnd }
  | { readonly type: 'failed'; readonly error: unknown }

interface Running {
  readonly run: string
  readonly attempt: Attempt
  readonly driver: CheckpointDriver
  readonly settle: (end: AttemptEnd) => void
  readonly ended: Promise<AttemptEnd>
}

export class JobMaster {
  readonly #options: JobMasterOptions
  readonly #restart: RestartStrategy
  readonly #takeOver: TakeOver
  #status: JobStatus = JobStatus.CREATED
  #running: Running | undefined
  /** What somebody asked for; the attempt obeys when it can. */
  #wish: 'cancel' | 'stop' | undefined
  #wake: (() => void) | undefined
  #lastCompleted: { readonly n: number; readonly at: number } | undefined
  #end: JobEnd | undefined
  /** Resolves when a stop takes too long. */
  readonly #overdue = Promise.withResolvers<JobEnd>()
  /** Who waits until the job runs. */
  #waiting: PromiseWithResolvers<Running>[] = []
  readonly #committers = new Map<string, Committer<unknown>>()
  readonly #sources = new Map<string, Source<unknown, any>>()

  constructor(options: JobMasterOptions) {
    this.#options = options
    this.#restart = new RestartStrategy(options.settings.restart)
    const { jobName, world } = options
    for (const vertex of options.graph.vertices)
      for (const { node, uid } of vertex.operators) {
        if (node.kind === 'source') this.#sources.set(uid, node.source)
        if (node.kind === 'sink' && isTwoPhase(node.sink))
          this.#committers.set(uid, node.sink.createCommitter({ jobName, uid, world }))
      }
    this.#takeOver = new TakeOver({ ...options, committers: this.#committers })
    options.leadership.onLost = (reason) =>
      this.#running?.settle({ type: 'failed', error: new MillraceError('MILLRACE_ATTEMPT_LOST', reason) })
  }

  get status(): JobStatus {
    return this.#status
  }

  get lastCompleted(): { readonly n: number; readonly at: number } | undefined {
    return this.#lastCompleted
  }

  get restarts(): number {
    return this.#restart.restarts
  }

  /** What each task waits for, for people. */
  describeTasks(): readonly string[] {
    return this.#running?.attempt.tasks.map((task) => `${task.name}: ${task.describe()}`) ?? []
  }

  /** Runs the job to its end. Never rejects. */
  async run(): Promise<JobEnd> {
    const end = await Promise.race([this.#inOrder(), this.#overdue.promise])
    this.#status = JobStatus[end.status]
    this.#end = end
    for (const waiter of this.#waiting.splice(0)) waiter.reject(this.#over(end))
    await this.#options.leadership.leave()
    return end
  }

  async #inOrder(): Promise<JobEnd> {
    let end: JobEnd
    try {
      end = await this.#attempts()
    } catch (error) {
      end = { status: 'FAILED', error }
    }
    for (const committer of this.#committers.values()) await committer.close()
    await this.#options.store.close()
    return end
  }

  async cancel(): Promise<void> {
    this.#ask('cancel')
  }

  /** A last checkpoint, then SUSPENDED: what SIGTERM means. */
  stop(): void {
    this.#ask('stop')
    const { timers, logger } = this.#options.world
    // Brokers that do not answer can hold a start or a commit for minutes. Leaving it is what a crash does: nothing is lost by it.
    timers.schedule(
      OVERDUE_MS,
      () => {
        if (this.#end !== undefined) return
        logger.warn(
          `could not stop in order within ${OVERDUE_MS} ms; the next start resumes from the latest completed checkpoint`,
        )
        this.#overdue.resolve({ status: 'SUSPENDED' })
      },
      true,
    )
  }

  /** Takes a checkpoint as soon as the job runs; resolves with its id when its output is committed. Rejects when the job ends before. */
  async triggerCheckpoint(): Promise<number> {
    const running = await this.#untilRunning()
    return running.driver.request(this.#options.world.random.uuid(), 'checkpoint', false)
  }

  #untilRunning(): Promise<Running> {
    const running = this.#running
    if (running !== undefined && this.#status === JobStatus.RUNNING) return Promise.resolve(running)
    if (this.#end !== undefined) return Promise.reject(this.#over(this.#end))
    const waiter = Promise.withResolvers<Running>()
    this.#waiting.push(waiter)
    return waiter.promise
  }

  #over({ status, error: cause }: JobEnd): MillraceError {
    const message = `the job is ${status}; a checkpoint needs a running job`
    return new MillraceError('MILLRACE_CHECKPOINT_FAILED', message, { cause, retriable: false })
  }

  #ask(wish: 'cancel' | 'stop'): void {
    if (this.#wish === 'cancel') return
    this.#wish = wish
    this.#wake?.()
  }

  async #attempts(): Promise<JobEnd> {
    const { leadership, world, store } = this.#options
    for (;;) {
      if (this.#wish !== undefined) return { status: this.#wish === 'cancel' ? 'CANCELED' : 'SUSPENDED' }
      await this.#unlessAsked(leadership.lead())
      if (this.#wish !== undefined) continue
      const outcome = await this.#attempt()
      if (outcome.type === 'ended') return outcome.end
      const { error } = outcome
      if (isMillraceError(error) && error.code === 'MILLRACE_ATTEMPT_LOST') {
        world.logger.warn(`this worker gives the job up: ${error.message}`)
        this.#status = JobStatus.CREATED
        await this.#pause(REJOIN_MS)
        continue
      }
      this.#status = JobStatus.FAILING
      const decision = this.#restart.failed(error, world.clock.now(), world.random.next())
      if (decision.type === 'fail') {
        const reason = error instanceof Error ? error.message : String(error)
        await store
          .writeEnd({ run: this.#lastRun, status: 'FAILED', at: world.clock.now(), reason })
          .catch((cause: unknown) =>
            world.logger.warn('could not record that the job FAILED', { error: cause }),
          )
        return { status: 'FAILED', error: jobFailure(this.#options.jobName, error, decision.reason) }
      }
      world.logger.error(
        `the job failed and starts again in ${decision.delayMs} ms (restart ${this.#restart.restarts})`,
        { error },
      )
      this.#status = JobStatus.RESTARTING
      await this.#pause(decision.delayMs)
    }
  }

  #lastRun = ''

  /** Waits for `work`, or until somebody asks for the end. */
  #unlessAsked<T>(work: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.#wake = () => resolve(undefined)
      if (this.#wish !== undefined) resolve(undefined)
      work.then(resolve, reject)
    })
  }

  /** Waits, unless somebody asks for the end. */
  async #pause(delayMs: number): Promise<void> {
    const wait = deadline(this.#options.world.timers, delayMs)
    await this.#unlessAsked(wait.expired)
    wait.cancel()
  }

  async #attempt(): Promise<AttemptEnd> {
    let running: Running | undefined
    const enumerators: SplitEnumerator<SourceSplit>[] = []
    const discoveries: SplitDiscovery[] = []
    let end: AttemptEnd
    try {
      const started = await this.#deploy(enumerators)
      if ('end' in started) return started
      running = started
      this.#running = running
      running.driver.start()
      running.attempt.run()
      this.#status = JobStatus.RUNNING
      for (const waiter of this.#waiting.splice(0)) waiter.resolve(running)
      for (const [i, uid] of [...this.#sources.keys()].entries())
        discoveries.push(this.#discovery(uid, enumerators[i] as SplitEnumerator<SourceSplit>, running))
      for (const discovery of discoveries) discovery.start()
      end = await this.#untilEnd(running)
    } catch (error) {
      end = { type: 'failed', error }
    }
    for (const discovery of discoveries) discovery.stop()
    if (running !== undefined) end = await this.#tearDown(running, end)
    this.#running = undefined
    await Promise.allSettled(enumerators.map((enumerator) => enumerator.close()))
    return end
  }

  /** Takes the job over, then everything is deployed and open, and nothing has run yet. */
  async #deploy(
    enumerators: SplitEnumerator<SourceSplit>[],
  ): Promise<Running | Extract<AttemptEnd, { type: 'ended' }>> {
    const { store, storage, world } = this.#options
    const taken = await this.#takeOver.run(enumerators)
    if (taken.type === 'ended') return { type: 'ended', end: { status: taken.status } }
    this.#lastRun = taken.plan.run
    const attemptStorage = await storage.begin(taken.plan.run, taken.plan.attempt)
    const running = this.#build(taken, attemptStorage)
    try {
      await running.attempt.deploy()
    } catch (error) {
      // Readers and writers that are open already must not go on by themselves.
      await running.attempt.cancel()
      throw error
    }
    store.restored?.()
    // Checkpoints of an earlier run are of no use once this one has begun.
    for (const old of taken.facts.completed)
      if (old.run !== taken.plan.run) await discardCheckpoint(old, storage, store)
    this.#lastCompleted ??= { n: taken.base.n, at: world.clock.now() }
    return running
  }

  #build({ plan, facts, restored, splits, leases, base }: Taken, attemptStorage: AttemptStorage): Running {
    const { graph, world, settings, storage, store, jobName, createBackend } = this.#options
    const { checkpointing } = settings
    let settle: (end: AttemptEnd) => void = () => undefined
    const ended = new Promise<AttemptEnd>((resolve) => {
      settle = resolve
    })
    const fail = (error: unknown): void => settle({ type: 'failed', error })
    const retained = plan.type === 'resume' ? facts.completed.filter((c) => c.run === plan.run) : [base]
    let driver: CheckpointDriver
    const openEnds = new Set<string>()
    const attempt = new Attempt({
      jobName,
      attempt: plan.attempt,
      graph,
      world,
      mode: checkpointing.mode,
      checkpointingEnabled: checkpointing.intervalMs !== undefined,
      storage: {
        blobs: (n) => attemptStorage.blobs(n),
        codec: storage.codec,
        async: checkpointing.async,
        // The only checkpoint of a job without checkpointing is its end: nothing resumes from its state.
        keepsState: checkpointing.intervalMs !== undefined,
      },
      createBackend,
      restored,
      reader: storage,
      splits,
      leases,
      acknowledger: {
        acknowledge: (n, subtask, states) => driver.acknowledge(n, subtask, states),
        decline: (n, subtask, reason) => driver.decline(n, subtask, reason),
      },
      fault: this.#options.fault,
      onFailure: (_task, error) => fail(error),
      onEndOfData: (taskId) => {
        openEnds.delete(taskId)
        if (openEnds.size === 0) this.#finish(driver)
      },
    })
    for (const id of attempt.subtasks) openEnds.add(id)
    driver = new CheckpointDriver({
      run: plan.run,
      attempt: plan.attempt,
      config: {
        ...checkpointing,
        subtasks: attempt.subtasks,
        restored: base.n,
        confirmed: base.n,
        retained: retained.map((c) => c.n),
      },
      store,
      storage,
      attemptStorage,
      retained,
      world,
      get tasks() {
        return attempt.tasks
      },
      operators: shapesOf(graph),
      sources: this.#sources,
      committers: this.#committers,
      endOf: (kind, last) => this.#endOf(plan.run, kind, last),
      onCompleted: (checkpoint) => {
        this.#restart.progressed()
        this.#lastCompleted = { n: checkpoint.n, at: world.clock.now() }
        world.logger.debug(`checkpoint ${checkpoint.n} is complete`, {
          ms: world.clock.now() - checkpoint.triggeredAt,
          bytes: checkpoint.stateBytes,
        })
      },
      onConfirmed: (_n, end) => {
        if (end !== undefined) settle({ type: 'ended', end: { status: end.status } })
      },
      fault: this.#options.fault,
      onFailure: fail,
    })
    return { run: plan.run, attempt, driver, settle, ended }
  }

  /** All input was handled to its end: one last checkpoint, whatever the pause, and its confirmation ends the job. */
  #finish(driver: CheckpointDriver): void {
    driver.request('end of input', 'final', false).catch((error: unknown) => {
      this.#options.world.logger.debug('the last checkpoint did not complete', { error })
      // Tolerated failure: try again, or the job would never end.
      if (!driver.closed && this.#wish === undefined) this.#finish(driver)
    })
  }

  #endOf(run: string, kind: CheckpointKind, last: boolean): JobRecord | undefined {
    const at = this.#options.world.clock.now()
    if (kind === 'final') return { run, status: 'FINISHED', at }
    return last ? { run, status: 'SUSPENDED', at } : undefined
  }

  async #untilEnd(running: Running): Promise<AttemptEnd> {
    const asked = new Promise<undefined>((resolve) => {
      this.#wake = () => resolve(undefined)
      if (this.#wish !== undefined) resolve(undefined)
    })
    const end = await Promise.race([running.ended, asked])
    if (end !== undefined) return end
    if (this.#wish === 'cancel') {
      this.#status = JobStatus.CANCELLING
      return { type: 'ended', end: { status: 'CANCELED' } }
    }
    return this.#suspend(running)
  }

  /** Sources stop, a last checkpoint commits. Cut short when it takes too long: the next start resumes from the one before. */
  async #suspend(running: Running): Promise<AttemptEnd> {
    const { world, settings } = this.#options
    const suspended: AttemptEnd = { type: 'ended', end: { status: 'SUSPENDED' } }
    if (settings.checkpointing.intervalMs === undefined) {
      world.logger.info('stopping; checkpointing is off, so the next start begins where this one did')
      return suspended
    }
    world.logger.info('stopping: taking a last checkpoint')
    const wait = deadline(world.timers, STOP_MS)
    const timeout = wait.expired.then((): AttemptEnd => {
      world.logger.warn(
        `the last checkpoint was not complete after ${STOP_MS} ms; the next start resumes from checkpoint ${running.driver.coordinator.latest}`,
      )
      return suspended
    })
    const stopped = running.driver.request('stop', 'checkpoint', true).then(
      (n): AttemptEnd => {
        world.logger.info(`stopped at checkpoint ${n}`)
        return suspended
      },
      (error: unknown): AttemptEnd => {
        world.logger.warn('the last checkpoint failed', { error })
        return suspended
      },
    )
    const end = await Promise.race([running.ended, stopped, timeout])
    wait.cancel()
    return end
  }

  async #tearDown(running: Running, end: AttemptEnd): Promise<AttemptEnd> {
    const { transactions, store, storage, settings, world } = this.#options
    const lost =
      end.type === 'failed' && isMillraceError(end.error) && end.error.code === 'MILLRACE_ATTEMPT_LOST'
    // A commit point or a commit that has begun is carried through; then the tasks end.
    await running.driver.close()
    await running.attempt.cancel()
    // Somebody else leads, or will read the truth: touch nothing.
    if (lost) return end
    const kept = end.type === 'failed' || end.end.status === 'SUSPENDED'
    try {
      // After a failure the next attempt of this process aborts what is open, by compare-and-set.
      if (end.type === 'ended')
        await transactions?.abortOpen({
          keep: running.driver.promised,
          proveLeadership: () => store.proveLeadership(),
        })
      if (end.type === 'ended' && end.end.status === 'CANCELED')
        await store.writeEnd({ run: running.run, status: 'CANCELED', at: world.clock.now() })
      if (
        !kept &&
        !(
          end.type === 'ended' &&
          end.end.status === 'CANCELED' &&
          settings.checkpointing.retainOnCancellation
        )
      )
        for (const checkpoint of running.driver.retained) await discardCheckpoint(checkpoint, storage, store)
    } catch (error) {
      world.logger.warn('cleaning up after the job failed', { error })
    }
    return end
  }

  #discovery(uid: string, enumerator: SplitEnumerator<SourceSplit>, running: Running): SplitDiscovery {
    const { world, settings } = this.#options
    // With checkpoints a new split is in one before a record of it is emitted.
    const pending = settings.checkpointing.intervalMs !== undefined
    return new SplitDiscovery({
      uid,
      enumerator,
      world,
      onFound: (found) =>
        running.attempt.addSplits(uid, pending ? found.map((split) => ({ ...split, pending })) : found),
    })
  }
}
