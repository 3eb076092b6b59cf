/** The two topics that a job makes for itself: the same for whoever makes them and for whoever looks whether they could be made. */
import type { KafkaCluster, NewTopic } from './kafka-cluster.ts'
import { jobTopic } from './transactional-id.ts'

/** Commands and events are of interest for this long. */
const CONTROL_RETENTION_MS = 7 * 24 * 3_600_000

export type OwnTopic = 'checkpoints' | 'control'

/** `replicationFactor`: -1 = min(3, brokers). */
export async function ownTopic(
  cluster: KafkaCluster,
  jobName: string,
  kind: OwnTopic,
  replicationFactor: number,
): Promise<NewTopic> {
  const { brokers } = await cluster.describeCluster()
  const replicas = replicationFactor > 0 ? replicationFactor : Math.min(3, brokers.length)
  return {
    topic: jobTopic(jobName, kind),
    partitions: 1,
    replicationFactor: replicas,
    configs:
      kind === 'control'
        ? {
            'cleanup.policy': 'delete',
            'retention.ms': String(CONTROL_RETENTION_MS),
            'segment.bytes': String(16 << 20),
          }
        : {
            'cleanup.policy': 'compact',
            'min.insync.replicas': String(Math.max(1, replicas - 1)),
            'segment.bytes': String(32 << 20),
            'min.cleanable.dirty.ratio': '0.1',
            'max.message.bytes': String(1 << 20),
          },
  }
}
