import { expect, test } from '@jest/globals'
import { canonicalText, hashText } from '../../../../src/core/graph/fingerprint.ts'

test('the hash has known answers of MurmurHash3_x86_128', () => {
  expect(hashText('')).toBe('00000000000000000000000000000000')
  expect(hashText('I will not buy this record, it is scratched.')).toBe('a0a9683b25ac5e40d9af2895890dddf5')
  expect(hashText('größe')).not.toBe(hashText('grosse'))
})

test('equal data have equal texts, whatever the order of keys and however absence is written', () => {
  expect(canonicalText({ b: 1, a: [true, null], c: undefined })).toBe('{"a":[true,null],"b":1}')
  expect(canonicalText({ a: [true, null], b: 1 })).toBe('{"a":[true,null],"b":1}')
})

test('different data have different texts', () => {
  const values = [
    1,
    '1',
    1n,
    true,
    null,
    [],
    {},
    [1],
    ['1'],
    [[1]],
    { a: 1 },
    /a/,
    /a/g,
    Number.NaN,
    '',
    'undefined',
    undefined,
  ]
  expect(new Set(values.map(canonicalText)).size).toBe(values.length)
})

test('functions count as a function, dates by their time', () => {
  expect(canonicalText({ topic: (v: string) => v })).toBe(canonicalText({ topic: (v: number) => v + 1 }))
  expect(canonicalText(new Date(0))).toBe('"1970-01-01T00:00:00.000Z"')
})
