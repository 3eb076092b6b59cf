/** Reads one partition onwards, a page at a time: keys and values of plain topics that are small. */
import { isMillraceError, MillraceError } from '../errors.ts'
import { type KafkaCluster, KafkaCode } from './kafka-cluster.ts'
import { RecordBatchReader } from './record-batch.ts'

/** A record of the topic. */
export interface TailRecord {
  readonly offset: bigint
  readonly key: string
  readonly value: string
}

const FETCH_BYTES = 1 << 20

export class TopicTail {
  readonly #cluster: KafkaCluster
  readonly #topic: string
  readonly #reader: RecordBatchReader
  #position: bigint
  #maxBytes = FETCH_BYTES

  constructor(cluster: KafkaCluster, topic: string, position: bigint) {
    this.#cluster = cluster
    this.#topic = topic
    this.#reader = new RecordBatchReader(topic, 0)
    this.#position = position
  }

  /** Next offset to read. */
  get position(): bigint {
    return this.#position
  }

  /**
   * Records that follow, none if none came within `maxWaitMs` or the leader moved; call again.
   * @throws KafkaError for anything that repeating does not mend
   */
  async next(maxWaitMs: number): Promise<readonly TailRecord[]> {
    const [answer] = await this.#cluster
      .fetch({
        isolation: 'read_uncommitted',
        partitions: [{ topic: this.#topic, partition: 0, offset: this.#position, maxBytes: this.#maxBytes }],
        maxWaitMs,
        minBytes: 1,
        maxBytes: this.#maxBytes,
      })
      .catch((error: unknown) => {
        if (isMillraceError(error) && error.retriable) return []
        throw error
      })
    if (answer === undefined || answer.errorCode === KafkaCode.NOT_LEADER) return []
    if (answer.errorCode === KafkaCode.OFFSET_OUT_OF_RANGE) {
      // Old records were removed by retention: go on with what is there.
      this.#position = answer.logStartOffset > this.#position ? answer.logStartOffset : answer.highWatermark
      return []
    }
    if (answer.errorCode !== KafkaCode.NONE)
      throw new MillraceError(
        'MILLRACE_KAFKA_PROTOCOL',
        `cannot read ${this.#topic}: broker error ${answer.errorCode}`,
        { retriable: true },
      )
    const records: TailRecord[] = []
    const reader = this.#reader
    reader.open(answer.records, this.#position, answer.abortedTransactions, this.#maxBytes)
    while (reader.next())
      if (reader.keyStart >= 0 && reader.valueStart >= 0)
        records.push({
          offset: reader.offset(),
          key: reader.buffer.toString('utf8', reader.keyStart, reader.keyEnd),
          value: reader.buffer.toString('utf8', reader.valueStart, reader.valueEnd),
        })
    if (reader.truncated) this.#maxBytes = Math.max(this.#maxBytes * 2, reader.neededBytes)
    this.#position = reader.nextOffset
    return records
  }
}
