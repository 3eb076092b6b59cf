import { describe, expect, test } from '@jest/globals'
import { MAX_WATERMARK } from '../../../../src/core/element.ts'
import { timestampsAndWatermarksOperator } from '../../../../src/core/operators/timestamps.ts'
import { WatermarkStrategy } from '../../../../src/core/time/watermarks.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'
import { opened, settled, vectorOf } from './recording-output.ts'

interface Event {
  readonly at: number
}
const bounded = WatermarkStrategy.forBoundedOutOfOrderness<Event>(5).withTimestampAssigner(
  (event) => event.at,
)
const harnessOf = (strategy: WatermarkStrategy<Event>) =>
  OperatorHarness.of<Event, Event>(timestampsAndWatermarksOperator(strategy))

/** A generator that makes a watermark of each record whose time is a multiple of ten. */
const punctuated = WatermarkStrategy.forGenerator<Event>(() => ({
  onEvent(event, _timestamp, output) {
    if (event.at % 10 === 0) output.emitWatermark(event.at)
  },
  onPeriodicEmit() {},
})).withTimestampAssigner((event) => event.at)

describe('timestamps and watermarks', () => {
  test('records get the assigned time; the watermark follows every 200 ms', async () => {
    const harness = await harnessOf(bounded)
    await harness.processElements([{ at: 100 }, { at: 90 }])
    expect(harness.records().map(({ timestamp }) => timestamp)).toEqual([100, 90])
    await harness.advance(199)
    expect(harness.watermarks()).toEqual([])
    await harness.advance(1)
    expect(harness.watermarks()).toEqual([94])
    await harness.advance(1_000)
    expect(harness.watermarks()).toEqual([94])
  })

  test('watermarks from upstream are dropped, save the last', async () => {
    const harness = await harnessOf(bounded)
    await harness.processWatermark(1_000)
    await harness.processStatus(true)
    await harness.processWatermark(MAX_WATERMARK)
    expect(harness.watermarks()).toEqual([MAX_WATERMARK])
    expect(harness.statuses()).toEqual([])
  })

  test('the assigner sees the timestamp that the record had', async () => {
    const harness = await harnessOf(
      WatermarkStrategy.noWatermarks<Event>().withTimestampAssigner((_event, before) => before + 1),
    )
    await harness.processElement({ at: 0 }, 41)
    expect(harness.records()[0]!.timestamp).toBe(42)
  })

  test('a watermark made on a record comes right after that record, also when the output waits', async () => {
    const { operator, output } = await opened(timestampsAndWatermarksOperator(punctuated))
    output.answer = () => settled()
    const events = [5, 10, 12, 20, 20].map((at) => ({ at, toString: () => `${at}` }))
    await operator.processVector(vectorOf(...events))
    expect(output.sent).toEqual([
      'records 5,10',
      'watermark 10',
      'records 12,20',
      'watermark 20',
      'records 20',
    ])
  })

  test('a generator says itself when the stream is idle: at once, after what it said before, until it says otherwise', async () => {
    const strategy = WatermarkStrategy.forGenerator<Event>(() => {
      let due = 0
      return {
        onEvent({ at }, _timestamp, output) {
          if (at < 0) output.markIdle()
          else if (at === 0) output.markActive()
          else if (at % 10 === 0) output.emitWatermark(at)
          else due = at
        },
        onPeriodicEmit(output) {
          if (due === 7) output.markIdle()
        },
      }
    }).withTimestampAssigner((event) => Math.abs(event.at))
    const { operator, output, context } = await opened(timestampsAndWatermarksOperator(strategy))
    const events = [10, -1, 1, 20, -2, 0, 7].map((at) => ({ at, toString: () => `${at}` }))
    await operator.processVector(vectorOf(...events))
    expect(output.sent.splice(0)).toEqual([
      'records 10',
      'watermark 10',
      'records -1',
      'idle',
      'records 1,20',
      'active',
      'watermark 20',
      'records -2',
      'idle',
      'records 0',
      'active',
      'records 7',
    ])
    await context.time.advance(200)
    await operator.onProcessingTime!(context.time.now())
    await operator.processWatermark(MAX_WATERMARK)
    expect(output.sent).toEqual(['idle', 'active', `watermark ${MAX_WATERMARK}`])
  })

  test('silence for the time-out turns the stream idle, a record turns it active first', async () => {
    const { operator, output, context } = await opened(
      timestampsAndWatermarksOperator(bounded.withIdleness(300)),
    )
    const tick = async () => {
      await context.time.advance(200)
      await operator.onProcessingTime!(context.time.now())
    }
    operator.processVector(vectorOf({ at: 50, toString: () => 'x' }))
    for (let i = 0; i < 4; i++) await tick()
    operator.processVector(vectorOf({ at: 60, toString: () => 'y' }))
    expect(output.sent).toEqual(['records x', 'watermark 44', 'idle', 'active', 'records y'])
  })

  test('records that cannot be taken now, or a call that holds the loop, are no silence', async () => {
    const { operator, output, context } = await opened(
      timestampsAndWatermarksOperator(bounded.withIdleness(300)),
    )
    const tick = async (after = 200) => {
      await context.time.advance(after)
      await operator.onProcessingTime!(context.time.now())
    }
    let waiting = true
    Object.assign(context, { inputWaiting: () => waiting })
    operator.processVector(vectorOf({ at: 50, toString: () => 'x' }))
    for (let i = 0; i < 10; i++) await tick()
    waiting = false
    await tick(5_000)
    expect(output.sent).toEqual(['records x', 'watermark 44'])
    await tick()
    await tick()
    expect(output.sent).toEqual(['records x', 'watermark 44', 'idle'])
  })

  test.each([
    ['undefined', () => undefined],
    ['NaN', () => Number.NaN],
    ['a text', () => '2026-01-01'],
    [
      'an error',
      () => {
        throw new Error('no time')
      },
    ],
  ])(
    'an assigner that gives %s is an error that names the operator and the record',
    async (_what, assign) => {
      const { operator } = await opened(
        timestampsAndWatermarksOperator(
          WatermarkStrategy.noWatermarks<Event>().withTimestampAssigner(assign as never),
        ),
      )
      expect(() => operator.processVector(vectorOf({ at: 7 }))).toThrow(
        expect.objectContaining({
          code: 'MILLRACE_USER_FUNCTION',
          message: expect.stringContaining("The timestamp assigner of operator 'op'"),
          details: expect.objectContaining({ record: '{"at":7}' }),
        }),
      )
    },
  )
})
