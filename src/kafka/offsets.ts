/**
 * Where a source starts and stops: offset initializers, and splits with their positions.
 * A position is the next offset to read, past control records and aborted batches; it is a string in JSON because it is 64 bits.
 */
import type { SourceSplit } from '../core/connector.ts'
import { ConfigError } from '../errors.ts'
import type { TopicPartition } from './kafka-cluster.ts'

/** Offsets by topic and partition. */
export type OffsetMap = Readonly<Record<string, Readonly<Record<number, bigint>>>>

export type OffsetsSpec =
  | { readonly kind: 'earliest' }
  | { readonly kind: 'latest' }
  | { readonly kind: 'committed'; readonly reset: 'earliest' | 'latest' | 'fail' }
  | { readonly kind: 'timestamp'; readonly timestamp: number }
  | { readonly kind: 'offsets'; readonly offsets: OffsetMap }

/** Says where to start or stop in each partition. */
export class OffsetsInitializer {
  readonly spec: OffsetsSpec
  private constructor(spec: OffsetsSpec) {
    this.spec = spec
  }

  /** The first record that the log still has. */
  static earliest(): OffsetsInitializer {
    return new OffsetsInitializer({ kind: 'earliest' })
  }

  /** The end at the moment the job starts for the first time; with read_committed the last stable offset. */
  static latest(): OffsetsInitializer {
    return new OffsetsInitializer({ kind: 'latest' })
  }

  /** The group's committed offset; where there is none, `reset` (default 'fail'). */
  static committed(reset: 'earliest' | 'latest' | 'fail' = 'fail'): OffsetsInitializer {
    return new OffsetsInitializer({ kind: 'committed', reset })
  }

  /** The first record whose timestamp (epoch ms) is at or after `timestamp`; the end if there is none. */
  static timestamp(timestamp: number): OffsetsInitializer {
    if (!Number.isSafeInteger(timestamp) || timestamp < 0)
      throw new ConfigError(
        'MILLRACE_INVALID_OPTION',
        `OffsetsInitializer.timestamp: ${timestamp} is not an epoch time in ms`,
      )
    return new OffsetsInitializer({ kind: 'timestamp', timestamp })
  }

  /** Exact offsets; partitions that are not named start at earliest (as a stop: are not bounded by it, so they must all be named). */
  static offsets(offsets: OffsetMap): OffsetsInitializer {
    for (const [topic, partitions] of Object.entries(offsets))
      for (const [partition, offset] of Object.entries(partitions))
        if (typeof offset !== 'bigint' || offset < 0n)
          throw new ConfigError(
            'MILLRACE_INVALID_OPTION',
            `OffsetsInitializer.offsets: ${topic}-${partition} must be a bigint at or above 0n, not ${String(offset)}`,
          )
    return new OffsetsInitializer({ kind: 'offsets', offsets })
  }
}

/** One partition and how far it was read. JSON-safe. */
export interface KafkaSplit extends SourceSplit {
  readonly topic: string
  readonly topicId: string
  readonly partition: number
  /** Next offset to read, decimal. */
  readonly position: string
  /** First offset that is not read any more, decimal; null = unbounded. */
  readonly stop: string | null
  /** Found after the start: no record of it is emitted before a checkpoint holds it. */
  readonly pending?: boolean
}

export function splitId(partition: TopicPartition): string {
  return `${partition.topic}-${partition.partition}`
}

/** True when the split was read to its stop position. */
export function isSplitFinished(split: KafkaSplit): boolean {
  return split.stop !== null && BigInt(split.position) >= BigInt(split.stop)
}
