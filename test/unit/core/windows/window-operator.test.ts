import { describe, expect, test } from '@jest/globals'
import { MAX_WATERMARK } from '../../../../src/core/element.ts'
import { OutputTag } from '../../../../src/core/output-tag.ts'
import {
  GlobalWindows,
  SlidingEventTimeWindows,
  SlidingProcessingTimeWindows,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from '../../../../src/core/windows/assigners.ts'
import { ContinuousEventTimeTrigger, CountTrigger } from '../../../../src/core/windows/triggers.ts'
import { contextFor, RecordingOutput } from '../operators/recording-output.ts'
import { harnessOf, listed, type Row, send, sums, windowsOf } from './window-harness.ts'

const tumbling = () => windowsOf(TumblingEventTimeWindows.of(10))
const reduced = (a: Row, b: Row): Row => ({ k: a.k, v: a.v + b.v })

describe('event-time windows', () => {
  test('fire when the watermark reaches their last millisecond, not before', async () => {
    const harness = await harnessOf(tumbling().process(listed))
    await send(harness, 'a 1@0', 'a 2@9', 'a 3@10')
    await harness.processWatermark(8)
    expect(harness.values()).toEqual([])
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['a 0-10: 1 2'])
    await harness.processWatermark(19)
    expect(harness.values()).toEqual(['a 0-10: 1 2', 'a 10-20: 3'])
  })

  test('give their results the timestamp of their last millisecond, ahead of the watermark that fired them', async () => {
    for (const spec of [tumbling().process(listed), tumbling().aggregate(sums, undefined)]) {
      const harness = await harnessOf(spec)
      await send(harness, 'a 1@3')
      await harness.processWatermark(42)
      expect(harness.records().map(({ timestamp }) => timestamp)).toEqual([9])
      expect(harness.watermarks()).toEqual([42])
    }
  })

  test('fire by time, then by the order in which they began', async () => {
    const harness = await harnessOf(tumbling().process(listed))
    await send(harness, 'b 1@15', 'b 2@5', 'a 3@5', 'c 4@25', 'a 5@14')
    await harness.processWatermark(MAX_WATERMARK)
    expect(harness.values()).toEqual(['b 0-10: 2', 'a 0-10: 3', 'b 10-20: 1', 'a 10-20: 5', 'c 20-30: 4'])
  })

  test('keep records of several windows apart while records come in any order', async () => {
    const harness = await harnessOf(tumbling().aggregate(sums, undefined))
    await send(harness, 'a 1@12', 'a 2@3', 'a 4@14', 'a 8@25', 'a 16@1')
    await harness.processWatermark(29)
    expect(harness.values()).toEqual([
      { count: 2, sum: 18 },
      { count: 2, sum: 5 },
      { count: 1, sum: 8 },
    ])
  })

  test('leave neither state nor timers behind', async () => {
    for (const spec of [
      tumbling().process(listed),
      tumbling().aggregate(sums, undefined),
      tumbling().reduce(reduced, undefined),
      windowsOf(SlidingEventTimeWindows.of(10, 3)).process(listed),
    ]) {
      const harness = await harnessOf(spec)
      await send(harness, 'a 1@0', 'b 2@9', 'a 3@10')
      expect(harness.stateEntries()).toBeGreaterThan(2)
      await harness.processWatermark(40)
      expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
    }
  })

  test('sliding: a record counts in each of its windows', async () => {
    const harness = await harnessOf(windowsOf(SlidingEventTimeWindows.of(6, 2)).process(listed))
    await send(harness, 'a 1@1', 'a 2@4')
    await harness.processWatermark(20)
    expect(harness.values()).toEqual(['a -4-2: 1', 'a -2-4: 1', 'a 0-6: 1 2', 'a 2-8: 2', 'a 4-10: 2'])
  })

  test('refuse a record without a timestamp', async () => {
    const harness = await harnessOf(tumbling().process(listed))
    await expect(send(harness, 'a 1')).rejects.toMatchObject({ code: 'MILLRACE_MISSING_TIMESTAMP' })
  })
})

describe('late records', () => {
  const late = new OutputTag<Row>('late')

  test('are those whose windows have all fired; they are dropped and counted', async () => {
    for (const spec of [tumbling().aggregate(sums, undefined), tumbling().process(listed)]) {
      const harness = await harnessOf(spec)
      await harness.processWatermark(9)
      await send(harness, 'a 1@9', 'a 2@10')
      expect(harness.counter('late_records_dropped')).toBe(1)
      await harness.processWatermark(19)
      expect(harness.values()).toHaveLength(1)
    }
  })

  test('go to the side output with their own timestamps if there is one', async () => {
    const windows = tumbling()
    windows.setLateTag(late)
    const harness = await harnessOf(windows.aggregate(sums, undefined))
    await harness.processWatermark(25)
    await send(harness, 'a 1@9', 'a 2@19', 'a 3@20')
    expect(harness.sideRecords(late)).toEqual([
      { value: { k: 'a', v: 1 }, timestamp: 9 },
      { value: { k: 'a', v: 2 }, timestamp: 19 },
    ])
    expect(harness.counter('late_records_dropped')).toBe(0)
  })

  test('are not late while one of their sliding windows is open', async () => {
    const harness = await harnessOf(windowsOf(SlidingEventTimeWindows.of(6, 2)).process(listed))
    await harness.processWatermark(5)
    await send(harness, 'a 1@4')
    expect(harness.counter('late_records_dropped')).toBe(0)
    await harness.processWatermark(20)
    expect(harness.values()).toEqual(['a 2-8: 1', 'a 4-10: 1'])
  })

  test('are counted too if the source gives fractions of milliseconds', async () => {
    const harness = await harnessOf(tumbling().aggregate(sums, undefined))
    await harness.processWatermark(9)
    await send(harness, 'a 1@9.5', 'a 2@10.5')
    await harness.processWatermark(19)
    expect(harness.values()).toEqual([{ count: 1, sum: 2 }])
    expect(harness.counter('late_records_dropped')).toBe(1)
  })

  test('in a gap between windows are late only by their own time', async () => {
    const windows = windowsOf(SlidingEventTimeWindows.of(2, 10))
    windows.setLateTag(late)
    const harness = await harnessOf(windows.aggregate(sums, undefined))
    await harness.processWatermark(14)
    await send(harness, 'a 1@5', 'a 2@15')
    expect(harness.sideRecords(late).map(({ value }) => value.v)).toEqual([1])
    windows.setAllowedLateness(10)
    const lenient = await harnessOf(windows.aggregate(sums, undefined))
    await lenient.processWatermark(14)
    await send(lenient, 'a 1@4', 'a 2@5')
    expect(lenient.sideRecords(late).map(({ value }) => value.v)).toEqual([1])
  })
})

describe('allowed lateness', () => {
  const lenient = (ms: number) => {
    const windows = tumbling()
    windows.setAllowedLateness(ms)
    return windows
  }

  test('keeps a window after its end, and each record fires it again with all its contents', async () => {
    const harness = await harnessOf(lenient(5).process(listed))
    await send(harness, 'a 1@3')
    await harness.processWatermark(9)
    await send(harness, 'a 2@4')
    await harness.processWatermark(13)
    await send(harness, 'a 3@5')
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 1 2', 'a 0-10: 1 2 3'])
    expect(harness.records().map(({ timestamp }) => timestamp)).toEqual([9, 9, 9])
  })

  test('ends when the watermark reaches the last millisecond plus the lateness', async () => {
    const harness = await harnessOf(lenient(5).process(listed))
    await send(harness, 'a 1@3')
    await harness.processWatermark(14)
    expect(harness.values()).toEqual(['a 0-10: 1'])
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
    await send(harness, 'a 2@3')
    expect(harness.counter('late_records_dropped')).toBe(1)
  })

  test('takes a first record after the end too', async () => {
    const harness = await harnessOf(lenient(5).process(listed))
    await harness.processWatermark(12)
    await send(harness, 'a 1@3')
    expect(harness.values()).toEqual(['a 0-10: 1'])
    await harness.processWatermark(14)
    expect([harness.values().length, harness.stateEntries(), harness.timerCount()]).toEqual([1, 0, 0])
  })

  test('beyond the end of time keeps windows for ever', async () => {
    const harness = await harnessOf(lenient(Number.MAX_SAFE_INTEGER).process(listed))
    await send(harness, 'a 1@3')
    await harness.processWatermark(1_000_000)
    await send(harness, 'a 2@3')
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 1 2'])
  })

  test('after a restore a window that had fired fires again for a new record, once the watermark is there', async () => {
    const before = await harnessOf(lenient(50).process(listed))
    await send(before, 'a 1@3')
    await before.processWatermark(9)
    const harness = await harnessOf(lenient(50).process(listed), { restore: await before.snapshot() })
    await send(harness, 'a 2@4')
    expect(harness.values()).toEqual([])
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['a 0-10: 1 2'])
    await harness.processWatermark(59)
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('results do not change when the accumulator does later', async () => {
    const harness = await harnessOf(lenient(5).aggregate(sums, undefined))
    await harness.processWatermark(9)
    await send(harness, 'a 1@3', 'a 2@3')
    expect(harness.values()).toEqual([
      { count: 1, sum: 1 },
      { count: 2, sum: 3 },
    ])
  })
})

describe('reduce', () => {
  test('emits the combined value of each window; records and results share nothing with its state', async () => {
    const inPlace = (a: Row, b: Row): Row => {
      ;(a as { v: number }).v += b.v
      return a
    }
    const windows = tumbling()
    windows.setAllowedLateness(10)
    const harness = await harnessOf(windows.reduce(inPlace, undefined))
    const first = Object.freeze({ k: 'a', v: 1 })
    await harness.processElement(first, 1)
    await send(harness, 'a 2@2')
    await harness.processWatermark(9)
    await send(harness, 'a 4@2')
    expect(harness.values()).toEqual([
      { k: 'a', v: 3 },
      { k: 'a', v: 7 },
    ])
  })

  test('of a field keeps the other fields of the first record, or the whole best record', async () => {
    const results: unknown[] = []
    for (const kind of ['sum', 'min', 'max', 'minBy', 'maxBy'] as const) {
      const harness = await harnessOf(tumbling().fieldAggregate(kind, 'v'))
      await harness.processElements(
        ['first 3', 'second 1', 'third 5'].map((text) => {
          const [note, v] = text.split(' ')
          return { k: 'a', v: Number(v), note }
        }),
        [1, 2, 3],
      )
      await harness.processWatermark(9)
      results.push(...harness.values().map(({ v, note }: any) => `${kind} ${v} ${note}`))
    }
    expect(results).toEqual(['sum 9 first', 'min 1 first', 'max 5 first', 'minBy 1 second', 'maxBy 5 third'])
  })

  test('of a field that is no number names the field', async () => {
    const harness = await harnessOf(tumbling().fieldAggregate('sum', 'w'))
    await expect(send(harness, 'a 1@1')).rejects.toThrow(/Field 'w'/)
  })
})

function windowsWith(assigner: any, trigger: any) {
  const windows = windowsOf(assigner)
  windows.setTrigger(trigger)
  return windows
}

describe('processing-time windows', () => {
  test('fire when the clock is past their last millisecond, in which records may still come', async () => {
    const harness = await harnessOf(windowsOf(TumblingProcessingTimeWindows.of(10)).process(listed))
    await send(harness, 'a 1')
    await harness.setProcessingTime(9)
    await send(harness, 'a 2')
    expect(harness.values()).toEqual([])
    await harness.setProcessingTime(10)
    expect(harness.values()).toEqual(['a 0-10: 1 2'])
    await send(harness, 'a 3')
    await harness.setProcessingTime(25)
    expect(harness.values()).toEqual(['a 0-10: 1 2', 'a 10-20: 3'])
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('fire each at its own millisecond', async () => {
    const harness = await harnessOf(windowsOf(SlidingProcessingTimeWindows.of(3, 1)).process(listed))
    await send(harness, 'a 1')
    await harness.setProcessingTime(1)
    expect(harness.values()).toEqual(['a -2-1: 1'])
    await send(harness, 'a 2')
    await harness.setProcessingTime(2)
    expect(harness.values()).toEqual(['a -2-1: 1', 'a -1-2: 1 2'])
  })

  test('have no late records, whatever the watermark', async () => {
    const harness = await harnessOf(
      windowsOf(TumblingProcessingTimeWindows.of(10)).aggregate(sums, undefined),
    )
    await harness.processWatermark(MAX_WATERMARK)
    await send(harness, 'a 1@3')
    await harness.setProcessingTime(10)
    expect(harness.records()).toEqual([{ value: { count: 1, sum: 1 }, timestamp: 9 }])
    expect(harness.counter('late_records_dropped')).toBe(0)
  })

  test('that were restored fire by the clock too', async () => {
    const spec = windowsOf(TumblingProcessingTimeWindows.of(10)).process(listed)
    const before = await harnessOf(spec)
    await send(before, 'a 1')
    const harness = await harnessOf(spec, { restore: await before.snapshot(), processingTime: 5 })
    await send(harness, 'a 2')
    await harness.setProcessingTime(10)
    expect(harness.values()).toEqual(['a 0-10: 1 2'])
  })
})

describe('the global window', () => {
  test('never fires by itself, and results that a trigger makes have no timestamp', async () => {
    const never = await harnessOf(windowsOf(GlobalWindows.create()).process(listed))
    await send(never, 'a 1@1')
    await never.processWatermark(MAX_WATERMARK)
    expect(never.values()).toEqual([])
    const counted = await harnessOf(windowsWith(GlobalWindows.create(), CountTrigger.of(1)).process(listed))
    await send(counted, 'a 1@1')
    expect(counted.records()).toEqual([{ value: 'a all: 1', timestamp: null }])
  })

  test('fires once at the end of input if asked to', async () => {
    const harness = await harnessOf(windowsOf(GlobalWindows.createWithEndOfStreamTrigger()).process(listed))
    await send(harness, 'a 1@1', 'a 2')
    await harness.processWatermark(1_000)
    expect(harness.values()).toEqual([])
    await harness.processWatermark(MAX_WATERMARK)
    expect(harness.values()).toEqual(['a all: 1 2'])
  })
})

describe('state of windows', () => {
  // On the backend itself: the harness hands out copies, which would hide what is shared.
  test.each([
    ['aggregate', (windows: ReturnType<typeof tumbling>) => windows.aggregate(sums, undefined), 'sum'],
    [
      'reduce',
      (windows: ReturnType<typeof tumbling>) =>
        windows.reduce((a: any, b: any) => {
          a.v += b.v
          return a
        }, undefined),
      'v',
    ],
    [
      'reduce to a record',
      (windows: ReturnType<typeof tumbling>) =>
        windows.reduce((a: any, b: any) => {
          if (b.v === 2) return b
          a.v += b.v
          return a
        }, undefined),
      'v',
    ],
  ] as const)('shares nothing with records and results: %s', async (what, build, field) => {
    const windows = tumbling()
    windows.setAllowedLateness(10)
    const output = new RecordingOutput()
    const operator = build(windows).factory()
    operator.setup(contextFor(output, { keyed: true }))
    await operator.open?.()
    await operator.processWatermark(9)
    const records: { k: string; v: number }[] = []
    const seen: number[] = []
    for (const v of [1, 2, 4]) {
      const record = { k: 'a', v }
      records.push(record)
      await operator.processVector({ kind: 'records', values: [record], timestamps: [1] })
      seen.push((output.values.at(-1) as any)[field])
      // As an operator further down, or beside, may do.
      for (const value of [...output.values, ...records] as any[]) value[field] += 1_000
    }
    expect(seen).toEqual(what === 'reduce to a record' ? [1, 2, 6] : [1, 3, 7])
  })

  test('a shorter allowed lateness than before: a window that has fired takes records, fires, and goes', async () => {
    const windows = tumbling()
    windows.setAllowedLateness(60)
    const before = await harnessOf(windows.process(listed))
    await send(before, 'a 1@1', 'b 1@2')
    await before.processWatermark(9)
    expect(before.values()).toEqual(['a 0-10: 1', 'b 0-10: 1'])
    const harness = await harnessOf(tumbling().process(listed), { restore: await before.snapshot() })
    await send(harness, 'a 2@2')
    const again = await harnessOf(tumbling().process(listed), { restore: await harness.snapshot() })
    await send(again, 'b 3@3')
    await again.processWatermark(9)
    expect(again.values()).toEqual(['a 0-10: 1 2', 'b 0-10: 1 3'])
    await again.processWatermark(69)
    expect([again.stateEntries(), again.timerCount(), again.values().length]).toEqual([0, 0, 2])
    const untouched = await harnessOf(tumbling().process(listed), { restore: await before.snapshot() })
    await untouched.processWatermark(69)
    expect([untouched.stateEntries(), untouched.timerCount(), untouched.values()]).toEqual([0, 0, []])
  })

  test('a longer allowed lateness than before: a window goes when it is over', async () => {
    const before = await harnessOf(tumbling().process(listed))
    await send(before, 'a 1@1')
    const windows = tumbling()
    windows.setAllowedLateness(60)
    const harness = await harnessOf(windows.process(listed), { restore: await before.snapshot() })
    await harness.processWatermark(68)
    expect(harness.stateEntries()).toBe(1)
    await harness.processWatermark(69)
    expect([harness.stateEntries(), harness.timerCount(), harness.values()]).toEqual([0, 0, ['a 0-10: 1']])
  })

  test('goes on in another subtask where it stood, though the size of the windows has changed', async () => {
    const before = await harnessOf(tumbling().aggregate(sums, undefined))
    await send(before, 'a 1@5')
    const snapshot = await before.snapshot()
    const harness = await harnessOf(windowsOf(TumblingEventTimeWindows.of(20)).aggregate(sums, undefined), {
      restore: snapshot,
    })
    await send(harness, 'a 2@6')
    await harness.processWatermark(19)
    expect(harness.records()).toEqual([
      { value: { count: 1, sum: 1 }, timestamp: 9 },
      { value: { count: 1, sum: 2 }, timestamp: 19 },
    ])
  })

  test('two subtasks of one job share nothing', async () => {
    const trigger = ContinuousEventTimeTrigger.of(5)
    const spec = windowsWith(TumblingEventTimeWindows.of(10), trigger).process(listed)
    const [one, two] = [await harnessOf(spec), await harnessOf(spec)]
    await send(one, 'a 1@1')
    await send(two, 'a 2@11')
    await one.processWatermark(9)
    await two.processWatermark(19)
    expect([one.values(), two.values()]).toEqual([
      ['a 0-10: 1', 'a 0-10: 1'],
      ['a 10-20: 2', 'a 10-20: 2'],
    ])
  })
})
