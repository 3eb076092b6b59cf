import { describe, expect, test } from '@jest/globals'
import { MAX_WATERMARK } from '../../../../src/core/element.ts'
import { ValueStateDescriptor } from '../../../../src/core/state.ts'
import {
  GlobalWindows,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from '../../../../src/core/windows/assigners.ts'
import type { TimeWindow } from '../../../../src/core/windows/time-window.ts'
import { Trigger, type TriggerContext, TriggerResult } from '../../../../src/core/windows/trigger.ts'
import {
  ContinuousEventTimeTrigger,
  ContinuousProcessingTimeTrigger,
  CountTrigger,
  DeltaTrigger,
  EventTimeTrigger,
  NeverTrigger,
  ProcessingTimeTrigger,
  PurgingTrigger,
} from '../../../../src/core/windows/triggers.ts'
import type { WindowAssigner } from '../../../../src/core/windows/window-assigner.ts'
import { harnessOf, listed, type Row, send, windowsOf } from './window-harness.ts'

function open(assigner: WindowAssigner<any, any>, trigger: Trigger<any, any>, allowedLateness = 0) {
  const windows = windowsOf(assigner)
  windows.setTrigger(trigger)
  windows.setAllowedLateness(allowedLateness)
  return harnessOf(windows.process(listed))
}
const tumbling = TumblingEventTimeWindows.of(10)

test('CountTrigger fires at each count of records of one window and key, and keeps the contents', async () => {
  const harness = await open(tumbling, CountTrigger.of(2))
  await send(harness, 'a 1@1', 'b 2@2', 'a 3@11', 'a 4@3', 'a 5@4', 'a 6@5')
  expect(harness.values()).toEqual(['a 0-10: 1 4', 'a 0-10: 1 4 5 6'])
  await harness.processWatermark(30)
  expect(harness.values()).toHaveLength(2)
  expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
})

test('PurgingTrigger drops the contents of what fires, and only then', async () => {
  const harness = await open(tumbling, PurgingTrigger.of(EventTimeTrigger.create()), 10)
  await send(harness, 'a 1@1')
  await harness.processWatermark(9)
  await send(harness, 'a 2@1', 'a 3@1')
  expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 2', 'a 0-10: 3'])
  await harness.processWatermark(19)
  expect([harness.values().length, harness.stateEntries(), harness.timerCount()]).toEqual([3, 0, 0])
})

test('NeverTrigger leaves windows silent, and they are removed all the same', async () => {
  const harness = await open(tumbling, NeverTrigger.create())
  await send(harness, 'a 1@1')
  await harness.processWatermark(9)
  expect([harness.values().length, harness.stateEntries(), harness.timerCount()]).toEqual([0, 0, 0])
})

test('ProcessingTimeTrigger fires by the clock; on event-time windows at the time of their end', async () => {
  const harness = await open(tumbling, ProcessingTimeTrigger.create())
  await send(harness, 'a 1@1')
  await harness.setProcessingTime(9)
  expect(harness.values()).toEqual([])
  await harness.setProcessingTime(10)
  expect(harness.values()).toEqual(['a 0-10: 1'])
  await harness.processWatermark(9)
  expect([harness.values().length, harness.stateEntries(), harness.timerCount()]).toEqual([1, 0, 0])
})

describe('ContinuousEventTimeTrigger', () => {
  test('fires at multiples of its interval and at the end of the window', async () => {
    const harness = await open(TumblingEventTimeWindows.of(10), ContinuousEventTimeTrigger.of(4))
    await send(harness, 'a 1@1')
    await harness.processWatermark(3)
    expect(harness.values()).toEqual([])
    await harness.processWatermark(4)
    await send(harness, 'a 2@5')
    await harness.processWatermark(8)
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 1 2', 'a 0-10: 1 2'])
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('fires for each record that comes after the end', async () => {
    const harness = await open(tumbling, ContinuousEventTimeTrigger.of(100), 5)
    await harness.processWatermark(9)
    await send(harness, 'a 1@1', 'a 2@1')
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 1 2'])
    await harness.processWatermark(14)
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('comes to an end with the input, though the global window does not', async () => {
    const harness = await open(GlobalWindows.create(), ContinuousEventTimeTrigger.of(10))
    await send(harness, 'a 1@1')
    await harness.processWatermark(10)
    await send(harness, 'a 2@11')
    await harness.processWatermark(MAX_WATERMARK)
    expect(harness.values()).toEqual(['a all: 1', 'a all: 1 2', 'a all: 1 2'])
  })
})

describe('ContinuousProcessingTimeTrigger', () => {
  test('fires at multiples of its interval, and at the end of processing-time windows', async () => {
    const harness = await open(TumblingProcessingTimeWindows.of(10), ContinuousProcessingTimeTrigger.of(4))
    await harness.setProcessingTime(1)
    await send(harness, 'a 1')
    await harness.setProcessingTime(5)
    await send(harness, 'a 2')
    await harness.setProcessingTime(40)
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 1 2', 'a 0-10: 1 2'])
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('goes on after the end of an event-time window that waits for its watermark', async () => {
    const harness = await open(tumbling, ContinuousProcessingTimeTrigger.of(100))
    await harness.setProcessingTime(50)
    await send(harness, 'a 1@1')
    await harness.setProcessingTime(301)
    expect(harness.values()).toHaveLength(3)
    await harness.processWatermark(9)
    expect([harness.values().length, harness.stateEntries(), harness.timerCount()]).toEqual([3, 0, 0])
  })
})

test('DeltaTrigger fires when a value is more than the threshold away from the one that fired last', async () => {
  const harness = await open(
    GlobalWindows.create(),
    DeltaTrigger.of(3, (a: Row, b: Row) => Math.abs(a.v - b.v)),
  )
  await send(harness, 'a 1', 'a 4', 'a 5', 'a 7', 'a 9')
  expect(harness.values()).toEqual(['a all: 1 4 5', 'a all: 1 4 5 7 9'])
})

test('counts and intervals below one are refused', () => {
  for (const make of [
    () => CountTrigger.of(0),
    () => CountTrigger.of(1.5),
    () => ContinuousEventTimeTrigger.of(0),
    () => ContinuousProcessingTimeTrigger.of(-1),
  ])
    expect(make).toThrow(expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }))
})

describe('a trigger of the job', () => {
  /** Fires 3 ms of event time after each first record, drops everything for a negative value. */
  class Delayed extends Trigger<Row, TimeWindow> {
    private readonly due = new ValueStateDescriptor<number>('due')
    override onElement(row: Row, timestamp: number, _window: TimeWindow, context: TriggerContext) {
      if (row.v < 0) return TriggerResult.PURGE
      const due = context.getPartitionedState(this.due)
      if (due.value() === null) {
        due.update(timestamp + 3)
        context.registerEventTimeTimer(timestamp + 3)
      }
      return TriggerResult.CONTINUE
    }
    override onEventTime(time: number, _window: TimeWindow, context: TriggerContext) {
      const due = context.getPartitionedState(this.due)
      if (due.value() !== time) return TriggerResult.CONTINUE
      due.clear()
      return TriggerResult.FIRE
    }
    override onProcessingTime() {
      return TriggerResult.CONTINUE
    }
    override clear() {}
  }

  test('has timers and state of its window; what it forgets to clear is removed with the window', async () => {
    const harness = await open(tumbling, new Delayed())
    await send(harness, 'a 1@1', 'a 2@2', 'a 3@15')
    await harness.processWatermark(5)
    expect(harness.values()).toEqual(['a 0-10: 1 2'])
    await send(harness, 'a 4@6', 'a -1@6')
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['a 0-10: 1 2'])
    await send(harness, 'b 5@19')
    await harness.processWatermark(19)
    expect(harness.values()).toEqual(['a 0-10: 1 2', 'a 10-20: 3'])
    expect(harness.keysOf('due')).toEqual([])
    await harness.processWatermark(100)
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('that says it can merge must do so', () => {
    expect(() => new Delayed().onMerge(undefined as never, undefined as never)).toThrow(
      /Delayed .*no onMerge/,
    )
  })
})
