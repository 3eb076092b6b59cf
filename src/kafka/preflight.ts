/** Checks before any task starts: what would fail later, or at night, fails now and says what to change. */
import type { JobSettings } from '../core/job-settings.ts'
import { MillraceError } from '../errors.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import type { KafkaSink } from './kafka-sink.ts'
import { knownSettings } from './known-settings.ts'

/** Kafka's own default, for clusters that do not let us ask. */
const DEFAULT_MAX_TRANSACTION_TIMEOUT_MS = 900_000
/** A worker that was killed processes again within this time. */
const RESTART_BUDGET_MS = 5_000

const MAX_TIMEOUT = 'transaction.max.timeout.ms'

/** The brokers' transaction.max.timeout.ms, as the first of them says: a start asks no more than it must. */
export async function maxTransactionTimeout(cluster: KafkaCluster): Promise<number> {
  const { brokers } = await cluster.describeCluster()
  const [broker] = brokers
  return leastOf([broker === undefined ? undefined : await configured(cluster, broker.nodeId, MAX_TIMEOUT)])
}

/** The least transaction.max.timeout.ms of all brokers: each of them may coordinate a transaction. */
export async function leastMaxTransactionTimeout(cluster: KafkaCluster): Promise<number> {
  const { brokers } = await cluster.describeCluster()
  return leastOf(await Promise.all(brokers.map(({ nodeId }) => configured(cluster, nodeId, MAX_TIMEOUT))))
}

function leastOf(values: readonly (string | undefined)[]): number {
  const known = values.map(Number).filter((value) => Number.isFinite(value) && value > 0)
  return known.length === 0 ? DEFAULT_MAX_TRANSACTION_TIMEOUT_MS : Math.min(...known)
}

/** A broker's setting; undefined when there is none, or when we may not ask. */
async function configured(cluster: KafkaCluster, nodeId: number, name: string): Promise<string | undefined> {
  return (await knownSettings(cluster, { type: 'broker', name: String(nodeId) }, [name])).get(name)
}

/** @throws MILLRACE_TRANSACTION_TIMEOUT, MILLRACE_CHECKPOINTING_REQUIRED, MILLRACE_TOPIC_MISSING. */
export async function checkSinks(
  cluster: KafkaCluster,
  sinks: readonly { readonly name: string; readonly sink: KafkaSink<any> }[],
  settings: JobSettings,
  options: { readonly maxTransactionTimeoutMs: number; readonly bounded: boolean },
): Promise<void> {
  const { checkpointing } = settings
  for (const { name, sink } of sinks) {
    if (!sink.exactlyOnce) continue
    const timeout = sink.transactionTimeoutMs
    if (timeout > options.maxTransactionTimeoutMs)
      throw new MillraceError(
        'MILLRACE_TRANSACTION_TIMEOUT',
        `sink '${name}' asks for a transaction time-out of ${timeout} ms; the brokers allow ${options.maxTransactionTimeoutMs} ms (transaction.max.timeout.ms)`,
        { details: { asked: timeout, allowed: options.maxTransactionTimeoutMs } },
      )
    if (checkpointing.intervalMs === undefined) {
      if (options.bounded) continue
      throw new MillraceError(
        'MILLRACE_CHECKPOINTING_REQUIRED',
        `sink '${name}' is EXACTLY_ONCE and the job is unbounded, but checkpointing is off: nothing would ever be committed`,
      )
    }
    const needed = checkpointing.intervalMs + checkpointing.timeoutMs + RESTART_BUDGET_MS
    if (timeout < needed)
      throw new MillraceError(
        'MILLRACE_TRANSACTION_TIMEOUT',
        `sink '${name}': a transaction time-out of ${timeout} ms is shorter than checkpoint interval + checkpoint timeout + ${RESTART_BUDGET_MS} ms for a restart = ${needed} ms; the broker could give up output that a checkpoint still counts on`,
        {
          details: { timeout, needed },
          remedy:
            'Raise transactionTimeoutMs (up to transaction.max.timeout.ms on the brokers), or lower execution.checkpointing.timeout or the interval.',
        },
      )
  }
  const topics = [
    ...new Set(sinks.map(({ sink }) => sink.options.topic).filter((topic) => typeof topic === 'string')),
  ]
  if (topics.length === 0) return
  const described = await cluster.describeTopics(topics)
  const missing = topics.filter((topic) => !described.some((d) => d.topic === topic))
  if (missing.length > 0)
    throw new MillraceError('MILLRACE_TOPIC_MISSING', `no such topic to write to: ${missing.join(', ')}`, {
      details: { topics: missing },
    })
}
