import { describe, expect, test } from '@jest/globals'
import { digestText, EMPTY_DIGEST, extendDigest, recordsCrc } from '../../../src/kafka/batch-digest.ts'
import { NO_PRODUCER, RecordBatchBuilder } from '../../../src/kafka/record-batch-builder.ts'
import { readBatchHeaders } from '../../../src/kafka/record-batch-header.ts'

const place = { topic: 'orders', partition: 3 }

describe('the digest of a partition', () => {
  test('depends on each batch and on their order', () => {
    const digests = [[1, 2], [2, 1], [1], [2], [], [1, 2, 0], [0, 1, 2]].map((crcs) =>
      crcs.reduce(extendDigest, EMPTY_DIGEST),
    )
    expect(new Set(digests).size).toBe(digests.length)
  })

  test('is the same text in every version', () => {
    expect(digestText([0xdeadbeef, 1].reduce(extendDigest, EMPTY_DIGEST))).toBe('1154912f')
    expect(digestText(0xff)).toBe('000000ff')
  })

  test.each(['none', 'zstd'] as const)(
    '%s: what the builder says of a batch is what its bytes say',
    (compression) => {
      const builder = new RecordBatchBuilder({ maxBytes: 10_000, compression })
      builder.append('k', 'v', 5)
      const bytes = builder.build(NO_PRODUCER)
      expect(recordsCrc(bytes, readBatchHeaders(bytes, place)[0]!, place)).toBe(builder.recordsCrc)
    },
  )
})
