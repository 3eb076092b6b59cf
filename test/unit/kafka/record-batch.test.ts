import { describe, expect, test } from '@jest/globals'
import { crc32c } from '@node-rs/crc32'
import { RecordBatchReader } from '../../../src/kafka/record-batch.ts'
import { NO_PRODUCER, RecordBatchBuilder, type RecordData } from '../../../src/kafka/record-batch-builder.ts'
import { BatchField } from '../../../src/kafka/record-batch-header.ts'
import { hex, readRecords } from './read-records.ts'

type Row = [key: RecordData, value: RecordData, timestamp: number, headers?: [string, RecordData][]]

/** A batch as it lies on a broker. */
function batch(
  baseOffset: bigint,
  rows: Row[],
  options: { producerId?: bigint; compression?: 'none' | 'gzip' } = {},
): Buffer {
  const builder = new RecordBatchBuilder({ maxBytes: 1_000_000, compression: options.compression ?? 'none' })
  for (const row of rows) expect(builder.append(...row)).toBe(true)
  const { producerId } = options
  const bytes = builder.build(
    producerId === undefined
      ? NO_PRODUCER
      : { producerId, producerEpoch: 4, baseSequence: 7, transactional: true },
  )
  bytes.writeBigInt64BE(baseOffset)
  return bytes
}

/** Changes bytes of a batch and makes its CRC right again: what a hostile or broken producer could send. */
function forged(bytes: Buffer, change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(bytes)
  change(copy)
  copy.writeUInt32BE(crc32c(copy.subarray(BatchField.ATTRIBUTES)), BatchField.CRC)
  return copy
}

/** A control batch with one marker. */
function marker(offset: bigint, producerId: bigint, type: 'commit' | 'abort'): Buffer {
  const key = Buffer.from([0, 0, 0, type === 'commit' ? 1 : 0])
  const value = Buffer.from([0, 0, 0, 0, 0, 9])
  return forged(batch(offset, [[key, value, 5]], { producerId }), (copy) =>
    copy.writeInt16BE(0x30, BatchField.ATTRIBUTES),
  )
}

/** `count` records of one byte each. */
function rows(count: number): Row[] {
  return Array.from({ length: count }, (_, i) => [null, String.fromCharCode(97 + i), 1000 + i])
}

function values(read: ReturnType<typeof readRecords>): string[] {
  return read.records.map(({ value }) => Buffer.from(value!, 'hex').toString())
}

describe('RecordBatchReader', () => {
  test('shows keys, values, times, offsets and headers, with nulls and empty ones told apart', () => {
    const { records, nextOffset } = readRecords(
      batch(70n, [
        ['k', 'v', 1000],
        [null, null, 999],
        [
          '',
          '',
          1000 + 2 ** 40,
          [
            ['a', 'x'],
            ['a', null],
            ['', ''],
          ],
        ],
      ]),
    )
    expect(records).toEqual([
      { offset: 70n, timestamp: 1000, key: hex('k'), value: hex('v'), headers: [] },
      { offset: 71n, timestamp: 999, key: null, value: null, headers: [] },
      {
        offset: 72n,
        timestamp: 1000 + 2 ** 40,
        key: '',
        value: '',
        headers: [
          ['a', hex('x')],
          ['a', null],
          ['', ''],
        ],
      },
    ])
    expect(nextOffset).toBe(73n)
  })

  test('the position is exact between two records of a batch', () => {
    const reader = new RecordBatchReader('orders', 3)
    reader.open(batch(10n, rows(3)), 11n, undefined)
    expect(reader.nextOffset).toBe(11n)
    expect(reader.next()).toBe(true)
    expect(reader.offset()).toBe(11n)
    expect(reader.nextOffset).toBe(12n)
    expect(reader.next()).toBe(true)
    expect(reader.nextOffset).toBe(13n)
    expect(reader.next()).toBe(false)
    expect(reader.nextOffset).toBe(13n)
  })

  test('a fetch of nothing but markers and aborted batches moves the position past them', () => {
    const bytes = Buffer.concat([batch(0n, rows(2), { producerId: 9n }), marker(2n, 9n, 'abort')])
    const read = readRecords(bytes, { aborted: [{ producerId: 9n, firstOffset: 0n }] })
    expect(read.records).toEqual([])
    expect(read.nextOffset).toBe(3n)
  })

  test('a producer is readable again after its abort marker, until its next aborted transaction', () => {
    const bytes = Buffer.concat([
      batch(0n, [[null, 'lost', 0]], { producerId: 9n }),
      batch(1n, [[null, 'other producer', 0]], { producerId: 8n }),
      marker(2n, 9n, 'abort'),
      batch(3n, [[null, 'kept', 0]], { producerId: 9n }),
      marker(4n, 9n, 'commit'),
      batch(5n, [[null, 'lost too', 0]], { producerId: 9n }),
      batch(6n, [[null, 'no transaction', 0]]),
    ])
    const aborted = [
      { producerId: 9n, firstOffset: 5n },
      { producerId: 9n, firstOffset: 0n },
    ]
    const read = readRecords(bytes, { aborted })
    expect(values(read)).toEqual(['other producer', 'kept', 'no transaction'])
    expect(read.nextOffset).toBe(7n)
    expect(values(readRecords(bytes))).toEqual([
      'lost',
      'other producer',
      'kept',
      'lost too',
      'no transaction',
    ])
  })

  test('an abort list of an earlier fetch does not hide records of the next one', () => {
    const reader = new RecordBatchReader('orders', 3)
    reader.open(batch(0n, rows(1), { producerId: 9n }), 0n, [{ producerId: 9n, firstOffset: 0n }])
    expect(reader.next()).toBe(false)
    reader.open(batch(1n, rows(1), { producerId: 9n }), 1n, [])
    expect(reader.next()).toBe(true)
  })

  test('a compacted batch moves the position to its last offset, also when no record is left', () => {
    const gap = forged(batch(0n, rows(1)), (copy) => copy.writeInt32BE(41, BatchField.LAST_OFFSET_DELTA))
    expect(readRecords(gap).nextOffset).toBe(42n)
    const empty = forged(batch(42n, rows(1)).subarray(0, BatchField.RECORDS), (copy) => {
      copy.writeInt32BE(copy.length - 12, BatchField.LENGTH)
      copy.writeInt32BE(7, BatchField.LAST_OFFSET_DELTA)
      copy.writeInt32BE(0, BatchField.COUNT)
    })
    const read = readRecords(Buffer.concat([gap, empty]))
    expect(values(read)).toEqual(['a'])
    expect(read.nextOffset).toBe(50n)
  })

  test('batches wholly below the position are skipped and the position never goes back', () => {
    const read = readRecords(Buffer.concat([batch(0n, rows(3)), batch(3n, rows(2))]), { from: 4n })
    expect(values(read)).toEqual(['b'])
    const below = readRecords(batch(0n, rows(3)), { from: 9n })
    expect(below.records).toEqual([])
    expect(below.nextOffset).toBe(9n)
  })

  test('offsets beyond what a number holds stay exact', () => {
    const base = 2n ** 60n + 1n
    const { records, nextOffset } = readRecords(batch(base, rows(3)), { from: base + 1n })
    expect(records.map(({ offset }) => offset)).toEqual([base + 1n, base + 2n])
    expect(nextOffset).toBe(base + 3n)
  })

  test('a batch cut off at the end is left for the next fetch', () => {
    const second = batch(2n, rows(2))
    for (let kept = 0; kept < second.length; kept++) {
      const read = readRecords(Buffer.concat([batch(0n, rows(2)), second.subarray(0, kept)]))
      expect(values(read)).toEqual(['a', 'b'])
      expect(read.nextOffset).toBe(2n)
      expect(read.reader.truncated).toBe(false)
    }
  })

  test('a first batch larger than the fetch is reported with the size that it needs', () => {
    const bytes = batch(0n, rows(20))
    const { records, nextOffset, reader } = readRecords(bytes.subarray(0, 70))
    expect(records).toEqual([])
    expect(nextOffset).toBe(0n)
    expect(reader.truncated).toBe(true)
    expect(reader.neededBytes).toBe(bytes.length)
    expect(readRecords(bytes.subarray(0, 12)).reader).toMatchObject({ truncated: true, neededBytes: 0 })
  })

  test('a first batch that is cut off though it was asked for whole is damaged, not fetched for ever', () => {
    const bytes = batch(0n, rows(20))
    const reader = new RecordBatchReader('orders', 3)
    reader.open(bytes.subarray(0, 70), 5n, undefined, bytes.length)
    expect(() => reader.next()).toThrow(/cut off at 70 bytes/)
  })

  test('facts of the current batch can be read', () => {
    const reader = new RecordBatchReader('orders', 3)
    reader.open(batch(0n, rows(1), { producerId: 77n }), 0n, undefined)
    reader.next()
    expect([reader.producerId, reader.producerEpoch, reader.isTransactional]).toEqual([77n, 4, true])
  })
})

describe('damaged batches', () => {
  const good = batch(100n, rows(3))
  const first = BatchField.RECORDS

  test.each<[string, (copy: Buffer) => void, RegExp]>([
    [
      'more records counted than there are',
      (b) => b.writeInt32BE(4, BatchField.COUNT),
      /4 records in an offset range of 3/,
    ],
    [
      'fewer records counted than there are',
      (b) => b.writeInt32BE(2, BatchField.COUNT),
      /left behind the last record/,
    ],
    ['no records counted but some there', (b) => b.writeInt32BE(0, BatchField.COUNT), /has bytes for some/],
    ['a negative count', (b) => b.writeInt32BE(-1, BatchField.COUNT), /-1 records/],
    ['a negative offset range', (b) => b.writeInt32BE(-9, BatchField.LAST_OFFSET_DELTA), /range of -8/],
    ['a record length beyond the batch', (b) => b.writeUInt8(126, first), /runs past its batch/],
    ['a negative record length', (b) => b.writeUInt8(1, first), /runs past its batch/],
    ['a record length that never ends', (b) => b.fill(0xff, first, first + 8), /runs past its batch/],
    ['a time that never ends', (b) => b.fill(0xff, first + 2, first + 8), /Damaged record batch/],
    ['a key length of -2', (b) => b.writeUInt8(3, first + 4), /negative length/],
    ['a key that runs past its record', (b) => b.writeUInt8(40, first + 4), /cut off/],
    ['a value length of -2', (b) => b.writeUInt8(3, first + 5), /negative length/],
    ['a value that runs past its record', (b) => b.writeUInt8(4, first + 5), /cut off/],
    ['a value that is too short', (b) => b.writeUInt8(0, first + 5), /headers|fields do not fill/],
    ['headers that are not there', (b) => b.writeUInt8(2, first + 7), /headers/],
    ['a repeated offset', (b) => b.writeUInt8(0, first + 8 + 3), /offset delta 0 after 0/],
    ['an offset beyond the batch', (b) => b.writeUInt8(20, first + 3), /offset delta 10/],
    ['an unknown codec', (b) => b.writeInt16BE(6, BatchField.ATTRIBUTES), /unknown compression codec 6/],
    [
      'a codec that the bytes are not of',
      (b) => b.writeInt16BE(1, BatchField.ATTRIBUTES),
      /gzip data does not unpack/,
    ],
  ])('%s: an error that names the place', (_, change, message) => {
    try {
      readRecords(forged(good, change), { from: 100n })
    } catch (error) {
      expect(error).toMatchObject({
        name: 'CorruptBatchError',
        code: 'MILLRACE_CORRUPT_BATCH',
        message: expect.stringMatching(message),
        details: { topic: 'orders', partition: 3, offset: expect.any(BigInt) },
      })
      expect((error as Error).message).toContain('orders-3 at offset 10')
      return
    }
    throw new Error('the damage was not found')
  })

  test('a wrong CRC is found before any record is shown', () => {
    const bytes = Buffer.from(good)
    bytes[bytes.length - 1]! ^= 1
    expect(() => readRecords(bytes)).toThrow(/CRC-32C is 0x[0-9a-f]{8}, the batch says 0x[0-9a-f]{8}/)
  })

  test('records before the damaged one are shown, and the position stays before the damage however often one asks', () => {
    const bytes = forged(good, (copy) => copy.writeUInt8(3, first + 8 + 4))
    const reader = new RecordBatchReader('orders', 3)
    reader.open(bytes, 100n, undefined)
    expect(reader.next()).toBe(true)
    for (let i = 0; i < 2; i++) {
      expect(() => reader.next()).toThrow(/at offset 101/)
      expect(reader.nextOffset).toBe(101n)
    }
  })

  test('the old message formats are named', () => {
    for (const magic of [0, 1]) {
      const bytes = Buffer.from(good)
      bytes[BatchField.MAGIC] = magic
      expect(() => readRecords(bytes)).toThrow(
        new RegExp(`magic ${magic} is not supported.*older than Kafka 0.11`),
      )
    }
    const bytes = Buffer.from(good)
    bytes[BatchField.MAGIC] = 9
    expect(() => readRecords(bytes)).toThrow('magic 9 is not supported, only 2')
  })

  test.each([0, 48, -1, 2 ** 31 - 13])('a batch length of %d is refused', (length) => {
    const bytes = Buffer.from(good)
    bytes.writeInt32BE(length, BatchField.LENGTH)
    expect(() => readRecords(bytes)).toThrow(/batch length/)
  })

  test('offsets that go back are refused', () => {
    expect(() => readRecords(Buffer.concat([batch(5n, rows(3)), batch(7n, rows(1))]))).toThrow(
      /offsets go back: 8/,
    )
  })

  test('a batch that unpacks to more than the limit is refused without unpacking it all', () => {
    const bytes = batch(0n, [[null, 'x'.repeat(900_000), 0]], { compression: 'gzip' })
    expect(readRecords(bytes, { limits: { maxUncompressedBytes: 910_000 } }).records).toHaveLength(1)
    expect(() => readRecords(bytes, { limits: { maxUncompressedBytes: 800_000 } })).toThrow(
      /gzip data does not unpack/,
    )
  })
})
