/** Settings of topics and brokers, as far as the principal may see them. */
import { isMillraceError } from '../errors.ts'
import type { KafkaCluster } from './kafka-cluster.ts'

/** By name; without what has no value, and empty when we may not ask. */
export async function knownSettings(
  cluster: Pick<KafkaCluster, 'describeConfigs'>,
  resource: { readonly type: 'topic' | 'broker'; readonly name: string },
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  try {
    const entries = await cluster.describeConfigs(resource, names)
    return new Map(entries.flatMap(({ name, value }) => (value === null ? [] : [[name, value]])))
  } catch (error) {
    if (isMillraceError(error) && error.code === 'MILLRACE_KAFKA_UNAUTHORIZED') return new Map()
    throw error
  }
}
