/**
 * Leads a job: takes it over, runs attempts one after another, and ends it.
 *
 *                       ┌────────────── failure, restart strategy says restart ──────────────┐
 *                       ▼                                                                     │
 *   CREATED ──lead──► RUNNING ──failure──► FAILING ──► RESTARTING ────────────────────────────┘
 *                       │  │                  └──► FAILED
 *                       │  ├── cancel ──► CANCELLING ──► CANCELED   (FAILING if a checkpoint's output could not be committed; a job
 *                       │  │                                         that is RESTARTING takes over once more: to commit it, and to end)
 *                       │  ├── stop ────► SUSPENDED      (a last checkpoint is complete and confirmed, or could not be taken in time)
 *                       │  └── all input read, last checkpoint confirmed ──► FINISHED
 *                       └── leadership lost ──► CREATED (standby)
 */
import type { SourceSplit, SplitEnumerator } from '../core/connector.ts'
import { JobStatus } from '../core/constants.ts'
import { deadline } from '../core/deadline.ts'
import type { JobInfo } from '../core/job-info.ts'
import { isMillraceError, MillraceError } from '../errors.ts'
import { Attempt } from './attempt.ts'
import { CheckpointDriver } from './checkpoint-driver.ts'
import { jobCommands } from './job-commands.ts'
import { connectorsOf, type JobConnectors } from './job-connectors.ts'
import { jobFailure } from './job-failure.ts'
import { JobHistory } from './job-history.ts'
import { findings, pendingInfo, tasksInfo } from './job-info.ts'
import type { JobMasterOptions } from './job-master-options.ts'
import { JobState } from './job-state.ts'
import { LeftOpen } from './left-open.ts'
import { OutsideRuns } from './outside-runs.ts'
import { RestartStrategy } from './restart-strategy.ts'
import {
  type AttemptEnd,
  endOf,
  type JobEnd,
  type Running,
  recordFailure,
  suspend,
  tearDown,
} from './running-attempt.ts'
import { discardEarlierRun, discardEnded, takeSavepoint } from './savepoints.ts'
import { SplitDiscovery } from './split-discovery.ts'
import type { AttemptStorage } from './state-storage.ts'
import { shapesOf, type Taken, TakeOver } from './take-over.ts'

/** How long all of a stop may take. Leaving the group comes on top of it. */
const OVERDUE_MS = 8_000
/** How long the last answers to commands may take. */
const CONTROL_CLOSE_MS = 1_500
/** A worker that lost the job looks again after this time. */
const REJOIN_MS = 500

export class JobMaster {
  readonly #options: JobMasterOptions
  readonly #restart: RestartStrategy
  readonly #takeOver: TakeOver
  readonly #state: JobState
  #running: Running | undefined
  /** What somebody asked for; the attempt obeys when it can. */
  #wish: 'cancel' | 'stop' | undefined
  #wake: (() => void) | undefined
  readonly history: JobHistory
  readonly #leftOpen = new LeftOpen()
  #end: JobEnd | undefined
  /** This worker was chosen and has not lost the job since. A leader finishes what it began, and records the end, before the job is CANCELED. */
  #leads = false
  /** Resolves when a stop takes too long. */
  readonly #overdue = Promise.withResolvers<JobEnd>()
  readonly #gone = Promise.withResolvers<JobStatus>()
  /** Who waits until the job runs. */
  #waiting: PromiseWithResolvers<Running>[] = []
  /** Looked for once, beside the first attempt. */
  #orphans: Promise<void> | undefined
  readonly #connectors: JobConnectors

  constructor(options: JobMasterOptions) {
    this.#options = options
    this.history = new JobHistory(options.jobName, options.world.clock, options.control)
    this.#state = new JobState((from, to) => this.history.moved(from, to))
    this.#restart = new RestartStrategy(options.settings.restart)
    this.#connectors = connectorsOf(options.graph, options.jobName, options.world)
    this.#takeOver = new TakeOver({
      ...options,
      committers: this.#connectors.committers,
      onFound: (facts) => {
        this.history.found(facts)
        this.#leftOpen.found(facts)
      },
    })
    options.leadership.onLost = (reason) => {
      this.#leads = false
      options.control?.pause()
      this.#running?.settle({ type: 'failed', error: new MillraceError('MILLRACE_ATTEMPT_LOST', reason) })
    }
  }

  get status(): JobStatus {
    return this.#state.status
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
    this.#state.move(JobStatus[end.status])
    this.#end = end
    for (const waiter of this.#waiting.splice(0)) waiter.reject(this.#over(end))
    this.#gone.resolve(this.#state.status)
    await this.#options.control?.close(CONTROL_CLOSE_MS)
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
    for (const committer of this.#connectors.committers.values()) await committer.close()
    await this.#options.store.close()
    return end
  }

  async cancel(): Promise<void> {
    this.#ask('cancel')
  }

  async cancelAndWait(): Promise<JobStatus> {
    this.#ask('cancel')
    return this.#gone.promise
  }

  /** For people and tools. */
  info(): JobInfo {
    const now = this.#options.world.clock.now()
    const tasks = this.#running?.attempt.tasks ?? []
    const tasksNow = tasksInfo(tasks)
    const pending = this.#running === undefined ? [] : pendingInfo(this.#running.driver, tasks, now)
    const { run, attempt, lastCompleted: last, lastFailure } = this.history
    return {
      job: this.#options.jobName,
      status: this.status,
      run,
      attempt: attempt?.number,
      upMs: attempt === undefined ? undefined : now - attempt.at,
      workers: this.#options.leadership.workers,
      restarts: this.restarts,
      lastFailure,
      lastCheckpoint: last === undefined ? undefined : { n: last.n, agoMs: now - last.at },
      pending,
      tasks: tasksNow,
      findings: findings(tasksNow, pending),
    }
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

  /** Resolves with the savepoint's folder once all output up to it is committed; the job goes on. */
  async triggerSavepoint(directory?: string): Promise<string> {
    return this.#savepoint(directory, { stop: false, drain: false })
  }

  /** The same, and the job has ended with it: FINISHED. */
  async stopWithSavepoint(
    directory?: string,
    { drain = false }: { readonly drain?: boolean } = {},
  ): Promise<string> {
    const { driver } = await this.#untilRunning()
    try {
      const path = await this.#savepoint(directory, { stop: true, drain })
      await this.#gone.promise
      return path
    } catch (error) {
      // Behind its commit point the stop is decided: the next take-over finishes it. That a file cannot be written is for a person to mend.
      const last = driver.retained.at(-1)?.savepoint
      const decided = last?.stop === true && isMillraceError(error) && error.code !== 'MILLRACE_ATTEMPT_LOST'
      if (!decided || (await this.#gone.promise) !== JobStatus.FINISHED) throw error
      return last.path
    }
  }

  async #savepoint(
    directory: string | undefined,
    how: { readonly stop: boolean; readonly drain: boolean },
  ): Promise<string> {
    const { driver } = await this.#untilRunning()
    const { savepointDirectory } = this.#options.settings
    return takeSavepoint({ ...this.#options, driver, defaultDirectory: savepointDirectory }, directory, how)
  }

  #untilRunning(): Promise<Running> {
    const running = this.#running
    if (running !== undefined && this.#state.status === JobStatus.RUNNING) return Promise.resolve(running)
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
    const { leadership, world, store, control } = this.#options
    for (;;) {
      if (this.#wish === 'stop' && this.#leads) await this.#leftOpen.abort(this.#options)
      if (this.#wish === 'stop') return { status: 'SUSPENDED' }
      if (!this.#leads) {
        if (this.#wish === 'cancel') return { status: 'CANCELED' }
        await this.#unlessAsked(leadership.lead())
        if (this.#wish !== undefined) continue
        this.#leads = true
      }
      control?.serve(jobCommands(this))
      const outcome = await this.#attempt()
      if (outcome.type === 'ended') return outcome.end
      const { error } = outcome
      if (isMillraceError(error) && error.code === 'MILLRACE_ATTEMPT_LOST') {
        world.logger.warn(`this worker gives the job up: ${error.message}`)
        control?.pause()
        this.#state.move(JobStatus.CREATED)
        await this.#pause(REJOIN_MS)
        // A fence is no proof that another worker leads: a job that is being cancelled must not end without its record.
        this.#leads &&= this.#wish === 'cancel' && (await this.#stillLeads())
        if (this.#wish === 'cancel' && !this.#leads)
          world.logger.warn('another worker leads the job: it is not cancelled by this one')
        continue
      }
      this.#state.move(JobStatus.FAILING)
      this.history.failed(error)
      const decision = this.#restart.failed(error, world.clock.now(), world.random.next())
      if (decision.type === 'fail') {
        await this.#leftOpen.abort(this.#options)
        await recordFailure(this.history.run, error, store, world)
        return { status: 'FAILED', error: jobFailure(this.#options.jobName, error, decision.reason) }
      }
      world.logger.error(
        `the job failed and starts again in ${decision.delayMs} ms (restart ${this.#restart.restarts})`,
        { error },
      )
      this.#state.move(JobStatus.RESTARTING)
      await this.#pause(decision.delayMs)
    }
  }

  #stillLeads(): Promise<boolean> {
    return this.#options.leadership.assertLeader().then(
      () => true,
      () => false,
    )
  }

  /** Waits for `work`, or until somebody asks for the end. */
  #unlessAsked<T>(work: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.#wake = () => resolve(undefined)
      if (this.#wish !== undefined) resolve(undefined)
      work.then(resolve, reject)
    })
  }

  /** Waits, unless somebody asks for the end meanwhile. */
  async #pause(delayMs: number): Promise<void> {
    const wait = deadline(this.#options.world.timers, delayMs)
    // A job that is being cancelled and fails at it must not try again without a pause.
    await (this.#wish === 'cancel' ? wait.expired : this.#unlessAsked(wait.expired))
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
      if (this.#wish !== 'cancel') {
        this.#start(running)
        for (const [i, uid] of [...this.#connectors.sources.keys()].entries())
          discoveries.push(this.#discovery(uid, enumerators[i] as SplitEnumerator<SourceSplit>, running))
        for (const discovery of discoveries) discovery.start()
      }
      end = await this.#untilEnd(running)
    } catch (error) {
      end = { type: 'failed', error }
    }
    for (const discovery of discoveries) discovery.stop()
    if (running !== undefined) end = await tearDown(running, end, this.#options)
    if (end.type === 'failed') this.#leftOpen.failed(end.error, running?.driver.promised)
    this.#running = undefined
    await Promise.allSettled(enumerators.map((enumerator) => enumerator.close()))
    return end
  }

  #start(running: Running): void {
    this.#running = running
    running.driver.start()
    running.attempt.run()
    this.#state.move(JobStatus.RUNNING)
    // Leadership may have gone and come back during the take-over.
    this.#options.control?.serve(jobCommands(this))
    for (const waiter of this.#waiting.splice(0)) waiter.resolve(running)
  }

  /** Takes the job over, then everything is deployed and open, and nothing has run yet. */
  async #deploy(
    enumerators: SplitEnumerator<SourceSplit>[],
  ): Promise<Running | Extract<AttemptEnd, { type: 'ended' }>> {
    const { store, storage, world, settings } = this.#options
    const taken = await this.#takeOver.run(enumerators)
    if (taken.type === 'ended') {
      await discardEnded(taken, storage, store, world.logger)
      return { type: 'ended', end: { status: taken.status } }
    }
    this.history.started(taken.plan.run, taken.plan.attempt, taken.base)
    const attemptStorage = await storage.begin(taken.plan.run, taken.plan.attempt)
    const running = this.#build(taken, attemptStorage)
    // Its output is committed by now: nothing needs to be deployed to be cancelled.
    if (this.#wish === 'cancel') return running
    try {
      await running.attempt.deploy()
    } catch (error) {
      // Readers and writers that are open already must not go on by themselves.
      await running.attempt.cancel()
      // A worker that stood still may look for what its successor discarded meanwhile: only whoever leads can tell that state is lost.
      if (isMillraceError(error) && error.code === 'MILLRACE_STATE_LOST') await store.proveLeadership()
      throw error
    }
    store.restored?.()
    const { retainOnCancellation: retain } = settings.checkpointing
    await discardEarlierRun(taken, retain, storage, store, running.outside)
    this.#orphans ??= running.outside.removeOrphans(() => store.proveLeadership())
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
    const outside = new OutsideRuns(storage.outside, plan.run, world.logger)
    for (const checkpoint of [...facts.completed, ...(facts.ofEarlierRuns ?? [])]) outside.add(checkpoint)
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
        blobs: (n) => driver.blobs(n),
        codec: storage.codec,
        async: checkpointing.async,
        // Without checkpointing the end is the only checkpoint that nobody asked for: nothing resumes from its state.
        keepsState: checkpointing.intervalMs !== undefined,
      },
      createBackend: (options) => createBackend({ ...options, run: plan.run }),
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
        if (openEnds.size === 0 && !driver.stopping) this.#finish(driver)
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
        savepoints: retained.filter((c) => c.kind === 'savepoint').map((c) => c.n),
      },
      unalignedAfterMs: checkpointing.unalignedAfterMs,
      store,
      storage,
      attemptStorage,
      outside,
      retained,
      world,
      get tasks() {
        return attempt.tasks
      },
      operators: shapesOf(graph),
      sources: this.#connectors.sources,
      committers: this.#connectors.committers,
      endOf: (kind, last) => endOf(kind, last, { run: plan.run, at: world.clock.now() }),
      onCompleted: (checkpoint) => {
        this.#restart.progressed()
        this.history.completed(checkpoint)
        world.logger.debug(`checkpoint ${checkpoint.n} is complete`, {
          ms: world.clock.now() - checkpoint.triggeredAt,
          bytes: checkpoint.stateBytes,
        })
      },
      onAborted: (n, reason, detail) => this.history.aborted(n, reason, detail),
      onConfirmed: (_n, end) => {
        if (end !== undefined) settle({ type: 'ended', end: { status: end.status } })
      },
      fault: this.#options.fault,
      onFailure: fail,
    })
    return { run: plan.run, attempt, driver, outside, settle, ended }
  }

  /** All input was handled to its end: one last checkpoint, whatever the pause, and its confirmation ends the job. */
  #finish(driver: CheckpointDriver): void {
    driver.request('end of input', 'final', false).catch((error: unknown) => {
      this.#options.world.logger.debug('the last checkpoint did not complete', { error })
      // Tolerated failure: try again, or the job would never end.
      if (!driver.closed && !driver.stopping && this.#wish === undefined) this.#finish(driver)
    })
  }

  async #untilEnd(running: Running): Promise<AttemptEnd> {
    const asked = new Promise<undefined>((resolve) => {
      this.#wake = () => resolve(undefined)
      if (this.#wish !== undefined) resolve(undefined)
    })
    const end = await Promise.race([running.ended, asked])
    if (end !== undefined) return end
    if (this.#wish === 'cancel') {
      if (this.#running !== undefined) this.#state.move(JobStatus.CANCELLING)
      return { type: 'ended', end: { status: 'CANCELED' } }
    }
    return suspend(running, this.#options.world, this.#options.settings)
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
