import { describe, expect, test } from '@jest/globals'
import { MAX_WATERMARK } from '../../../../src/core/element.ts'
import type { Collector, RuntimeContext } from '../../../../src/core/functions.ts'
import { OutputTag } from '../../../../src/core/output-tag.ts'
import { type ValueState, ValueStateDescriptor } from '../../../../src/core/state.ts'
import {
  GlobalWindows,
  SlidingEventTimeWindows,
  SlidingProcessingTimeWindows,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from '../../../../src/core/windows/assigners.ts'
import type { TimeWindow } from '../../../../src/core/windows/time-window.ts'
import {
  ContinuousEventTimeTrigger,
  CountTrigger,
  PurgingTrigger,
} from '../../../../src/core/windows/triggers.ts'
import { ProcessWindowFunction } from '../../../../src/core/windows/window-function.ts'
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

describe('process window functions', () => {
  test('get the result of an aggregate, the key and the window', async () => {
    const harness = await harnessOf(
      tumbling().aggregate(sums, (key: string, context: any, [total]: any[], out: Collector<string>) =>
        out.collect(`${key} ${context.window().start} ${total.sum}`),
      ),
    )
    await send(harness, 'a 1@11', 'a 2@12')
    await harness.processWatermark(19)
    expect(harness.values()).toEqual(['a 10 3'])
  })

  test('see watermark and clock, and emit to side outputs with the window’s timestamp', async () => {
    const tag = new OutputTag<string>('side')
    const harness = await harnessOf(
      tumbling().process((_key: string, context: any) => {
        context.output(tag, `${context.currentWatermark()} ${context.currentProcessingTime()}`)
      }),
      { processingTime: 77 },
    )
    await send(harness, 'a 1@1')
    await harness.processWatermark(15)
    expect(harness.sideRecords(tag)).toEqual([{ value: '15 77', timestamp: 9 }])
  })

  test('apply is given the window in place of a context', async () => {
    const apply = (key: string, window: TimeWindow, rows: readonly Row[], out: Collector<string>) =>
      out.collect(`${key} ${window} ${rows.length}`)
    for (const fn of [apply, { apply }]) {
      const harness = await harnessOf(tumbling().apply(fn))
      await send(harness, 'a 1@1')
      await harness.processWatermark(9)
      expect(harness.values()).toEqual(['a TimeWindow(0, 10) 1'])
    }
  })

  /** Counts firings of the window, of the key, and of the key by a state that `open` took. */
  class Firings extends ProcessWindowFunction<Row, string, string> {
    static cleared: string[] = []
    private readonly own = new ValueStateDescriptor<number>('firings')
    private readonly common = new ValueStateDescriptor<number>('common')
    private opened!: ValueState<number>
    override open(context: RuntimeContext) {
      this.opened = context.getState(new ValueStateDescriptor<number>('opened'))
    }
    override process(key: string, context: this['Context'], _rows: readonly Row[], out: Collector<string>) {
      const texts = [
        context.windowState().getState(this.own),
        context.globalState().getState(this.common),
        this.opened,
        context.windowState().getState(this.own),
      ].map((state) => {
        state.update((state.value() ?? 0) + 1)
        return state.value()
      })
      out.collect(`${key} ${context.window().start}: ${texts.join(' ')}`)
    }
    override clear(context: this['Context']) {
      const left = context.windowState().getState(this.own).value()
      Firings.cleared.push(`${context.window().start}: ${left} ${this.opened.value()}`)
    }
  }

  test('keep state of the window apart from that of the key; window state goes with the window', async () => {
    Firings.cleared = []
    const windows = tumbling()
    windows.setAllowedLateness(10)
    const harness = await harnessOf(windows.process(new Firings()))
    await send(harness, 'a 1@1', 'a 1@11')
    await harness.processWatermark(9)
    await send(harness, 'a 1@1', 'a 1@2')
    await harness.processWatermark(19)
    expect(harness.values()).toEqual(['a 0: 1 1 1 2', 'a 0: 3 2 2 4', 'a 0: 5 3 3 6', 'a 10: 1 4 4 2'])
    expect(Firings.cleared).toEqual(['0: 6 3'])
    await harness.processWatermark(29)
    // What is left is the state of the key.
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([2, 0])
    expect(harness.keysOf('firings')).toEqual([])
  })

  test('may take their time: the next record waits, and the window is cleared afterwards', async () => {
    const harness = await harnessOf(
      windowsWith(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(2))).process(
        async (key: string, context: any, rows: readonly Row[], out: Collector<string>) => {
          await Promise.resolve()
          await Promise.resolve()
          listed(key, context, rows, out)
        },
      ),
    )
    await harness.processElements(['a', 'b', 'a', 'b', 'a', 'a'].map((k, v) => ({ k, v })))
    expect(harness.values()).toEqual(['a all: 0 2', 'b all: 1 3', 'a all: 4 5'])
    expect(harness.stateEntries()).toBe(0)
  })

  test('that wait in the middle of several windows of one record do not lose the rest', async () => {
    const windows = windowsOf(SlidingEventTimeWindows.of(6, 2))
    windows.setTrigger(PurgingTrigger.of(CountTrigger.of(1)))
    const harness = await harnessOf(
      windows.process(async (key: string, context: any, rows: readonly Row[], out: Collector<string>) => {
        await Promise.resolve()
        listed(key, context, rows, out)
      }),
    )
    await send(harness, 'a 1@4')
    expect(harness.values()).toEqual(['a 4-10: 1', 'a 2-8: 1', 'a 0-6: 1'])
  })

  test('are named in their errors, also when a timer runs them', async () => {
    const failing = [
      () => {
        throw new Error('boom')
      },
      async () => {
        throw new Error('boom')
      },
    ]
    for (const fn of failing) {
      const harness = await harnessOf(tumbling().process(fn), { name: 'windows' })
      await send(harness, 'a 1@1')
      await expect(harness.processWatermark(9)).rejects.toThrow(/process of operator 'windows'.*boom/)
    }
  })

  test('cannot use their context outside of the call', async () => {
    let kept: any
    const harness = await harnessOf(
      tumbling().process((_key: string, context: any) => {
        kept = context
      }),
    )
    await send(harness, 'a 1@1')
    await harness.processWatermark(9)
    expect(() => kept.window()).toThrow(expect.objectContaining({ code: 'MILLRACE_STATE_ACCESS' }))
    expect(() => kept.windowState().getState(new ValueStateDescriptor('x')).value()).toThrow(
      expect.objectContaining({ code: 'MILLRACE_STATE_ACCESS' }),
    )
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
      'reduce to the later one',
      (windows: ReturnType<typeof tumbling>) => windows.reduce((_a: any, b: any) => b, undefined),
      'v',
    ],
  ] as const)('shares nothing with records and results: %s', async (_what, build, field) => {
    const windows = tumbling()
    windows.setAllowedLateness(10)
    const output = new RecordingOutput()
    const operator = build(windows).factory()
    operator.setup(contextFor(output, { keyed: true }))
    await operator.open?.()
    await operator.processWatermark(9)
    const records: { k: string; v: number }[] = []
    for (const v of [1, 2, 4]) {
      const record = { k: 'a', v }
      records.push(record)
      await operator.processVector({ kind: 'records', values: [record], timestamps: [1] })
      // As an operator further down, or beside, may do.
      for (const value of [...output.values, ...records] as any[]) value[field] += 1_000
    }
    const first = output.vectors.map(({ values }) => (values[0] as any)[field] % 1_000)
    expect(first).toEqual(_what === 'reduce to the later one' ? [1, 2, 4] : [1, 3, 7])
    expect(new Set([...output.values, ...records]).size).toBe(6)
    await operator.processWatermark(10)
    const last = output.values.at(-1) as any
    expect(last[field] - 1_000).toBe(_what === 'reduce to the later one' ? 4 : 7)
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
