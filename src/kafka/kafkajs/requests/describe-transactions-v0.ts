import type { DescribedTransaction, TopicPartition, TransactionState } from '../../kafka-cluster.ts'
import type { RequestKind } from '../request.ts'

/** A broker names the start of the last transaction also when it has ended. */
const OPEN: ReadonlySet<TransactionState> = new Set([
  'Ongoing',
  'PrepareCommit',
  'PrepareAbort',
  'PrepareEpochFence',
])

/** The broker answers an empty state together with an error code. */
function stateOf(name: string): TransactionState {
  return name === '' ? 'Unknown' : (name as TransactionState)
}

/** DescribeTransactions v0: to the coordinator of the ids. */
export const describeTransactionsV0: RequestKind<readonly string[], readonly DescribedTransaction[]> = {
  api: 'DescribeTransactions',
  apiKey: 65,
  version: 0,
  flexible: true,
  encode(out, transactionalIds) {
    out.compactArray(transactionalIds, (id) => out.compactString(id)).tags()
  },
  decode(body) {
    body.int32()
    return body.compactArray(() => {
      const head = {
        errorCode: body.int16(),
        transactionalId: body.compactString(),
        state: stateOf(body.compactString()),
        timeoutMs: body.int32(),
        startTimeMs: body.int64(),
        producerId: body.int64(),
        producerEpoch: body.int16(),
      }
      const partitions: TopicPartition[] = []
      body.compactArray(() => {
        const topic = body.compactString()
        body.compactArray(() => partitions.push({ topic, partition: body.int32() }))
        body.tags()
      })
      body.tags()
      return { ...head, startTimeMs: OPEN.has(head.state) ? head.startTimeMs : -1n, partitions }
    })
  },
}
