import { describe, expect, test } from '@jest/globals'
import type {
  Collector,
  KeyedContext,
  OnTimerContext,
  RuntimeContext,
} from '../../../../src/core/functions.ts'
import { KeyedProcessFunction, ProcessFunction } from '../../../../src/core/functions.ts'
import { keyedProcessOperator, processOperator } from '../../../../src/core/operators/process.ts'
import { OutputTag } from '../../../../src/core/output-tag.ts'
import { type ValueState, ValueStateDescriptor } from '../../../../src/core/state.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'
import { deferred, opened, settled, vectorOf } from './recording-output.ts'

const late = new OutputTag<string>('late')

interface Visit {
  readonly user: string
  readonly at: number
}
const userOf = (visit: any): string => visit.user

class CountVisits extends KeyedProcessFunction<string, Visit, string> {
  private count!: ValueState<number>
  override open(context: RuntimeContext) {
    this.count = context.getState(new ValueStateDescriptor<number>('count'))
  }
  override processElement(visit: Visit, context: KeyedContext<string>, out: Collector<string>) {
    const count = (this.count.value() ?? 0) + 1
    this.count.update(count)
    out.collect(`${context.getCurrentKey()} ${count}`)
    context.timerService().registerEventTimeTimer(visit.at + 10)
  }
  override onTimer(time: number, context: OnTimerContext<string>, out: Collector<string>) {
    out.collect(`${context.getCurrentKey()} gone at ${time}`)
    this.count.clear()
  }
}

describe('process', () => {
  test('records, side records and their timestamps go out after each vector', async () => {
    class Route extends ProcessFunction<number, number> {
      override processElement(value: number, context: this['Context'], out: Collector<number>) {
        if (value < 0) context.output(late, `${value}@${context.timestamp()}`)
        else out.collect(value)
      }
    }
    const { operator, output } = await opened(processOperator(new Route()))
    operator.processVector(vectorOf(5, -1, 6))
    expect(output.sent).toEqual(['records 5,6', 'side late -1@1'])
    expect(output.timestamps).toEqual([0, 2])
  })

  test('a record without event time has the timestamp null', async () => {
    const seen: (number | null)[] = []
    const fn = {
      processElement(_value: unknown, context: { timestamp(): number | null }) {
        seen.push(context.timestamp())
      },
    }
    const harness = await OperatorHarness.process(fn as never)
    await harness.processElement('x' as never)
    await harness.processElement('x' as never, 0)
    expect(seen).toEqual([null, 0])
  })

  test('keyed state without keyBy is refused with the state named', async () => {
    const fn = {
      open: (context: RuntimeContext) => void context.getState(new ValueStateDescriptor('total')),
      processElement() {},
    }
    await expect(opened(processOperator(fn as never))).rejects.toMatchObject({
      code: 'MILLRACE_STATE_ACCESS',
      message: expect.stringContaining("State 'total'"),
    })
  })
})

describe('keyed process', () => {
  test('each key has its own state and timers', async () => {
    const harness = await OperatorHarness.keyedProcess(new CountVisits(), userOf)
    await harness.processElements([
      { user: 'ann', at: 1 },
      { user: 'bob', at: 2 },
      { user: 'ann', at: 3 },
    ])
    expect(harness.values()).toEqual(['ann 1', 'bob 1', 'ann 2'])
    harness.takeRecords()
    await harness.processWatermark(12)
    expect(harness.takeRecords()).toEqual([
      { value: 'ann gone at 11', timestamp: 11 },
      { value: 'bob gone at 12', timestamp: 12 },
    ])
    expect(harness.watermarks()).toEqual([12])
    await harness.processElement({ user: 'ann', at: 20 })
    expect(harness.values()).toEqual(['ann 1'])
  })

  test('the watermark goes on only after all timers have fired and their results are out', async () => {
    const { operator, output } = await opened(keyedProcessOperator(new CountVisits(), userOf), {
      keyed: true,
      vectorSize: 2,
    })
    operator.processVector(vectorOf(...['a', 'b', 'c', 'd', 'e'].map((user, at) => ({ user, at }))))
    output.sent.length = 0
    operator.processWatermark(100)
    expect(output.sent).toEqual([
      'records a gone at 10,b gone at 11',
      'records c gone at 12,d gone at 13',
      'records e gone at 14',
      'watermark 100',
    ])
  })

  test('backpressure between two batches of timers is waited for', async () => {
    const { operator, output } = await opened(keyedProcessOperator(new CountVisits(), userOf), {
      keyed: true,
      vectorSize: 2,
    })
    operator.processVector(vectorOf(...['a', 'b', 'c'].map((user, at) => ({ user, at }))))
    output.sent.length = 0
    const gate = deferred()
    output.answer = () => gate.promise
    const done = operator.processWatermark(100)
    await settled()
    expect(output.sent).toEqual(['records a gone at 10,b gone at 11'])
    gate.resolve()
    await done
    expect(output.sent.at(-1)).toBe('watermark 100')
  })

  test('a timer registered while timers fire, at or below the watermark, fires in the same round at its place', async () => {
    const fired: string[] = []
    const fn = {
      processElement(value: any, context: KeyedContext<string>) {
        for (const time of value.times) context.timerService().registerEventTimeTimer(time)
      },
      onTimer(time: number, context: OnTimerContext<string>) {
        fired.push(`${context.getCurrentKey()}${time}`)
        if (time === 10) for (const next of [15, 20, 40]) context.timerService().registerEventTimeTimer(next)
      },
    }
    const harness = await OperatorHarness.keyedProcess(fn as never, userOf)
    await harness.processElements([
      { user: 'a', times: [10] },
      { user: 'b', times: [12, 20, 30] },
    ] as never)
    await harness.processWatermark(30)
    expect(fired).toEqual(['a10', 'b12', 'a15', 'b20', 'a20', 'b30'])
    expect(harness.timerCount()).toBe(1)
    await harness.processWatermark(40)
    expect(fired.at(-1)).toBe('a40')
  })

  test('a timer deleted by an earlier one of the same round does not fire', async () => {
    const fired: number[] = []
    const fn = {
      processElement(_value: unknown, context: KeyedContext<string>) {
        for (const time of [10, 20, 30]) context.timerService().registerEventTimeTimer(time)
      },
      onTimer(time: number, context: OnTimerContext<string>) {
        fired.push(time)
        if (time === 10) context.timerService().deleteEventTimeTimer(20)
      },
    }
    const harness = await OperatorHarness.keyedProcess(fn as never, userOf)
    await harness.processElement({ user: 'a' } as never)
    await harness.processWatermark(100)
    expect(fired).toEqual([10, 30])
  })

  test('a timer registered twice fires once, also when it waits in the round that fires', async () => {
    const fired: number[] = []
    const fn = {
      processElement(_value: unknown, context: KeyedContext<string>) {
        for (const time of [10, 20, 20, 30]) context.timerService().registerEventTimeTimer(time)
      },
      onTimer(time: number, context: OnTimerContext<string>) {
        fired.push(time)
        if (time === 10) context.timerService().registerEventTimeTimer(20)
      },
    }
    const harness = await OperatorHarness.keyedProcess(fn as never, (visit: any) => [visit.user, 1] as never)
    await harness.processElement({ user: 'a' } as never)
    await harness.processWatermark(100)
    expect(fired).toEqual([10, 20, 30])
  })

  test('processing-time timers fire when the clock gets there, and their results have no event time', async () => {
    const fn = {
      processElement(_value: unknown, context: KeyedContext<string>) {
        context
          .timerService()
          .registerProcessingTimeTimer(context.timerService().currentProcessingTime() + 100)
      },
      onTimer(time: number, context: OnTimerContext<string>, out: Collector<string>) {
        out.collect(`${context.timeDomain()} ${time} ${context.timestamp()}`)
        if (time < 300) context.timerService().registerProcessingTimeTimer(time + 100)
      },
    }
    const harness = await OperatorHarness.keyedProcess(fn as never, userOf)
    await harness.processElement({ user: 'a' } as never, 7)
    await harness.advance(99)
    expect(harness.records()).toEqual([])
    await harness.advance(1)
    expect(harness.takeRecords()).toEqual([{ value: 'PROCESSING_TIME 100 100', timestamp: null }])
    await harness.advance(1_000)
    expect(harness.values()).toEqual(['PROCESSING_TIME 200 200', 'PROCESSING_TIME 300 300'])
  })

  test('the runtime is asked for the earliest processing time only', async () => {
    const fn = {
      processElement(value: any, context: KeyedContext<string>) {
        context.timerService().registerProcessingTimeTimer(value.at)
      },
      onTimer() {},
    }
    const { operator, context } = await opened(keyedProcessOperator(fn as never, userOf), { keyed: true })
    operator.processVector(vectorOf({ user: 'a', at: 50 }, { user: 'a', at: 70 }, { user: 'b', at: 30 }))
    expect(context.wishes).toEqual([50, 30])
    operator.onProcessingTime!(30)
    expect(context.wishes).toEqual([50, 30, 50])
  })

  test('state and timers survive a snapshot and a restore, processing-time ones too', async () => {
    const fn = {
      processElement(value: any, context: KeyedContext<string>) {
        context.timerService().registerProcessingTimeTimer(value.at)
      },
      onTimer(time: number, context: OnTimerContext<string>, out: Collector<string>) {
        out.collect(`${context.getCurrentKey()} ${time}`)
      },
    }
    const first = await OperatorHarness.keyedProcess(fn as never, userOf)
    await first.processElement({ user: 'a', at: 500 } as never)
    const snapshot = await first.snapshot()
    const second = await OperatorHarness.keyedProcess(fn as never, userOf, { restore: snapshot })
    await second.advance(500)
    expect(second.values()).toEqual(['a 500'])
  })

  test('a key selector that gives no key names the operator and the record', async () => {
    const { operator } = await opened(
      keyedProcessOperator(new CountVisits(), (visit: any) => visit.name),
      { keyed: true },
    )
    expect(() => operator.processVector(vectorOf({ user: 'ann', at: 1 }))).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_INVALID_KEY',
        message: expect.stringMatching(/'op'.*undefined.*"user":"ann"/),
      }),
    )
  })

  test('a key selector that throws is an error of the user', async () => {
    const keyOf = (visit: any) => visit.nobody.name
    const { operator } = await opened(keyedProcessOperator(new CountVisits(), keyOf), { keyed: true })
    expect(() => operator.processVector(vectorOf({ user: 'ann', at: 1 }))).toThrow(
      /The key selector of operator 'op'/,
    )
  })

  test('all keys of a vector are loaded before its first record, and waited for', async () => {
    const { operator, output, context } = await opened(keyedProcessOperator(new CountVisits(), userOf), {
      keyed: true,
    })
    const gate = deferred()
    const asked: unknown[] = []
    context.keyedState!.prefetch = (keys) => {
      asked.push([...keys])
      return gate.promise
    }
    const done = operator.processVector(vectorOf({ user: 'a', at: 1 }, { user: 'b', at: 2 }))
    await settled()
    expect(asked).toEqual([['a', 'b']])
    expect(output.sent).toEqual([])
    gate.resolve()
    await done
    expect(output.values).toEqual(['a 1', 'b 1'])
    const fired = operator.processWatermark(100)
    expect(asked[1]).toEqual(['a', 'b'])
    await fired
    expect(output.sent.at(-1)).toBe('watermark 100')
  })

  test('state is refused outside of a call, and in a call without a key', async () => {
    let state!: ValueState<number>
    const fn = {
      open(context: RuntimeContext) {
        state = context.getState(new ValueStateDescriptor<number>('count'))
        expect(() => state.value()).toThrow(expect.objectContaining({ code: 'MILLRACE_STATE_ACCESS' }))
      },
      processElement() {
        state.update(1)
      },
    }
    const { operator } = await opened(keyedProcessOperator(fn as never, userOf), { keyed: true })
    operator.processVector(vectorOf({ user: 'a' }))
    expect(() => state.value()).toThrow(/State 'count' of operator 'op' was used outside of the call/)
  })

  test('while an asynchronous function waits, the key stays the one of its record', async () => {
    const seen: string[] = []
    const fn = {
      async processElement(_value: unknown, context: KeyedContext<string>) {
        const before = context.getCurrentKey()
        await settled()
        seen.push(`${before} ${context.getCurrentKey()}`)
      },
    }
    const { operator } = await opened(keyedProcessOperator(fn as never, userOf), { keyed: true })
    await operator.processVector(vectorOf({ user: 'a' }, { user: 'b' }))
    expect(seen).toEqual(['a a', 'b b'])
  })
})
