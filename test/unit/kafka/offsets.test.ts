import { describe, expect, test } from '@jest/globals'
import { isSplitFinished, type KafkaSplit, OffsetsInitializer, splitId } from '../../../src/kafka/offsets.ts'

const split = (position: string, stop: string | null): KafkaSplit => ({
  id: 't-0',
  topic: 't',
  topicId: 'x',
  partition: 0,
  position,
  stop,
})

describe('offsets', () => {
  test('a split is finished when its position has reached its stop, as 64-bit numbers', () => {
    expect(isSplitFinished(split('9', '10'))).toBe(false)
    expect(isSplitFinished(split('10', '10'))).toBe(true)
    expect(isSplitFinished(split('100', '99'))).toBe(true)
    expect(isSplitFinished(split('9007199254740993', '9007199254740994'))).toBe(false)
    expect(isSplitFinished(split('5', null))).toBe(false)
  })

  test('a split is named by topic and partition', () => {
    expect(splitId({ topic: 'a-1', partition: 2 })).toBe('a-1-2')
  })

  test('committed fails without a committed offset unless told otherwise', () => {
    expect(OffsetsInitializer.committed().spec).toEqual({ kind: 'committed', reset: 'fail' })
    expect(OffsetsInitializer.committed('latest').spec).toEqual({ kind: 'committed', reset: 'latest' })
    expect(OffsetsInitializer.earliest().spec).toEqual({ kind: 'earliest' })
    expect(OffsetsInitializer.latest().spec).toEqual({ kind: 'latest' })
  })

  test.each([-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '2026' as never])(
    '%p is no timestamp',
    (timestamp) => {
      expect(() => OffsetsInitializer.timestamp(timestamp)).toThrow(
        expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }),
      )
    },
  )

  test.each([-1n, 5 as never, '5' as never, undefined as never])(
    '%p is no offset, and the error names its place',
    (offset) => {
      expect(() => OffsetsInitializer.offsets({ orders: { 0: 1n, 3: offset } })).toThrow(
        /orders-3 must be a bigint/,
      )
    },
  )
})
