import type { TopicPartition } from '../kafka-cluster.ts'
import type { RequestWriter } from './request-writer.ts'
import type { ResponseReader } from './response-reader.ts'

/** One request of Kafka's protocol at one version: how it is written and how its answer is read. */
export interface RequestKind<Input, Output> {
  readonly api: string
  readonly apiKey: number
  readonly version: number
  /** Flexible versions have tagged fields in the headers too (KIP-482). */
  readonly flexible: boolean
  encode(out: RequestWriter, input: Input): void
  decode(body: ResponseReader): Output
}

/** Partitions by topic, in the order in which they come: the shape that most requests have. */
export function byTopic<P extends TopicPartition>(
  partitions: readonly P[],
): readonly (readonly [topic: string, partitions: readonly P[]])[] {
  const topics = new Map<string, P[]>()
  for (const partition of partitions) {
    const list = topics.get(partition.topic)
    if (list === undefined) topics.set(partition.topic, [partition])
    else list.push(partition)
  }
  return [...topics]
}
