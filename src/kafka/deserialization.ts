/**
 * From a record's bytes to values, and what happens when that fails: fail, skip, or send to a dead-letter topic.
 */
import type { Serde } from '../core/connector.ts'
import { ConfigError, DeserializationError } from '../errors.ts'
import type { RecordBatchReader, RecordHeaders } from './record-batch.ts'

/** A record as a user's deserializer sees it. */
export interface KafkaRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  /** Epoch ms; NaN when the record has none. */
  readonly timestamp: number
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  /** In order; duplicates and nulls kept. */
  readonly headers: RecordHeaders
}

/** Sends records that cannot be decoded to `topic`, inside the job's two-phase commit. */
export interface DeadLetterPolicy {
  readonly kind: 'dead-letter'
  readonly topic: string
}
export type DeserializationPolicy = 'fail' | 'skip' | DeadLetterPolicy

/** Policy for `onDeserializationError`: the raw record goes to `topic` with headers that say where it came from and what was wrong. */
export function deadLetter(topic: string): DeadLetterPolicy {
  if (topic === '') throw new ConfigError('MILLRACE_INVALID_OPTION', 'deadLetter needs a topic name')
  return { kind: 'dead-letter', topic }
}

/** Side output that carries dead letters from a source to its hidden sink. */
export const DEAD_LETTER_TAG = 'millrace.dead-letters'

/** A record on its way to the dead-letter topic. */
export interface DeadLetterRecord {
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly timestamp: number
  readonly headers: RecordHeaders
}

export type Deserializer<T> =
  | { readonly kind: 'value'; readonly serde: Serde<T> }
  | { readonly kind: 'record'; readonly deserialize: (record: KafkaRecord) => T | readonly T[] | undefined }

/** The current record of a reader, with copies of its bytes. */
export function currentRecord(reader: RecordBatchReader): KafkaRecord {
  return {
    topic: reader.topic,
    partition: reader.partition,
    offset: reader.offset(),
    timestamp: reader.timestamp < 0 ? Number.NaN : reader.timestamp,
    key:
      reader.keyStart < 0
        ? null
        : Uint8Array.prototype.slice.call(reader.buffer, reader.keyStart, reader.keyEnd),
    value:
      reader.valueStart < 0
        ? null
        : Uint8Array.prototype.slice.call(reader.buffer, reader.valueStart, reader.valueEnd),
    headers: reader.headers(),
  }
}

/** The error that names everything a person needs to find the record. */
export function deserializationError(record: KafkaRecord, how: string, cause: unknown): DeserializationError {
  const key = record.key === null ? 'null' : excerpt(record.key)
  const value = record.value === null ? 'null' : excerpt(record.value)
  return new DeserializationError(
    'MILLRACE_DESERIALIZATION',
    `cannot decode the record at ${record.topic}-${record.partition} offset ${record.offset} (key ${key}, value starts with ${value}) with ${how}: ${
      cause instanceof Error ? cause.message : String(cause)
    }`,
    {
      cause,
      details: { topic: record.topic, partition: record.partition, offset: record.offset, key: record.key },
    },
  )
}

/** Headers as other stream processors write them, so that existing tools read them. */
export function deadLetterOf(
  record: KafkaRecord,
  error: DeserializationError,
  failedAtMs: number,
): DeadLetterRecord {
  const text = (value: string): Uint8Array => Buffer.from(value)
  return {
    key: record.key,
    value: record.value,
    timestamp: record.timestamp,
    headers: [
      ...record.headers,
      ['millrace.dead-letter.topic', text(record.topic)],
      ['millrace.dead-letter.partition', text(String(record.partition))],
      ['millrace.dead-letter.offset', text(String(record.offset))],
      ['millrace.dead-letter.timestamp', text(String(failedAtMs))],
      ['millrace.dead-letter.error', text(error.message)],
      ['millrace.dead-letter.code', text(error.code)],
    ],
  }
}

/** First bytes, readable where they are text. */
function excerpt(bytes: Uint8Array): string {
  const head = Buffer.from(bytes.subarray(0, 32))
  const printable = head.every((byte) => byte >= 32 && byte < 127)
  const more = bytes.length > 32 ? '…' : ''
  return printable ? `'${head.toString('latin1')}${more}'` : `0x${head.toString('hex')}${more}`
}
