import type { FetchedPartition, FetchRequest } from '../../kafka-cluster.ts'
import { byTopic, type RequestKind } from '../request.ts'

/** Fetch v11, without a fetch session. Only the envelope is read: `records` is a view into the response. */
export const fetchV11: RequestKind<
  FetchRequest,
  {
    readonly throttleMs: number
    readonly errorCode: number
    readonly partitions: readonly FetchedPartition[]
  }
> = {
  api: 'Fetch',
  apiKey: 1,
  version: 11,
  flexible: false,
  encode(out, { isolation, partitions, maxWaitMs, minBytes, maxBytes }) {
    out.int32(-1).int32(maxWaitMs).int32(minBytes).int32(maxBytes)
    out.int8(isolation === 'read_committed' ? 1 : 0)
    out.int32(0).int32(-1)
    out.array(byTopic(partitions), ([topic, parts]) =>
      out
        .string(topic)
        .array(parts, (part) =>
          out.int32(part.partition).int32(-1).int64(part.offset).int64(-1n).int32(part.maxBytes),
        ),
    )
    out.int32(0).string('')
  },
  decode(body) {
    const throttleMs = body.int32()
    const errorCode = body.int16()
    body.int32()
    const partitions: FetchedPartition[] = []
    body.array(() => {
      const topic = body.string()
      body.array(() => {
        const head = {
          topic,
          partition: body.int32(),
          errorCode: body.int16(),
          highWatermark: body.int64(),
          lastStableOffset: body.int64(),
          logStartOffset: body.int64(),
        }
        const abortedTransactions = body.array(() => ({
          producerId: body.int64(),
          firstOffset: body.int64(),
        }))
        body.int32()
        partitions.push({ ...head, abortedTransactions, records: body.bytes() })
      })
    })
    return { throttleMs, errorCode, partitions }
  },
}
