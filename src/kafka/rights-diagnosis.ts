/**
 * What the brokers let this principal do, as far as that can be found out without doing it: rights on groups are told with the group, a topic
 * can be made for a trial, and a transactional id that may not be described is refused by another code than one that nobody has used.
 */
import { type Diagnosis, fix, ok, skipped } from '../core/diagnosis.ts'
import { isMillraceError, KafkaError } from '../errors.ts'
import type { BoundSink } from './connector-binding.ts'
import { type DescribedGroup, type KafkaCluster, KafkaCode, type ResourceOperation } from './kafka-cluster.ts'
import { type OwnTopic, ownTopic } from './own-topics.ts'
import { coordinatorId, jobTopic, transactionalId, transactionalIdPrefix } from './transactional-id.ts'

/** Joining, committing offsets, and looking at both. */
const GROUP_NEEDS: readonly ResourceOperation[] = ['Read', 'Describe']

/** Undefined if nothing is missing, as far as the brokers tell. */
export function missingGroupRights(
  check: string,
  group: string,
  { operations }: Pick<DescribedGroup, 'operations'>,
): Diagnosis | undefined {
  const missing = operations === undefined ? [] : GROUP_NEEDS.filter((each) => !operations.has(each))
  return missing.length === 0
    ? undefined
    : fix(
        check,
        `the principal may not ${missing.join(', ')} it`,
        `Give the principal ${missing.join(', ')} on group ${group}.`,
      )
}

/** One of the job's own topics that is not there: whether the job could make it. */
export async function ownTopicToCome(
  cluster: KafkaCluster,
  jobName: string,
  kind: OwnTopic,
  replicationFactor: number,
): Promise<Diagnosis> {
  const name = jobTopic(jobName, kind)
  const check = `topic ${name}`
  const topic = await ownTopic(cluster, jobName, kind, replicationFactor)
  try {
    await cluster.createTopics([topic], { validateOnly: true })
  } catch (error) {
    const refusal = error instanceof KafkaError ? refusalOf(error, name, topic.replicationFactor) : undefined
    if (refusal === undefined) throw error
    return fix(check, refusal.message, refusal.remedy)
  }
  return ok(
    check,
    `the job makes it when it starts for the first time: the brokers would let it, with ${topic.replicationFactor} replica${topic.replicationFactor === 1 ? '' : 's'}`,
  )
}

function refusalOf(
  { brokerCode, message }: KafkaError,
  topic: string,
  replicas: number,
): { readonly message: string; readonly remedy: string } | undefined {
  switch (brokerCode) {
    case KafkaCode.TOPIC_AUTHORIZATION_FAILED:
    case KafkaCode.CLUSTER_AUTHORIZATION_FAILED:
      return {
        message: 'it does not exist, and the principal may not make it',
        remedy: `Give the principal Create on topic ${topic}, or create it before (scripts/create-topics.ts --job).`,
      }
    case KafkaCode.INVALID_REPLICATION_FACTOR:
      return {
        message: `it does not exist, and the brokers refuse ${replicas} replicas: ${message}`,
        remedy:
          'Set kafka.job-topics.replication-factor to what the cluster can hold, or start more brokers.',
      }
    case KafkaCode.POLICY_VIOLATION:
      return {
        message: `it does not exist, and a policy of the brokers refuses it: ${message}`,
        remedy: `Create ${topic} as the policy demands (scripts/create-topics.ts --job shows how), or set kafka.job-topics.replication-factor.`,
      }
    default:
      return undefined
  }
}

/** Rights on transactional ids: Describe can be seen, Write only by a start that would fence a running job. */
export async function transactionalIds(
  cluster: KafkaCluster,
  jobName: string,
  sinks: readonly BoundSink[],
): Promise<Diagnosis> {
  const check = 'transactional ids'
  const coordinator = coordinatorId(jobName)
  const own = coordinator.slice(0, coordinator.lastIndexOf('.') + 1)
  const ids = [
    { id: coordinator, prefix: own },
    ...sinks
      .filter(({ sink }) => sink.exactlyOnce)
      .map(({ uid, sink }) => {
        const { transactionalIdPrefix: set } = sink.options
        const id = transactionalId(transactionalIdPrefix(jobName, uid, set), 0, 0)
        return { id, prefix: set === undefined ? own : `${set}.` }
      }),
  ]
  for (const { id, prefix } of ids)
    try {
      await cluster.describeTransactions([id])
    } catch (error) {
      if (!(isMillraceError(error) && error.code === 'MILLRACE_KAFKA_UNAUTHORIZED')) throw error
      return fix(
        check,
        `the principal may not Describe transactional id ${id}`,
        `Give the principal Write, Describe on transactional ids with the prefix ${prefix}`,
      )
    }
  return skipped(
    check,
    'Describe is allowed; whether Write is too cannot be seen without fencing a job that runs',
  )
}
