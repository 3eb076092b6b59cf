/** Walks the raw batches of a partition, uncommitted ones included: what a transaction's fate and its healing are decided by. */
import type { World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { type KafkaCluster, KafkaCode, type TopicPartition } from './kafka-cluster.ts'
import { type BatchHeader, readBatchHeaders } from './record-batch-header.ts'

const FETCH_BYTES = 1 << 20
/** A fetch that keeps answering with a moved leader or an unknown partition is given up after so many tries. */
const MAX_REFUSALS = 100
const REFUSAL_PAUSE_MS = 100

/** One batch and the bytes it lies in. */
export interface RawBatch {
  readonly header: BatchHeader
  /** The fetched bytes; the batch is `[header.start, header.end)`. */
  readonly records: Buffer
}

/**
 * Batches from `from` up to the end of the log as it is when the walk gets there. Stops when `visit` returns true.
 * Resolves with 'stopped', 'end', or 'gone' when the log begins after `from`.
 */
export async function scanPartition(
  cluster: KafkaCluster,
  world: World,
  partition: TopicPartition,
  from: bigint,
  visit: (batch: RawBatch) => boolean,
): Promise<'stopped' | 'end' | 'gone'> {
  let position = from
  let maxBytes = FETCH_BYTES
  for (let refusals = 0; refusals < MAX_REFUSALS; ) {
    const [answer] = await cluster.fetch({
      isolation: 'read_uncommitted',
      partitions: [{ ...partition, offset: position, maxBytes }],
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes,
    })
    if (answer?.errorCode === KafkaCode.OFFSET_OUT_OF_RANGE) return 'gone'
    if (answer === undefined || answer.errorCode !== KafkaCode.NONE) {
      refusals++
      await world.timers.sleep(REFUSAL_PAUSE_MS)
      continue
    }
    const headers = readBatchHeaders(answer.records, partition)
    for (const header of headers) {
      if (header.lastOffset < position) continue
      if (visit({ header, records: answer.records })) return 'stopped'
      position = header.lastOffset + 1n
    }
    if (headers.length > 0) continue
    if (position >= answer.highWatermark) return 'end'
    // A batch larger than what was asked for.
    maxBytes *= 2
  }
  throw new MillraceError(
    'MILLRACE_KAFKA_UNREACHABLE',
    `${partition.topic}-${partition.partition} cannot be read`,
  )
}
