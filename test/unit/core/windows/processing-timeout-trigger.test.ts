import { describe, expect, test } from '@jest/globals'
import { GlobalWindows, TumblingEventTimeWindows } from '../../../../src/core/windows/assigners.ts'
import { ProcessingTimeoutTrigger } from '../../../../src/core/windows/processing-timeout-trigger.ts'
import { EventTimeSessionWindows } from '../../../../src/core/windows/session-assigners.ts'
import type { Trigger } from '../../../../src/core/windows/trigger.ts'
import {
  ContinuousProcessingTimeTrigger,
  CountTrigger,
  EventTimeTrigger,
  PurgingTrigger,
} from '../../../../src/core/windows/triggers.ts'
import type { WindowAssigner } from '../../../../src/core/windows/window-assigner.ts'
import type { HarnessOptions } from '../../../../src/testing/operator-harness.ts'
import { harnessOf, listed, send, windowsOf } from './window-harness.ts'

const tumbling = TumblingEventTimeWindows.of(10)
const atEnd = EventTimeTrigger.create()

function open(
  trigger: Trigger<any, any>,
  assigner: WindowAssigner<any, any> = tumbling,
  options?: HarnessOptions,
) {
  const windows = windowsOf(assigner)
  windows.setTrigger(trigger)
  return harnessOf(windows.process(listed), options)
}
type Harness = Awaited<ReturnType<typeof open>>
const left = (harness: Harness) => [harness.stateEntries(), harness.timerCount()]

describe('ProcessingTimeoutTrigger', () => {
  test('fires after the time-out if the watermark stands still, once, and leaves nothing behind', async () => {
    const harness = await open(ProcessingTimeoutTrigger.of(atEnd, 100))
    await send(harness, 'a 1@1')
    await harness.setProcessingTime(50)
    await send(harness, 'a 2@2')
    await harness.setProcessingTime(100)
    expect(harness.values()).toEqual([])
    await harness.setProcessingTime(101)
    expect(harness.values()).toEqual(['a 0-10: 1 2'])
    expect(harness.records()[0]!.timestamp).toBe(9)
    await harness.setProcessingTime(1_000)
    await harness.processWatermark(9)
    expect(harness.values()).toHaveLength(1)
    expect(left(harness)).toEqual([0, 0])
  })

  test('does nothing more if the watermark comes first', async () => {
    const harness = await open(ProcessingTimeoutTrigger.of(atEnd, 100))
    await send(harness, 'a 1@1')
    await harness.processWatermark(9)
    expect(left(harness)).toEqual([0, 0])
    await harness.setProcessingTime(1_000)
    expect(harness.values()).toEqual(['a 0-10: 1'])
  })

  test('a record opens the window again, for the time-out and for the watermark', async () => {
    const harness = await open(PurgingTrigger.of(ProcessingTimeoutTrigger.of(atEnd, 100)))
    await send(harness, 'a 1@1')
    await harness.setProcessingTime(200)
    await send(harness, 'a 2@2')
    await harness.setProcessingTime(301)
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 2'])
    await send(harness, 'a 3@2')
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 2', 'a 0-10: 3'])
    expect(left(harness)).toEqual([0, 0])
  })

  test('begins anew with each record if it is told to', async () => {
    const harness = await open(ProcessingTimeoutTrigger.of(atEnd, 100, true))
    await send(harness, 'a 1@1')
    await harness.setProcessingTime(80)
    await send(harness, 'a 2@2')
    await harness.setProcessingTime(180)
    expect(harness.values()).toEqual([])
    await harness.setProcessingTime(181)
    expect(harness.values()).toEqual(['a 0-10: 1 2'])
  })

  test('leaves the nested trigger as it is if it is told to', async () => {
    const harness = await open(ProcessingTimeoutTrigger.of(atEnd, 100, false, false))
    await send(harness, 'a 1@1')
    await harness.setProcessingTime(101)
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 1'])
    expect(left(harness)).toEqual([0, 0])
  })

  test('counts records of a global window anew, and keeps nothing of a trigger there', async () => {
    const trigger = PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(3), 100))
    const harness = await open(trigger, GlobalWindows.create())
    await send(harness, 'a 1', 'a 2')
    await harness.setProcessingTime(101)
    expect(harness.values()).toEqual(['a all: 1 2'])
    expect(left(harness)).toEqual([0, 0])
    await send(harness, 'a 3', 'a 4', 'a 5')
    expect(harness.values()).toEqual(['a all: 1 2', 'a all: 3 4 5'])
  })

  test('timers of the nested trigger are no time-out', async () => {
    const harness = await open(ProcessingTimeoutTrigger.of(ContinuousProcessingTimeTrigger.of(40), 100))
    await send(harness, 'a 1@1')
    await harness.setProcessingTime(41)
    await send(harness, 'a 2@2')
    await harness.setProcessingTime(101)
    // At 9, 49, 89, and then at 100.
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-10: 1 2', 'a 0-10: 1 2', 'a 0-10: 1 2'])
    await harness.setProcessingTime(1_000)
    expect(harness.values()).toHaveLength(4)
  })

  test('a session that grows keeps the earliest time-out of its parts', async () => {
    const harness = await open(ProcessingTimeoutTrigger.of(atEnd, 100), EventTimeSessionWindows.withGap(5))
    await send(harness, 'a 1@1')
    await harness.setProcessingTime(50)
    await send(harness, 'a 2@9', 'a 3@5')
    await harness.setProcessingTime(101)
    expect(harness.values()).toEqual(['a 1-14: 1 2 3'])
    await harness.processWatermark(20)
    expect([harness.values().length, ...left(harness)]).toEqual([1, 0, 0])
  })

  test('goes on after a restore', async () => {
    const trigger = ProcessingTimeoutTrigger.of(atEnd, 100)
    const before = await open(trigger)
    await send(before, 'a 1@1', 'b 2@1')
    await before.setProcessingTime(60)
    const harness = await open(trigger, tumbling, { restore: await before.snapshot(), processingTime: 90 })
    await send(harness, 'a 3@1')
    await harness.setProcessingTime(101)
    expect(harness.values().sort()).toEqual(['a 0-10: 1 3', 'b 0-10: 2'])
    await harness.processWatermark(9)
    expect([harness.values().length, ...left(harness)]).toEqual([2, 0, 0])
  })

  test('a time-out that is none is refused', () => {
    for (const ms of [0, -1, Number.NaN])
      expect(() => ProcessingTimeoutTrigger.of(atEnd, ms)).toThrow(
        expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }),
      )
  })
})
