import type { ProducerIdentity } from '../../kafka-cluster.ts'
import type { RequestKind } from '../request.ts'

/** AddOffsetsToTxn v1: adds a group's offsets partition to a transaction. */
export const addOffsetsToTxnV1: RequestKind<
  { readonly producer: ProducerIdentity; readonly groupId: string },
  { readonly errorCode: number }
> = {
  api: 'AddOffsetsToTxn',
  apiKey: 25,
  version: 1,
  flexible: false,
  encode(out, { producer, groupId }) {
    out
      .string(producer.transactionalId)
      .int64(producer.producerId)
      .int16(producer.producerEpoch)
      .string(groupId)
  },
  decode(body) {
    body.int32()
    return { errorCode: body.int16() }
  },
}
