import type { TopicPartition } from '../../kafka-cluster.ts'
import { byTopic, type RequestKind } from '../request.ts'

/** OffsetFetch v7 with require_stable: UNSTABLE_OFFSET_COMMIT while a transaction holds a newer offset back. */
export const offsetFetchV7: RequestKind<
  { readonly groupId: string; readonly partitions: readonly TopicPartition[] },
  {
    readonly errorCode: number
    readonly partitions: readonly (TopicPartition & { readonly errorCode: number; readonly offset: bigint })[]
  }
> = {
  api: 'OffsetFetch',
  apiKey: 9,
  version: 7,
  flexible: true,
  encode(out, { groupId, partitions }) {
    out.compactString(groupId)
    out.compactArray(byTopic(partitions), ([topic, parts]) =>
      out
        .compactString(topic)
        .compactArray(parts, ({ partition }) => out.int32(partition))
        .tags(),
    )
    out.bool(true).tags()
  },
  decode(body) {
    body.int32()
    const partitions: (TopicPartition & { errorCode: number; offset: bigint })[] = []
    body.compactArray(() => {
      const topic = body.compactString()
      body.compactArray(() => {
        const partition = body.int32()
        const offset = body.int64()
        body.int32()
        body.compactNullableString()
        partitions.push({ topic, partition, offset, errorCode: body.int16() })
        body.tags()
      })
      body.tags()
    })
    return { errorCode: body.int16(), partitions }
  },
}
