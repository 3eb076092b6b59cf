/** Reads a topic as any read_committed consumer does, with code of its own: nothing of the product's record path decides what was written. */
import type { KafkaCluster } from '../../src/kafka/kafka-cluster.ts'
import {
  decodePlainRecords,
  markerOf,
  type PlainRecord,
  readBatchHeader,
  splitBatches,
} from '../../src/testing/plain-batch.ts'

const FETCH_BYTES = 4 << 20

/** A committed record and where it lies. */
export interface CommittedRecord extends PlainRecord {
  readonly partition: number
}

export class CommittedLog {
  readonly records: CommittedRecord[] = []
  readonly #cluster: KafkaCluster
  readonly #topic: string
  readonly #positions = new Map<number, bigint>()

  constructor(cluster: KafkaCluster, topic: string) {
    this.#cluster = cluster
    this.#topic = topic
  }

  /** Values as text; null for a record without one. In the order of each partition's log. */
  get values(): (string | null)[] {
    return this.records.map(({ value }) => (value === null ? null : value.toString('utf8')))
  }

  /** Reads on up to the last stable offsets as they are now; new partitions too. */
  async poll(): Promise<void> {
    const [described] = await this.#cluster.describeTopics([this.#topic])
    for (const { partition } of described?.partitions ?? []) await this.#read(partition)
  }

  async #read(partition: number): Promise<void> {
    let offset = this.#positions.get(partition) ?? 0n
    const [end] = await this.#cluster.listOffsets(
      [{ topic: this.#topic, partition }],
      'latest',
      'read_committed',
    )
    const [start] = await this.#cluster.listOffsets(
      [{ topic: this.#topic, partition }],
      'earliest',
      'read_committed',
    )
    if (end?.errorCode !== 0 || start?.errorCode !== 0) return
    if (start.offset > offset) offset = start.offset
    while (offset < end.offset) {
      const [fetched] = await this.#cluster.fetch({
        isolation: 'read_committed',
        partitions: [{ topic: this.#topic, partition, offset, maxBytes: FETCH_BYTES }],
        maxWaitMs: 50,
        minBytes: 1,
        maxBytes: FETCH_BYTES,
      })
      // A leader that moved, and the like: the next poll goes on from here.
      if (fetched === undefined || fetched.errorCode !== 0) break
      // Producers whose aborted transaction began at or before a batch, until its abort marker.
      const aborted = [...fetched.abortedTransactions]
      for (const batch of splitBatches(fetched.records)) {
        const header = readBatchHeader(batch)
        if (header === undefined) continue
        const last = header.baseOffset + BigInt(header.lastOffsetDelta)
        if (header.control) {
          if (markerOf(batch) === 'ABORT') {
            const ended = aborted.findIndex(
              (t) => t.producerId === header.producerId && t.firstOffset <= header.baseOffset,
            )
            if (ended >= 0) aborted.splice(ended, 1)
          }
        } else if (
          !header.transactional ||
          !aborted.some((t) => t.producerId === header.producerId && t.firstOffset <= header.baseOffset)
        )
          for (const record of decodePlainRecords(batch))
            if (record.offset >= offset) this.records.push({ ...record, partition })
        if (last >= offset) offset = last + 1n
      }
    }
    this.#positions.set(partition, offset)
  }
}
