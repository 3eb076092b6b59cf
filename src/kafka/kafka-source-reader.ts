/**
 * Reads the splits of one source subtask: decodes fetched bytes into vectors, a split at a time, in turn.
 * Between two polls the position of each split lies just past what was returned, control records and aborted batches included.
 */
import type { SerdeContext, SourceReader, SourceReaderContext, SplitRecords } from '../core/connector.ts'
import { recordVector } from '../core/element.ts'
import { DataLossError, type DeserializationError, isMillraceError, MillraceError } from '../errors.ts'
import {
  currentRecord,
  DEAD_LETTER_TAG,
  type DeadLetterRecord,
  type DeserializationPolicy,
  type Deserializer,
  deadLetterOf,
  deserializationError,
} from './deserialization.ts'
import { type FetchedPartition, type IsolationLevel, type KafkaCluster, KafkaCode } from './kafka-cluster.ts'
import { type FetchedSplit, KafkaFetcher } from './kafka-fetcher.ts'
import { isSplitFinished, type KafkaSplit } from './offsets.ts'
import { RecordBatchReader } from './record-batch.ts'

export type DataLossPolicy = 'fail' | 'earliest' | 'latest'

export interface KafkaReaderOptions<T> {
  readonly cluster: KafkaCluster
  readonly bounded: boolean
  readonly isolation: IsolationLevel
  readonly deserializer: Deserializer<T>
  readonly nullValues: 'skip' | 'emit'
  readonly onDeserializationError: DeserializationPolicy
  readonly onDataLoss: DataLossPolicy
  readonly fetchMaxBytes: number
  readonly fetchMaxWaitMs: number
  /** For opening the serde. */
  readonly serdes?: SerdeContext
}

/** A split, what was fetched of it, and the cursor over the buffer being decoded. */
interface OpenSplit extends FetchedSplit {
  split: KafkaSplit
  readonly reader: RecordBatchReader
  decoding: boolean
  position: bigint
  /** Where it was before the latest vector. */
  vectorFrom: bigint
  /** The cursor stands on a record that waits for its schema. */
  held: boolean
  /** Not read for a while: ahead of other sources. */
  paused: boolean
  finished: boolean
  /** Go out with the next records of this split: its position covers them. */
  deadLetters: DeadLetterRecord[]
  /** The stop position relative to the batch whose base offset is `stopBase`: compared per record without 64-bit arithmetic. */
  stopBase: bigint
  stopDelta: number
}

export class KafkaSourceReader<T> implements SourceReader<T, KafkaSplit> {
  readonly #options: KafkaReaderOptions<T>
  readonly #context: SourceReaderContext
  readonly #fetcher: KafkaFetcher
  readonly #splits: OpenSplit[] = []
  /** Discovered splits that wait for a checkpoint that holds them. */
  readonly #waiting: KafkaSplit[] = []
  readonly #heldBy = new Map<string, number>()
  #turn = 0
  #error: unknown
  #wake: (() => void) | undefined
  #preparing: Promise<void> | undefined
  #warnedNull = false

  constructor(options: KafkaReaderOptions<T>, context: SourceReaderContext) {
    this.#options = options
    this.#context = context
    this.#fetcher = new KafkaFetcher({
      cluster: options.cluster,
      isolation: options.isolation,
      maxBytes: options.fetchMaxBytes,
      maxWaitMs: options.fetchMaxWaitMs,
      world: context.world,
      onData: () => this.#signal(),
      onPartitionError: (split, answer) => this.#partitionError(split, answer),
      onError: (error) => this.#fail(error),
    })
    context.world.metrics.gauge('source_lag_records', () => this.lag())
  }

  async start(): Promise<void> {
    const { deserializer, serdes = {} } = this.#options
    if (deserializer.kind === 'value') await deserializer.serde.open?.(serdes)
  }

  addSplits(splits: readonly KafkaSplit[]): void {
    for (const split of splits) {
      if (split.pending === true) this.#waiting.push(split)
      else this.#open(split)
    }
  }

  #open(split: KafkaSplit): void {
    const position = BigInt(split.position)
    const open: OpenSplit = {
      split,
      topic: split.topic,
      partition: split.partition,
      fetchOffset: position,
      stop: split.stop === null ? undefined : BigInt(split.stop),
      buffers: [],
      maxBytes: this.#options.fetchMaxBytes,
      highWatermark: -1n,
      lastStableOffset: -1n,
      reader: new RecordBatchReader(split.topic, split.partition),
      decoding: false,
      position,
      vectorFrom: position,
      held: false,
      paused: false,
      finished: isSplitFinished(split),
      deadLetters: [],
      stopBase: -1n,
      stopDelta: Number.POSITIVE_INFINITY,
    }
    this.#splits.push(open)
    if (!open.finished) this.#fetcher.add(open)
  }

  /** Records behind the last stable offset (read_committed) or the end; partitions that were not fetched yet do not count. */
  lag(): number {
    let lag = 0n
    for (const split of this.#splits) {
      const end = this.#options.isolation === 'read_committed' ? split.lastStableOffset : split.highWatermark
      if (end > split.position) lag += end - split.position
    }
    return Number(lag)
  }

  poll(): SplitRecords<T> | undefined {
    if (this.#error !== undefined) throw this.#error
    if (this.#preparing !== undefined) return undefined
    const n = this.#splits.length
    for (let i = 0; i < n; i++) {
      const split = this.#splits[(this.#turn + i) % n] as OpenSplit
      while (hasRecords(split)) {
        const records = this.#decode(split)
        if (this.#preparing !== undefined && records === undefined) return undefined
        if (records !== undefined) {
          // The same split goes on until its buffer is used up: fewer switches, and its bytes are freed sooner.
          this.#turn = (this.#turn + i + (split.decoding ? 0 : 1)) % n
          return records
        }
      }
    }
    return undefined
  }

  /** A record waits for its schema, and all behind it. */
  isPreparing(): boolean {
    return this.#preparing !== undefined
  }

  /** One vector of the split's current buffer, or undefined when the buffer had nothing (left) to give. */
  #decode(split: OpenSplit): SplitRecords<T> | undefined {
    const { reader } = split
    if (!split.decoding) {
      const bytes = split.buffers[0]
      if (bytes === undefined) return undefined
      reader.open(
        bytes.records,
        laterOf(split.position, bytes.fetchOffset),
        bytes.aborted,
        bytes.requestedBytes,
      )
      split.decoding = true
    }
    const values: T[] = []
    const timestamps: number[] = []
    split.vectorFrom = split.position
    const more = this.#fill(split, values, timestamps)
    split.position = clamped(reader.nextOffset, split.stop)
    if (split.held) split.position = reader.offset()
    if (!more) {
      split.buffers.shift()
      split.decoding = false
      // The same already, unless the fetcher had to jump over records that are gone.
      if (split.buffers.length === 0) split.position = clamped(split.fetchOffset, split.stop)
      // Lets the bytes go: the reader is reused, and would hold them until the next answer.
      if (split.buffers.length === 0) reader.open(EMPTY, split.position, undefined)
      this.#fetcher.pump()
    }
    if (split.stop !== undefined && split.position >= split.stop) this.#finish(split)
    const letters = split.deadLetters
    if (values.length === 0 && letters.length === 0) return undefined
    this.#context.recordsIn.inc(values.length)
    const vector = recordVector(values, timestamps)
    if (letters.length === 0) return { splitId: split.split.id, vector }
    split.deadLetters = []
    return {
      splitId: split.split.id,
      vector,
      side: {
        tagId: DEAD_LETTER_TAG,
        vector: recordVector(
          letters,
          letters.map((letter) => letter.timestamp),
        ),
      },
    }
  }

  /** False when the buffer is used up. */
  #fill(split: OpenSplit, values: T[], timestamps: number[]): boolean {
    const { deserializer, nullValues } = this.#options
    const max = this.#context.vectorSize
    const { reader } = split
    const bounded = split.stop !== undefined
    if (
      deserializer.kind === 'value' &&
      deserializer.serde.readSlice !== undefined &&
      nullValues === 'skip'
    ) {
      const { serde } = deserializer
      for (let n = 0; n < max; n++) {
        if (!reader.next()) return false
        if (bounded && this.#reachedStop(split)) return this.#beyond(split)
        if (reader.valueStart < 0) {
          this.#nullValue(split)
          continue
        }
        let value: T
        try {
          value = serde.readSlice!(reader.buffer, reader.valueStart, reader.valueEnd)
        } catch (cause) {
          this.#undecodable(split, serde.name, cause)
          continue
        }
        values.push(value)
        timestamps.push(reader.timestamp < 0 ? Number.NaN : reader.timestamp)
      }
      return true
    }
    for (let n = 0; n < max; n++) {
      if (split.held) split.held = false
      else if (!reader.next()) return false
      if (bounded && this.#reachedStop(split)) return this.#beyond(split)
      if (!this.#one(split, values, timestamps)) return true
    }
    return true
  }

  /** Decodes the current record the general way. False = it waits for something; come back to it. */
  #one(split: OpenSplit, values: T[], timestamps: number[]): boolean {
    const { deserializer, nullValues } = this.#options
    const { reader } = split
    const timestamp = reader.timestamp < 0 ? Number.NaN : reader.timestamp
    if (deserializer.kind === 'record') {
      try {
        const result = deserializer.deserialize(currentRecord(reader))
        if (result === undefined) return true
        for (const value of Array.isArray(result) ? (result as readonly T[]) : [result as T]) {
          values.push(value)
          timestamps.push(timestamp)
        }
      } catch (cause) {
        this.#undecodable(split, 'the deserializer function', cause)
      }
      return true
    }
    if (reader.valueStart < 0) {
      if (nullValues === 'emit') {
        values.push(null as T)
        timestamps.push(timestamp)
      } else this.#nullValue(split)
      return true
    }
    const { serde } = deserializer
    const bytes = reader.buffer.subarray(reader.valueStart, reader.valueEnd)
    try {
      const preparing = serde.prepareDeserialize?.(bytes)
      if (preparing !== undefined) {
        split.held = true
        this.#prepare(split, serde.name, preparing)
        return false
      }
      values.push(serde.deserialize(bytes, reader.topic))
      timestamps.push(timestamp)
    } catch (cause) {
      this.#undecodable(split, serde.name, cause)
    }
    return true
  }

  #prepare(split: OpenSplit, how: string, preparing: Promise<void>): void {
    this.#preparing = preparing
      .catch((cause: unknown) => {
        // Trouble with the outside (a registry that does not answer, or refuses us) is the job's; bad bytes are the policy's.
        if (isMillraceError(cause)) this.#fail(cause)
        else {
          split.held = false
          try {
            this.#undecodable(split, how, cause)
          } catch (error) {
            this.#fail(error)
          }
        }
      })
      .then(() => {
        this.#preparing = undefined
        this.#signal()
      })
  }

  /** Records at or beyond the stop position are not ours; offsets only grow, so the first one ends the split. */
  #reachedStop(split: OpenSplit): boolean {
    const { reader } = split
    if (reader.baseOffset !== split.stopBase) {
      split.stopBase = reader.baseOffset
      split.stopDelta = Number((split.stop as bigint) - reader.baseOffset)
    }
    return reader.offsetDelta >= split.stopDelta
  }

  #beyond(split: OpenSplit): false {
    split.position = split.stop as bigint
    split.buffers.length = 1
    return false
  }

  #finish(split: OpenSplit): void {
    split.finished = true
    split.decoding = false
    split.buffers.length = 0
    split.reader.open(EMPTY, split.position, undefined)
  }

  #nullValue(split: OpenSplit): void {
    const { world, info } = this.#context
    world.metrics.counter('source_null_values_skipped').inc()
    if (this.#warnedNull) return
    this.#warnedNull = true
    world.logger.warn(
      `${info.operatorName}: a record without value at ${split.topic}-${split.partition} offset ${split.reader.offset()} was skipped; further ones are only counted (nullValues: 'emit' passes them on)`,
    )
  }

  #undecodable(split: OpenSplit, how: string, cause: unknown): void {
    const { onDeserializationError: policy } = this.#options
    const { world } = this.#context
    const record = currentRecord(split.reader)
    const error: DeserializationError = deserializationError(record, how, cause)
    if (policy === 'fail') throw error
    if (policy === 'skip') {
      const skipped = world.metrics.counter('source_records_skipped')
      if (skipped.count === 0) world.logger.warn(`skipped: ${error.message}; further ones are only counted`)
      skipped.inc()
      return
    }
    world.metrics.counter('source_dead_letters').inc()
    split.deadLetters.push(deadLetterOf(record, error, world.clock.now()))
  }

  async #partitionError(fetched: FetchedSplit, answer: FetchedPartition): Promise<void> {
    const open = fetched as OpenSplit
    const where = `${open.topic}-${open.partition}`
    const { world } = this.#context
    if (answer.errorCode === KafkaCode.OFFSET_OUT_OF_RANGE) {
      await this.#outOfRange(open)
      return
    }
    if (answer.errorCode === KafkaCode.TOPIC_AUTHORIZATION_FAILED)
      throw new MillraceError('MILLRACE_KAFKA_UNAUTHORIZED', `not authorised to read topic ${open.topic}`)
    if (answer.errorCode === KafkaCode.UNKNOWN_TOPIC_OR_PARTITION) {
      const [topic] = await this.#options.cluster.describeTopics([open.topic])
      if (topic === undefined || topic.topicId !== open.split.topicId)
        throw new DataLossError(
          'MILLRACE_DATA_LOSS',
          topic === undefined
            ? `topic ${open.topic} was deleted while it was read`
            : `topic ${open.topic} was deleted and created again while it was read`,
          { details: { topic: open.topic, partition: open.partition } },
        )
    }
    // Leader moved, replica not available and the like: the cluster refreshes its metadata, the next fetch goes to the new leader.
    world.logger.debug(`fetch of ${where} answered error ${answer.errorCode}; trying again`)
    await world.timers.sleep(100)
  }

  async #outOfRange(open: OpenSplit): Promise<void> {
    const { cluster, isolation, onDataLoss } = this.#options
    const [start] = await cluster.listOffsets([open], 'earliest', isolation)
    const [end] = await cluster.listOffsets([open], 'latest', 'read_uncommitted')
    if (start === undefined || end === undefined || start.errorCode !== 0 || end.errorCode !== 0) return
    const to = onDataLoss === 'latest' ? end.offset : start.offset
    const lost = `${open.topic}-${open.partition}: offset ${open.fetchOffset} is outside of the log [${start.offset}, ${end.offset}); lost range [${open.fetchOffset}, ${start.offset > open.fetchOffset ? start.offset : end.offset})`
    if (onDataLoss === 'fail')
      throw new DataLossError('MILLRACE_DATA_LOSS', lost, {
        details: { topic: open.topic, partition: open.partition, from: open.fetchOffset, to: start.offset },
      })
    this.#context.world.metrics.counter('source_data_loss').inc()
    this.#context.world.logger.warn(`${lost}; going on at ${onDataLoss} offset ${to}`)
    open.fetchOffset = to
    // Answers that are still to be decoded come from before the gap, or from before the log was cut: they move the position themselves.
    if (open.buffers.length > 0 || open.decoding) return
    open.position = clamped(to, open.stop)
    if (open.stop === undefined || open.position < open.stop) return
    this.#finish(open)
    this.#signal()
  }

  available(): Promise<void> {
    if (this.#error !== undefined) return Promise.resolve()
    if (this.#preparing === undefined && this.#splits.some(hasRecords)) return Promise.resolve()
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  isFinished(): boolean {
    return (
      this.#options.bounded && this.#waiting.length === 0 && this.#splits.every((split) => split.finished)
    )
  }

  pauseOrResumeSplits(pause: readonly string[], resume: readonly string[]): void {
    for (const open of this.#splits) {
      if (pause.includes(open.split.id)) open.paused = true
      if (resume.includes(open.split.id)) open.paused = false
    }
    this.#signal()
  }

  describeLastRecords(splitId: string): string | undefined {
    const split = this.#splits.find((each) => each.split.id === splitId)
    if (split === undefined || split.position <= split.vectorFrom) return undefined
    return `${splitId}, offsets ${split.vectorFrom} to ${split.position - 1n}`
  }

  finishedSplits(): readonly string[] {
    return this.#splits.filter((split) => split.finished).map((split) => split.split.id)
  }

  snapshot(checkpointId: number): readonly KafkaSplit[] {
    const positions: KafkaSplit[] = this.#splits.map((open) => ({
      ...open.split,
      position: String(open.position),
    }))
    for (const split of this.#waiting) {
      const { pending: _, ...stored } = split
      positions.push(stored)
      if (!this.#heldBy.has(split.id)) this.#heldBy.set(split.id, checkpointId)
    }
    return positions
  }

  notifyCheckpointComplete(checkpointId: number): void {
    for (let i = this.#waiting.length - 1; i >= 0; i--) {
      const split = this.#waiting[i] as KafkaSplit
      const held = this.#heldBy.get(split.id)
      if (held === undefined || held > checkpointId) continue
      this.#waiting.splice(i, 1)
      this.#heldBy.delete(split.id)
      const { pending: _, ...opened } = split
      this.#open(opened)
    }
  }

  #signal(): void {
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
  }

  #fail(error: unknown): void {
    this.#error ??= error
    this.#signal()
  }

  async close(): Promise<void> {
    this.#fetcher.close()
    this.#signal()
  }
}

const EMPTY = Buffer.alloc(0)

/** A position never passes the stop position. */
function clamped(position: bigint, stop: bigint | undefined): bigint {
  return stop !== undefined && position > stop ? stop : position
}

function laterOf(a: bigint, b: bigint): bigint {
  if (a > b) return a
  return b
}

/** True if `poll` may take records out of what was fetched. */
function hasRecords({ finished, paused, decoding, buffers }: OpenSplit): boolean {
  return !finished && !paused && (decoding || buffers.length > 0)
}
