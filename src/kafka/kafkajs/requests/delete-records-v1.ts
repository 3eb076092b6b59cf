import type { TopicPartition } from '../../kafka-cluster.ts'
import { byTopic, type RequestKind } from '../request.ts'

/** DeleteRecords v1: moves the start of logs up. */
export const deleteRecordsV1: RequestKind<
  {
    readonly partitions: readonly (TopicPartition & { readonly beforeOffset: bigint })[]
    readonly timeoutMs: number
  },
  readonly (TopicPartition & { readonly errorCode: number; readonly lowWatermark: bigint })[]
> = {
  api: 'DeleteRecords',
  apiKey: 21,
  version: 1,
  flexible: false,
  encode(out, { partitions, timeoutMs }) {
    out.array(byTopic(partitions), ([topic, parts]) =>
      out
        .string(topic)
        .array(parts, ({ partition, beforeOffset }) => out.int32(partition).int64(beforeOffset)),
    )
    out.int32(timeoutMs)
  },
  decode(body) {
    body.int32()
    const results: (TopicPartition & { errorCode: number; lowWatermark: bigint })[] = []
    body.array(() => {
      const topic = body.string()
      body.array(() => {
        const partition = body.int32()
        const lowWatermark = body.int64()
        results.push({ topic, partition, lowWatermark, errorCode: body.int16() })
      })
    })
    return results
  },
}
