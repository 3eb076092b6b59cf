/**
 * Two jobs with one transactionalIdPrefix. Their ids differ, since an id names its job, but whoever sets a prefix means to own it: rights are
 * given by it, and `millrace transactions abort <prefix>` ends everything below it. So a prefix that a running job holds is refused.
 */
import type { Logger } from '../core/ports.ts'
import { ConfigError, isMillraceError } from '../errors.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import type { KafkaSink } from './kafka-sink.ts'
import { ownerOfId, workerGroupId, workerGroupOf } from './transactional-id.ts'

/**
 * Looks for other jobs with ids below the prefixes of these sinks, and asks their worker groups whether they run: ids of a job that has
 * ended stay listed for a week. Without the permission to list, or to describe a group, nothing is refused.
 * @throws ConfigError MILLRACE_TRANSACTIONAL_ID_HELD naming sink, prefix and the job that holds it.
 */
export async function checkPrefixHolders(
  cluster: KafkaCluster,
  jobName: string,
  sinks: readonly { readonly name: string; readonly sink: KafkaSink<any> }[],
  logger: Logger,
): Promise<void> {
  const owners = new Map<string, string>()
  for (const { name, sink } of sinks) {
    const prefix = sink.options.transactionalIdPrefix
    if (sink.exactlyOnce && prefix !== undefined) owners.set(prefix, name)
  }
  if (owners.size === 0) return
  const own = workerGroupId(jobName)
  const others = new Map<string, { readonly job: string; readonly prefix: string }>()
  for (const { transactionalId } of await cluster.listTransactions()) {
    const owner = ownerOfId(transactionalId)
    if (owner?.userPrefix === undefined || !owners.has(owner.userPrefix)) continue
    const group = workerGroupOf(owner.job)
    if (group !== own) others.set(group, { job: owner.job, prefix: owner.userPrefix })
  }
  for (const [group, { job, prefix }] of others)
    if (await hasMembers(cluster, group, logger))
      throw new ConfigError(
        'MILLRACE_TRANSACTIONAL_ID_HELD',
        `sink '${owners.get(prefix)}': transactionalIdPrefix '${prefix}' is held by job '${job}', which is running`,
        { details: { prefix, job } },
      )
}

async function hasMembers(cluster: KafkaCluster, group: string, logger: Logger): Promise<boolean> {
  try {
    return (await cluster.describeGroup(group)).members.length > 0
  } catch (error) {
    if (!isMillraceError(error) || error.code !== 'MILLRACE_KAFKA_UNAUTHORIZED') throw error
    logger.warn(
      `cannot see whether the job of group ${group} runs: it uses a transactionalIdPrefix of this job`,
    )
    return false
  }
}
