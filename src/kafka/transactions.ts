/**
 * Output transactions of all sinks of a job: found, cleaned up and leased at take-over (protocol §2.4 and §2.9), aborted at the end.
 * Every later initialisation is a compare-and-set with the (producer id, epoch) seen before attempt-started was written: whoever moved an
 * id since then leads, and we stop.
 */
import type { AbortOptions, OutputTransactions, SinkRecord } from '../checkpoint/checkpoint-store.ts'
import type { World } from '../core/ports.ts'
import { KafkaError, MillraceError } from '../errors.ts'
import {
  type DescribedTransaction,
  type KafkaCluster,
  KafkaCode,
  type ProducerIdentity,
} from './kafka-cluster.ts'
import { parseTransactionalId, transactionalId } from './transactional-id.ts'

/** One transactional sink of the running graph. */
export interface TransactionalSink {
  readonly uid: string
  readonly prefix: string
  readonly parallelism: number
  readonly transactionTimeoutMs: number
}

export interface JobTransactionsOptions {
  readonly cluster: KafkaCluster
  readonly world: World
  readonly sinks: readonly TransactionalSink[]
  /** Ids a subtask: max concurrent checkpoints + 2. */
  readonly slots: number
  /** Time-out for ids of sinks that are not in the graph any more. */
  readonly defaultTimeoutMs: number
  /** Throws when this worker has been silent so long that another one may lead: asked before each request that could hit that one's transactions. */
  readonly assertAlive: () => void
}

/**
 * What an id is expected to be that did not exist: the broker takes any holder for one that is new, and refuses this one, which nobody can
 * be, when another leader made the id meanwhile.
 */
const NOBODY = { producerId: 0x7fff_ffff_ffff_ffffn, producerEpoch: 0 }

/** Ids initialised at the same time: enough to hide latency, too few to press the coordinator. */
const CONCURRENCY = 16

export class JobTransactions implements OutputTransactions {
  readonly #options: JobTransactionsOptions
  #observed = new Map<string, DescribedTransaction>()
  #ids: string[] = []

  constructor(options: JobTransactionsOptions) {
    this.#options = options
  }

  records(recorded: readonly SinkRecord[]): SinkRecord[] {
    const records = new Map<string, SinkRecord>()
    for (const record of recorded) records.set(record.prefix, record)
    for (const sink of this.#options.sinks) {
      const before = records.get(sink.prefix)
      records.set(sink.prefix, {
        uid: sink.uid,
        prefix: sink.prefix,
        parallelism: Math.max(sink.parallelism, before?.parallelism ?? 0),
        slots: Math.max(this.#options.slots, before?.slots ?? 0),
      })
    }
    return [...records.values()]
  }

  async observe(recorded: readonly SinkRecord[]): Promise<void> {
    const { cluster } = this.#options
    const records = this.records(recorded)
    const prefixes = new Set(records.map((record) => record.prefix))
    const ids = new Set<string>()
    for (const record of records)
      for (let subtask = 0; subtask < record.parallelism; subtask++)
        for (let slot = 0; slot < record.slots; slot++) ids.add(transactionalId(record.prefix, subtask, slot))
    // A missing permission answers an empty list, so the recorded ids count as well.
    if (prefixes.size > 0)
      for (const listed of await cluster.listTransactions()) {
        const parsed = parseTransactionalId(listed.transactionalId)
        if (parsed !== undefined && prefixes.has(parsed.prefix)) ids.add(listed.transactionalId)
      }
    this.#ids = [...ids].sort()
    this.#observed = new Map()
    if (this.#ids.length === 0) return
    for (const described of await cluster.describeTransactions(this.#ids)) {
      if (described.errorCode === KafkaCode.NONE) this.#observed.set(described.transactionalId, described)
      // Only an id that does not exist may be initialised without knowing its holder.
      else if (described.errorCode !== KafkaCode.TRANSACTIONAL_ID_NOT_FOUND)
        throw new MillraceError(
          described.errorCode === KafkaCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            ? 'MILLRACE_KAFKA_UNAUTHORIZED'
            : 'MILLRACE_KAFKA_PROTOCOL',
          `cannot describe transactional id ${described.transactionalId}: broker error ${described.errorCode} (needs DESCRIBE and WRITE on the id)`,
          { details: { transactionalId: described.transactionalId, brokerCode: described.errorCode } },
        )
    }
  }

  async lease(): Promise<ReadonlyMap<string, readonly unknown[]>> {
    const { sinks, slots } = this.#options
    const identities = new Map<string, ProducerIdentity>()
    const timeouts = new Map(sinks.map((sink) => [sink.prefix, sink.transactionTimeoutMs]))
    const aborted = await this.#stillOpen()
    await inParallel(this.#ids, async (id) => {
      const before = this.#observed.get(id)
      const { prefix, subtask, slot } = parseTransactionalId(id) as {
        prefix: string
        subtask: number
        slot: number
      }
      const sink = sinks.find((s) => s.prefix === prefix)
      const wanted = sink !== undefined && subtask < sink.parallelism && slot < slots
      // An id that nobody will use is fenced all the same: a worker of an earlier, wider attempt may wake and write with it.
      if (!wanted && before === undefined) return
      identities.set(
        id,
        await this.#initialise(id, timeouts.get(prefix) ?? this.#options.defaultTimeoutMs, before),
      )
    })
    if (aborted > 0)
      this.#options.world.logger.info(
        `aborted ${aborted} transaction${aborted === 1 ? '' : 's'} that an earlier attempt left open`,
      )
    const leases = new Map<string, readonly unknown[]>()
    for (const sink of sinks)
      leases.set(
        sink.uid,
        Array.from({ length: sink.parallelism }, (_, subtask) =>
          Array.from(
            { length: slots },
            (_, slot) => identities.get(transactionalId(sink.prefix, subtask, slot)) as ProducerIdentity,
          ),
        ),
      )
    return leases
  }

  /** How many of the transactions seen open were not committed meanwhile, as a completed checkpoint promised. */
  async #stillOpen(): Promise<number> {
    const open = [...this.#observed.values()].filter(({ state }) => state === 'Ongoing')
    if (open.length === 0) return 0
    const now = await this.#options.cluster.describeTransactions(open.map(({ transactionalId: id }) => id))
    return now.filter(({ state }) => state === 'Ongoing').length
  }

  async #initialise(
    id: string,
    transactionTimeoutMs: number,
    before: DescribedTransaction | undefined,
  ): Promise<ProducerIdentity> {
    const { cluster, assertAlive } = this.#options
    try {
      assertAlive()
      if (before === undefined)
        return await cluster.initProducerId({ transactionalId: id, transactionTimeoutMs, expected: NOBODY })
      // Twice: the broker takes a compare-and-set with the epoch before the last one for a repeated question and answers with the present
      // epoch. After one move only, a zombie's compare-and-set with what it holds would hand it the epoch of our own writer.
      const { producerId, producerEpoch } = await cluster.initProducerId({
        transactionalId: id,
        transactionTimeoutMs,
        expected: { producerId: before.producerId, producerEpoch: before.producerEpoch },
      })
      assertAlive()
      return await cluster.initProducerId({
        transactionalId: id,
        transactionTimeoutMs,
        expected: { producerId, producerEpoch },
      })
    } catch (error) {
      if (error instanceof KafkaError && error.brokerCode === KafkaCode.INVALID_TRANSACTION_TIMEOUT)
        throw new MillraceError(
          'MILLRACE_TRANSACTION_TIMEOUT',
          `the broker refuses a transaction time-out of ${transactionTimeoutMs} ms`,
          { cause: error },
        )
      if (
        error instanceof KafkaError &&
        (error.brokerCode === KafkaCode.PRODUCER_FENCED ||
          error.brokerCode === KafkaCode.INVALID_PRODUCER_EPOCH)
      )
        throw new MillraceError(
          'MILLRACE_ATTEMPT_LOST',
          `transactional id ${id} moved while this worker took the job over: another one leads`,
          { cause: error },
        )
      throw error
    }
  }

  /**
   * `keep`: transactional ids of committables that are promised: they are never aborted.
   * `proveLeadership` runs between looking and aborting and throws unless this worker leads: then what was seen is ours, and a later
   * leader has another epoch, so that it cannot be hit.
   */
  async abortOpen({ keep = [], proveLeadership }: AbortOptions = {}): Promise<void> {
    if (this.#ids.length === 0) return
    const { cluster, world, assertAlive } = this.#options
    const seen = await cluster.describeTransactions(this.#ids.filter((id) => !keep.includes(id)))
    await proveLeadership?.()
    for (const described of seen) {
      if (described.errorCode !== KafkaCode.NONE || described.state !== 'Ongoing') continue
      const { transactionalId: id, producerId, producerEpoch } = described
      assertAlive()
      try {
        await cluster.endTxn({ transactionalId: id, producerId, producerEpoch }, 'abort', {
          timeoutMs: 5_000,
        })
      } catch (error) {
        // The next start aborts it, or the broker's time-out does; until then it holds readers back.
        world.logger.warn(`could not abort the open transaction ${id}`, { error })
      }
    }
  }
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items]
  await Promise.all(
    Array.from({ length: Math.min(CONCURRENCY, queue.length) }, async () => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
    }),
  )
}
