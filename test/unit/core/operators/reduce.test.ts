import { describe, expect, test } from '@jest/globals'
import { fieldAggregateOperator, reduceOperator } from '../../../../src/core/operators/reduce.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'
import { opened, vectorOf } from './recording-output.ts'

const keyOf = (record: any) => record.k
const rows = [
  { k: 'a', v: 3, note: 'first' },
  { k: 'b', v: 9, note: 'other' },
  { k: 'a', v: 1, note: 'second' },
  { k: 'a', v: 3, note: 'third' },
  { k: 'a', v: 1, note: 'fourth' },
]

async function run(factory: Parameters<typeof opened>[0]) {
  const { operator, output } = await opened(factory, { keyed: true })
  operator.processVector(vectorOf(...rows))
  return output.values.filter((row: any) => row.k === 'a').map((row: any) => `${row.v} ${row.note}`)
}

describe('running aggregates', () => {
  test('sum, min and max keep the other fields of the first record', async () => {
    expect(await run(fieldAggregateOperator('sum', 'v', keyOf))).toEqual([
      '3 first',
      '4 first',
      '7 first',
      '8 first',
    ])
    expect(await run(fieldAggregateOperator('min', 'v', keyOf))).toEqual([
      '3 first',
      '1 first',
      '1 first',
      '1 first',
    ])
    expect(await run(fieldAggregateOperator('max', 'v', keyOf))).toEqual([
      '3 first',
      '3 first',
      '3 first',
      '3 first',
    ])
  })

  test('minBy and maxBy keep whole records, of equals the first', async () => {
    expect(await run(fieldAggregateOperator('minBy', 'v', keyOf))).toEqual([
      '3 first',
      '1 second',
      '1 second',
      '1 second',
    ])
    expect(await run(fieldAggregateOperator('maxBy', 'v', keyOf))).toEqual([
      '3 first',
      '3 first',
      '3 first',
      '3 first',
    ])
  })

  test('reduce emits the new aggregate for each record, with the record’s timestamp', async () => {
    const { operator, output } = await opened(
      reduceOperator((a: any, b: any) => ({ k: a.k, v: a.v + b.v }), keyOf),
      { keyed: true },
    )
    operator.processVector(vectorOf(...rows))
    expect(output.values.map((row: any) => row.k + row.v)).toEqual(['a3', 'b9', 'a4', 'a7', 'a8'])
    expect(output.timestamps).toEqual([0, 1, 2, 3, 4])
  })

  test('tuples are summed by index, and plain numbers as they are', async () => {
    const tuples = await opened(
      fieldAggregateOperator('sum', 1, (tuple: any) => tuple[0]),
      { keyed: true },
    )
    tuples.operator.processVector(vectorOf(['x', 1, 'p'], ['x', 2, 'q']))
    expect(tuples.output.values).toEqual([
      ['x', 1, 'p'],
      ['x', 3, 'p'],
    ])
    for (const field of [undefined, 0]) {
      const numbers = await opened(
        fieldAggregateOperator('sum', field, () => 'all'),
        { keyed: true },
      )
      numbers.operator.processVector(vectorOf(1, 2, 3))
      expect(numbers.output.values).toEqual([1, 3, 6])
    }
  })

  test('bigints, strings and dates are ordered', async () => {
    const max = async (...values: unknown[]) => {
      const { operator, output } = await opened(
        fieldAggregateOperator('max', 'v', () => 1),
        { keyed: true },
      )
      operator.processVector(vectorOf(...values.map((v) => ({ v }))))
      return (output.values.at(-1) as any).v
    }
    expect(await max(1n, 5n, 3n)).toBe(5n)
    expect(await max('b', 'c', 'a')).toBe('c')
    expect(await max(new Date(1), new Date(9), new Date(3))).toEqual(new Date(9))
  })

  test.each([
    ['sum', fieldAggregateOperator('sum', 'v', () => 1), { v: '5' }],
    ['sum', fieldAggregateOperator('sum', 'w', () => 1), { v: 5 }],
    ['min', fieldAggregateOperator('min', 'v', () => 1), { v: null }],
    ['minBy', fieldAggregateOperator('minBy', 'v', () => 1), {}],
  ])(
    '%s of a field that cannot be aggregated is an error with the field named, on the first record',
    async (method, factory, row) => {
      const { operator } = await opened(factory, { keyed: true })
      expect(() => operator.processVector(vectorOf(row))).toThrow(
        expect.objectContaining({
          code: 'MILLRACE_USER_FUNCTION',
          message: expect.stringMatching(new RegExp(`^${method} of operator 'op'.*Field '[vw]'`)),
        }),
      )
    },
  )
})

describe('emitted aggregates', () => {
  test('a receiver that changes its record does not change the state', async () => {
    const { operator, output } = await opened(
      reduceOperator((a: any, b: any) => ({ k: 'a', list: [...a.list, ...b.list] }), keyOf),
      { keyed: true },
    )
    output.answer = () => {
      for (const row of output.vectors.at(-1)!.values as any[]) row.list.push('spoilt')
    }
    operator.processVector(vectorOf({ k: 'a', list: [1] }))
    operator.processVector(vectorOf({ k: 'a', list: [2] }))
    operator.processVector(vectorOf({ k: 'a', list: [3] }))
    expect((output.values.at(-1) as any).list).toEqual([1, 2, 3, 'spoilt'])
  })

  test('a reduce function that changes its first argument in place does not change what was emitted before', async () => {
    const { operator, output } = await opened(
      reduceOperator((a: any, b: any) => {
        a.v += b.v
        a.all.push(b.v)
        return a
      }, keyOf),
      { keyed: true },
    )
    operator.processVector(vectorOf(...[1, 2, 3].map((v) => ({ k: 'a', v, all: [v] }))))
    operator.processVector(vectorOf({ k: 'a', v: 4, all: [4] }))
    expect(output.values).toEqual([
      { k: 'a', v: 1, all: [1] },
      { k: 'a', v: 3, all: [1, 2] },
      { k: 'a', v: 6, all: [1, 2, 3] },
      { k: 'a', v: 10, all: [1, 2, 3, 4] },
    ])
  })

  test('an asynchronous reduce function is awaited before the next record', async () => {
    const { operator, output } = await opened(
      reduceOperator((async (a: any, b: any) => ({ k: 'a', v: a.v + b.v })) as never, keyOf),
      { keyed: true },
    )
    await operator.processVector(vectorOf({ k: 'a', v: 1 }, { k: 'a', v: 2 }, { k: 'a', v: 3 }))
    expect(output.values.map((row: any) => row.v)).toEqual([1, 3, 6])
  })

  test('the aggregate goes on after a restore', async () => {
    const first = await OperatorHarness.of<any, any>(fieldAggregateOperator('sum', 'v', keyOf), {
      keyed: true,
    })
    await first.processElements(rows)
    const second = await OperatorHarness.of<any, any>(fieldAggregateOperator('sum', 'v', keyOf), {
      keyed: true,
      restore: await first.snapshot(),
    })
    await second.processElement({ k: 'a', v: 2 })
    expect(second.values()).toEqual([{ k: 'a', v: 10, note: 'first' }])
  })
})
