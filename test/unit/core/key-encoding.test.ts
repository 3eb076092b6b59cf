import { runInNewContext } from 'node:vm'
import { describe, expect, test } from '@jest/globals'
import { checkKey, decodeKey, encodeKey } from '../../../src/core/key-encoding.ts'
import type { Key } from '../../../src/core/state.ts'

const hex = (key: Key) => Buffer.from(encodeKey(key)).toString('hex')

describe('encodeKey', () => {
  test('keys that look alike have different bytes', () => {
    const keys: Key[] = [
      1,
      1n,
      '1',
      true,
      'true',
      ['1'],
      [1],
      [['1']],
      [],
      [[]],
      '',
      0,
      0n,
      false,
      new Uint8Array([49]),
    ]
    expect(new Set(keys.map(hex)).size).toBe(keys.length)
    expect(hex(['ab', 'c'])).not.toBe(hex(['a', 'bc']))
    expect(hex([['a'], 'b'])).not.toBe(hex([['a', 'b']]))
    expect(hex('\ud800')).not.toBe(hex('\ufffd'))
  })

  test('minus zero is zero', () => {
    expect(hex(-0)).toBe(hex(0))
  })

  test('bytes of another realm, and a Buffer, are bytes', () => {
    expect(hex(runInNewContext('new Uint8Array([1, 2])'))).toBe('070102')
    expect(hex(Buffer.from([1, 2]))).toBe('070102')
  })

  test.each([
    ['null', null, 'The key is null'],
    ['undefined', undefined, 'The key is undefined'],
    ['NaN', Number.NaN, 'The key is NaN'],
    ['an object', {}, 'The key is an object'],
    ['a Date', new Date(), 'The key is an instance of Date'],
    ['a boxed string', Object('a'), 'The key is an instance of String'],
    ['a symbol', Symbol('x'), 'The key is a symbol'],
    ['other typed arrays', new Int32Array(1), 'The key is an instance of Int32Array'],
    ['null inside an array', ['a', [1, null]], "The key's element [1][1] is null"],
    ['a hole in an array', new Array(1), "The key's element [0] is undefined"],
  ])('refuses %s, naming operator and place', (_name, key, message) => {
    expect(() => encodeKey(key as Key, 'count')).toThrow(`Operator 'count': ${message}`)
    expect(() => encodeKey(key as Key)).toThrow(expect.objectContaining({ code: 'MILLRACE_INVALID_KEY' }))
    expect(() => checkKey(key, 'count')).toThrow(`Operator 'count': ${message}`)
  })

  test('refuses an array that contains itself instead of running for ever', () => {
    const key: unknown[] = []
    key.push(key)
    expect(() => encodeKey(key as unknown as Key)).toThrow(/nested deeper than 32/)
  })
})

describe('decodeKey', () => {
  test.each([
    ['no bytes', ''],
    ['an unknown tag', '09'],
    ['an integer with a byte too few', '02000000'],
    ['a double that is an integer of 32 bits', '03000000000000f03f'],
    ['NaN', '03000000000000f87f'],
    ['a bigint without a sign', '04'],
    ['a bigint with zeros at its end', '04000100'],
    ['minus zero as bigint', '0401'],
    ['bytes after true', '0600'],
    ['a broken UTF-8 sequence', '01c3'],
    ['an overlong UTF-8 sequence', '01c080'],
    ['an element longer than the array', '08050161'],
    ['a length with needless bytes', '0882000161'],
  ])('refuses %s', (_name, bytes) => {
    expect(() => decodeKey(Buffer.from(bytes, 'hex'))).toThrow(
      expect.objectContaining({ code: 'MILLRACE_STATE_LOST' }),
    )
  })

  test('the key shares no memory with the bytes', () => {
    const bytes = Buffer.from('070102', 'hex')
    const key = decodeKey(bytes) as Uint8Array
    bytes.fill(9)
    expect([...key]).toEqual([1, 2])
  })
})
