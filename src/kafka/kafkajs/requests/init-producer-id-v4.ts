import type { RequestKind } from '../request.ts'

/** InitProducerId v4. With a producer id and epoch it is a compare-and-set; -1 and -1 fence whoever holds the id. */
export const initProducerIdV4: RequestKind<
  {
    readonly transactionalId: string
    readonly transactionTimeoutMs: number
    readonly producerId: bigint
    readonly producerEpoch: number
  },
  { readonly errorCode: number; readonly producerId: bigint; readonly producerEpoch: number }
> = {
  api: 'InitProducerId',
  apiKey: 22,
  version: 4,
  flexible: true,
  encode(out, { transactionalId, transactionTimeoutMs, producerId, producerEpoch }) {
    out
      .compactString(transactionalId)
      .int32(transactionTimeoutMs)
      .int64(producerId)
      .int16(producerEpoch)
      .tags()
  },
  decode(body) {
    body.int32()
    return { errorCode: body.int16(), producerId: body.int64(), producerEpoch: body.int16() }
  },
}
