import type { AbortedTransaction } from '../../../src/kafka/kafka-cluster.ts'
import { RecordBatchReader, type RecordHeaders } from '../../../src/kafka/record-batch.ts'
import type { BatchLimits } from '../../../src/kafka/record-batch-header.ts'

/** A record as tests compare it; bytes as hexadecimal text. */
export interface PlainRecord {
  readonly offset: bigint
  readonly timestamp: number
  readonly key: string | null
  readonly value: string | null
  readonly headers: readonly (readonly [string, string | null])[]
}

/** The reader's current record. */
export function currentRecord(reader: RecordBatchReader): PlainRecord {
  const { buffer, keyStart, keyEnd, valueStart, valueEnd } = reader
  return {
    offset: reader.offset(),
    timestamp: reader.timestamp,
    key: keyStart < 0 ? null : buffer.toString('hex', keyStart, keyEnd),
    value: valueStart < 0 ? null : buffer.toString('hex', valueStart, valueEnd),
    headers: plainHeaders(reader.headers()),
  }
}

/** Reads all records of `bytes` with a reader of its own. */
export function readRecords(
  bytes: Buffer,
  options: { from?: bigint; aborted?: readonly AbortedTransaction[]; limits?: Partial<BatchLimits> } = {},
): { records: PlainRecord[]; nextOffset: bigint; reader: RecordBatchReader } {
  const reader = new RecordBatchReader('orders', 3, options.limits)
  reader.open(bytes, options.from ?? 0n, options.aborted)
  const records: PlainRecord[] = []
  while (reader.next()) records.push(currentRecord(reader))
  return { records, nextOffset: reader.nextOffset, reader }
}

/** Text as the hexadecimal form of its UTF-8 bytes. */
export function hex(text: string): string {
  return Buffer.from(text).toString('hex')
}

function plainHeaders(headers: RecordHeaders): [string, string | null][] {
  return headers.map(([key, value]) => [key, value === null ? null : Buffer.from(value).toString('hex')])
}
