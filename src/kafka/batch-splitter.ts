/**
 * Cuts a batch that a topic is too small for (its `max.message.bytes` is below the producer's batch size) into halves.
 * The halves carry the same records under the same sequence numbers: the broker refused the whole, so it has seen none of them.
 */
import type { TopicPartition } from './kafka-cluster.ts'
import { RecordBatchReader } from './record-batch.ts'
import { RecordBatchBuilder, type RecordBatchBuilderOptions } from './record-batch-builder.ts'
import { readBatchHeader } from './record-batch-header.ts'

/** A finished batch on its way out. */
export interface SealedBatch {
  readonly bytes: Buffer
  readonly count: number
  /** See `RecordBatchBuilder.recordsCrc`. */
  readonly recordsCrc: number
}

/** The sequence number that follows a batch: after 2^31 - 1 comes 0; -1, which stands for none, stays. */
export function sequenceAfter(baseSequence: number, count: number): number {
  return baseSequence < 0 ? baseSequence : (baseSequence + count) % 2 ** 31
}

/** Two batches with the records of `batch`, which must have more than one. `batch` itself is not needed any more afterwards. */
export function splitBatch(
  batch: SealedBatch,
  place: TopicPartition,
  options: Pick<RecordBatchBuilderOptions, 'compression' | 'pool'>,
): SealedBatch[] {
  const { bytes } = batch
  const header = readBatchHeader(bytes, 0, bytes.length, place)
  const reader = new RecordBatchReader(place.topic, place.partition)
  // What was built may be taken apart, whatever its size.
  const builder = new RecordBatchBuilder({ ...options, maxBytes: Number.MAX_SAFE_INTEGER })
  const halves: SealedBatch[] = []
  let baseSequence = header.baseSequence
  const seal = () => {
    const { producerId, producerEpoch, isTransactional } = header
    const { count } = builder
    const half = builder.build({ producerId, producerEpoch, baseSequence, transactional: isTransactional })
    halves.push({ bytes: half, count, recordsCrc: builder.recordsCrc })
    baseSequence = sequenceAfter(baseSequence, count)
    builder.reset()
  }
  reader.open(bytes, 0n, undefined)
  while (reader.next()) {
    const { buffer, keyStart, keyEnd, valueStart, valueEnd, timestamp } = reader
    builder.append(
      keyStart < 0 ? null : buffer.subarray(keyStart, keyEnd),
      valueStart < 0 ? null : buffer.subarray(valueStart, valueEnd),
      timestamp,
      reader.headers(),
    )
    if (halves.length === 0 && builder.count === Math.ceil(batch.count / 2)) seal()
  }
  seal()
  return halves
}
