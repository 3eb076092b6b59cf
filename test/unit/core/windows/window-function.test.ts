import { describe, expect, test } from '@jest/globals'
import type { Collector, RuntimeContext } from '../../../../src/core/functions.ts'
import { OutputTag } from '../../../../src/core/output-tag.ts'
import { type ValueState, ValueStateDescriptor } from '../../../../src/core/state.ts'
import {
  GlobalWindows,
  SlidingEventTimeWindows,
  TumblingEventTimeWindows,
} from '../../../../src/core/windows/assigners.ts'
import type { TimeWindow } from '../../../../src/core/windows/time-window.ts'
import { CountTrigger, PurgingTrigger } from '../../../../src/core/windows/triggers.ts'
import { ProcessWindowFunction } from '../../../../src/core/windows/window-function.ts'
import { harnessOf, listed, type Row, send, sums, windowsOf } from './window-harness.ts'

const tumbling = () => windowsOf(TumblingEventTimeWindows.of(10))

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
      const ofKey = this.opened.value()
      const left = context.windowState().getState(this.own).value()
      Firings.cleared.push(`${context.window().start}: ${left} ${ofKey}`)
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

  test('state of a window from before a restore goes with it, though nobody asks for it any more', async () => {
    const windows = tumbling()
    windows.setAllowedLateness(10)
    const before = await harnessOf(windows.process(new Firings()))
    await send(before, 'a 1@1')
    await before.processWatermark(9)
    class Silent extends ProcessWindowFunction<Row, string, string> {
      override process() {}
    }
    const harness = await harnessOf(windows.process(new Silent()), { restore: await before.snapshot() })
    expect(harness.stateEntries()).toBe(4)
    await harness.processWatermark(19)
    // What is left is the state of the key.
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([2, 0])
  })

  test('may take their time: the next record waits, and the window is cleared afterwards', async () => {
    const windows = windowsOf(GlobalWindows.create())
    windows.setTrigger(PurgingTrigger.of(CountTrigger.of(2)))
    const harness = await harnessOf(
      windows.process(async (key: string, context: any, rows: readonly Row[], out: Collector<string>) => {
        await Promise.resolve()
        await Promise.resolve()
        listed(key, context, rows, out)
      }),
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
