import { describe, expect, test } from '@jest/globals'
import { OutputTag } from '../../../../src/core/output-tag.ts'
import {
  EventTimeSessionWindows,
  ProcessingTimeSessionWindows,
} from '../../../../src/core/windows/session-assigners.ts'
import {
  ContinuousEventTimeTrigger,
  CountTrigger,
  PurgingTrigger,
} from '../../../../src/core/windows/triggers.ts'
import { harnessOf, listed, type Row, send, sums, windowsOf } from './window-harness.ts'

const sessions = () => windowsOf(EventTimeSessionWindows.withGap(10))

describe('sessions', () => {
  test('last from their first record to the gap after their last', async () => {
    const harness = await harnessOf(sessions().process(listed))
    await send(harness, 'a 1@0', 'a 2@9', 'a 3@30', 'b 4@9')
    await harness.processWatermark(17)
    expect(harness.values()).toEqual([])
    await harness.processWatermark(18)
    expect(harness.values()).toEqual(['a 0-19: 1 2', 'b 9-19: 4'])
    await harness.processWatermark(39)
    expect(harness.records().at(-1)).toEqual({ value: 'a 30-40: 3', timestamp: 39 })
  })

  test('that are exactly the gap apart are one', async () => {
    const harness = await harnessOf(sessions().process(listed))
    await send(harness, 'a 1@0', 'a 2@10', 'a 3@31')
    await harness.processWatermark(100)
    expect(harness.values()).toEqual(['a 0-20: 1 2', 'a 31-41: 3'])
  })

  test('become one when a record comes between them, whatever the contents are kept as', async () => {
    for (const spec of [
      sessions().process(listed),
      sessions().aggregate(sums, undefined),
      sessions().reduce((a: Row, b: Row) => ({ k: a.k, v: a.v + b.v }), undefined),
    ]) {
      const harness = await harnessOf(spec)
      await send(harness, 'a 1@0', 'a 2@15', 'a 4@30', 'a 8@8', 'a 16@22')
      expect(harness.timerCount()).toBe(1)
      await harness.processWatermark(39)
      expect(harness.values()).toHaveLength(1)
      expect(harness.values()[0]).toEqual(
        spec.name.startsWith('process')
          ? expect.stringMatching(/^a 0-40: /)
          : spec.name.startsWith('reduce')
            ? { k: 'a', v: 31 }
            : { count: 5, sum: 31 },
      )
      expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
    }
  })

  test('that aggregate keep one accumulator and the set of open windows, nothing else', async () => {
    const harness = await harnessOf(sessions().aggregate(sums, undefined))
    for (let time = 0; time < 500; time += 5) await send(harness, `a 1@${time}`)
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([2, 1])
  })

  test('take a late record that joins an open session, and only such a one', async () => {
    const late = new OutputTag<Row>('late')
    const windows = sessions()
    windows.setLateTag(late)
    const harness = await harnessOf(windows.process(listed))
    await send(harness, 'a 1@0', 'a 2@9')
    await harness.processWatermark(15)
    await send(harness, 'a 3@-5', 'a 4@-30', 'b 5@5')
    expect(harness.sideRecords(late).map(({ value }) => value.v)).toEqual([4, 5])
    await harness.processWatermark(18)
    expect(harness.values()).toEqual(['a -5-19: 1 2 3'])
  })

  test('fire again within the allowed lateness, also when they grow', async () => {
    const windows = sessions()
    windows.setAllowedLateness(20)
    const harness = await harnessOf(windows.process(listed))
    await send(harness, 'a 1@0')
    await harness.processWatermark(9)
    await send(harness, 'a 2@3')
    expect(harness.values()).toEqual(['a 0-10: 1'])
    await harness.processWatermark(12)
    await send(harness, 'a 3@2')
    await send(harness, 'a 4@-3')
    expect(harness.values()).toEqual(['a 0-10: 1', 'a 0-13: 1 2', 'a 0-13: 1 2 3', 'a -3-13: 1 2 3 4'])
    await harness.processWatermark(32)
    expect([harness.values().length, harness.stateEntries(), harness.timerCount()]).toEqual([4, 0, 0])
  })

  test('that grow leave no timers of their old bounds', async () => {
    const windows = sessions()
    windows.setAllowedLateness(20)
    const harness = await harnessOf(windows.aggregate(sums, undefined))
    await send(harness, 'a 1@0', 'a 1@5', 'a 1@30', 'a 1@12', 'a 1@20')
    // The one at the end and the one of the clean-up.
    expect(harness.timerCount()).toBe(2)
  })

  test('wait as long as the record says, if the gap is dynamic', async () => {
    const harness = await harnessOf(
      windowsOf(EventTimeSessionWindows.withDynamicGap((row: Row) => row.v)).process(listed),
    )
    await send(harness, 'a 5@0', 'a 100@4', 'a 7@50', 'a 20@200', 'a 30@190')
    await harness.processWatermark(300)
    expect(harness.values()).toEqual(['a 0-104: 5 100 7', 'a 190-220: 20 30'])
  })

  test('refuse a dynamic gap that is no length of time', async () => {
    const harness = await harnessOf(
      windowsOf(EventTimeSessionWindows.withDynamicGap((row: Row) => row.v)).process(listed),
    )
    await expect(send(harness, 'a 0@0')).rejects.toThrow(/session gap must be above 0 ms, not 0/)
    expect(() => EventTimeSessionWindows.withGap(0)).toThrow(/gap must be above 0/)
    expect(() => ProcessingTimeSessionWindows.withGap(Number.NaN)).toThrow(/gap must be above 0/)
  })

  test('have no window state, and say so', async () => {
    const harness = await harnessOf(
      sessions().process((_key: string, context: any) => {
        context.windowState()
      }),
    )
    await send(harness, 'a 1@0')
    await expect(harness.processWatermark(9)).rejects.toMatchObject({ code: 'MILLRACE_STATE_ACCESS' })
  })

  test('go on after a restore', async () => {
    const before = await harnessOf(sessions().process(listed))
    await send(before, 'a 1@0', 'a 2@8', 'a 3@40')
    const harness = await harnessOf(sessions().process(listed), { restore: await before.snapshot() })
    await send(harness, 'a 4@18')
    await harness.processWatermark(100)
    expect(harness.values()).toEqual(['a 0-28: 1 2 4', 'a 40-50: 3'])
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('of processing time end when the clock is past the gap', async () => {
    const harness = await harnessOf(windowsOf(ProcessingTimeSessionWindows.withGap(10)).process(listed))
    await send(harness, 'a 1')
    await harness.setProcessingTime(9)
    await send(harness, 'a 2')
    await harness.setProcessingTime(18)
    expect(harness.values()).toEqual([])
    await harness.setProcessingTime(19)
    await send(harness, 'a 3')
    await harness.setProcessingTime(100)
    expect(harness.values()).toEqual(['a 0-19: 1 2', 'a 19-29: 3'])
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })
})

describe('triggers of sessions', () => {
  test('count the records of all windows that became one', async () => {
    const windows = sessions()
    windows.setTrigger(PurgingTrigger.of(CountTrigger.of(3)))
    const harness = await harnessOf(windows.process(listed))
    await send(harness, 'a 1@0', 'a 2@15', 'a 3@8')
    expect(harness.values()).toEqual(['a 0-25: 1 2 3'])
    await send(harness, 'a 4@10')
    await harness.processWatermark(24)
    expect([harness.values().length, harness.stateEntries(), harness.timerCount()]).toEqual([1, 0, 0])
  })

  test('that fire in intervals leave no timers of windows that are gone', async () => {
    const windows = sessions()
    windows.setTrigger(ContinuousEventTimeTrigger.of(1_000))
    const harness = await harnessOf(windows.process(listed))
    for (let time = 0; time < 300; time += 5) await send(harness, `a 1@${time}`)
    expect(harness.timerCount()).toBeLessThan(4)
    await harness.processWatermark(10_000)
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })
})
