import { describe, expect, test } from '@jest/globals'
import { string } from 'millrace'
import { TestDriver } from 'millrace/testing'
import { etl, type Order, options, order } from './order-jobs.ts'

describe('topics of a test', () => {
  test('hold keys, headers, timestamps, tombstones and values of any serde', async () => {
    const driver = await TestDriver.start(etl, options)
    await driver.produce(
      'totals',
      [
        { key: 'ann', value: 'plain', timestamp: 42, headers: { trace: 'x', none: null } },
        { key: 7, value: null },
      ],
      string(),
    )
    expect(await driver.committedRecords('totals', string())).toMatchObject([
      {
        key: 'ann',
        value: 'plain',
        timestamp: 42,
        partition: 0,
        offset: 0n,
        headers: { trace: 'x', none: null },
      },
      { key: '7', value: null, offset: 1n, timestamp: expect.any(Number) },
    ])
  })

  test('put records where their key or the test says, and deal out the others', async () => {
    const driver = await TestDriver.start(etl, options)
    await driver.produce('orders', [
      ...Array.from({ length: 6 }, () => ({ value: { user: 'dealt', amount: 1 } })),
      { key: 'ann', value: { user: 'ann', amount: 1 } },
      { key: 'ann', value: { user: 'ann', amount: 2 } },
      { key: 'ann', partition: 2, value: { user: 'put', amount: 3 } },
    ])
    const records = await driver.committedRecords<Order>('orders')
    const partitionsOf = (user: string) =>
      records.filter(({ value }) => value?.user === user).map((r) => r.partition)
    expect(partitionsOf('dealt')).toEqual([0, 0, 1, 1, 2, 2])
    expect(new Set(partitionsOf('ann')).size).toBe(1)
    expect(partitionsOf('put')).toEqual([2])
  })

  test('take more than a batch at once', async () => {
    const driver = await TestDriver.start(etl, { ...options, topics: { orders: 1, totals: 1 } })
    const user = 'x'.repeat(1_000)
    await driver.produce(
      'orders',
      Array.from({ length: 1_000 }, () => order(user, 1)),
    )
    await driver.catchUp()
    expect(await driver.committed('totals')).toHaveLength(1_000)
  })
})
