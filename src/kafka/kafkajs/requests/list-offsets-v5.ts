import type { IsolationLevel, ListedOffset, TopicPartition } from '../../kafka-cluster.ts'
import { byTopic, type RequestKind } from '../request.ts'

/** The time that asks for the end of the log. */
export const TIMESTAMP_LATEST = -1n
/** The time that asks for the start of the log. */
export const TIMESTAMP_EARLIEST = -2n

/** ListOffsets v5. */
export const listOffsetsV5: RequestKind<
  {
    readonly isolation: IsolationLevel
    readonly partitions: readonly TopicPartition[]
    readonly timestamp: bigint
  },
  readonly ListedOffset[]
> = {
  api: 'ListOffsets',
  apiKey: 2,
  version: 5,
  flexible: false,
  encode(out, { isolation, partitions, timestamp }) {
    out.int32(-1).int8(isolation === 'read_committed' ? 1 : 0)
    out.array(byTopic(partitions), ([topic, parts]) =>
      out.string(topic).array(parts, ({ partition }) => out.int32(partition).int32(-1).int64(timestamp)),
    )
  },
  decode(body) {
    body.int32()
    const offsets: ListedOffset[] = []
    body.array(() => {
      const topic = body.string()
      body.array(() => {
        const partition = body.int32()
        const errorCode = body.int16()
        body.int64()
        offsets.push({ topic, partition, errorCode, offset: body.int64() })
        body.int32()
      })
    })
    return offsets
  },
}
