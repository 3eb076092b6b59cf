/**
 * What an operator may want to know and do about Millrace's transactions, without a running job: which are open, how old, on which partitions,
 * and whether a completed checkpoint promised them.
 */
import { type CompletedCheckpoint, decodeCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { membersIn } from './group-now.ts'
import type { KafkaCluster, TopicPartition } from './kafka-cluster.ts'
import type { KafkaCommittable } from './kafka-committable.ts'
import { LargeEntries } from './large-entries.ts'
import { readLog } from './topic-log.ts'
import { ownerOfId, workerGroupOf } from './transactional-id.ts'

/** One transactional id of a Millrace job. */
export interface InspectedTransaction {
  readonly transactionalId: string
  /** The job's name as it is written in topic names. */
  readonly job: string
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly state: string
  /** Milliseconds since it was begun; undefined when none is open. */
  readonly ageMs: number | undefined
  readonly partitions: readonly TopicPartition[]
  /** The completed checkpoint that counts on its commit, if there is one. */
  readonly promisedBy: number | undefined
}

/** The job that an id belongs to, as it is written in topic names; undefined for ids that are not ours. */
export function jobOfId(transactionalId: string): string | undefined {
  return ownerOfId(transactionalId)?.job
}

/** All transactional ids of Millrace jobs that the brokers know, open ones first. `only` keeps an id or everything below a prefix. */
export async function inspectTransactions(
  cluster: KafkaCluster,
  world: World,
  only?: string,
): Promise<InspectedTransaction[]> {
  const ids = (await cluster.listTransactions())
    .map(({ transactionalId }) => transactionalId)
    .filter(
      (id) =>
        jobOfId(id) !== undefined && (only === undefined || isBelow(id, only) || isBelow(ownPart(id), only)),
    )
  if (ids.length === 0) return []
  const described = (await cluster.describeTransactions(ids)).filter(({ errorCode }) => errorCode === 0)
  const promised = await promises(
    cluster,
    world,
    new Set(described.map(({ transactionalId }) => jobOfId(transactionalId) as string)),
  )
  const now = BigInt(world.clock.now())
  return described
    .map(
      (each): InspectedTransaction => ({
        transactionalId: each.transactionalId,
        job: jobOfId(each.transactionalId) as string,
        producerId: each.producerId,
        producerEpoch: each.producerEpoch,
        state: each.state,
        ageMs: each.startTimeMs < 0n ? undefined : Number(now - each.startTimeMs),
        partitions: each.partitions,
        promisedBy: promised.get(nameOf(each)),
      }),
    )
    .sort(
      (a, b) =>
        Number(b.state === 'Ongoing') - Number(a.state === 'Ongoing') ||
        (a.transactionalId < b.transactionalId ? -1 : 1),
    )
}

/** An id without the prefix that its sink was given: so that `millrace.<job>` finds all ids of a job. */
function ownPart(id: string): string {
  const prefix = ownerOfId(id)?.userPrefix
  return prefix === undefined ? id : id.slice(prefix.length + 1)
}

/** Whole parts only: `a` is not above `a.b` of another job by accident of spelling, and `a.1` not above `a.10`. */
function isBelow(id: string, prefix: string): boolean {
  return id === prefix || id.startsWith(prefix.endsWith('.') ? prefix : `${prefix}.`)
}

/** Committables of the latest completed checkpoints whose commits are not confirmed. */
async function promises(
  cluster: KafkaCluster,
  world: World,
  jobs: ReadonlySet<string>,
): Promise<Map<string, number>> {
  const promised = new Map<string, number>()
  const topics = await cluster.describeTopics([...jobs].map((job) => `millrace.${job}.checkpoints`))
  for (const { topic } of topics) {
    const completed = new Map<string, CompletedCheckpoint>()
    const confirmed = new Map<string, number>()
    const visit = (key: string, value: Buffer | null): void => {
      if (key.startsWith('completed/')) {
        if (value === null) completed.delete(key)
        else {
          const checkpoint = decodeCheckpoint(value.toString('utf8'), `${topic} key ${key}`)
          completed.set(key, checkpoint)
          confirmed.set(checkpoint.run, Math.max(confirmed.get(checkpoint.run) ?? -1, checkpoint.confirmed))
        }
      }
      if (key === 'confirmed' && value !== null) {
        const { run, n } = JSON.parse(value.toString('utf8')) as { run: string; n: number }
        confirmed.set(run, Math.max(confirmed.get(run) ?? -1, n))
      }
    }
    await readLog(cluster, topic, world, new LargeEntries().joining(visit))
    for (const checkpoint of completed.values())
      for (const state of checkpoint.states)
        for (const committable of (state.committables ?? []) as KafkaCommittable[])
          if (committable.n > (confirmed.get(checkpoint.run) ?? -1))
            promised.set(nameOf(committable), checkpoint.n)
  }
  return promised
}

function nameOf(each: {
  transactionalId: string
  producerId: bigint | string
  producerEpoch: number
}): string {
  return `${each.transactionalId}:${each.producerId}:${each.producerEpoch}`
}

/**
 * Ends an open transaction by hand.
 * @throws MILLRACE_USAGE when its job runs and would be hit, or when that would break what a completed checkpoint promised, unless `force`.
 */
export async function endByHand(
  cluster: KafkaCluster,
  transaction: InspectedTransaction,
  result: 'commit' | 'abort',
  force: boolean,
): Promise<void> {
  const { transactionalId, producerId, producerEpoch, promisedBy, state } = transaction
  if (state !== 'Ongoing')
    throw new MillraceError('MILLRACE_USAGE', `${transactionalId} has no open transaction: it is ${state}`)
  // A commit that is promised does no harm beside a running job.
  const workers = force || result === 'commit' ? 0 : await membersIn(cluster, workerGroupOf(transaction.job))
  if (workers > 0)
    throw new MillraceError(
      'MILLRACE_USAGE',
      `${transactionalId} belongs to job ${transaction.job}, which has ${workers} worker${workers === 1 ? '' : 's'}: a running job ends its transactions itself`,
      {
        remedy:
          'Stop the job first. A worker that died still counts until its session of 10 s is over. --force ends it all the same, and the job restarts.',
      },
    )
  if (!force && result === 'abort' && promisedBy !== undefined)
    throw new MillraceError(
      'MILLRACE_USAGE',
      `${transactionalId} holds output of completed checkpoint ${promisedBy}: aborting it would take it from readers until the job heals it`,
      { remedy: 'Start the job, or commit the transaction; --force aborts it all the same.' },
    )
  if (!force && result === 'commit' && promisedBy === undefined)
    throw new MillraceError(
      'MILLRACE_USAGE',
      `${transactionalId} belongs to no completed checkpoint: committing it would show records that the job will write again`,
      { remedy: 'Abort it, or start the job, which does. --force commits it all the same.' },
    )
  await cluster.endTxn({ transactionalId, producerId, producerEpoch }, result, { timeoutMs: 30_000 })
}
