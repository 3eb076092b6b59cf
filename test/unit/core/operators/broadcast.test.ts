import { expect, test } from '@jest/globals'
import type { BroadcastContext, Collector, ReadOnlyBroadcastContext } from '../../../../src/core/functions.ts'
import { KeyedBroadcastProcessFunction } from '../../../../src/core/functions.ts'
import {
  broadcastProcessOperator,
  keyedBroadcastProcessOperator,
} from '../../../../src/core/operators/broadcast.ts'
import { type BroadcastState, MapStateDescriptor, ValueStateDescriptor } from '../../../../src/core/state.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'
import { opened, vectorOf } from './recording-output.ts'

const rates = new MapStateDescriptor<string, number>('rates')
interface Sale {
  readonly shop: string
  readonly currency: string
  readonly amount: number
}
type Rate = readonly [string, number]

class Convert extends KeyedBroadcastProcessFunction<string, Sale, Rate, string> {
  override processElement(sale: Sale, context: ReadOnlyBroadcastContext<string>, out: Collector<string>) {
    const rate = context.getBroadcastState(rates).get(sale.currency)
    out.collect(`${context.getCurrentKey()} ${rate === undefined ? '?' : sale.amount * rate}`)
  }
  override processBroadcastElement([currency, rate]: Rate, context: BroadcastContext) {
    context.getBroadcastState(rates).put(currency, rate)
  }
}
const shopOf = (sale: any) => sale.shop
const sale = { shop: 's1', currency: 'EUR', amount: 10 }
const harnessOf = (restore?: Awaited<ReturnType<OperatorHarness<Sale, string, Rate>['snapshot']>>) =>
  OperatorHarness.of<Sale, string, Rate>(keyedBroadcastProcessOperator(new Convert(), shopOf, [rates]), {
    keyed: true,
    ...(restore === undefined ? {} : { restore }),
  })

test('the keyed side reads what the broadcast side wrote', async () => {
  const harness = await harnessOf()
  await harness.processElement(sale)
  await harness.processElement2(['EUR', 2])
  await harness.processElement(sale)
  expect(harness.values()).toEqual(['s1 ?', 's1 20'])
})

test('broadcast state is restored, and a snapshot does not change afterwards', async () => {
  const first = await harnessOf()
  await first.processElement2(['EUR', 2])
  const snapshot = await first.snapshot()
  await first.processElement2(['EUR', 3])
  expect(snapshot.operatorState['rates']).toEqual({ redistribution: 'broadcast', items: [['EUR', 2]] })
  const second = await harnessOf(snapshot)
  await second.processElement(sale)
  expect(second.values()).toEqual(['s1 20'])
})

test('the keyed side cannot write', async () => {
  let state!: object
  const fn = {
    processElement(_value: unknown, context: ReadOnlyBroadcastContext<string>) {
      state = context.getBroadcastState(rates)
    },
    processBroadcastElement() {},
  }
  const { operator } = await opened(keyedBroadcastProcessOperator(fn as never, shopOf, [rates]), {
    keyed: true,
  })
  operator.processVector(vectorOf(sale))
  expect('put' in state).toBe(false)
})

test('a state that was not declared is refused with the declared names', async () => {
  const fn = {
    processElement() {},
    processBroadcastElement: (_value: unknown, context: BroadcastContext) =>
      void context.getBroadcastState(new MapStateDescriptor('rules')),
  }
  const { operator } = await opened(broadcastProcessOperator(fn, [rates]))
  expect(() => operator.processVector2!(vectorOf(1))).toThrow(
    /'rules'.*was not declared; declared are: 'rates'/,
  )
})

test('keyed state is refused on the broadcast side, and broadcast state outside of calls', async () => {
  let broadcastState!: BroadcastState<string, number>
  const fn = {
    open(context: any) {
      this.total = context.getState(new ValueStateDescriptor('total'))
    },
    total: undefined as any,
    processElement() {},
    processBroadcastElement(_value: unknown, context: BroadcastContext) {
      broadcastState = context.getBroadcastState(rates)
      broadcastState.put('EUR', 1)
      this.total.value()
    },
  }
  const { operator } = await opened(keyedBroadcastProcessOperator(fn as never, shopOf, [rates]), {
    keyed: true,
  })
  expect(() => operator.processVector2!(vectorOf(1))).toThrow(
    /State 'total' .* in a call that has no current key/,
  )
  expect(() => broadcastState.get('EUR')).toThrow(/Broadcast state 'rates' .* outside of the call/)
})

test('without keys each side has its own function and the other only reads', async () => {
  const fn = {
    processElement(value: string, context: any, out: Collector<string>) {
      out.collect(`${value} ${[...context.getBroadcastState(rates).entries()].join(' ')}`)
    },
    processBroadcastElement(rate: Rate, context: BroadcastContext) {
      context.getBroadcastState(rates).put(...(rate as [string, number]))
    },
  }
  const { operator, output } = await opened(broadcastProcessOperator(fn, [rates]))
  operator.processVector2!(vectorOf(['EUR', 2], ['USD', 3]))
  operator.processVector(vectorOf('x'))
  expect(output.values).toEqual(['x EUR,2 USD,3'])
})
