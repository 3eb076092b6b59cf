import { expect, test } from '@jest/globals'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'

const draw = (random: SeededRandom, count: number): number[] =>
  Array.from({ length: count }, () => random.uint32())

test('a seed gives the same numbers for ever', () => {
  expect(draw(new SeededRandom(1), 4)).toMatchInlineSnapshot(`
[
  3015154819,
  1031303351,
  1341426452,
  2902597084,
]
`)
})

test('different seeds, also beyond 32 bits, give different numbers', () => {
  const seeds = [0, 1, 2, 2 ** 32, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER]
  expect(new Set(seeds.map((seed) => draw(new SeededRandom(seed), 4).join())).size).toBe(seeds.length)
})

test('numbers lie in [0, 1) and spread evenly', () => {
  const random = new SeededRandom(7)
  const buckets = new Array<number>(10).fill(0)
  for (let i = 0; i < 20_000; i++) {
    const x = random.next()
    buckets[Math.floor(x * 10)]!++
  }
  expect(buckets.length).toBe(10)
  for (const count of buckets) expect(Math.abs(count - 2_000)).toBeLessThan(200)
})

test('integer includes both ends', () => {
  const random = new SeededRandom(3)
  expect(new Set(Array.from({ length: 200 }, () => random.integer(-1, 2)))).toEqual(new Set([-1, 0, 1, 2]))
})

test('a uuid is one of version 4, and no two are alike', () => {
  const random = new SeededRandom(5)
  const uuids = Array.from({ length: 1_000 }, () => random.uuid())
  for (const uuid of uuids)
    expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(new Set(uuids).size).toBe(1_000)
})

test('a fork depends on seed and name only, not on what was drawn before', () => {
  const used = new SeededRandom(9)
  draw(used, 100)
  expect(draw(used.fork('network'), 4)).toEqual(draw(new SeededRandom(9).fork('network'), 4))
  expect(draw(used.fork('network'), 4)).not.toEqual(draw(used.fork('faults'), 4))
})
