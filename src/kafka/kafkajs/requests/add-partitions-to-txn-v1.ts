import type { ProducerIdentity, TopicPartition } from '../../kafka-cluster.ts'
import { byTopic, type RequestKind } from '../request.ts'

/** AddPartitionsToTxn v1. If one partition is refused, none is added: the others answer OPERATION_NOT_ATTEMPTED. */
export const addPartitionsToTxnV1: RequestKind<
  { readonly producer: ProducerIdentity; readonly partitions: readonly TopicPartition[] },
  readonly (TopicPartition & { readonly errorCode: number })[]
> = {
  api: 'AddPartitionsToTxn',
  apiKey: 24,
  version: 1,
  flexible: false,
  encode(out, { producer, partitions }) {
    out.string(producer.transactionalId).int64(producer.producerId).int16(producer.producerEpoch)
    out.array(byTopic(partitions), ([topic, parts]) =>
      out.string(topic).array(parts, ({ partition }) => out.int32(partition)),
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
