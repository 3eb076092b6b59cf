import { describe, expect, test } from '@jest/globals'
import { crc32c } from '@node-rs/crc32'
import fc from 'fast-check'
import { isMillraceError } from '../../src/errors.ts'
import { digestText, extendDigest, recordsCrc } from '../../src/kafka/batch-digest.ts'
import { COMPRESSIONS } from '../../src/kafka/compression.ts'
import { RecordBatchReader } from '../../src/kafka/record-batch.ts'
import { NO_PRODUCER, RecordBatchBuilder, type RecordData } from '../../src/kafka/record-batch-builder.ts'
import { BatchField, readBatchHeaders } from '../../src/kafka/record-batch-header.ts'
import { currentRecord, type PlainRecord, readRecords } from '../unit/kafka/read-records.ts'

const data: fc.Arbitrary<RecordData> = fc.oneof(
  fc.constant(null),
  fc.string({ unit: 'binary', maxLength: 120 }),
  fc.string({ maxLength: 30 }),
  fc.uint8Array({ maxLength: 200 }),
)
const timestamp = fc.oneof(
  fc.integer({ min: 1_764_430_000_000, max: 1_764_430_100_000 }),
  fc.integer({ min: -1, max: Number.MAX_SAFE_INTEGER }),
)
const row = fc.record({
  key: data,
  value: data,
  timestamp,
  headers: fc.option(
    fc.array(fc.tuple(fc.string({ unit: 'grapheme', maxLength: 20 }), data), { maxLength: 4 }),
    { nil: undefined },
  ),
})
type Row = typeof row extends fc.Arbitrary<infer R> ? R : never

function plainData(value: RecordData): string | null {
  return value === null ? null : Buffer.from(value as string).toString('hex')
}

function plain({ key, value, timestamp, headers = [] }: Row, offset: bigint): PlainRecord {
  return {
    offset,
    timestamp,
    key: plainData(key),
    value: plainData(value),
    headers: headers.map(([name, value]) => [Buffer.from(name).toString(), plainData(value)]),
  }
}

/** Batches of the rows as they would lie in a partition's log. */
function log(rows: readonly Row[], maxBytes: number, compression: (typeof COMPRESSIONS)[number]): Buffer {
  const builder = new RecordBatchBuilder({ maxBytes, compression, maxRecordBatchBytes: 100_000 })
  const batches: Buffer[] = []
  let base = 0n
  const seal = () => {
    const { count } = builder
    const bytes = builder.build(NO_PRODUCER)
    bytes.writeBigInt64BE(base)
    base += BigInt(count)
    batches.push(bytes)
    builder.reset()
  }
  for (const { key, value, timestamp, headers } of rows) {
    if (builder.append(key, value, timestamp, headers)) continue
    seal()
    expect(builder.append(key, value, timestamp, headers)).toBe(true)
  }
  if (builder.count > 0) seal()
  return Buffer.concat(batches)
}

describe('record batches', () => {
  test('what was appended is read back in every codec and batch size, and the CRC is that of the bytes', () => {
    fc.assert(
      fc.property(
        fc.array(row, { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 100, max: 5000 }),
        fc.constantFrom(...COMPRESSIONS),
        fc.nat(45),
        (rows, maxBytes, compression, from) => {
          const bytes = log(rows, maxBytes, compression)
          const { records, nextOffset } = readRecords(bytes, { from: BigInt(from) })
          expect(records).toEqual(rows.map((r, i) => plain(r, BigInt(i))).slice(from))
          expect(nextOffset).toBe(BigInt(Math.max(rows.length, from)))
          for (const header of readBatchHeaders(bytes, { topic: 'orders', partition: 3 })) {
            expect(header.crc).toBe(crc32c(bytes.subarray(header.start + BatchField.ATTRIBUTES, header.end)))
          }
        },
      ),
      { numRuns: 300 },
    )
  })

  test('the digest of a log does not depend on the codec, and does on the order of the batches', () => {
    const place = { topic: 'orders', partition: 3 }
    const digest = (bytes: Buffer) =>
      digestText(
        readBatchHeaders(bytes, place).reduce((sum, h) => extendDigest(sum, recordsCrc(bytes, h, place)), 0),
      )
    fc.assert(
      fc.property(
        fc.array(row, { minLength: 2, maxLength: 10 }),
        fc.constantFrom(...COMPRESSIONS),
        (rows, compression) => {
          expect(digest(log(rows, 300, compression))).toBe(digest(log(rows, 300, 'none')))
        },
      ),
      { numRuns: 60 },
    )
    expect(extendDigest(extendDigest(0, 1), 2)).not.toBe(extendDigest(extendDigest(0, 2), 1))
  })
})

/** A generator of numbers in [0, below) that is the same on every run with one seed. */
function seeded(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0
    return ((state ^ (state >>> 13)) >>> 0) % below
  }
}

describe('damaged bytes', () => {
  const rows: Row[] = Array.from({ length: 30 }, (_, i) => ({
    key: i % 4 === 0 ? null : `key-${i}`,
    value: i % 5 === 0 ? null : `value ${'ü'.repeat(i * 3)}`,
    timestamp: 1_764_430_000_000 + i * 40,
    headers:
      i % 3 === 0
        ? [['trace', `t-${i}`] as [string, RecordData], ['none', null] as [string, RecordData]]
        : undefined,
  }))
  const limits = { maxUncompressedBytes: 1_000_000, maxBatchBytes: 1_000_000 }

  function read(bytes: Buffer): { records: PlainRecord[]; error: unknown; reader: RecordBatchReader } {
    const reader = new RecordBatchReader('orders', 3, limits)
    reader.open(bytes, 0n, [{ producerId: 5n, firstOffset: 0n }])
    const records: PlainRecord[] = []
    try {
      while (reader.next()) records.push(currentRecord(reader))
    } catch (error) {
      return { records, error, reader }
    }
    return { records, error: undefined, reader }
  }

  function expectNamedError(error: unknown): void {
    if (!isMillraceError(error)) throw error
    const { topic, partition, offset } = error.details
    if (
      error.code !== 'MILLRACE_CORRUPT_BATCH' ||
      topic !== 'orders' ||
      partition !== 3 ||
      typeof offset !== 'bigint'
    )
      throw error
  }

  test.each([...COMPRESSIONS])(
    '%s: 3,000 mutations give the same records, fewer whole batches, or an error that names the place',
    (compression) => {
      const bytes = log(rows, 900, compression)
      // The offset of a batch is not in its CRC: the broker writes it. All else must be as it was.
      const shown = ({ timestamp, key, value, headers }: PlainRecord) =>
        JSON.stringify([timestamp, key, value, headers])
      const good = read(bytes).records.map(shown)
      const random = seeded(20_260_101 + compression.length)
      let errors = 0
      for (let round = 0; round < 3000; round++) {
        const copy = Buffer.from(bytes)
        for (let changes = 1 + random(3); changes > 0; changes--) copy[random(copy.length)] = random(256)
        const cut = random(10) === 0 ? copy.subarray(0, random(copy.length)) : copy
        const { records, error } = read(cut)
        const wrong = records.findIndex((record, i) => shown(record) !== good[i])
        if (wrong >= 0) expect(shown(records[wrong]!)).toBe(good[wrong])
        if (error !== undefined) {
          errors++
          expectNamedError(error)
        }
      }
      expect(errors).toBeGreaterThan(2000)
    },
  )

  test.each([...COMPRESSIONS])(
    '%s: with a right CRC, 1,000 mutations end in records or an error, in bounded time and memory',
    (compression) => {
      const bytes = log(rows.slice(0, 12), 100_000, compression)
      const random = seeded(20_260_202 + compression.length)
      let errors = 0
      for (let round = 0; round < 1000; round++) {
        const copy = Buffer.from(bytes)
        const from = random(4) === 0 ? BatchField.ATTRIBUTES : BatchField.RECORDS
        for (let changes = 1 + random(3); changes > 0; changes--)
          copy[from + random(copy.length - from)] = random(256)
        copy.writeUInt32BE(crc32c(copy.subarray(BatchField.ATTRIBUTES)), BatchField.CRC)
        const { error, reader } = read(copy)
        if (reader.buffer.length > Math.max(limits.maxUncompressedBytes, bytes.length)) {
          throw new Error(`round ${round}: unpacked to ${reader.buffer.length} bytes`)
        }
        if (error !== undefined) {
          errors++
          expectNamedError(error)
        }
      }
      expect(errors).toBeGreaterThan(200)
    },
  )
})
