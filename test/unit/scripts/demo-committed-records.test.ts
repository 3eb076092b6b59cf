import { describe, expect, test } from '@jest/globals'
import { visitCommitted } from '../../../scripts/lib/demo/committed-records.ts'
import { encodeControlBatch, encodePlainBatch, placeBatch } from '../../../src/testing/plain-batch.ts'

const EARLIER = 10n
const LATER = 20n

function data(baseOffset: bigint, producerId: bigint, ...values: string[]): Buffer {
  return encodePlainBatch({
    baseOffset,
    producerId,
    producerEpoch: 0,
    baseSequence: 0,
    transactional: true,
    records: values.map((value) => ({ value })),
  })
}

function marker(baseOffset: bigint, producerId: bigint, type: 'COMMIT' | 'ABORT'): Buffer {
  const commit = type === 'COMMIT'
  const batch = encodeControlBatch({
    commit,
    producerId,
    producerEpoch: commit ? 0 : 1,
    coordinatorEpoch: 0,
    timestamp: 0,
  })
  placeBatch(batch, baseOffset, 0)
  return batch
}

function read(
  from: bigint,
  abortedTransactions: { producerId: bigint; firstOffset: bigint }[],
  ...batches: Buffer[]
) {
  const values: string[] = []
  const next = visitCommitted({ abortedTransactions, records: Buffer.concat(batches) }, from, (value) =>
    values.push(value),
  )
  return { values, next }
}

describe('a reader of committed records', () => {
  test('leaves out both of two overlapping aborted transactions, in whatever order the broker lists them', () => {
    const log = [
      data(0n, EARLIER, 'a', 'b'),
      data(2n, LATER, 'c'),
      data(3n, EARLIER, 'd'),
      marker(4n, LATER, 'ABORT'),
      marker(5n, EARLIER, 'ABORT'),
      data(6n, EARLIER, 'e'),
      marker(7n, EARLIER, 'COMMIT'),
    ]
    const earlier = { producerId: EARLIER, firstOffset: 0n }
    const later = { producerId: LATER, firstOffset: 2n }
    for (const listed of [
      [later, earlier],
      [earlier, later],
    ])
      expect(read(0n, listed, ...log)).toEqual({ values: ['e'], next: 8n })
  })

  test('keeps what a producer committed before it aborted', () => {
    const log = [
      data(0n, EARLIER, 'a'),
      marker(1n, EARLIER, 'COMMIT'),
      data(2n, EARLIER, 'b'),
      marker(3n, EARLIER, 'ABORT'),
    ]
    expect(read(0n, [{ producerId: EARLIER, firstOffset: 2n }], ...log).values).toEqual(['a'])
  })

  test('begins inside a batch, and goes on behind a marker', () => {
    expect(read(1n, [], data(0n, EARLIER, 'a', 'b', 'c'), marker(3n, EARLIER, 'COMMIT'))).toEqual({
      values: ['b', 'c'],
      next: 4n,
    })
  })
})
