import type { RequestKind } from '../request.ts'
import type { TopicOutcome } from './create-topics-v4.ts'

/** CreatePartitions v1: raises the number of partitions of a topic; the brokers choose the replicas. */
export const createPartitionsV1: RequestKind<
  { readonly topic: string; readonly totalCount: number; readonly timeoutMs: number },
  readonly TopicOutcome[]
> = {
  api: 'CreatePartitions',
  apiKey: 37,
  version: 1,
  flexible: false,
  encode(out, { topic, totalCount, timeoutMs }) {
    out.int32(1).string(topic).int32(totalCount).int32(-1)
    out.int32(timeoutMs).bool(false)
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
