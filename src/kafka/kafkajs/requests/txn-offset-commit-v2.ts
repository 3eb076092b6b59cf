import type { GroupOffsetCommit, ProducerIdentity, TopicPartition } from '../../kafka-cluster.ts'
import { byTopic, type RequestKind } from '../request.ts'

/** TxnOffsetCommit v2: group offsets that become visible when the transaction commits. */
export const txnOffsetCommitV2: RequestKind<
  {
    readonly producer: ProducerIdentity
    readonly groupId: string
    readonly offsets: readonly GroupOffsetCommit[]
  },
  readonly (TopicPartition & { readonly errorCode: number })[]
> = {
  api: 'TxnOffsetCommit',
  apiKey: 28,
  version: 2,
  flexible: false,
  encode(out, { producer, groupId, offsets }) {
    out
      .string(producer.transactionalId)
      .string(groupId)
      .int64(producer.producerId)
      .int16(producer.producerEpoch)
    out.array(byTopic(offsets), ([topic, parts]) =>
      out.string(topic).array(parts, ({ partition, offset, metadata }) =>
        out
          .int32(partition)
          .int64(offset)
          .int32(-1)
          .nullableString(metadata ?? null),
      ),
    )
  },
  decode(body) {
    body.int32()
    const results: (TopicPartition & { errorCode: number })[] = []
    body.array(() => {
      const topic = body.string()
      body.array(() => results.push({ topic, partition: body.int32(), errorCode: body.int16() }))
    })
    return results
  },
}
