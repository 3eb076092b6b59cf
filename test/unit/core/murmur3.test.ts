import { expect, test } from '@jest/globals'
import {
  murmur3,
  murmur3Hex128,
  murmur3OfTaggedAscii,
  murmur3OfTaggedInt32,
  NOT_ASCII,
} from '../../../src/core/murmur3.ts'

const utf8 = (text: string) => new TextEncoder().encode(text)

test('the 32-bit hash has the published test values', () => {
  expect(murmur3(utf8(''))).toBe(0)
  expect(murmur3(utf8('test')) >>> 0).toBe(0xba6bd213)
  expect(murmur3(utf8('Hello, world!')) >>> 0).toBe(0xc0363e43)
  expect(murmur3(utf8('The quick brown fox jumps over the lazy dog')) >>> 0).toBe(0x2e4ff723)
})

test('the 128-bit hash has the published test values', () => {
  expect(murmur3Hex128(utf8(''))).toBe('0'.repeat(32))
  expect(murmur3Hex128(utf8('The quick brown fox jumps over the lazy dog'))).toBe(
    '2f1583c3ecee2c675d7bf66ce5e91d2c',
  )
})

test('an ASCII text is hashed as its tagged bytes, at every length modulo four', () => {
  for (let length = 0; length < 20; length++) {
    const text = 'abcdefghijklmnopqrst'.slice(0, length)
    expect(murmur3OfTaggedAscii(1, text)).toBe(murmur3(utf8(`\u0001${text}`)) & 0x7fffffff)
  }
})

test('a text with another character anywhere is no ASCII text', () => {
  for (const text of ['é', 'aé', 'abé', 'abcé', 'abcdé', 'éabcdefg', 'abcdefgé'])
    expect(murmur3OfTaggedAscii(1, text)).toBe(NOT_ASCII)
})

test('an integer is hashed as its tagged bytes', () => {
  for (const value of [0, 1, -1, 0x12345678, 2 ** 31 - 1, -(2 ** 31)]) {
    const bytes = new Uint8Array(5)
    bytes[0] = 2
    new DataView(bytes.buffer).setInt32(1, value, true)
    expect(murmur3OfTaggedInt32(2, value)).toBe(murmur3(bytes) & 0x7fffffff)
  }
})
