import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  hashOfKey,
  keyGroupOf,
  keyGroupRangeOf,
  splitRange,
  subtaskOfKeyGroup,
} from '../../src/core/graph/key-groups.ts'
import { decodeKey, encodeKey } from '../../src/core/key-encoding.ts'
import { murmur3 } from '../../src/core/murmur3.ts'
import type { Key } from '../../src/core/state.ts'

const text = fc.string({ unit: 'binary', maxLength: 12 })
const units = fc.array(fc.nat(0xffff), { maxLength: 6 }).map((codes) => String.fromCharCode(...codes))
const primitive = fc.oneof(
  fc.string({ unit: 'binary-ascii', maxLength: 12 }),
  text,
  units,
  fc.integer(),
  fc.double({ noNaN: true }),
  fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }),
  fc.boolean(),
  fc.uint8Array({ maxLength: 6 }),
)
const key = fc.letrec<{ key: Key }>((tie) => ({
  key: fc.oneof({ maxDepth: 3 }, primitive, fc.array(tie('key'), { maxLength: 4 })),
})).key

/** Same key: as a Map tells primitives apart, and element by element otherwise. */
function same(a: Key, b: Key): boolean {
  if (typeof a !== 'object' || typeof b !== 'object') return a === b
  return (
    ArrayBuffer.isView(a) === ArrayBuffer.isView(b) &&
    a.length === b.length &&
    a.every((each, i) => same(each, b[i]!))
  )
}

test('a key comes back from its bytes', () => {
  fc.assert(
    fc.property(key, (each) => same(decodeKey(encodeKey(each)), each)),
    { numRuns: 500 },
  )
})

test('two keys have the same bytes only if they are the same key', () => {
  fc.assert(
    fc.property(key, key, (a, b) => Buffer.compare(encodeKey(a), encodeKey(b)) !== 0 || same(a, b)),
    { numRuns: 500 },
  )
})

test('the hash of a key is that of its canonical bytes, on the fast paths too', () => {
  fc.assert(
    fc.property(key, (each) => hashOfKey(each) === (murmur3(encodeKey(each)) & 0x7fffffff)),
    { numRuns: 1_000 },
  )
})

const parallelism = fc
  .integer({ min: 1, max: 300 })
  .chain((max) => fc.tuple(fc.constant(max), fc.integer({ min: 1, max })))

test('each key group belongs to the range of exactly its subtask', () => {
  fc.assert(
    fc.property(parallelism, ([max, count]) => {
      let next = 0
      for (let subtask = 0; subtask < count; subtask++) {
        const { start, end } = keyGroupRangeOf(subtask, max, count)
        expect(start).toBe(next)
        expect(end).toBeGreaterThanOrEqual(start)
        for (let group = start; group <= end; group++)
          expect(subtaskOfKeyGroup(group, max, count)).toBe(subtask)
        next = end + 1
      }
      expect(next).toBe(max)
    }),
  )
})

test('a range splits at a rescale into parts that the new subtasks own, without loss', () => {
  fc.assert(
    fc.property(parallelism, fc.nat(), fc.nat(), ([max, count], oldDraw, subtaskDraw) => {
      const old = 1 + (oldDraw % max)
      const range = keyGroupRangeOf(subtaskDraw % old, max, old)
      let next = range.start
      for (const part of splitRange(range, max, count)) {
        expect(part.range.start).toBe(next)
        for (let group = part.range.start; group <= part.range.end; group++)
          expect(subtaskOfKeyGroup(group, max, count)).toBe(part.subtask)
        next = part.range.end + 1
      }
      expect(next).toBe(range.end + 1)
    }),
  )
})

test('many keys spread over the key groups within a factor of two of even', () => {
  const counts = new Array<number>(128).fill(0)
  for (let i = 0; i < 128_000; i++) counts[keyGroupOf(`u${i}`, 128)]!++
  expect(Math.min(...counts)).toBeGreaterThan(500)
  expect(Math.max(...counts)).toBeLessThan(2_000)
})
