/** What a user says of a Kafka sink. */
import type { Serde } from '../core/connector.ts'
import type { DeliveryGuarantee } from '../core/constants.ts'
import type { Compression } from './compression.ts'

/** Keys: text and bytes as they are; numbers as decimal text. null = no key. */
export type SinkKey = string | Uint8Array | number | bigint | null

/** Options of `kafkaSink`. */
export interface KafkaSinkOptions<T> {
  readonly topic: string | ((value: T) => string)
  readonly value: Serde<T>
  readonly key?: (value: T) => SinkKey
  readonly headers?: (value: T) => readonly [string, Uint8Array | null][]
  /** Epoch ms; default: the record's event time, else the clock. */
  readonly timestamp?: (value: T) => number
  /** Default: murmur2 of the key as Kafka's Java client does it; records without key are spread. */
  readonly partition?: (value: T, partitions: number) => number
  /** Default none. */
  readonly compression?: Compression
  /** Default: EXACTLY_ONCE when the job takes exactly-once checkpoints, else AT_LEAST_ONCE. */
  readonly deliveryGuarantee?: DeliveryGuarantee
  /** Goes before the ids that Millrace derives from job and uid. Must be unique among all jobs of the Kafka cluster. */
  readonly transactionalIdPrefix?: string
  /** Milliseconds after which the broker gives an open transaction up. Default: the broker's maximum. */
  readonly transactionTimeoutMs?: number
}
