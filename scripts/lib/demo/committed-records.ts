/**
 * Reads partitions as a read_committed consumer must, with a decoder of its own: the demo judges by what this reads, so it shares no code with
 * the source. (kafkajs's consumer is no judge: it takes the list of aborted transactions as sorted by their first offset, which Kafka does not
 * promise, and hands out records of aborted transactions that overlap.)
 */
import type { FetchedPartition, KafkaCluster, TopicPartition } from '../../../src/kafka/kafka-cluster.ts'
import {
  decodePlainRecords,
  markerOf,
  readBatchHeader,
  splitBatches,
} from '../../../src/testing/plain-batch.ts'

const FETCH_BYTES = 4 << 20
const POLL_MS = 50

/** What the reader needs of a cluster. */
export type ReaderCluster = Pick<KafkaCluster, 'fetch' | 'listOffsets'>

/** Calls `visit` with the value of every committed record of the partition. @throws Error if a transaction is still open after `timeoutMs`. */
export async function readCommitted(
  cluster: ReaderCluster,
  partition: TopicPartition,
  visit: (value: string) => void,
  timeoutMs: number,
): Promise<void> {
  const end = await decidedEnd(cluster, partition, timeoutMs)
  let position = 0n
  while (position < end) {
    const [answer] = await cluster.fetch({
      isolation: 'read_committed',
      partitions: [{ ...partition, offset: position, maxBytes: FETCH_BYTES }],
      maxWaitMs: POLL_MS,
      minBytes: 1,
      maxBytes: FETCH_BYTES,
    })
    if (answer === undefined || answer.errorCode !== 0)
      throw new Error(`cannot read ${partition.topic}-${partition.partition}: error ${answer?.errorCode}`)
    position = visitCommitted(answer, position, visit)
  }
}

/** Visits what is committed in one answer to a fetch; returns the offset to go on from. */
export function visitCommitted(
  answer: Pick<FetchedPartition, 'abortedTransactions' | 'records'>,
  from: bigint,
  visit: (value: string) => void,
): bigint {
  let position = from
  const upcoming = answer.abortedTransactions.toSorted((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1))
  const aborted = new Set<bigint>()
  for (const batch of splitBatches(answer.records)) {
    const { baseOffset, lastOffsetDelta, producerId, control, transactional } = readBatchHeader(batch)!
    const last = baseOffset + BigInt(lastOffsetDelta)
    while (upcoming[0] !== undefined && upcoming[0].firstOffset <= last)
      aborted.add(upcoming.shift()!.producerId)
    if (control) {
      if (markerOf(batch) === 'ABORT') aborted.delete(producerId)
    } else if (!transactional || !aborted.has(producerId)) {
      for (const { offset, value } of decodePlainRecords(batch))
        if (offset >= position) visit(value?.toString() ?? '')
    }
    if (last >= position) position = last + 1n
  }
  return position
}

/** The end of the log, once every transaction before it is decided. */
async function decidedEnd(
  cluster: ReaderCluster,
  partition: TopicPartition,
  timeoutMs: number,
): Promise<bigint> {
  const endAs = async (isolation: 'read_committed' | 'read_uncommitted'): Promise<bigint> => {
    const [listed] = await cluster.listOffsets([partition], 'latest', isolation)
    if (listed === undefined || listed.errorCode !== 0)
      throw new Error(
        `cannot look up the end of ${partition.topic}-${partition.partition}: error ${listed?.errorCode}`,
      )
    return listed.offset
  }
  const end = await endAs('read_uncommitted')
  const deadline = Date.now() + timeoutMs
  while ((await endAs('read_committed')) < end) {
    if (Date.now() > deadline)
      throw new Error(
        `a transaction in ${partition.topic}-${partition.partition} was left open: it is not decided after ${timeoutMs / 1_000} s`,
      )
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  return end
}
