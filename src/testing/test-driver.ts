/**
 * A whole job under test: without a broker, on virtual time, with crashes and restarts.
 *
 *     const driver = await TestDriver.start(buildOrdersJob, { topics: { orders: 3, totals: 1 }, checkpointIntervalMs: 100 })
 *     await driver.produce('orders', [{ key: 'ann', value: { user: 'ann', amount: 3 } }])
 *     await driver.advance(1_000)
 *     await driver.crash()
 *     await driver.restart({ parallelism: 3 })
 *     expect(await driver.committed('totals')).toEqual([{ user: 'ann', sum: 3 }])
 *
 *   start ──► RUNNING ──crash──► CRASHED ──restart──► RUNNING ──stop, cancel, end of input, failure──► ended ──restart──► …
 *
 * The job is composed as in production, over simulated brokers. Time moves only inside calls of the driver, one call at a time, and a
 * run is a function of its seed. Nothing needs to be closed.
 */
import type { RunningJob } from '../api/job-handle.ts'
import type { ProgrammaticSettings } from '../config.ts'
import type { Serde } from '../core/connector.ts'
import type { JobStatus } from '../core/constants.ts'
import { MillraceError } from '../errors.ts'
import { FAULT_POINTS, type FaultPoint, HEALING_FAULT_POINTS } from '../runtime/fault-points.ts'
import { MemoryBlobStore } from '../state/memory-blob-store.ts'
import { type CapturedJob, captureJob, type DeclareJob } from './captured-job.ts'
import { CheckpointLog } from './checkpoint-log.ts'
import { DrivenWorker } from './driven-worker.ts'
import { type LogLine, recordingLogger } from './recorded-log.ts'
import { SeededRandom } from './seeded-random.ts'
import { SimulatedKafka } from './simulated-cluster.ts'
import type { MsRange } from './simulated-network.ts'
import { type CommittedRecord, type TestRecord, type TestTopic, TestTopics } from './test-topics.ts'
import { VirtualTime } from './virtual-time.ts'

/** How one start of the job differs from what its code says. */
export interface StartChanges {
  /** Of operators that set none themselves; 1 by default. */
  readonly parallelism?: number
  /** In place of what the job's code sets. */
  readonly checkpointIntervalMs?: number
  /** Options by their names in `millrace.yaml`; they win over the job's code. */
  readonly config?: ProgrammaticSettings
}

/** Settings of a test. */
export interface TestDriverOptions extends StartChanges {
  /** Topics by name. A job that reads or writes another one fails as it does in production. */
  readonly topics?: Readonly<Record<string, TestTopic>>
  /** Records by topic that are there before the job starts, e.g. for bounded sources. */
  readonly input?: Readonly<Record<string, readonly TestRecord[]>>
  /** Simulated brokers; 1 by default. */
  readonly brokers?: number
  /** Of a job whose declaration executes nothing itself; 'job-under-test' by default. */
  readonly jobName?: string
  /** Decides in which order things happen that happen at one time, how long messages take, and what the job draws; 1 by default. */
  readonly seed?: number
  /** The clock at the start, epoch ms; 2026-01-01 by default. */
  readonly startAt?: number
  /** One way between job and brokers, in ms of the test's clock; 0–2 by default. */
  readonly latency?: MsRange
  /** How long a promise of a function or sink may take, and the declaration of a restart, in real ms; 3,000 by default. */
  readonly realWaitMs?: number
}

/** What a restart changes; what it does not name stays as it was. */
export interface RestartOptions extends StartChanges {
  /** Another version of the job. */
  readonly job?: DeclareJob
  /** Drop state that the job has no operator for any more. */
  readonly allowNonRestoredState?: boolean
  /** Begin a new run, without the state of the last one. */
  readonly fresh?: boolean
}

/** Virtual ms that a wait may take unless it says otherwise. */
const PATIENCE_MS = 600_000
/** Real ms that the job's own promises may take unless told otherwise. */
const REAL_WAIT_MS = 3_000
const PLACES: readonly FaultPoint[] = [...FAULT_POINTS, ...HEALING_FAULT_POINTS]
/** Where the job's code says nothing. */
const DEFAULTS: ProgrammaticSettings = {
  'parallelism.default': 1,
  // A function that fails is what a test wants to see.
  'restart-strategy.type': 'none',
  // Records end a fetch's wait at once; empty fetches only cost time.
  'kafka.fetch.max-wait': 5_000,
}
const JOB_NAME = 'job-under-test'

/** Drives one job. */
export class TestDriver {
  /** The brokers, for what may happen to them: `stopBroker`, `moveCoordinators`, `isolate`. */
  readonly kafka: SimulatedKafka
  /** All that the job logged, over all starts. */
  readonly logs: readonly LogLine[]
  readonly #lines: LogLine[] = []
  readonly #time: VirtualTime
  readonly #random: SeededRandom
  readonly #topics: TestTopics
  readonly #local: { readonly store: CheckpointLog; readonly blobs: MemoryBlobStore }
  readonly #options: TestDriverOptions
  #declare: DeclareJob
  #changes: StartChanges
  #starts = 0
  #job: CapturedJob | undefined
  #worker: DrivenWorker | undefined
  #armed: { readonly point: FaultPoint; left: number } | undefined
  #busy = false

  private constructor(declare: DeclareJob, options: TestDriverOptions) {
    const { seed = 1, startAt, latency, brokers, parallelism, checkpointIntervalMs, config } = options
    this.#declare = declare
    this.#options = options
    this.#changes = withoutUndefined({ parallelism, checkpointIntervalMs, config })
    this.#random = new SeededRandom(seed)
    this.#time = new VirtualTime({
      random: this.#random.fork('order'),
      ...(startAt === undefined ? {} : { startMs: startAt }),
    })
    this.kafka = new SimulatedKafka({
      clock: this.#time,
      timers: this.#time,
      random: this.#random.fork('kafka'),
      ...(latency === undefined ? {} : { latency }),
      ...(brokers === undefined ? {} : { brokers }),
    })
    this.logs = this.#lines
    this.#topics = new TestTopics(this.kafka, this.#time)
    const blobs = new MemoryBlobStore()
    this.#local = { store: new CheckpointLog(blobs), blobs }
  }

  /**
   * Starts a job and waits until it runs, or has ended.
   * @param job builds streams on the environment it is given; or executes an environment of its own, as a job's module does
   * @throws what the job throws while it is declared, and why it cannot start
   */
  static async start(job: DeclareJob, options: TestDriverOptions = {}): Promise<TestDriver> {
    const driver = new TestDriver(job, options)
    await driver.#settle(driver.#topics.create(options.topics ?? {}), 'topics are created')
    for (const [topic, records] of Object.entries(options.input ?? {}))
      await driver.#settle(driver.#topics.produce(topic, records), 'records are written')
    await driver.#start({})
    return driver
  }

  /** The clock of the test, epoch ms. */
  now(): number {
    return this.#time.now()
  }

  /** What the job does; CRASHED between `crash` and `restart`. */
  get status(): JobStatus | 'CRASHED' {
    return this.#present.killed ? 'CRASHED' : this.#present.status
  }

  /** Writes records, in order for each partition. Values are JSON unless a serde says otherwise. Takes some ms of the test's clock. */
  produce<T = unknown>(topic: string, records: readonly TestRecord<T>[], serde?: Serde<T>): Promise<void> {
    // A job that FAILED is no reason not to: it may be started again to read them.
    return this.#settle(this.#topics.produce(topic, records, serde), 'records are written', false)
  }

  /**
   * Values that readers of the topic see by now (read_committed), partition by partition, each in the order of its log.
   * Tombstones are null, so `T` must say so for a topic that has them.
   */
  async committed<T = any>(topic: string, serde?: Serde<T>): Promise<T[]> {
    const records = await this.#topics.committed(topic, serde)
    return records.map(({ value }) => value)
  }

  /** The same with keys, timestamps and places. */
  committedRecords<T = any>(topic: string, serde?: Serde<T>): Promise<CommittedRecord<T>[]> {
    return this.#topics.committed(topic, serde)
  }

  /** Moves the clock by `ms`; whatever falls due happens. @throws the failure of the job, if it FAILED. */
  async advance(ms: number): Promise<void> {
    const end = this.#time.now() + ms
    await this.#exclusively(async () => {
      await this.#drive(() => this.#failed, ms)
      if (!this.#failed && this.#time.now() < end) await this.#time.advance(end - this.#time.now())
    })
    this.#throwFailure()
  }

  /** Moves the clock until `condition` holds. @throws MILLRACE_TEST_DRIVER with what the job waits for after `maxMs` of the test's clock. */
  async until(condition: () => boolean, reason = 'the condition holds', maxMs = PATIENCE_MS): Promise<void> {
    await this.#until(() => condition() || this.#failed, reason, maxMs)
    this.#throwFailure()
  }

  /** Moves the clock until everything that was written is read and handled, and the output of it is committed; or the job has ended. */
  async catchUp(): Promise<void> {
    while (!this.#ended) {
      const n = await this.triggerCheckpoint().catch((error: unknown) => {
        // The job came to its end meanwhile, which takes a checkpoint too.
        if (this.#failed || !this.#ended) throw error
      })
      const covered = this.#completed().findLast((checkpoint) => checkpoint.n === n)
      const splits = covered?.states.flatMap(
        (state) => (state.splits ?? []) as readonly Partial<KafkaPosition>[],
      )
      if (splits?.every((split) => this.#isRead(split))) break
    }
    this.#throwFailure()
    await this.#until(() => !this.#ending(), 'transactions have ended', PATIENCE_MS)
  }

  /** Takes a checkpoint. Resolves with its id when its output is committed. */
  async triggerCheckpoint(): Promise<number> {
    const asked = this.#living('take a checkpoint').triggerCheckpoint()
    return this.#settle(asked, 'a checkpoint is complete')
  }

  /** Ids of the checkpoints that were completed so far, in order, over all starts. */
  checkpoints(): number[] {
    return this.#completed().flatMap(({ n }) => (n === 0 ? [] : [n]))
  }

  /** Transactional ids with a transaction that is neither committed nor aborted. An id of the job itself may be among them. */
  openTransactions(): string[] {
    return this.kafka.inside.transactions
      .list()
      .filter(({ state }) => state === 'Ongoing' || state === 'PrepareCommit' || state === 'PrepareAbort')
      .map(({ transactionalId }) => transactionalId)
  }

  /** Sum of the job's counters and gauges of that name over all subtasks, since the last start. */
  metric(name: string): number {
    return this.#present.metric(name)
  }

  /** The worker dies as by `kill -9`. */
  async crash(): Promise<void> {
    this.#living('crash').kill()
    // What it was in the middle of ends with it, before the test goes on.
    await this.#exclusively(() => this.#time.advance(0))
  }

  /** Lets the job run until it comes by `point` of a checkpoint for the `count`-th time from now; there the worker dies as by `kill -9`. */
  async crashAt(point: FaultPoint, count = 1): Promise<void> {
    if (!PLACES.includes(point))
      throw new MillraceError(
        'MILLRACE_TEST_DRIVER',
        `there is no place '${point}' to crash at; there are ${PLACES.join(', ')}`,
      )
    this.#living('crash')
    this.#armed = { point, left: count }
    try {
      await this.#until(() => !this.#worker!.alive, `the worker comes by '${point}'`, PATIENCE_MS)
    } finally {
      this.#armed = undefined
    }
    this.#throwFailure()
    if (!this.#present.killed)
      throw new MillraceError(
        'MILLRACE_TEST_DRIVER',
        `the job is ${this.status} and did not come by '${point}' ${count} times`,
      )
  }

  /**
   * Starts the job again, in a new worker that declares it anew, and waits until it runs. After a crash that takes some seconds of the
   * test's clock: the brokers must notice that the dead worker is gone.
   */
  async restart(options: RestartOptions = {}): Promise<void> {
    if (this.#worker?.alive)
      throw new MillraceError('MILLRACE_TEST_DRIVER', `the job is ${this.status}: crash() or stop() it first`)
    const { job, allowNonRestoredState, fresh, ...changes } = options
    this.#declare = job ?? this.#declare
    this.#changes = { ...this.#changes, ...withoutUndefined(changes) }
    await this.#start(withoutUndefined({ allowNonRestoredState, fresh }))
  }

  /** Stops the job as SIGTERM does: a last checkpoint, then it is SUSPENDED. */
  async stop(): Promise<void> {
    this.#living('stop').stop()
    await this.#until(() => this.#ended, 'the job has stopped', PATIENCE_MS)
    this.#throwFailure()
  }

  /** Cancels the job: no last checkpoint. */
  async cancel(): Promise<void> {
    const asked = this.#living('cancel').cancel()
    await this.#until(() => this.#ended, 'the job is cancelled', PATIENCE_MS)
    await asked
    this.#throwFailure()
  }

  /** Moves the clock until the job has ended by itself, and with it whatever awaited its execution. @throws the failure, if it FAILED. */
  async finished(maxMs = PATIENCE_MS): Promise<JobStatus> {
    await this.#until(() => this.#ended, 'the job ends', maxMs)
    this.#throwFailure()
    const { status } = this.#present
    if (!this.#present.killed) await this.#settle(this.#job!.declared, 'what follows the execution is done')
    return status
  }

  async #start(how: Pick<RestartOptions, 'allowNonRestoredState' | 'fresh'>): Promise<void> {
    const { jobName = JOB_NAME, realWaitMs = REAL_WAIT_MS } = this.#options
    const { parallelism, checkpointIntervalMs, config } = this.#changes
    const number = ++this.#starts
    const job = await captureJob({
      declare: this.#declare,
      start: { number },
      jobName,
      running: this.#forDeclaration(number),
      clock: this.#time,
      // A module's first load takes as long as it takes; the test has a limit of its own.
      patienceMs: number === 1 ? Number.POSITIVE_INFINITY : realWaitMs,
    })
    this.#job = job
    const worker = new DrivenWorker({
      name: `worker-${number}`,
      submission: job.submission,
      defaults: DEFAULTS,
      config: withoutUndefined({
        'parallelism.default': parallelism,
        'execution.checkpointing.interval': checkpointIntervalMs,
        ...config,
      }),
      start: {
        fresh: how.fresh ?? false,
        allowNonRestoredState: how.allowNonRestoredState ?? false,
        acceptLostTransactions: [],
      },
      kafka: this.kafka,
      time: this.#time,
      random: this.#random.fork(`worker ${number}`),
      logger: recordingLogger(this.#lines, this.#time),
      local: this.#local,
      realWaitMs,
      onPoint: (point) => this.#onPoint(worker, point),
      onEnd: (end) => job.end(end),
    })
    this.#worker = worker
    worker.start()
    await this.#until(() => worker.status === 'RUNNING' || !worker.alive, 'the job runs', PATIENCE_MS)
    this.#throwFailure()
  }

  /** The job as code sees it that awaits its execution. */
  #forDeclaration(number: number): RunningJob {
    const worker = (): DrivenWorker => {
      if (this.#starts === number && this.#worker !== undefined) return this.#worker
      throw new MillraceError('MILLRACE_TEST_DRIVER', `start ${number} of the job is over, or has not begun`)
    }
    return {
      get status() {
        return worker().status
      },
      cancel: () => worker().cancel(),
      triggerCheckpoint: () => worker().triggerCheckpoint(),
    }
  }

  get #present(): DrivenWorker {
    return this.#worker!
  }

  get #ended(): boolean {
    return !this.#present.alive
  }

  get #failed(): boolean {
    return this.#worker?.end?.status === 'FAILED'
  }

  #throwFailure(): void {
    const end = this.#worker?.end
    if (end?.status === 'FAILED') throw end.error
  }

  #living(what: string): DrivenWorker {
    this.#throwFailure()
    if (this.#present.alive) return this.#present
    throw new MillraceError('MILLRACE_TEST_DRIVER', `the job is ${this.status} and cannot ${what}`, {
      remedy: 'Start it again with restart().',
    })
  }

  #completed() {
    return this.#local.store.completed(this.kafka, this.#job!.submission.jobName)
  }

  #isRead({ topic, partition, position }: Partial<KafkaPosition>): boolean {
    if (topic === undefined || partition === undefined || position === undefined) return true
    return this.#topics.isAtEnd(topic, partition, BigInt(position))
  }

  /** Markers of some transaction are on their way. */
  #ending(): boolean {
    return this.kafka.inside.transactions
      .list()
      .some(({ state }) => state === 'PrepareCommit' || state === 'PrepareAbort')
  }

  #onPoint(worker: DrivenWorker, point: FaultPoint): void {
    const armed = this.#armed
    if (armed === undefined || armed.point !== point || worker !== this.#worker) return
    if (--armed.left === 0) worker.kill()
  }

  async #settle<T>(promise: Promise<T>, reason: string, ofTheJob = true): Promise<T> {
    let settled = false
    const note = (): void => {
      settled = true
    }
    promise.then(note, note)
    await this.#until(() => settled || (ofTheJob && this.#failed), reason, PATIENCE_MS)
    if (ofTheJob) this.#throwFailure()
    return promise
  }

  async #until(condition: () => boolean, reason: string, maxMs: number): Promise<void> {
    const holds = await this.#exclusively(() => this.#drive(condition, maxMs))
    if (holds) return
    const job = this.#worker?.describe() ?? 'the job has not started'
    throw new MillraceError(
      'MILLRACE_TEST_DRIVER',
      `waited in vain until ${reason}, for at most ${maxMs} ms of the test's clock; ${job}`,
    )
  }

  /** Moves time until the condition holds. While a function of the job waits for something real, the clock stands still. */
  async #drive(condition: () => boolean, maxMs: number): Promise<boolean> {
    const end = this.#time.now() + maxMs
    const waits = (): boolean => this.#worker?.alive === true && this.#worker.promises.pending
    for (;;) {
      const outcome = await this.#time.runUntil(() => waits() || condition(), {
        maxMs: end - this.#time.now(),
      })
      if (!waits()) return outcome === 'reached'
      await this.#worker!.promises.nextSettled()
    }
  }

  async #exclusively<T>(work: () => Promise<T>): Promise<T> {
    if (this.#busy)
      throw new MillraceError(
        'MILLRACE_TEST_DRIVER',
        'the driver is still busy: await one call before the next',
      )
    this.#busy = true
    try {
      return await work()
    } finally {
      this.#busy = false
    }
  }
}

/** A position of a Kafka source in a checkpoint; splits of other sources have other fields. */
interface KafkaPosition {
  readonly topic: string
  readonly partition: number
  readonly position: string
}

type Defined<T> = { [K in keyof T]: Exclude<T[K], undefined> }

/** The settings that were made. */
function withoutUndefined<T extends object>(settings: T): Partial<Defined<T>> {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined)) as Partial<
    Defined<T>
  >
}
