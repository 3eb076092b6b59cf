/**
 * One job over a feed of orders that goes on while a test does harm: the ETL and the keyed count of jobs/orders.ts, their topics, and what
 * must be true when it is over.
 */
import { isMillraceError } from '../../src/errors.ts'
import { CommittedLog } from '../integration/committed-log.ts'
import type { JobProcess } from '../integration/job-process.ts'
import { JobScene } from '../integration/job-scene.ts'
import { outcomeOf } from '../reliability-log.ts'
import { OrderFeed } from './order-feed.ts'
import type { SeededRandom } from './seeded-random.ts'

const JOB = 'fault/jobs/orders.ts'
/** How long the rest of the input may take after the last fault. */
const CATCH_UP_MS = 120_000
/** From the time on that all output is there: no transaction may hold readers back longer. */
const SETTLE_MS = 10_000
/** Committed offsets after which the job is known to work. */
const PROGRESS = 40n
/** States in which a transaction is over or never began. */
const ENDED: readonly string[] = ['Empty', 'CompleteCommit', 'CompleteAbort', 'Dead']

export interface OrderRunOptions {
  readonly random: SeededRandom
  /** Brokers for the test itself; the job is told others by `environment`. */
  readonly brokers?: readonly string[]
  readonly parallelism?: number
  readonly partitions?: number
  readonly recordsPerSecond?: number
  /** Keys of the count; some dozens without it. */
  readonly users?: number | undefined
  /** Variables of the job's processes. */
  readonly environment?: Readonly<Record<string, string>>
}

/** What came out. Exact: the three lists are empty. */
export interface OrderOutcome {
  readonly etl: readonly string[]
  readonly totals: readonly string[]
  /** Transactions of the job that were still open after its end. */
  readonly open: readonly string[]
  readonly records: number
  /** Milliseconds until the last stable offsets were the high watermarks. */
  readonly settledMs: number
}

export class OrderRun {
  readonly scene: JobScene
  readonly etlTopic: string
  readonly countTopic: string
  readonly #feed: OrderFeed
  readonly #environment: Readonly<Record<string, string>>

  private constructor(
    scene: JobScene,
    topics: { readonly in: string; readonly etl: string; readonly count: string },
    options: Required<Omit<OrderRunOptions, 'users'>> & Pick<OrderRunOptions, 'users'>,
  ) {
    this.scene = scene
    this.etlTopic = topics.etl
    this.countTopic = topics.count
    this.#environment = {
      // Restarts of the job itself follow soon, so that many faults fit into one run.
      MILLRACE_RESTART_STRATEGY_EXPONENTIAL_DELAY_INITIAL_BACKOFF: '200ms',
      MILLRACE_RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF: '2s',
      IN: topics.in,
      ETL_OUT: topics.etl,
      COUNT_OUT: topics.count,
      PARALLELISM: String(options.parallelism),
      ...options.environment,
    }
    const { partitions, recordsPerSecond, random, users } = options
    this.#feed = new OrderFeed(scene.cluster, topics.in, partitions, recordsPerSecond, random, users)
    this.#feed.start()
  }

  /** Makes the topics and begins to feed. */
  static async open(options: OrderRunOptions): Promise<OrderRun> {
    const all = { parallelism: 2, partitions: 3, recordsPerSecond: 400, environment: {}, ...options }
    const scene = await JobScene.open(options.brokers)
    const topics = {
      in: await scene.topic('in', all.partitions),
      etl: await scene.topic('etl', all.partitions),
      count: await scene.topic('count', all.partitions),
    }
    return new OrderRun(scene, topics, { brokers: [], ...all })
  }

  /** Starts one process of the job. */
  start(environment: Readonly<Record<string, string>> = {}): JobProcess {
    return this.scene.start(JOB, { ...this.#environment, ...environment })
  }

  /** Resolves when the job has committed output that it had not when this was called. */
  async progress(timeoutMs: number): Promise<void> {
    const before = await this.scene.endOf(this.etlTopic, 'read_committed')
    await this.scene.until('the job commits new output', timeoutMs, () =>
      patiently(async () => (await this.scene.endOf(this.etlTopic, 'read_committed')) > before + PROGRESS),
    )
  }

  /** Ends the feed, waits for the whole output, ends the processes, and looks whether everything is as it must be. */
  async finish(processes: readonly JobProcess[]): Promise<OrderOutcome> {
    const { scene } = this
    await this.#feed.stop()
    await this.#holds(this.etlTopic, this.#feed.etlRecords)
    await this.#holds(this.countTopic, this.#feed.committed)
    // The job still runs and has nothing to do: nothing may be open now, whatever was left by what died.
    const settledMs = await scene.settled([this.etlTopic, this.countTopic], SETTLE_MS)
    for (const process of processes) process.signal('SIGTERM')
    for (const process of processes) {
      const code = await process.code(20_000)
      if (code !== 0) throw new Error(`the job ended with exit code ${code}:\n${process.log}`)
    }
    const open = (await scene.cluster.listTransactions()).filter(
      ({ transactionalId, state }) =>
        transactionalId.startsWith(`millrace.${scene.job}.`) && !ENDED.includes(state),
    )
    return {
      etl: this.#feed.checkEtl(await scene.read(this.etlTopic)).slice(0, 10),
      totals: this.#feed.checkTotals(await scene.read(this.countTopic)).slice(0, 10),
      open: open.map(({ transactionalId, state }) => `${transactionalId} is ${state}`),
      records: this.#feed.committed,
      settledMs,
    }
  }

  async close(): Promise<void> {
    try {
      await this.#feed.stop()
    } finally {
      await this.scene.close()
    }
  }

  async #holds(topic: string, count: number): Promise<void> {
    let log = new CommittedLog(this.scene.cluster, topic)
    await this.scene.until(
      () => `${topic} holds ${count} records; it holds ${log.records.length}`,
      CATCH_UP_MS,
      () =>
        patiently(
          async () => {
            await log.poll()
            return log.records.length >= count
          },
          () => {
            // A poll that failed half-way has read some records already.
            log = new CommittedLog(this.scene.cluster, topic)
          },
        ),
    )
  }
}

/** The outcome in one word for the table of what was tried. */
export function verdict({ etl, totals, open }: OrderOutcome): string {
  return outcomeOf([...etl, ...totals, ...open])
}

/** Brokers that come back answer with errors that pass: then it is not true yet. */
export async function patiently(isTrue: () => Promise<boolean>, onFailure?: () => void): Promise<boolean> {
  try {
    return await isTrue()
  } catch (error) {
    if (!isMillraceError(error) || !error.retriable) throw error
    onFailure?.()
    return false
  }
}
