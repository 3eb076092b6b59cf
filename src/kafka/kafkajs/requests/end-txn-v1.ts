import type { ProducerIdentity } from '../../kafka-cluster.ts'
import type { RequestKind } from '../request.ts'

/**
 * EndTxn v1, and never a newer one: from v5 on a broker moves the epoch at each end, and a commit that is replayed after
 * a crash would not be recognised by the identity that the checkpoint holds.
 */
export const endTxnV1: RequestKind<
  { readonly producer: ProducerIdentity; readonly commit: boolean },
  { readonly errorCode: number }
> = {
  api: 'EndTxn',
  apiKey: 26,
  version: 1,
  flexible: false,
  encode(out, { producer, commit }) {
    out.string(producer.transactionalId).int64(producer.producerId).int16(producer.producerEpoch).bool(commit)
  },
  decode(body) {
    body.int32()
    return { errorCode: body.int16() }
  },
}
