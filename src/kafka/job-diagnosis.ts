/**
 * Looks at everything in Kafka that a job needs, without changing anything: no topic is made, no id initialised, no group joined. So a job
 * that runs under the same name notices nothing.
 */
import { type Diagnosis, diagnosisOf, fix, ok, skipped } from '../core/diagnosis.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import type { JobSettings } from '../core/job-settings.ts'
import type { Logger } from '../core/ports.ts'
import { isMillraceError } from '../errors.ts'
import type { BoundSink } from './connector-binding.ts'
import { groupNow } from './group-now.ts'
import type { KafkaCluster, ResourceOperation, TopicDescription } from './kafka-cluster.ts'
import { knownSettings } from './known-settings.ts'
import type { OwnTopic } from './own-topics.ts'
import { checkPrefixHolders } from './prefix-holders.ts'
import { checkSinks } from './preflight.ts'
import { missingGroupRights, ownTopicToCome, transactionalIds } from './rights-diagnosis.ts'
import { retentionByRecordTime } from './topic-retention.ts'
import { jobTopic, workerGroupId } from './transactional-id.ts'

/** The job, as far as Kafka matters. */
export interface DiagnosedJob {
  readonly jobName: string
  readonly graph: JobGraph
  readonly settings: JobSettings
  readonly sinks: readonly BoundSink[]
  /** Every source of the job ends. */
  readonly bounded: boolean
  readonly maxTransactionTimeoutMs: number
  /** Of the job's own topics; -1 = min(3, brokers). */
  readonly replicationFactor: number
  readonly logger: Logger
}

/** A topic and what the job does with it. */
interface UsedTopic {
  readonly topic: string
  readonly needs: readonly ResourceOperation[]
  /** For messages: "source 'orders' reads it". */
  readonly use: string
}

export async function diagnoseKafka(cluster: KafkaCluster, job: DiagnosedJob): Promise<readonly Diagnosis[]> {
  const found = await Promise.all([
    diagnosed('brokers', () => brokers(cluster)),
    ...usedTopics(job).map((used) => diagnosed(`topic ${used.topic}`, () => topic(cluster, used))),
    ...patternsOf(job).map((pattern) => diagnosed(`topics ${pattern}`, () => matching(cluster, pattern))),
    ...groupsOf(job).map((group) => diagnosed(`group ${group}`, () => sourceGroup(cluster, group))),
    ...job.sinks
      .filter(({ sink }) => sink.exactlyOnce)
      .map((sink) => diagnosed(`sink '${sink.name}'`, () => transactions(cluster, sink, job))),
    diagnosed('transactional id prefixes', () => prefixes(cluster, job)),
    diagnosed('transactional ids', () => transactionalIds(cluster, job.jobName, job.sinks)),
    diagnosed('worker group', () => workers(cluster, job)),
    diagnosed(`topic ${jobTopic(job.jobName, 'checkpoints')}`, () => ownTopic(cluster, job, 'checkpoints')),
    diagnosed(`topic ${jobTopic(job.jobName, 'control')}`, () => ownTopic(cluster, job, 'control')),
  ])
  return found.flat()
}

/** Runs a check; what it throws is what it found. */
export async function diagnosed(
  check: string,
  look: () => Promise<Diagnosis | readonly Diagnosis[]>,
): Promise<readonly Diagnosis[]> {
  try {
    return [await look()].flat()
  } catch (error) {
    return [diagnosisOf(check, error)]
  }
}

async function brokers(cluster: KafkaCluster): Promise<Diagnosis> {
  const { brokers: all, clusterId } = await cluster.describeCluster()
  const names = all.map(({ host, port }) => `${host}:${port}`).join(', ')
  return ok(
    'brokers',
    `${all.length} broker${all.length === 1 ? '' : 's'} of cluster ${clusterId} (${names}), Kafka 3.6 or newer`,
  )
}

/** Topics that are named in the graph. One that is read and written needs both rights. */
function usedTopics({ graph, sinks }: DiagnosedJob): readonly UsedTopic[] {
  const used = new Map<string, { needs: Set<ResourceOperation>; uses: string[] }>()
  const use = (topic: string, needs: readonly ResourceOperation[], how: string): void => {
    const entry = used.get(topic) ?? { needs: new Set(), uses: [] }
    used.set(topic, entry)
    for (const operation of needs) entry.needs.add(operation)
    entry.uses.push(how)
  }
  for (const { name, topics } of sourcesOf(graph))
    for (const topic of topics) use(topic, ['Read', 'Describe'], `source '${name}' reads it`)
  for (const { name, sink } of sinks) {
    const { topic } = sink.options
    // What is aborted by the brokers is read again from the log.
    const needs: ResourceOperation[] = sink.exactlyOnce
      ? ['Write', 'Read', 'Describe']
      : ['Write', 'Describe']
    if (typeof topic === 'string') use(topic, needs, `sink '${name}' writes it`)
  }
  return [...used].map(([topic, { needs, uses }]) => ({ topic, needs: [...needs], use: uses.join(', ') }))
}

interface UsedSource {
  readonly name: string
  readonly topics: readonly string[]
  readonly pattern: string | undefined
  readonly groupId: string | undefined
}

/** Kafka sources by what they say of themselves. */
function sourcesOf(graph: JobGraph): readonly UsedSource[] {
  return graph.vertices.flatMap((vertex) =>
    vertex.operators.flatMap(({ node, name }) => {
      if (node.kind !== 'source' || node.source.kind !== 'kafka') return []
      const { topics, partitions, topicPattern, groupId } = node.source.describe() as {
        readonly topics?: readonly string[]
        readonly partitions?: readonly string[]
        readonly topicPattern?: string
        readonly groupId?: string
      }
      const named = [...(topics ?? []), ...(partitions ?? []).map((each) => each.replace(/-\d+$/, ''))]
      return [{ name, topics: [...new Set(named)], pattern: topicPattern, groupId }]
    }),
  )
}

function patternsOf({ graph }: DiagnosedJob): readonly string[] {
  return sourcesOf(graph).flatMap(({ pattern }) => pattern ?? [])
}

function groupsOf({ graph }: DiagnosedJob): readonly string[] {
  return [...new Set(sourcesOf(graph).flatMap(({ groupId }) => groupId ?? []))]
}

async function topic(cluster: KafkaCluster, { topic: name, needs, use }: UsedTopic): Promise<Diagnosis> {
  const check = `topic ${name}`
  const [described] = await cluster.describeTopics([name], { operations: true })
  if (described === undefined)
    return fix(check, `it does not exist; ${use}`, 'Create the topic; Millrace creates none but its own.')
  const { operations } = described
  const missing = operations === undefined ? [] : needs.filter((operation) => !operations.has(operation))
  if (missing.length > 0)
    return fix(
      check,
      `the principal may not ${missing.join(', ')} it; ${use}`,
      `Give the principal ${missing.join(', ')} on topic ${name}.`,
    )
  const leaderless = described.partitions.filter(({ leader }) => leader < 0).map(({ partition }) => partition)
  if (leaderless.length > 0)
    return fix(
      check,
      `partitions ${leaderless.join(', ')} have no leader; ${use}`,
      'Bring the brokers back that hold these partitions.',
    )
  const written = needs.includes('Write')
  const retention = written ? await retentionByRecordTime(cluster, name) : undefined
  const kept =
    retention === undefined ? '' : `, and keeps records for retention.ms=${retention} by their own time`
  return durability(cluster, described, check, written, use + kept)
}

/** Whether what is written stays, and can be written at all. */
async function durability(
  cluster: KafkaCluster,
  { topic: name, partitions }: TopicDescription,
  check: string,
  written: boolean,
  use: string,
): Promise<Diagnosis> {
  const replicas = Math.min(...partitions.map((each) => each.replicas.length))
  const inSync = Math.min(...partitions.map(({ isr }) => isr.length))
  const minIsr = written ? await minInSync(cluster, name) : undefined
  if (minIsr !== undefined && minIsr > replicas)
    return fix(
      check,
      `min.insync.replicas is ${minIsr}, but it has ${replicas} replicas: nothing can be written to it; ${use}`,
      `Lower min.insync.replicas of ${name}, or add replicas.`,
    )
  if (minIsr !== undefined && minIsr > inSync)
    return fix(
      check,
      `${inSync} of ${replicas} replicas are in sync, and min.insync.replicas is ${minIsr}: nothing can be written now; ${use}`,
      'Bring the brokers of the missing replicas back.',
    )
  const isr = minIsr === undefined ? '' : `, min.insync.replicas ${minIsr}`
  const alone = written && replicas === 1 ? '; with one replica the loss of a broker loses it' : ''
  return ok(
    check,
    `${partitions.length} partition${partitions.length === 1 ? '' : 's'}, ${replicas} replica${replicas === 1 ? '' : 's'}${isr}${alone}; ${use}`,
  )
}

/** Undefined if we may not ask. */
async function minInSync(cluster: KafkaCluster, name: string): Promise<number | undefined> {
  const value = await setting(cluster, name, 'min.insync.replicas')
  return value === undefined ? undefined : Number(value)
}

/** A topic's setting; undefined when it has none, or when we may not ask. */
async function setting(cluster: KafkaCluster, topic: string, name: string): Promise<string | undefined> {
  return (await knownSettings(cluster, { type: 'topic', name: topic }, [name])).get(name)
}

async function matching(cluster: KafkaCluster, pattern: string): Promise<Diagnosis> {
  const check = `topics ${pattern}`
  const [, source, flags] = /^\/(.*)\/([a-z]*)$/s.exec(pattern) ?? []
  const expression = new RegExp(source ?? pattern, flags)
  const topics = (await cluster.describeTopics()).filter(({ topic: name, internal }) => {
    expression.lastIndex = 0
    return !internal && expression.test(name)
  })
  return topics.length === 0
    ? skipped(check, 'no topic matches yet; the job waits for one')
    : ok(check, `${topics.length} topics match now`)
}

async function sourceGroup(cluster: KafkaCluster, group: string): Promise<Diagnosis> {
  const check = `group ${group}`
  const now = await groupNow(cluster, group)
  const rights = now === undefined ? undefined : missingGroupRights(check, group, now)
  if (rights !== undefined) return rights
  const members = now?.members.length ?? 0
  if (members > 0)
    return fix(
      check,
      `${members} consumers are members of it: their commits and those of the job would overwrite each other`,
      'Give the source a groupId of its own, or stop the other consumers.',
    )
  return ok(check, 'free for the positions of the job')
}

async function transactions(
  cluster: KafkaCluster,
  { name, sink }: BoundSink,
  { settings, maxTransactionTimeoutMs, bounded }: DiagnosedJob,
): Promise<readonly Diagnosis[]> {
  const check = `sink '${name}'`
  try {
    await checkSinks(cluster, [{ name, sink }], settings, { maxTransactionTimeoutMs, bounded })
  } catch (error) {
    // That a topic is missing is said of the topic.
    if (isMillraceError(error) && error.code === 'MILLRACE_TOPIC_MISSING') return []
    throw error
  }
  const { intervalMs, timeoutMs } = settings.checkpointing
  return [
    ok(
      check,
      intervalMs === undefined
        ? `transactions live until the bounded job ends: at most ${sink.transactionTimeoutMs} ms`
        : `transaction time-out ${sink.transactionTimeoutMs} ms holds checkpoint interval ${intervalMs} ms + timeout ${timeoutMs} ms; the brokers allow ${maxTransactionTimeoutMs} ms`,
    ),
  ]
}

async function prefixes(cluster: KafkaCluster, { jobName, sinks, logger }: DiagnosedJob): Promise<Diagnosis> {
  await checkPrefixHolders(cluster, jobName, sinks, logger)
  return ok('transactional id prefixes', 'no other running job holds one of this job')
}

/** A running job with another graph would refuse this one. */
async function workers(cluster: KafkaCluster, { jobName, graph }: DiagnosedJob): Promise<Diagnosis> {
  const check = 'worker group'
  const group = workerGroupId(jobName)
  const now = await groupNow(cluster, group)
  const rights = now === undefined ? undefined : missingGroupRights(check, group, now)
  if (rights !== undefined) return rights
  if (now === undefined || now.members.length === 0)
    return ok(check, `group ${group} has no members: the job does not run`)
  const { members, protocol, protocolType } = now
  if (protocolType !== 'millrace')
    return fix(
      check,
      `group ${group} has ${members.length} members that are no workers of Millrace`,
      'Give the job another name, or the consumers another group.',
    )
  if (protocol !== '' && protocol !== graph.fingerprint)
    return fix(
      check,
      `${members.length} workers run another graph under the name '${jobName}'; this one would be refused`,
      'Stop them first, set on-fingerprint-mismatch to wait, or give this job another name.',
    )
  return ok(check, `${members.length} workers run this job now; one more would stand by`)
}

async function ownTopic(
  cluster: KafkaCluster,
  { jobName, replicationFactor }: DiagnosedJob,
  kind: OwnTopic,
): Promise<Diagnosis> {
  const name = jobTopic(jobName, kind)
  const check = `topic ${name}`
  const needs: ResourceOperation[] = ['Read', 'Write', 'Describe']
  const [described] = await cluster.describeTopics([name], { operations: true })
  if (described === undefined) return ownTopicToCome(cluster, jobName, kind, replicationFactor)
  if (described.partitions.length !== 1)
    return fix(
      check,
      `it has ${described.partitions.length} partitions and must have one`,
      'Delete the topic if it holds nothing you need, or give the job another name.',
    )
  const { operations } = described
  const missing = operations === undefined ? [] : needs.filter((operation) => !operations.has(operation))
  if (missing.length > 0)
    return fix(
      check,
      `the principal may not ${missing.join(', ')} it`,
      `Give the principal ${missing.join(', ')} on topic ${name}.`,
    )
  const policy = kind === 'checkpoints' ? await setting(cluster, name, 'cleanup.policy') : undefined
  if (policy !== undefined && policy !== 'compact')
    return fix(
      check,
      `cleanup.policy is ${policy}: checkpoints would be removed by time`,
      `Set cleanup.policy=compact on ${name}.`,
    )
  return durability(cluster, described, check, true, "it is the job's own")
}
