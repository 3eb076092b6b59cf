import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { MapHeader, splitFrom } from '../../../src/state/map-buckets.ts'

const keys = Array.from({ length: 400 }, (_, i) => (i % 2 === 0 ? i : `key ${i}`))

function headerOf(buckets: number): MapHeader {
  const header = new MapHeader()
  header.buckets = buckets
  return header
}

test('a split moves keys from the one bucket that it names to the new one, and no others', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5_000 }), (buckets) => {
      const [before, after] = [headerOf(buckets), headerOf(buckets + 1)]
      const wrong = keys.filter((key) => {
        const [from, to] = [before.bucketOf(key), after.bucketOf(key)]
        return from >= buckets || (from !== to && (from !== splitFrom(buckets) || to !== buckets))
      })
      expect(wrong).toEqual([])
    }),
    { numRuns: 100 },
  )
})

test('keys are spread over all buckets', () => {
  const header = headerOf(24)
  const sizes = new Map<number, number>()
  for (const key of keys) sizes.set(header.bucketOf(key), (sizes.get(header.bucketOf(key)) ?? 0) + 1)
  expect(sizes.size).toBe(24)
  expect(Math.max(...sizes.values())).toBeLessThan(60)
})
