import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { decodeValue, needsZero } from '../../../src/state/redis-value.ts'

test('every value comes back, and none is stored like a missing one', () => {
  const bytes = fc.oneof(fc.uint8Array({ maxLength: 6, max: 1 }), fc.uint8Array({ maxLength: 50 }))
  fc.assert(
    fc.property(bytes, (value) => {
      const stored = needsZero(value) ? Uint8Array.from([...value, 0]) : value
      expect(stored.length).toBeGreaterThan(0)
      expect([...decodeValue(stored)!]).toEqual([...value])
    }),
  )
  expect(decodeValue(new Uint8Array())).toBeUndefined()
})
