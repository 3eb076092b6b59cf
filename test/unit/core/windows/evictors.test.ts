import { describe, expect, test } from '@jest/globals'
import type { DataStream, KeyedStream } from '../../../../src/api/data-stream.ts'
import { GlobalWindows, TumblingEventTimeWindows } from '../../../../src/core/windows/assigners.ts'
import {
  CountEvictor,
  DeltaEvictor,
  Evictor,
  TimeEvictor,
  type TimestampedValue,
} from '../../../../src/core/windows/evictors.ts'
import { CountTrigger } from '../../../../src/core/windows/triggers.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'
import { harnessOf, listed, type Row, send, sums, windowsOf } from './window-harness.ts'

const context = { getCurrentProcessingTime: () => 0, getCurrentWatermark: () => 0 }
const elements = (...pairs: [number, number][]): TimestampedValue<number>[] =>
  pairs.map(([value, timestamp]) => ({ value, timestamp }))
const values = (kept: readonly TimestampedValue<number>[]) => kept.map(({ value }) => value)

/** What an evictor leaves before and after the window function. */
function left(evictor: Evictor, all: TimestampedValue<number>[]): number[][] {
  return [
    values(evictor.evictBefore(all, undefined, context)),
    values(evictor.evictAfter(all, undefined, context)),
  ]
}

describe('evictors', () => {
  const all = elements([1, 100], [2, 50], [9, 149], [4, 150])

  test('CountEvictor keeps the last elements', () => {
    expect(left(CountEvictor.of(3), all)).toEqual([
      [2, 9, 4],
      [1, 2, 9, 4],
    ])
    expect(left(CountEvictor.of(9), all)[0]).toEqual([1, 2, 9, 4])
    expect(left(CountEvictor.of(3, { doEvictAfter: true }), all)).toEqual([
      [1, 2, 9, 4],
      [2, 9, 4],
    ])
  })

  test('TimeEvictor keeps what is less than its size older than the newest element', () => {
    expect(left(TimeEvictor.of(50), all)[0]).toEqual([9, 4])
    expect(left(TimeEvictor.of(51), all)[0]).toEqual([1, 9, 4])
    expect(left(TimeEvictor.of(10), elements([1, Number.NaN], [2, Number.NaN]))[0]).toEqual([1, 2])
  })

  test('DeltaEvictor drops what is the threshold or more away from the last element', () => {
    const away = (a: number, b: number) => Math.abs(a - b)
    expect(left(DeltaEvictor.of(3, away), all)[0]).toEqual([2, 4])
    expect(left(DeltaEvictor.of(3, away), [])[0]).toEqual([])
  })

  test('numbers that make no sense are refused', () => {
    expect(() => CountEvictor.of(0)).toThrow(expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }))
    expect(() => TimeEvictor.of(-1)).toThrow(expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }))
  })
})

/** A row that functions may change. */
interface Sum {
  k: string
  v: number
}
/** As a job declares them: a sliding count window has an evictor. */
type CountWindows = ReturnType<KeyedStream<Sum, string>['countWindow']>

describe('a window with an evictor', () => {
  test.each([
    ['maxBy', (windows: CountWindows) => windows.maxBy('v')],
    ['reduce', (windows: CountWindows) => windows.reduce((a, b) => (b.v > a.v ? b : a))],
    [
      'reduce with a function',
      (windows: CountWindows) =>
        windows.reduce(
          (a, b) => (b.v > a.v ? b : a),
          (_key: string, _context: unknown, rows: readonly Sum[], out: { collect(row: Sum): void }) =>
            out.collect(rows[0]!),
        ),
    ],
    [
      'aggregate',
      (windows: CountWindows) =>
        windows.aggregate({
          createAccumulator: (): Sum => ({ k: '', v: 0 }),
          add: (row: Sum, best: Sum) => (row.v > best.v ? row : best),
          getResult: (best: Sum) => best,
        }),
    ],
    [
      'aggregate that changes its records',
      (windows: CountWindows) =>
        windows.aggregate({
          createAccumulator: (): Sum => ({ k: '', v: 0 }),
          add: (row: Sum, best: Sum) => {
            row.v *= 2
            return row.v > best.v * 2 ? { ...row, v: row.v / 2 } : best
          },
          getResult: (best: Sum) => best,
        }),
    ],
  ])('%s: who changes a result does not change the window', async (_name, calls) => {
    const harness = await OperatorHarness.stream((rows: DataStream<Sum>) =>
      calls(rows.keyBy((row) => row.k).countWindow(3, 1)),
    )
    for (const v of [1, 5, 2, 1]) {
      await harness.processElement({ k: 'a', v })
      harness.values().at(-1)!.v += 100
    }
    expect(harness.values().map(({ v }) => v)).toEqual([101, 105, 105, 105])
  })

  test('gives its function what is left before it, and keeps what is left after it', async () => {
    const windows = windowsOf(GlobalWindows.create())
    windows.setTrigger(CountTrigger.of(2))
    windows.setEvictor(CountEvictor.of(3))
    const harness = await harnessOf(windows.process(listed))
    await send(harness, 'a 1', 'a 2', 'a 3', 'b 9', 'a 4', 'a 5', 'a 6')
    expect(harness.values()).toEqual(['a all: 1 2', 'a all: 2 3 4', 'a all: 4 5 6'])
  })

  test('aggregates the elements that are left, with their timestamps known to the evictor', async () => {
    class Newest extends Evictor<Row> {
      override evictBefore(all: readonly TimestampedValue<Row>[]) {
        return all.filter(({ timestamp }) => timestamp >= 5)
      }
    }
    const windows = windowsOf(TumblingEventTimeWindows.of(10))
    windows.setEvictor(new Newest())
    for (const spec of [
      windows.aggregate(sums, undefined),
      windows.reduce((a: Row, b: Row) => ({ k: a.k, v: a.v + b.v }), undefined),
    ]) {
      const harness = await harnessOf(spec)
      await send(harness, 'a 1@4', 'a 2@5', 'a 3@6')
      await harness.processWatermark(9)
      expect(harness.values()[0]).toMatchObject(
        spec.name.startsWith('reduce') ? { v: 5 } : { count: 2, sum: 5 },
      )
      expect(harness.stateEntries() + harness.timerCount()).toBe(0)
    }
  })

  test('of which nothing is left reduces to no result', async () => {
    class None extends Evictor<Row> {
      override evictBefore() {
        return []
      }
    }
    const windows = windowsOf(TumblingEventTimeWindows.of(10))
    windows.setEvictor(new None())
    const harness = await harnessOf(windows.reduce((a: Row) => a, undefined))
    await send(harness, 'a 1@4')
    await harness.processWatermark(9)
    expect(harness.values()).toEqual([])
  })

  test('drops after the function has run, even if that took a while', async () => {
    const windows = windowsOf(GlobalWindows.create())
    windows.setTrigger(CountTrigger.of(2))
    windows.setEvictor(CountEvictor.of(1, { doEvictAfter: true }))
    const harness = await harnessOf(
      windows.process(async (key: string, context: any, rows: readonly Row[], out: any) => {
        await Promise.resolve()
        listed(key, context, rows, out)
      }),
    )
    await harness.processElements([1, 2, 3, 4].map((v) => ({ k: 'a', v })))
    expect(harness.values()).toEqual(['a all: 1 2', 'a all: 2 3 4'])
  })
})
