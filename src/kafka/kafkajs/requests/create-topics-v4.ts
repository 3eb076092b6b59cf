import type { NewTopic } from '../../kafka-cluster.ts'
import type { RequestKind } from '../request.ts'

/** What became of one topic. */
export interface TopicOutcome {
  readonly topic: string
  readonly errorCode: number
  readonly errorMessage: string | null
}

/** CreateTopics v4: the first version with the broker's default replication factor (-1). */
export const createTopicsV4: RequestKind<
  { readonly topics: readonly NewTopic[]; readonly timeoutMs: number; readonly validateOnly: boolean },
  readonly TopicOutcome[]
> = {
  api: 'CreateTopics',
  apiKey: 19,
  version: 4,
  flexible: false,
  encode(out, { topics, timeoutMs, validateOnly }) {
    out.array(topics, ({ topic, partitions, replicationFactor, configs }) => {
      out.string(topic).int32(partitions).int16(replicationFactor).int32(0)
      out.array(Object.entries(configs ?? {}), ([name, value]) => out.string(name).nullableString(value))
    })
    out.int32(timeoutMs).bool(validateOnly)
  },
  decode(body) {
    body.int32()
    return body.array(() => ({
      topic: body.string(),
      errorCode: body.int16(),
      errorMessage: body.nullableString(),
    }))
  },
}
