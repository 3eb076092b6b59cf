import { describe, expect, test } from '@jest/globals'
import type { ColdRecord } from '../../../src/state/cold-store.ts'
import { EvictedRows } from '../../../src/state/evicted-rows.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'

const random = new SeededRandom(7)
const bytes = (length: number) => Uint8Array.from({ length }, () => random.integer(0, 255))
const maybe = () => (random.chance(0.3) ? undefined : bytes(random.integer(0, 90)))

/** Some are larger than a chunk, some are empty. */
function anyRow(): ColdRecord {
  const value = random.chance(0.01) ? bytes(300_000) : maybe()
  return { keyGroup: random.integer(0, 32_767), key: bytes(random.integer(0, 40)), value, timers: maybe() }
}

const plain = (row: ColdRecord | undefined) =>
  row && {
    keyGroup: row.keyGroup,
    key: [...row.key],
    value: row.value && Buffer.from(row.value).toString('hex'),
    timers: row.timers && [...row.timers],
  }

describe('evicted rows', () => {
  test('come back as they were, in their order, whatever is added meanwhile', () => {
    const rows = new EvictedRows()
    const expected: ColdRecord[] = []
    for (let step = 0; step < 2_000; step++) {
      if (random.chance(0.55)) {
        const row = anyRow()
        rows.add(row)
        expected.push(row)
      } else expect(plain(rows.take())).toEqual(plain(expected.shift()))
      expect(rows.length).toBe(expected.length)
    }
    for (const row of expected) expect(plain(rows.take())).toEqual(plain(row))
    expect(rows.take()).toBeUndefined()
  })

  test('of an earlier list, some of them taken, go before those of a later one', () => {
    const [older, later] = [new EvictedRows(), new EvictedRows()]
    const rows = Array.from({ length: 30 }, anyRow)
    for (const row of rows.slice(0, 20)) older.add(row)
    for (const row of rows.slice(20)) later.add(row)
    for (const row of rows.slice(0, 5)) expect(plain(older.take())).toEqual(plain(row))
    later.prepend(older)
    expect([older.length, later.length]).toEqual([0, 25])
    expect(older.take()).toBeUndefined()
    later.add(rows[0]!)
    for (const row of [...rows.slice(5), rows[0]!]) expect(plain(later.take())).toEqual(plain(row))
    later.prepend(new EvictedRows())
    expect(later.take()).toBeUndefined()
  })
})
