import type { ListedTransaction, TransactionState } from '../../kafka-cluster.ts'
import type { RequestKind } from '../request.ts'

/** ListTransactions v0: all transactional ids that one broker coordinates, those without an open transaction included. */
export const listTransactionsV0: RequestKind<
  void,
  { readonly errorCode: number; readonly transactions: readonly ListedTransaction[] }
> = {
  api: 'ListTransactions',
  apiKey: 66,
  version: 0,
  flexible: true,
  encode(out) {
    out.uvarint(1).uvarint(1).tags()
  },
  decode(body) {
    body.int32()
    const errorCode = body.int16()
    body.compactArray(() => body.compactString())
    const transactions = body.compactArray(() => {
      const transaction = {
        transactionalId: body.compactString(),
        producerId: body.int64(),
        state: body.compactString() as TransactionState,
      }
      body.tags()
      return transaction
    })
    return { errorCode, transactions }
  },
}
