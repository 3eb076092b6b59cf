import { describe, expect, test } from '@jest/globals'
import {
  GlobalWindows,
  SlidingEventTimeWindows,
  SlidingProcessingTimeWindows,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from '../../../../src/core/windows/assigners.ts'
import { GlobalWindow } from '../../../../src/core/windows/time-window.ts'
import type { WindowAssigner } from '../../../../src/core/windows/window-assigner.ts'

const at = (assigner: WindowAssigner<any, any>, timestamp: number, now = 0): string[] =>
  assigner
    .assignWindows(undefined, timestamp, { getCurrentProcessingTime: () => now })
    .map((window: any) => `${window.start}-${window.end}`)

describe('tumbling windows', () => {
  test('begin at multiples of their size and hold their first millisecond, not their end', () => {
    const windows = TumblingEventTimeWindows.of(1_000)
    expect([0, 1, 999, 1_000, 1_001].map((time) => at(windows, time))).toEqual([
      ['0-1000'],
      ['0-1000'],
      ['0-1000'],
      ['1000-2000'],
      ['1000-2000'],
    ])
  })

  test('are right before 1970', () => {
    const windows = TumblingEventTimeWindows.of(1_000)
    expect([-1, -1_000, -1_001].map((time) => at(windows, time)[0])).toEqual([
      '-1000-0',
      '-1000-0',
      '-2000--1000',
    ])
  })

  test('move by the offset, in both directions', () => {
    expect(at(TumblingEventTimeWindows.of(1_000, 300), 299)).toEqual(['-700-300'])
    expect(at(TumblingEventTimeWindows.of(1_000, 300), 300)).toEqual(['300-1300'])
    expect(at(TumblingEventTimeWindows.of(1_000, -300), 0)).toEqual(['-300-700'])
    expect(at(TumblingEventTimeWindows.of(1_000, -300), 700)).toEqual(['700-1700'])
  })

  test('of processing time go by the clock, whatever the timestamp', () => {
    const windows = TumblingProcessingTimeWindows.of(1_000)
    expect(at(windows, 5, 2_500)).toEqual(['2000-3000'])
    expect(at(windows, Number.NaN, 3_000)).toEqual(['3000-4000'])
  })
})

describe('sliding windows', () => {
  test('overlap: a record is in size / slide of them, the latest first', () => {
    const windows = SlidingEventTimeWindows.of(3_000, 1_000)
    expect(at(windows, 0)).toEqual(['0-3000', '-1000-2000', '-2000-1000'])
    expect(at(windows, 999)).toEqual(['0-3000', '-1000-2000', '-2000-1000'])
    expect(at(windows, 1_000)).toEqual(['1000-4000', '0-3000', '-1000-2000'])
  })

  test('whose size is no multiple of the slide hold a record once more at the beginning of a step', () => {
    const windows = SlidingEventTimeWindows.of(250, 100)
    expect(at(windows, 249)).toEqual(['200-450', '100-350', '0-250'])
    expect(at(windows, 250)).toEqual(['200-450', '100-350'])
    expect(at(windows, 249)).toEqual(['200-450', '100-350', '0-250'])
  })

  test('with a slide above the size leave gaps', () => {
    const windows = SlidingEventTimeWindows.of(100, 300)
    expect([0, 99, 100, 299, 300].map((time) => at(windows, time))).toEqual([
      ['0-100'],
      ['0-100'],
      [],
      [],
      ['300-400'],
    ])
  })

  test('move by the offset', () => {
    expect(at(SlidingEventTimeWindows.of(200, 100, 30), 29)).toEqual(['-70-130', '-170-30'])
    expect(at(SlidingEventTimeWindows.of(200, 100, -30), 70)).toEqual(['70-270', '-30-170'])
  })

  test('of processing time go by the clock', () => {
    expect(at(SlidingProcessingTimeWindows.of(200, 100), 5, 150)).toEqual(['100-300', '0-200'])
  })
})

test('windows are the same whatever was asked before', () => {
  for (const [size, slide, offset] of [
    [250, 100, 0],
    [100, 300, 40],
    [300, 100, -20],
    [7, 3, 1],
  ] as const) {
    const windows = SlidingEventTimeWindows.of(size, slide, offset)
    for (let step = 0; step < 2_000; step++) {
      const time = ((step * 7_919) % 4_001) - 2_000
      const expected: string[] = []
      for (let start = 6_000 + offset; start >= -6_000; start -= 1)
        if ((start - offset) % slide === 0 && start <= time && time < start + size)
          expected.push(`${start}-${start + size}`)
      if (step % 100 === 0) expect([time, at(windows, time)]).toEqual([time, expected])
      else at(windows, time)
    }
  }
})

test('the global window is one for all', () => {
  const windows = GlobalWindows.create().assignWindows()
  expect(windows).toEqual([GlobalWindow.get()])
})

test('a record without a timestamp is refused by event-time windows', () => {
  for (const windows of [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(10, 5)])
    expect(() => at(windows, Number.NaN)).toThrow(/without a timestamp/)
})

test.each<[string, () => unknown]>([
  ['a size of zero', () => TumblingEventTimeWindows.of(0)],
  ['a size that is no number', () => TumblingProcessingTimeWindows.of(Number.NaN)],
  ['a negative slide', () => SlidingEventTimeWindows.of(10, -1)],
  ['an offset as long as the size', () => TumblingEventTimeWindows.of(10, 10)],
  ['an offset as long as the slide', () => SlidingProcessingTimeWindows.of(10, 5, -5)],
])('%s is refused', (_what, make) => {
  expect(make).toThrow(expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }))
})
