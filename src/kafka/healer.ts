/**
 * Healing: the records of a prepared transaction that the broker gave up are read from the log and written again, exactly once
 * (protocol §5.5 and §5.6).
 *
 *   verify all ranges (topic id, count, digest) ──► write again, piece by piece ──► done
 *            │ anything missing or different                 │ killed: the next healer continues after the last piece
 *            ▼                                               ▼
 *   MILLRACE_TRANSACTION_LOST, nothing was written
 *
 * The log still holds aborted records until retention or compaction takes them. All healing ends before any task runs.
 */
import { crc32c } from '@node-rs/crc32'
import { lostCommittable } from '../checkpoint/lost-output.ts'
import type { World } from '../core/ports.ts'
import type { MillraceError } from '../errors.ts'
import { digestText, EMPTY_DIGEST, extendDigest, recordsCrc } from './batch-digest.ts'
import type { HealingLog, RewrittenBatch } from './healing-log.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import { describeCommittable, type KafkaCommittable, type WrittenRange } from './kafka-committable.ts'
import { splitId } from './offsets.ts'
import { type RawBatch, scanPartition } from './partition-scan.ts'
import type { BatchProducerFields } from './record-batch-builder.ts'
import { BatchAttribute, BatchField } from './record-batch-header.ts'

/** Bytes of one healing transaction: large ones go in pieces, so that a killed healer has little to do again. */
const PIECE_BYTES = 4 << 20

/** Name of a transaction in the healing log. */
function nameOf(committable: KafkaCommittable): string {
  return `${committable.transactionalId}:${committable.producerId}:${committable.producerEpoch}`
}

/** Writes the records of an aborted transaction again. @throws MILLRACE_TRANSACTION_LOST when they cannot be had as they were. */
export async function heal(
  cluster: KafkaCluster,
  log: HealingLog,
  world: World,
  committable: KafkaCommittable,
): Promise<void> {
  const name = nameOf(committable)
  const done = log.progress(name)
  // What an earlier healer finished is not looked at again: the log may have lost it since.
  const left = committable.ranges.filter(
    (range) => (done.get(splitId(range)) ?? -1n) <= BigInt(range.lastOffset),
  )
  if (left.length === 0) {
    world.logger.info(`an earlier start had healed ${describeCommittable(committable)}`)
    return
  }
  await verify(cluster, world, committable, left)
  let records = 0
  for (const range of left) {
    const id = splitId(range)
    const last = BigInt(range.lastOffset)
    for (let from = done.get(id) ?? BigInt(range.firstOffset); from <= last; ) {
      const piece = await readPiece(cluster, world, committable, range, from)
      if (piece.batches.length === 0) break
      from = piece.next
      await log.write(name, piece.batches, new Map([[id, from]]))
      for (const batch of piece.batches) records += batch.count
    }
  }
  world.metrics.counter('healed_transactions').inc()
  world.logger.warn(
    `healed: the broker had given up ${describeCommittable(committable)}; ${records} records were written again`,
  )
}

async function verify(
  cluster: KafkaCluster,
  world: World,
  committable: KafkaCommittable,
  ranges: readonly WrittenRange[],
): Promise<void> {
  const topics = await cluster.describeTopics([...new Set(ranges.map((range) => range.topic))])
  for (const range of ranges) {
    const topic = topics.find((t) => t.topic === range.topic)
    if (topic?.topicId !== range.topicId)
      throw lost(
        committable,
        range,
        topic === undefined ? 'the topic was deleted' : 'the topic was deleted and created again',
      )
    let count = 0
    let digest = EMPTY_DIGEST
    const end = await ownBatches(
      cluster,
      world,
      committable,
      range,
      BigInt(range.firstOffset),
      ({ header, records }) => {
        count += header.count
        digest = extendDigest(digest, recordsCrc(records, header, range))
        return false
      },
    )
    if (end === 'gone') throw lost(committable, range, 'retention or DeleteRecords removed them')
    if (count !== range.count)
      throw lost(committable, range, `the log holds ${count} of ${range.count} records`)
    if (digestText(digest) !== range.digest)
      throw lost(committable, range, 'the records in the log are not those that were written')
  }
}

/** Visits the transaction's own batches in the range, in log order. */
function ownBatches(
  cluster: KafkaCluster,
  world: World,
  committable: KafkaCommittable,
  range: WrittenRange,
  from: bigint,
  visit: (batch: RawBatch) => boolean,
): Promise<'stopped' | 'end' | 'gone'> {
  const producerId = BigInt(committable.producerId)
  const last = BigInt(range.lastOffset)
  return scanPartition(cluster, world, range, from, (batch) => {
    const { header } = batch
    if (header.firstOffset > last) return true
    if (
      header.isControl ||
      header.producerId !== producerId ||
      header.producerEpoch !== committable.producerEpoch
    )
      return header.lastOffset >= last
    return visit(batch) || header.lastOffset >= last
  })
}

async function readPiece(
  cluster: KafkaCluster,
  world: World,
  committable: KafkaCommittable,
  range: WrittenRange,
  from: bigint,
): Promise<{ readonly batches: RewrittenBatch[]; readonly next: bigint }> {
  const batches: RewrittenBatch[] = []
  let bytes = 0
  let next = from
  await ownBatches(cluster, world, committable, range, from, ({ header, records }) => {
    const size = header.end - header.start
    if (bytes > 0 && bytes + size > PIECE_BYTES) return true
    bytes += size
    next = header.lastOffset + 1n
    const bytesOf = Buffer.from(records.subarray(header.start, header.end))
    batches.push({
      topic: range.topic,
      partition: range.partition,
      count: header.count,
      size,
      encode: (fields) => readdress(bytesOf, fields),
    })
    return false
  })
  return { batches, next }
}

/** The batch under another producer: header fields and CRC change, the records and their times stay. */
function readdress(batch: Buffer, fields: BatchProducerFields): Buffer {
  batch.writeBigInt64BE(0n, BatchField.BASE_OFFSET)
  batch.writeInt32BE(-1, BatchField.LEADER_EPOCH)
  // The broker's stamp (message.timestamp.type=LogAppendTime): from a client it is refused, and the broker stamps again.
  batch.writeInt16BE(
    batch.readInt16BE(BatchField.ATTRIBUTES) & ~BatchAttribute.LOG_APPEND_TIME,
    BatchField.ATTRIBUTES,
  )
  batch.writeBigInt64BE(fields.producerId, BatchField.PRODUCER_ID)
  batch.writeInt16BE(fields.producerEpoch, BatchField.PRODUCER_EPOCH)
  batch.writeInt32BE(fields.baseSequence, BatchField.BASE_SEQUENCE)
  batch.writeUInt32BE(crc32c(batch.subarray(BatchField.ATTRIBUTES)), BatchField.CRC)
  return batch
}

function lost(committable: KafkaCommittable, range: WrittenRange, why: string): MillraceError {
  return lostCommittable(
    committable,
    `${range.count} records at ${splitId(range)} offsets ${range.firstOffset}..${range.lastOffset} are lost (${why}): ${describeCommittable(committable)}`,
    { details: { committable, topic: range.topic, partition: range.partition } },
  )
}
