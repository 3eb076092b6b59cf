import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { hashOfKey } from '../../src/core/graph/key-groups.ts'
import { decodeKey, encodeKey } from '../../src/core/key-encoding.ts'
import { GOLDEN_KEYS } from './golden-keys.ts'

const golden: Record<string, { bytes: string; hash: number }> = JSON.parse(
  readFileSync(new URL('key-encoding.json', import.meta.url), 'utf8'),
)

describe('the canonical bytes of keys, format 1', () => {
  test('the list and the golden file name the same keys', () => {
    expect(Object.keys(GOLDEN_KEYS)).toEqual(Object.keys(golden))
  })

  test.each(Object.entries(golden))(
    '%s has the bytes and the hash of the golden file',
    (name, { bytes, hash }) => {
      const key = GOLDEN_KEYS[name]!
      expect(Buffer.from(encodeKey(key)).toString('hex')).toBe(bytes)
      expect(hashOfKey(key)).toBe(hash)
      expect(decodeKey(Buffer.from(bytes, 'hex'))).toEqual(key)
    },
  )
})
