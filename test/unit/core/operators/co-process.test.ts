import { expect, test } from '@jest/globals'
import type { Collector, KeyedContext, RuntimeContext } from '../../../../src/core/functions.ts'
import { KeyedCoProcessFunction } from '../../../../src/core/functions.ts'
import {
  coFlatMapOperator,
  coMapOperator,
  coProcessOperator,
  keyedCoProcessOperator,
} from '../../../../src/core/operators/co-process.ts'
import { type ValueState, ValueStateDescriptor } from '../../../../src/core/state.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'
import { opened, vectorOf } from './recording-output.ts'

test('each input has its own function', async () => {
  const { operator, output } = await opened(
    coMapOperator({ map1: (x: number) => x + 1, map2: (s: string) => `<${s}>` }),
  )
  operator.processVector(vectorOf(1, 2))
  operator.processVector2!(vectorOf('a'))
  expect(output.sent).toEqual(['records 2,3', 'records <a>'])
})

test('a promise of either input is awaited', async () => {
  const { operator, output } = await opened(
    coMapOperator({ map1: async (x: number) => x, map2: (x: number) => Promise.resolve(-x) }),
  )
  await operator.processVector(vectorOf(1, 2))
  await operator.processVector2!(vectorOf(3))
  expect(output.values).toEqual([1, 2, -3])
})

test('coFlatMap takes returned iterables and the collector', async () => {
  const { operator, output } = await opened(
    coFlatMapOperator({
      flatMap1: (x: number) => [x, x],
      flatMap2: (x: number, out: Collector<number>) => out.collect(-x),
    }),
  )
  operator.processVector(vectorOf(1))
  operator.processVector2!(vectorOf(2))
  expect(output.values).toEqual([1, 1, -2])
})

test('an error names the method of the input', async () => {
  const fn = {
    processElement1() {},
    processElement2() {
      throw new Error('second')
    },
  }
  const { operator } = await opened(coProcessOperator(fn as never))
  operator.processVector(vectorOf(1))
  expect(() => operator.processVector2!(vectorOf(1))).toThrow(/processElement2 of operator 'op'/)
})

class Enrich extends KeyedCoProcessFunction<
  string,
  { id: string; amount: number },
  { user: string; name: string },
  string
> {
  private name!: ValueState<string>
  override open(context: RuntimeContext) {
    this.name = context.getState(new ValueStateDescriptor<string>('name'))
  }
  override processElement1(
    order: { id: string; amount: number },
    context: KeyedContext<string>,
    out: Collector<string>,
  ) {
    out.collect(`${context.getCurrentKey()} ${this.name.value() ?? '?'} ${order.amount}`)
    context.timerService().registerEventTimeTimer(100)
  }
  override processElement2(user: { user: string; name: string }) {
    this.name.update(user.name)
  }
  override onTimer(time: number, context: KeyedContext<string>, out: Collector<string>) {
    out.collect(`${context.getCurrentKey()} ${this.name.value()} at ${time}`)
  }
}

test('both keyed inputs share state and timers of a key', async () => {
  const harness = await OperatorHarness.keyedCoProcess(
    new Enrich(),
    (order) => order.id,
    (user) => user.user,
  )
  await harness.processElement({ id: 'u1', amount: 5 }, 1)
  await harness.processElement2({ user: 'u1', name: 'Ann' }, 2)
  await harness.processElement({ id: 'u1', amount: 6 }, 3)
  await harness.processWatermark(100)
  expect(harness.values()).toEqual(['u1 ? 5', 'u1 Ann 6', 'u1 Ann at 100'])
})

test('the key selector of the second input is checked too', async () => {
  const factory = keyedCoProcessOperator(
    new Enrich() as never,
    (x: any) => x.id,
    (x: any) => x.nothing,
  )
  const { operator } = await opened(factory, { keyed: true })
  expect(() => operator.processVector2!(vectorOf({ user: 'u' }))).toThrow(
    expect.objectContaining({ code: 'MILLRACE_INVALID_KEY' }),
  )
})
