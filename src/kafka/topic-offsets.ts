/** Where partition 0 of one of the job's own topics begins and ends. */
import { MillraceError } from '../errors.ts'
import { type IsolationLevel, type KafkaCluster, KafkaCode } from './kafka-cluster.ts'

/** Next offset that will be written; with read_committed the last stable offset. */
export function endOffset(
  cluster: KafkaCluster,
  topic: string,
  isolation: IsolationLevel = 'read_uncommitted',
): Promise<bigint> {
  return listed(cluster, topic, 'latest', isolation)
}

/** First offset that is still there. */
export function startOffset(cluster: KafkaCluster, topic: string): Promise<bigint> {
  return listed(cluster, topic, 'earliest', 'read_uncommitted')
}

async function listed(
  cluster: KafkaCluster,
  topic: string,
  at: 'earliest' | 'latest',
  isolation: IsolationLevel,
): Promise<bigint> {
  const [found] = await cluster.listOffsets([{ topic, partition: 0 }], at, isolation)
  if (found === undefined || found.errorCode !== KafkaCode.NONE)
    throw new MillraceError(
      'MILLRACE_KAFKA_PROTOCOL',
      `cannot look up the ${at === 'latest' ? 'end' : 'start'} of ${topic}: broker error ${found?.errorCode ?? -1}`,
      { retriable: true },
    )
  return found.offset
}
