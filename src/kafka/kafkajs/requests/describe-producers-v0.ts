import type { DescribedProducer, TopicPartition } from '../../kafka-cluster.ts'
import type { RequestKind } from '../request.ts'

/** DescribeProducers v0 of one partition: to its leader. */
export const describeProducersV0: RequestKind<
  TopicPartition,
  {
    readonly errorCode: number
    readonly errorMessage: string | null
    readonly producers: readonly DescribedProducer[]
  }
> = {
  api: 'DescribeProducers',
  apiKey: 61,
  version: 0,
  flexible: true,
  encode(out, { topic, partition }) {
    out.uvarint(2).compactString(topic).uvarint(2).int32(partition).tags().tags()
  },
  decode(body) {
    body.int32()
    const topics = body.compactArray(() => {
      body.compactString()
      const partitions = body.compactArray(() => {
        body.int32()
        const errorCode = body.int16()
        const errorMessage = body.compactNullableString()
        const producers = body.compactArray(() => {
          const producer = {
            producerId: body.int64(),
            producerEpoch: body.int32(),
            lastSequence: body.int32(),
            lastTimestamp: body.int64(),
            coordinatorEpoch: body.int32(),
            currentTxnStartOffset: body.int64(),
          }
          body.tags()
          return producer
        })
        body.tags()
        return { errorCode, errorMessage, producers }
      })
      body.tags()
      return partitions
    })
    return topics[0]?.[0] ?? { errorCode: -1, errorMessage: 'the answer is empty', producers: [] }
  },
}
