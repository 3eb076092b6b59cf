/** A group as it is now, for whoever only looks. */
import { KafkaError } from '../errors.ts'
import type { CallOptions, DescribedGroup, KafkaCluster } from './kafka-cluster.ts'

/** GROUP_ID_NOT_FOUND of newer brokers; older ones tell of a dead group without members. */
const GROUP_ID_NOT_FOUND = 69

/** Undefined if nobody has used it and the brokers say no more of it. */
export async function groupNow(
  cluster: KafkaCluster,
  group: string,
  options?: CallOptions,
): Promise<DescribedGroup | undefined> {
  try {
    return await cluster.describeGroup(group, options)
  } catch (error) {
    if (error instanceof KafkaError && error.brokerCode === GROUP_ID_NOT_FOUND) return undefined
    throw error
  }
}

/** How many members it has; one that died counts until its session is over. */
export async function membersIn(
  cluster: KafkaCluster,
  group: string,
  options?: CallOptions,
): Promise<number> {
  return (await groupNow(cluster, group, options))?.members.length ?? 0
}
