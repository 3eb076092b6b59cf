import { describe, expect, test } from '@jest/globals'
import type { Serde } from '../../../src/core/connector.ts'
import { bytes, float64, integer, json, long, string } from '../../../src/serdes/serdes.ts'

const hex = (data: Uint8Array | null) => (data === null ? null : Buffer.from(data).toString('hex'))

/** What comes back over each of the two ways of reading, from the middle of a larger buffer. */
function readBack<T>(serde: Serde<T>, value: T): T[] {
  const data = serde.serialize(value)!
  const buffer = Buffer.concat([Buffer.from('"ä'), data, Buffer.from('ö"')])
  return [
    serde.deserialize(data),
    serde.deserialize(new Uint8Array(buffer).subarray(3, 3 + data.length)),
    serde.readSlice!(buffer, 3, 3 + data.length),
  ]
}

describe('json', () => {
  test.each([[{ user: 'grüße 🚀', amount: 1.5, list: [null, true] }], ['text'], [0], [false]])(
    '%j comes back',
    (value) => {
      for (const read of readBack(json(), value)) expect(read).toEqual(value)
    },
  )

  test('toText is the text of serialize', () => {
    const value = { a: 'é' }
    expect(hex(json().serialize(value))).toBe(Buffer.from(json().toText!(value)).toString('hex'))
  })

  test('a value without JSON form is refused', () => {
    expect(() => json().serialize(undefined)).toThrow('json: a value of type undefined has no JSON form')
    expect(() => json().toText!(() => 1)).toThrow('type function')
    expect(() => json().serialize(1n)).toThrow('BigInt')
  })

  test('damaged text is refused', () => {
    expect(() => json().deserialize(Buffer.from('{"a":'))).toThrow(SyntaxError)
  })
})

test('string is UTF-8', () => {
  expect(hex(string().serialize('aé🚀'))).toBe('61c3a9f09f9a80')
  for (const read of readBack(string(), 'aé🚀')) expect(read).toBe('aé🚀')
  for (const read of readBack(string(), '')) expect(read).toBe('')
  expect(() => string().serialize(5 as never)).toThrow(
    'string: expected a string, not a value of type number',
  )
})

test('bytes are as they are, and a slice does not follow its buffer', () => {
  const buffer = Buffer.from([1, 2, 3, 4])
  const slice = bytes().readSlice!(buffer, 1, 3)
  buffer.fill(0)
  expect([...slice]).toEqual([2, 3])
  expect(slice.buffer.byteLength).toBe(2)
  expect([...bytes().serialize(slice)!]).toEqual([2, 3])
})

describe('fixed-width numbers are those of the Java serializers', () => {
  test.each([
    [integer(), 1, '00000001'],
    [integer(), -2, 'fffffffe'],
    [integer(), 2 ** 31 - 1, '7fffffff'],
    [long(), 1n, '0000000000000001'],
    [long(), -(2n ** 63n), '8000000000000000'],
    [long(), 2n ** 53n + 1n, '0020000000000001'],
    [float64(), 1.5, '3ff8000000000000'],
    [float64(), -0, '8000000000000000'],
    [float64(), Number.NaN, '7ff8000000000000'],
  ] as [Serde<number | bigint>, number | bigint, string][])('$0.name %p', (serde, value, expected) => {
    expect(hex(serde.serialize(value))).toBe(expected)
    for (const read of readBack(serde, value)) expect(read).toBe(value)
  })

  test('a number that does not fit is refused', () => {
    for (const value of [1.5, 2 ** 31, Number.NaN, 1n as never])
      expect(() => integer().serialize(value)).toThrow(RangeError)
    for (const value of [2n ** 63n, 1 as never])
      expect(() => long().serialize(value)).toThrow('is not a bigint of 64 bits')
    expect(() => float64().serialize('1' as never)).toThrow('float64: expected a number')
  })

  test('bytes of another length are refused', () => {
    expect(() => integer().deserialize(new Uint8Array(8))).toThrow('integer: expected 4 bytes, got 8')
    expect(() => long().readSlice!(Buffer.alloc(8), 0, 4)).toThrow('long: expected 8 bytes, got 4')
  })
})

test('null in, null out', () => {
  for (const serde of [json(), string(), bytes(), integer(), long(), float64()] as Serde<any>[])
    expect(serde.serialize(null)).toBeNull()
})
