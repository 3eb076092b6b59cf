import { createRequire } from 'node:module'
import { describe, expect, test } from '@jest/globals'
import { crc32c } from '@node-rs/crc32'
import { BatchBufferPool } from '../../../src/kafka/batch-buffer-pool.ts'
import { NO_PRODUCER, RecordBatchBuilder } from '../../../src/kafka/record-batch-builder.ts'
import { BatchField, readBatchHeaders } from '../../../src/kafka/record-batch-header.ts'
import { hex, readRecords } from './read-records.ts'

const place = { topic: 'orders', partition: 3 }

function builder(
  options: Partial<ConstructorParameters<typeof RecordBatchBuilder>[0]> = {},
): RecordBatchBuilder {
  return new RecordBatchBuilder({ maxBytes: 100_000, compression: 'none', ...options })
}

describe('RecordBatchBuilder', () => {
  test('the header says who wrote the batch, when, and how many records it has', () => {
    const b = builder()
    b.append('a', 'x', 5000)
    b.append('b', 'y', 9000)
    b.append('c', 'z', 7000)
    const bytes = b.build({
      producerId: 2n ** 40n,
      producerEpoch: 12,
      baseSequence: 2_147_483_646,
      transactional: true,
    })
    expect(readBatchHeaders(bytes, place)).toEqual([
      {
        start: 0,
        end: bytes.length,
        firstOffset: 0n,
        lastOffset: 2n,
        crc: crc32c(bytes.subarray(BatchField.ATTRIBUTES)),
        codec: 0,
        baseTimestamp: 5000n,
        maxTimestamp: 9000n,
        producerId: 2n ** 40n,
        producerEpoch: 12,
        baseSequence: 2_147_483_646,
        isTransactional: true,
        isControl: false,
        count: 3,
      },
    ])
    expect(bytes.readInt32BE(BatchField.LEADER_EPOCH)).toBe(-1)
  })

  test('a producer without idempotence has -1 in all its fields', () => {
    const b = builder()
    b.append(null, 'x', 0)
    expect(readBatchHeaders(b.build(NO_PRODUCER), place)[0]).toMatchObject({
      producerId: -1n,
      producerEpoch: -1,
      baseSequence: -1,
      isTransactional: false,
    })
  })

  test('the bytes are those that kafkajs writes for the same records', async () => {
    const require = createRequire(import.meta.url)
    const { RecordBatch } = require('kafkajs/src/protocol/recordBatch/v0')
    const encodeRecord = require('kafkajs/src/protocol/recordBatch/record/v0')
    const base = 1_764_430_000_000
    const rows = [
      { key: 'k', value: 'v', at: 0 },
      { key: 'ключ', value: 'ä€😀'.repeat(40), at: 100 },
      { key: null, value: 'x'.repeat(9000), at: -5000 },
      { key: 'k', value: null, at: 70_000_000 },
    ]
    const b = builder()
    for (const { key, value, at } of rows) b.append(key, value, base + at)
    const bytes = b.build({ producerId: 4n, producerEpoch: 2, baseSequence: 6, transactional: true })
    const theirs = await RecordBatch({
      firstTimestamp: base,
      maxTimestamp: base + 70_000_000,
      producerId: '4',
      producerEpoch: 2,
      firstSequence: 6,
      lastOffsetDelta: 3,
      partitionLeaderEpoch: -1,
      transactional: true,
      records: rows.map(({ key, value, at }, i) =>
        encodeRecord({ offsetDelta: i, timestampDelta: at, key, value }),
      ),
    })
    expect(bytes.toString('hex')).toBe(theirs.buffer.toString('hex'))
  })

  test('text beyond ASCII is right at every length around a step of the length varints', () => {
    const lengths = [
      0, 1, 19, 20, 21, 22, 31, 32, 33, 40, 54, 55, 56, 62, 63, 64, 65, 2729, 2730, 2731, 4095, 4096, 8180,
      8191, 8192,
    ]
    const b = builder({ maxBytes: 1_000_000 })
    const texts = lengths.flatMap((n) => [
      'a'.repeat(n),
      'ä'.repeat(n),
      '€'.repeat(n),
      `${'a'.repeat(n)}€`,
      '\ud800'.repeat(n),
    ])
    for (const text of texts) expect(b.append(text, text, 0)).toBe(true)
    const { records } = readRecords(b.build(NO_PRODUCER))
    expect(records.map(({ key }) => key)).toEqual(texts.map(hex))
    expect(records.map(({ value }) => value)).toEqual(texts.map(hex))
  })

  test('a full batch refuses a record without writing any of it', () => {
    const b = builder({ maxBytes: 1000 })
    let appended = 0
    while (b.append('key', 'ü'.repeat(40), 1)) appended++
    const size = b.sizeBytes
    expect(size).toBeLessThanOrEqual(1000)
    expect(size).toBeGreaterThan(1000 - 130)
    expect(b.append('key', 'ü'.repeat(40), 1)).toBe(false)
    expect([b.count, b.sizeBytes]).toEqual([appended, size])
    expect(readRecords(b.build(NO_PRODUCER)).records).toHaveLength(appended)
  })

  test('a record larger than a batch gets one of its own, and the next one does not fit in', () => {
    const b = builder({ maxBytes: 1000 })
    expect(b.append('k', 'x'.repeat(50_000), 1)).toBe(true)
    expect(b.append('k', 'y', 1)).toBe(false)
    expect(readRecords(b.build(NO_PRODUCER)).records).toMatchObject([{ value: hex('x'.repeat(50_000)) }])
    b.reset()
    expect(b.append('k', 'y', 1)).toBe(true)
    expect(b.append('k', 'x'.repeat(50_000), 1)).toBe(false)
  })

  test('a record above the hard limit is an error that names place, size and limit, and leaves the builder usable', () => {
    const b = builder({ maxBytes: 1000, maxRecordBatchBytes: 5000, topic: 'orders', partition: 3 })
    expect(() => b.append('k', 'x'.repeat(5000), 1)).toThrow(
      expect.objectContaining({
        name: 'SerializationError',
        message: 'A record of 5001 bytes for orders-3 is above the limit of 5000 bytes for a batch',
        details: expect.objectContaining({ topic: 'orders', partition: 3, size: 5001, limit: 5000 }),
      }),
    )
    expect(b.append('k', 'x', 1)).toBe(true)
  })

  test.each([Number.NaN, 1.5, -2, Number.POSITIVE_INFINITY, 2 ** 60])(
    'the timestamp %d is refused',
    (timestamp) => {
      const b = builder()
      expect(() => b.append('k', 'v', timestamp)).toThrow(/timestamp is/)
      b.append('k', 'v', 1)
      expect(() => b.append('k', 'v', timestamp)).toThrow(/timestamp is/)
      expect(readRecords(b.build(NO_PRODUCER)).records).toHaveLength(1)
    },
  )

  test('a built batch keeps its bytes while the builder goes on', () => {
    const b = builder({ maxBytes: 5000 })
    b.append('k', 'first', 1)
    const first = b.build(NO_PRODUCER)
    const copy = Buffer.from(first)
    b.reset()
    b.append('k', 'second', 1)
    b.build(NO_PRODUCER)
    expect(first.equals(copy)).toBe(true)
  })

  test('released buffers are used again', () => {
    const pool = new BatchBufferPool()
    const b = builder({ maxBytes: 50_000, pool })
    const memory = new Set<ArrayBufferLike>()
    for (let i = 0; i < 50; i++) {
      while (b.append('k', 'x'.repeat(1000), 1));
      const bytes = b.build(NO_PRODUCER)
      memory.add(bytes.buffer)
      b.release(bytes)
      b.reset()
    }
    expect(memory.size).toBeLessThanOrEqual(3)
  })

  test('a record between build and reset is a mistake that is reported', () => {
    const b = builder()
    b.append('k', 'v', 1)
    b.build(NO_PRODUCER)
    expect(() => b.append('k', 'v', 1)).toThrow(/reset/)
  })

  test.each(['gzip', 'snappy', 'lz4', 'zstd'] as const)(
    '%s: packed batches are read back, of one record and of many blocks',
    (compression) => {
      const b = builder({ maxBytes: 500_000, compression })
      b.append('k', 'v', 1, [['h', null]])
      expect(readRecords(b.build(NO_PRODUCER)).records).toEqual([
        { offset: 0n, timestamp: 1, key: hex('k'), value: hex('v'), headers: [['h', null]] },
      ])
      b.reset()
      let count = 0
      while (b.append(`key-${count}`, JSON.stringify({ n: count, text: 'text '.repeat(count % 20) }), count))
        count++
      const bytes = b.build(NO_PRODUCER)
      const { records } = readRecords(bytes)
      expect(bytes.length).toBeLessThan(250_000)
      expect(records).toHaveLength(count)
      expect(records.at(-1)).toMatchObject({ key: hex(`key-${count - 1}`), timestamp: count - 1 })
    },
  )
})
