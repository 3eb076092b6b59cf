import { describe, expect, test } from '@jest/globals'
import {
  currentRecord,
  deadLetter,
  deadLetterOf,
  deserializationError,
  type KafkaRecord,
} from '../../../src/kafka/deserialization.ts'
import { RecordBatchReader } from '../../../src/kafka/record-batch.ts'
import { encodePlainBatch } from '../../../src/testing/plain-batch.ts'

const record: KafkaRecord = {
  topic: 'orders',
  partition: 3,
  offset: 9007199254740993n,
  timestamp: 5,
  key: Buffer.from('user-1'),
  value: Buffer.from('{"broken"'),
  headers: [
    ['a', Buffer.from('1')],
    ['a', null],
  ],
}

describe('a record that cannot be decoded', () => {
  test('is named with everything that finds it: place, key, first bytes, serde, reason', () => {
    const error = deserializationError(record, 'json', new Error('unexpected end'))
    expect(error).toMatchObject({ code: 'MILLRACE_DESERIALIZATION', fault: 'user' })
    expect(error.message).toBe(
      `cannot decode the record at orders-3 offset 9007199254740993 (key 'user-1', value starts with '{"broken"') with json: unexpected end`,
    )
    expect(error.details).toMatchObject({ topic: 'orders', partition: 3, offset: 9007199254740993n })
  })

  test.each([
    [null, 'value starts with null'],
    [Buffer.alloc(0), "value starts with ''"],
    [Buffer.from([0, 0, 0, 0, 99]), 'value starts with 0x0000000063'],
    [Buffer.from('x'.repeat(40)), `value starts with '${'x'.repeat(32)}…'`],
    [Buffer.alloc(40, 1), `value starts with 0x${'01'.repeat(32)}…`],
  ])('shows bytes as text where they are text (%p)', (value, shown) => {
    expect(deserializationError({ ...record, value }, 'json', 'x').message).toContain(shown)
  })

  test('goes to the dead-letter topic as it was, with headers that say where it came from and what was wrong', () => {
    const error = deserializationError(record, 'json', new Error('no'))
    const letter = deadLetterOf(record, error, 77)
    expect(letter).toMatchObject({ key: record.key, value: record.value, timestamp: 5 })
    expect(
      letter.headers.map(([name, value]) => [name, value === null ? null : Buffer.from(value).toString()]),
    ).toEqual([
      ['a', '1'],
      ['a', null],
      ['millrace.dead-letter.topic', 'orders'],
      ['millrace.dead-letter.partition', '3'],
      ['millrace.dead-letter.offset', '9007199254740993'],
      ['millrace.dead-letter.timestamp', '77'],
      ['millrace.dead-letter.error', error.message],
      ['millrace.dead-letter.code', 'MILLRACE_DESERIALIZATION'],
    ])
  })

  test('a dead-letter topic needs a name', () => {
    expect(deadLetter('dlq')).toEqual({ kind: 'dead-letter', topic: 'dlq' })
    expect(() => deadLetter('')).toThrow(/topic name/)
  })
})

describe('the record that a deserializer sees', () => {
  test('keeps nulls, duplicates and order of headers, and owns its bytes', () => {
    const batch = encodePlainBatch({
      baseOffset: 7n,
      records: [
        {
          key: 'k',
          value: 'v',
          timestamp: 3,
          headers: [
            ['h', Buffer.from('1')],
            ['h', null],
          ],
        },
        { key: null, value: null, timestamp: -1 },
      ],
    })
    const reader = new RecordBatchReader('t', 1)
    reader.open(batch, 0n, undefined)
    reader.next()
    const first = currentRecord(reader)
    batch.fill(0)
    expect(first).toMatchObject({ topic: 't', partition: 1, offset: 7n, timestamp: 3 })
    expect(Buffer.from(first.value!).toString()).toBe('v')
    expect(first.headers.map(([name, value]) => [name, value?.length])).toEqual([
      ['h', 1],
      ['h', undefined],
    ])
  })

  test('has no timestamp when the producer gave none', () => {
    const reader = new RecordBatchReader('t', 1)
    reader.open(encodePlainBatch({ records: [{ value: null, timestamp: -1 }] }), 0n, undefined)
    reader.next()
    expect(currentRecord(reader)).toMatchObject({
      timestamp: Number.NaN,
      key: null,
      value: null,
      headers: [],
    })
  })
})
