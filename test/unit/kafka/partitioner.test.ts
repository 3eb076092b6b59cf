import { describe, expect, test } from '@jest/globals'
import { KeylessPartitioner, murmur2, murmur2Text, partitionForKey } from '../../../src/kafka/partitioner.ts'

describe('murmur2', () => {
  test.each([
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['', 275646681],
    ['é€😀', -232818566],
    ['abc', 479470107],
  ])('of %j is what the Java client computes', (text, hash) => {
    expect(murmur2(Buffer.from(text))).toBe(hash)
    expect(murmur2Text(text)).toBe(hash)
  })

  test('of text equals that of its bytes, wherever a character beyond ASCII stands', () => {
    for (let length = 0; length < 12; length++) {
      for (let at = 0; at <= length; at++) {
        const text = `${'abcdefghijkl'.slice(0, at)}ü${'mnopqrstuvwx'.slice(0, length - at)}`
        expect(murmur2Text(text)).toBe(murmur2(Buffer.from(text)))
      }
    }
  })
})

describe('partitions', () => {
  test('a negative hash gives a partition as the Java client does: the sign bit is dropped', () => {
    expect(partitionForKey('21', 10)).toBe((-973932308 & 0x7fffffff) % 10)
    expect(partitionForKey(Buffer.from('21'), 10)).toBe(partitionForKey('21', 10))
  })

  test('records without a key stay on a partition for a batch, then take the next, and reach all of them', () => {
    const partitioner = new KeylessPartitioner(2, 100)
    const partitions = Array.from({ length: 10 }, () => partitioner.next(50, 4))
    expect(partitions).toEqual([2, 2, 3, 3, 0, 0, 1, 1, 2, 2])
  })

  test('a topic that grows or shrinks is used as it is now', () => {
    const partitioner = new KeylessPartitioner(5, 1)
    expect(partitioner.next(1, 3)).toBe(2)
    expect(partitioner.next(1, 6)).toBe(3)
  })
})
