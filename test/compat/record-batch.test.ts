import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { digestText, extendDigest, recordsCrc } from '../../src/kafka/batch-digest.ts'
import { readBatchHeaders, readControlRecord } from '../../src/kafka/record-batch-header.ts'
import { hex, type PlainRecord, readRecords } from '../unit/kafka/read-records.ts'

const place = { topic: 'orders', partition: 3 }

function fixture(name: string): Buffer {
  return readFileSync(new URL(`./record-batch/java-${name}.bin`, import.meta.url))
}

/** The record with number `i` of the fixtures, as the Java program made it. */
function fixtureRecord(i: number): PlainRecord {
  const value = i % 7 === 0 ? null : i === 1 ? '' : `{"n":${i},"text":"${'ä€😀x'.repeat(i)}"}`
  return {
    offset: BigInt(i),
    timestamp: 1_764_430_000_000 + (i % 2 === 0 ? i * 1000 : -Math.floor((i * 5_000_000_000) / 7)),
    key: i % 5 === 0 ? null : hex(`key-${i}`),
    value: value === null ? null : hex(value),
    headers:
      i % 3 === 0
        ? [
            ['trace', hex(`id-${i}`)],
            ['trace', null],
            ['é', ''],
          ]
        : [],
  }
}

const expected = Array.from({ length: 40 }, (_, i) => fixtureRecord(i))

describe('batches that the Java client wrote', () => {
  test.each(['none', 'gzip', 'snappy', 'lz4', 'zstd', 'recompress'])(
    '%s: every record is read as it was sent',
    (name) => {
      const { records, nextOffset } = readRecords(fixture(name))
      expect(records).toEqual(expected)
      expect(nextOffset).toBe(40n)
    },
  )

  test('with log append time, all records of a batch have the time of the broker', () => {
    const bytes = fixture('append')
    const [header] = readBatchHeaders(bytes, place)
    const { records } = readRecords(bytes)
    expect(header!.maxTimestamp).toBeGreaterThan(1_764_430_000_000n)
    expect(records).toEqual(
      expected.map((record) => ({ ...record, timestamp: Number(header!.maxTimestamp) })),
    )
  })

  test('reading from the middle of a batch skips the records before the position', () => {
    const { records } = readRecords(fixture('lz4'), { from: 17n })
    expect(records).toEqual(expected.slice(17))
  })

  test('the digest is the same whatever the broker did to the header or the compression', () => {
    const digests = ['none', 'append', 'recompress', 'gzip', 'snappy', 'lz4', 'zstd'].map((name) => {
      const bytes = fixture(name)
      return readBatchHeaders(bytes, place).reduce(
        (sum, header) => extendDigest(sum, recordsCrc(bytes, header, place)),
        0,
      )
    })
    expect(new Set(digests).size).toBe(1)
    expect(digestText(digests[0]!)).toBe('2ce15b34')
  })

  test('markers name how each transaction ended and the headers who wrote what', () => {
    const bytes = fixture('txn')
    const headers = readBatchHeaders(bytes, place)
    const [x, y] = [headers[0]!.producerId, headers[5]!.producerId]
    expect(headers.map(({ isControl }) => isControl)).toEqual(
      [0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1].map((control) => control === 1),
    )
    expect(headers.map(({ producerId }) => producerId)).toEqual([x, x, x, x, x, y, x, x, y, y, x, x])
    expect(
      headers.every(
        ({ isTransactional, count, firstOffset, lastOffset }) =>
          isTransactional && count === 1 && firstOffset === lastOffset,
      ),
    ).toBe(true)
    const markers = headers
      .filter(({ isControl }) => isControl)
      .map((header) => readControlRecord(bytes, header, place))
    expect(markers.map(({ type }) => type)).toEqual(['commit', 'abort', 'commit', 'commit'])
    expect(markers.every(({ coordinatorEpoch }) => coordinatorEpoch >= 0)).toBe(true)
  })

  test('read_committed leaves out exactly the aborted records, and the position passes the last marker', () => {
    const bytes = fixture('txn')
    const x = readBatchHeaders(bytes, place)[0]!.producerId
    const committed = [
      'x-committed-0',
      'x-committed-1',
      'x-committed-2',
      'y-committed-0',
      'y-committed-1',
      'x-committed-3',
    ]
    const { records, nextOffset } = readRecords(bytes, { aborted: [{ producerId: x, firstOffset: 4n }] })
    expect(records.map(({ value }) => value)).toEqual(committed.map(hex))
    expect(records.map(({ offset }) => offset)).toEqual([0n, 1n, 2n, 5n, 8n, 10n])
    expect(nextOffset).toBe(12n)
    expect(readRecords(bytes).records.map(({ offset }) => offset)).toEqual([0n, 1n, 2n, 4n, 5n, 6n, 8n, 10n])
  })
})
