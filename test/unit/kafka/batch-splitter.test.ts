import { describe, expect, test } from '@jest/globals'
import { sequenceAfter, splitBatch } from '../../../src/kafka/batch-splitter.ts'
import { RecordBatchBuilder } from '../../../src/kafka/record-batch-builder.ts'
import { readBatchHeaders } from '../../../src/kafka/record-batch-header.ts'
import { readRecords } from './read-records.ts'

const place = { topic: 'orders', partition: 3 }

test('sequence numbers wrap from 2^31 - 1 to 0', () => {
  expect(sequenceAfter(0, 5)).toBe(5)
  expect(sequenceAfter(2 ** 31 - 6, 5)).toBe(2 ** 31 - 1)
  expect(sequenceAfter(2 ** 31 - 5, 5)).toBe(0)
  expect(sequenceAfter(2 ** 31 - 1, 5)).toBe(4)
  expect(sequenceAfter(-1, 5)).toBe(-1)
})

describe('splitBatch', () => {
  test.each(['none', 'lz4'] as const)(
    '%s: the halves hold the same records under the same producer and sequences',
    (compression) => {
      const builder = new RecordBatchBuilder({ maxBytes: 10_000, compression })
      for (let i = 0; i < 7; i++)
        builder.append(i % 2 ? null : `k${i}`, i % 3 ? `v${i}` : null, 1000 - i, [['h', i % 2 ? null : 'x']])
      const producer = { producerId: 9n, producerEpoch: 2, baseSequence: 2 ** 31 - 2, transactional: true }
      const whole = builder.build(producer)
      const halves = splitBatch({ bytes: whole, count: 7, recordsCrc: builder.recordsCrc }, place, {
        compression,
      })
      expect(halves.map(({ count }) => count)).toEqual([4, 3])
      halves[1]!.bytes.writeBigInt64BE(4n)
      const joined = Buffer.concat(halves.map(({ bytes }) => bytes))
      expect(readRecords(joined).records).toEqual(readRecords(whole).records)
      expect(readBatchHeaders(joined, place)).toMatchObject([
        { producerId: 9n, producerEpoch: 2, baseSequence: 2 ** 31 - 2, isTransactional: true, count: 4 },
        { producerId: 9n, producerEpoch: 2, baseSequence: 2, isTransactional: true, count: 3 },
      ])
    },
  )
})
