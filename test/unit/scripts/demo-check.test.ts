import { describe, expect, test } from '@jest/globals'
import { BigOrdersCheck, isExact, TotalsCheck } from '../../../scripts/lib/demo/check.ts'
import { amountOf, orderAt, USERS, userOf } from '../../../scripts/lib/demo/orders.ts'

const RECORDS = 8_000

/** The right outputs, worked out the plain way. */
const bigOrders = Array.from({ length: RECORDS }, (_, i) => orderAt(i))
  .filter((order) => order.amount >= 20)
  .map((order) => JSON.stringify({ ...order, euros: order.amount * 0.875 }))
const running = new Map<string, { user: string; count: number; sum: number }>()
const totals = Array.from({ length: RECORDS }, (_, i) => {
  const { user, amount } = orderAt(i)
  const before = running.get(user) ?? { user, count: 0, sum: 0 }
  const total = { user, count: before.count + 1, sum: before.sum + amount }
  running.set(user, total)
  return JSON.stringify(total)
})

function checked(check: BigOrdersCheck | TotalsCheck, records: readonly string[]) {
  for (const record of records) check.record(record)
  return check.result()
}

describe('the generator', () => {
  test('gives many users, all amounts, and orders on both sides of the filter', () => {
    const numbers = Array.from({ length: 50_000 }, (_, i) => i)
    const users = new Set(numbers.map(userOf))
    const amounts = new Set(numbers.map(amountOf))
    expect(users.size).toBeGreaterThan(USERS * 0.95)
    expect(Math.max(...users)).toBeLessThan(USERS)
    expect(amounts.size).toBe(400)
    expect(bigOrders.length / RECORDS).toBeCloseTo(0.8, 1)
  })
})

describe.each([
  ['big orders', () => new BigOrdersCheck(RECORDS), bigOrders],
  ['totals', () => new TotalsCheck(RECORDS), totals],
] as const)('the check of %s', (_name, create, right) => {
  test('accepts the right output, in any order of users', () => {
    const result = checked(create(), right.toReversed())
    expect(result).toEqual({
      expected: right.length,
      out: right.length,
      duplicates: 0,
      missing: 0,
      wrong: 0,
      complaints: [],
    })
    expect(isExact(result)).toBe(true)
  })

  test('finds a duplicate', () => {
    const result = checked(create(), [...right, right[7]!])
    expect(result).toMatchObject({ out: right.length + 1, duplicates: 1, missing: 0, wrong: 0 })
    expect(result.complaints).toEqual([`came twice: ${right[7]}`])
    expect(isExact(result)).toBe(false)
  })

  test('finds a missing record, also when another one came twice', () => {
    const result = checked(create(), [...right.slice(1), right[7]!])
    expect(result).toMatchObject({ out: right.length, duplicates: 1, missing: 1, wrong: 0 })
    expect(isExact(result)).toBe(false)
  })

  test('finds a wrong value', () => {
    const changed = JSON.stringify({ ...JSON.parse(right[3]!), sum: -1, euros: -1 })
    const result = checked(create(), [...right.slice(0, 3), changed, ...right.slice(4)])
    expect(result).toMatchObject({ duplicates: 0, missing: 1, wrong: 1 })
    expect(isExact(result)).toBe(false)
  })

  test.each([
    '',
    'null',
    '{}',
    '{"orderId":-1}',
    '{"user":"u1"}',
    '{"user":"u99999999","count":1,"sum":1}',
    '{"user":"u1","count":0}',
  ])('counts %p as wrong', (text) => {
    expect(checked(create(), [...right, text])).toMatchObject({ wrong: 1, missing: 0 })
  })
})

test('an order below the limit must not be in the output', () => {
  const small = orderAt(Array.from({ length: RECORDS }, (_, i) => i).find((i) => amountOf(i) < 20)!)
  const check = new BigOrdersCheck(RECORDS)
  expect(checked(check, [JSON.stringify({ ...small, euros: small.amount * 0.875 })])).toMatchObject({
    wrong: 1,
  })
})

test('a total that was counted from nothing again after a crash is not right', () => {
  const check = new TotalsCheck(RECORDS)
  const { user, sum } = JSON.parse(totals.find((text) => JSON.parse(text).count === 2)!)
  check.record(JSON.stringify({ user, count: 1, sum }))
  expect(check.result().wrong).toBe(1)
})
