import { describe, expect, test } from '@jest/globals'
import { COMPRESSIONS } from '../../../src/kafka/compression.ts'
import { RecordBatchReader } from '../../../src/kafka/record-batch.ts'
import { RecordBatchBuilder } from '../../../src/kafka/record-batch-builder.ts'
import {
  decodePlainRecords,
  encodeControlBatch,
  encodePlainBatch,
  isIntact,
  markerOf,
  placeBatch,
  readBatchHeader,
  splitBatches,
  stampBatch,
} from '../../../src/testing/plain-batch.ts'

const RECORDS = [
  {
    key: 'k',
    value: 'first',
    timestamp: 1_000,
    headers: [
      ['h', Buffer.from('1')],
      ['h', null],
    ] as [string, Buffer | null][],
  },
  { key: null, value: null, timestamp: 900 },
  { key: '', value: 'x'.repeat(300), timestamp: 1_000_000 },
]

function readAll(bytes: Buffer, from = 0n) {
  const reader = new RecordBatchReader('t', 0)
  reader.open(bytes, from, undefined)
  const seen: [bigint, string | null][] = []
  while (reader.next()) {
    const value =
      reader.valueStart < 0 ? null : reader.buffer.toString('utf8', reader.valueStart, reader.valueEnd)
    seen.push([reader.offset(), value])
  }
  return { seen, nextOffset: reader.nextOffset }
}

describe('plain batches', () => {
  test('the codec of the product reads what is written here', () => {
    const batch = encodePlainBatch({ records: RECORDS })
    placeBatch(batch, 40n, 3)
    expect(readAll(batch, 40n)).toEqual({
      seen: [
        [40n, 'first'],
        [41n, null],
        [42n, 'x'.repeat(300)],
      ],
      nextOffset: 43n,
    })
  })

  test.each(COMPRESSIONS)('what the product writes with %s is read here', (compression) => {
    const builder = new RecordBatchBuilder({ maxBytes: 100_000, compression })
    builder.append('k', 'first', 1_000, [['h', Buffer.from('1')]])
    builder.append(null, null, 900)
    const batch = builder.build({ producerId: 7n, producerEpoch: 2, baseSequence: 5, transactional: true })
    expect(isIntact(batch)).toBe(true)
    const header = readBatchHeader(batch)!
    expect(header).toMatchObject({
      producerId: 7n,
      producerEpoch: 2,
      baseSequence: 5,
      count: 2,
      transactional: true,
      control: false,
    })
    expect(decodePlainRecords(batch)).toEqual([
      {
        offset: 0n,
        timestamp: 1_000,
        key: Buffer.from('k'),
        value: Buffer.from('first'),
        headers: [['h', Buffer.from('1')]],
      },
      { offset: 1n, timestamp: 900, key: null, value: null, headers: [] },
    ])
  })

  test('records survive the round trip', () => {
    const records = decodePlainRecords(encodePlainBatch({ records: RECORDS, baseOffset: 10n }))
    expect(records.map(({ offset, timestamp }) => [offset, timestamp])).toEqual([
      [10n, 1_000],
      [11n, 900],
      [12n, 1_000_000],
    ])
    expect(records[0]!.headers).toEqual([
      ['h', Buffer.from('1')],
      ['h', null],
    ])
    expect(records[1]!.key).toBe(null)
    expect(records[2]!.key).toEqual(Buffer.alloc(0))
  })

  test('a marker is a control batch: read here, passed over by the product', () => {
    for (const commit of [true, false]) {
      const batch = encodeControlBatch({
        commit,
        producerId: 5n,
        producerEpoch: 1,
        coordinatorEpoch: 0,
        timestamp: 9,
      })
      expect(markerOf(batch)).toBe(commit ? 'COMMIT' : 'ABORT')
      expect(readBatchHeader(batch)).toMatchObject({
        control: true,
        transactional: true,
        producerId: 5n,
        producerEpoch: 1,
      })
      expect(readAll(batch)).toEqual({ seen: [], nextOffset: 1n })
    }
  })

  test('damage is seen, and placing or stamping a batch is none', () => {
    const batch = encodePlainBatch({ records: RECORDS })
    placeBatch(batch, 99n, 1)
    expect(isIntact(batch)).toBe(true)
    stampBatch(batch, 5_000)
    expect(isIntact(batch)).toBe(true)
    expect(decodePlainRecords(batch).map(({ timestamp }) => timestamp)).toEqual([5_000, 5_000, 5_000])
    batch[70]! ^= 1
    expect(isIntact(batch)).toBe(false)
  })

  test('a cut-off tail is left out', () => {
    const one = encodePlainBatch({ records: [{ value: 'a' }] })
    const two = Buffer.concat([one, one])
    expect(splitBatches(two).length).toBe(2)
    expect(splitBatches(two.subarray(0, two.length - 1)).length).toBe(1)
    expect(splitBatches(one.subarray(0, 20)).length).toBe(0)
    expect(() => decodePlainRecords(one.subarray(0, 62))).toThrow('cut off')
  })
})
