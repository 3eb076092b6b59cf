/**
 * `kafkaSource`: the public source. Offsets are the barrier positions.
 */
import type {
  GroupOffset,
  Serde,
  Sink,
  Source,
  SourceContext,
  SourceReaderContext,
} from '../core/connector.ts'
import { ConfigError } from '../errors.ts'
import {
  DEAD_LETTER_TAG,
  type DeadLetterRecord,
  type DeserializationPolicy,
  type Deserializer,
  type KafkaRecord,
} from './deserialization.ts'
import type { TopicPartition } from './kafka-cluster.ts'
import { KafkaEnumerator } from './kafka-enumerator.ts'
import { KafkaBound } from './kafka-environment.ts'
import { kafkaSink } from './kafka-sink.ts'
import { type DataLossPolicy, KafkaSourceReader } from './kafka-source-reader.ts'
import { type KafkaSplit, OffsetsInitializer } from './offsets.ts'

/** Milliseconds between two looks for new partitions unless told otherwise. */
const DISCOVERY_INTERVAL_MS = 10_000

/** Which topics; exactly one of the three. */
type Subscription =
  | { readonly topics: readonly string[]; readonly topicPattern?: undefined; readonly partitions?: undefined }
  | { readonly topicPattern: RegExp; readonly topics?: undefined; readonly partitions?: undefined }
  | {
      readonly partitions: readonly TopicPartition[]
      readonly topics?: undefined
      readonly topicPattern?: undefined
    }

interface CommonOptions {
  /** Committed offsets go to this group with each completed checkpoint, for lag tools; also where `OffsetsInitializer.committed` reads. */
  readonly groupId?: string
  /** Where to start when there is no checkpoint (default: earliest). */
  readonly startingOffsets?: OffsetsInitializer
  /** Makes the source end; resolved once, at the first start. */
  readonly bounded?: OffsetsInitializer
  /** Default read_committed. */
  readonly isolationLevel?: 'read_committed' | 'read_uncommitted'
  /** Milliseconds between two looks for new partitions (default 10,000; 0 = never). A partition found later starts at earliest. */
  readonly discoveryIntervalMs?: number
  /** Records between a stored position and the log are gone: fail (default), or go on at the log's start or end. */
  readonly onDataLoss?: DataLossPolicy
  /** A record cannot be decoded: fail (default), skip it, or send it to a dead-letter topic. */
  readonly onDeserializationError?: DeserializationPolicy
}

/** Options of `kafkaSource`. */
export type KafkaSourceOptions<T> = Subscription &
  CommonOptions & {
    readonly value: Serde<T>
    readonly nullValues?: 'skip'
    readonly deserializer?: undefined
  }
/** The same, passing null values on. */
export type NullableKafkaSourceOptions<T> = Subscription &
  CommonOptions & { readonly value: Serde<T>; readonly nullValues: 'emit'; readonly deserializer?: undefined }
/** The same with a function that sees the whole record; it may return several values, or undefined to drop the record. */
export type DeserializerKafkaSourceOptions<T> = Subscription &
  CommonOptions & {
    readonly deserializer: (record: KafkaRecord) => T | T[] | undefined
    readonly value?: undefined
    readonly nullValues?: undefined
  }

/** A Kafka source; make one with `kafkaSource`. */
export class KafkaSource<T> extends KafkaBound implements Source<T, KafkaSplit> {
  readonly kind = 'kafka'
  readonly bounded: boolean
  readonly sideSink:
    | { readonly tagId: string; readonly name: string; readonly uidSuffix: string; readonly sink: Sink<any> }
    | undefined
  readonly #options: Subscription & CommonOptions
  readonly #deserializer: Deserializer<T>
  readonly #nullValues: 'skip' | 'emit'
  declare readonly __type?: T

  constructor(
    options: KafkaSourceOptions<T> | NullableKafkaSourceOptions<T> | DeserializerKafkaSourceOptions<T>,
  ) {
    super()
    checkOptions(options)
    this.#options = options
    this.#deserializer =
      options.deserializer === undefined
        ? { kind: 'value', serde: options.value }
        : { kind: 'record', deserialize: options.deserializer }
    this.#nullValues = options.nullValues ?? 'skip'
    this.bounded = options.bounded !== undefined
    const policy = options.onDeserializationError
    this.sideSink =
      typeof policy === 'object'
        ? {
            tagId: DEAD_LETTER_TAG,
            name: `dead letters to ${policy.topic}`,
            uidSuffix: 'dead-letters',
            sink: kafkaSink<DeadLetterRecord>({
              topic: policy.topic,
              key: (letter) => letter.key,
              value: RAW_VALUE,
              headers: (letter) => letter.headers,
            }),
          }
        : undefined
  }

  describe(): Readonly<Record<string, unknown>> {
    const { topics, topicPattern, partitions, groupId } = this.#options
    return {
      ...(topics === undefined ? {} : { topics: [...topics].sort() }),
      ...(topicPattern === undefined ? {} : { topicPattern: String(topicPattern) }),
      ...(partitions === undefined
        ? {}
        : { partitions: partitions.map((p) => `${p.topic}-${p.partition}`).sort() }),
      ...(groupId === undefined ? {} : { groupId }),
    }
  }

  createEnumerator(context: SourceContext): KafkaEnumerator {
    const options = this.#options
    const discovery = options.discoveryIntervalMs ?? DISCOVERY_INTERVAL_MS
    return new KafkaEnumerator(
      {
        cluster: this.environment.cluster,
        topics: options.topics,
        topicPattern: options.topicPattern,
        partitions: options.partitions,
        groupId: options.groupId,
        startingOffsets: options.startingOffsets ?? OffsetsInitializer.earliest(),
        bounded: options.bounded,
        isolation: options.isolationLevel ?? 'read_committed',
        onDataLoss: options.onDataLoss ?? 'fail',
        discoveryIntervalMs: discovery > 0 ? discovery : undefined,
      },
      context,
    )
  }

  createReader(context: SourceReaderContext): KafkaSourceReader<T> {
    const { environment } = this
    return new KafkaSourceReader<T>(
      {
        cluster: environment.cluster,
        bounded: this.bounded,
        isolation: this.#options.isolationLevel ?? 'read_committed',
        deserializer: this.#deserializer,
        nullValues: this.#nullValues,
        onDeserializationError: this.#options.onDeserializationError ?? 'fail',
        onDataLoss: this.#options.onDataLoss ?? 'fail',
        fetchMaxBytes: environment.fetchMaxBytes,
        fetchMaxWaitMs: environment.fetchMaxWaitMs,
        serdes: environment.serdes,
      },
      context,
    )
  }

  groupOffsets(splits: readonly KafkaSplit[]): GroupOffset[] {
    const { groupId } = this.#options
    if (groupId === undefined) return []
    return splits.map((split) => ({
      groupId,
      topic: split.topic,
      partition: split.partition,
      offset: BigInt(split.position),
    }))
  }
}

/** Dead letters carry their value as it was read. */
const RAW_VALUE: Serde<DeadLetterRecord> = {
  name: 'raw',
  serialize: (letter) => letter.value,
  deserialize: () => {
    throw new Error('dead letters are only written')
  },
}

function checkOptions(
  options: Subscription & CommonOptions & { value?: unknown; deserializer?: unknown },
): void {
  const chosen = [options.topics, options.topicPattern, options.partitions].filter((o) => o !== undefined)
  if (chosen.length !== 1)
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      'kafkaSource needs exactly one of topics, topicPattern and partitions',
    )
  if (
    options.topics !== undefined &&
    (!Array.isArray(options.topics) ||
      options.topics.length === 0 ||
      options.topics.some((t) => typeof t !== 'string' || t === ''))
  )
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      'kafkaSource: topics must be a list of at least one topic name',
    )
  if (options.topics !== undefined && new Set(options.topics).size !== options.topics.length)
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `kafkaSource: a topic is named twice in ${options.topics.join(', ')}`,
    )
  if (options.partitions !== undefined && options.partitions.length === 0)
    throw new ConfigError('MILLRACE_INVALID_OPTION', 'kafkaSource: partitions must not be empty')
  if ((options.value === undefined) === (options.deserializer === undefined))
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      'kafkaSource needs either value (a serde) or deserializer (a function)',
    )
  if (options.groupId === '')
    throw new ConfigError('MILLRACE_INVALID_OPTION', 'kafkaSource: groupId must not be empty')
  if (options.bounded?.spec.kind === 'earliest')
    throw new ConfigError('MILLRACE_INVALID_OPTION', 'kafkaSource: bounded by earliest would read nothing')
}

/**
 * Reads Kafka topics.
 * @example
 * kafkaSource<Order>({ topics: ['orders'], groupId: 'etl', startingOffsets: OffsetsInitializer.earliest(), value: json() })
 */
export function kafkaSource<T>(options: NullableKafkaSourceOptions<T>): KafkaSource<T | null>
export function kafkaSource<T>(options: DeserializerKafkaSourceOptions<T>): KafkaSource<T>
export function kafkaSource<T>(options: KafkaSourceOptions<T>): KafkaSource<T>
export function kafkaSource<T>(
  options: KafkaSourceOptions<T> | NullableKafkaSourceOptions<T> | DeserializerKafkaSourceOptions<T>,
): KafkaSource<T> {
  return new KafkaSource(options)
}
