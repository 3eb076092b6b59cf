import { describe, expect, test } from '@jest/globals'
import { type DataStream, TumblingEventTimeWindows } from 'millrace'
import { type Collector, KeyedProcessFunction, type RuntimeContext } from '../../../../src/core/functions.ts'
import { type AsyncMapState, AsyncMapStateDescriptor } from '../../../../src/core/state.ts'
import {
  type ProcessWindowContext,
  ProcessWindowFunction,
} from '../../../../src/core/windows/window-function.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'

interface Sale {
  readonly shop: string
  readonly item: string
  readonly amount: number
}
type Stock = AsyncMapState<string, { amount: number }>
type Use = (stock: Stock, sale: Sale, out: Collector<unknown>) => unknown

/** A keyed function around one async map. */
function withStock(use: Use, onTimer: Use = () => undefined) {
  class Uses extends KeyedProcessFunction<string, Sale, unknown> {
    private stock!: Stock
    override open(context: RuntimeContext) {
      this.stock = context.getAsyncMapState(new AsyncMapStateDescriptor<string, { amount: number }>('stock'))
    }
    override processElement(sale: Sale, context: this['Context'], out: Collector<unknown>) {
      context.timerService().registerEventTimeTimer(sale.amount)
      return use(this.stock, sale, out) as void | Promise<void>
    }
    override onTimer(time: number, context: this['OnTimerContext'], out: Collector<unknown>) {
      return onTimer(
        this.stock,
        { shop: context.getCurrentKey(), item: 'timer', amount: time },
        out,
      ) as void | Promise<void>
    }
  }
  return new Uses()
}
const shopOf = ({ shop }: Sale) => shop
const sale = (shop: string, item: string, amount: number): Sale => ({ shop, item, amount })

const add: Use = async (stock, { shop, item, amount }, out) => {
  const held = (await stock.get(item)) ?? { amount: 0 }
  held.amount += amount
  stock.put(item, held)
  out.collect(`${shop} ${item} ${held.amount}`)
}

describe('an async map in a keyed function', () => {
  test('is read and written record by record, in order, though each read is awaited', async () => {
    const harness = await OperatorHarness.keyedProcess(withStock(add), shopOf)
    await harness.processElements([
      sale('a', 'x', 1),
      sale('b', 'x', 5),
      sale('a', 'x', 2),
      sale('a', 'y', 9),
    ])
    expect(harness.values()).toEqual(['a x 1', 'b x 5', 'a x 3', 'a y 9'])
    expect(harness.keysOf('stock')).toEqual(['a', 'b'])
  })

  test('goes on where a snapshot left it', async () => {
    const harness = await OperatorHarness.keyedProcess(withStock(add), shopOf)
    await harness.processElements([sale('a', 'x', 1), sale('b', 'x', 5)])
    const restored = await OperatorHarness.keyedProcess(withStock(add), shopOf, {
      restore: await harness.snapshot(1),
    })
    await restored.processElement(sale('a', 'x', 2))
    expect(restored.values()).toEqual(['a x 3'])
  })

  test('needs no promise for what reads nothing', async () => {
    const harness = await OperatorHarness.keyedProcess(
      withStock((stock, { item, amount }) => {
        if (amount === 0) stock.remove(item)
        else stock.put(item, { amount })
      }),
      shopOf,
    )
    await harness.processElements([sale('a', 'x', 1), sale('a', 'y', 2), sale('a', 'x', 0)])
    const shows = withStock(async (stock, _sale, out) => {
      for await (const [item, { amount }] of stock.entries()) out.collect([item, amount])
    })
    const restored = await OperatorHarness.keyedProcess(shows, shopOf, { restore: await harness.snapshot(1) })
    await restored.processElement(sale('a', 'any', 1))
    expect(restored.values()).toEqual([['y', 2]])
  })

  test('works in timers, too', async () => {
    const onTimer: Use = async (stock, { shop, amount }, out) => {
      for await (const item of stock.keys()) out.collect(`${shop} at ${amount}: ${item}`)
      await stock.clear()
      out.collect(`empty: ${await stock.isEmpty()}`)
    }
    const harness = await OperatorHarness.keyedProcess(withStock(add, onTimer), shopOf)
    await harness.processElement(sale('a', 'x', 7))
    await harness.processWatermark(10)
    expect(harness.values()).toEqual(['a x 7', 'a at 7: x', 'empty: true'])
    expect(harness.stateEntries()).toBe(0)
  })

  test.each<[string, Use]>([
    ['reads', (stock, { item }) => void stock.get(item)],
    ['clears', (stock) => void stock.clear()],
    ['loops', (stock) => void stock.entries().next()],
  ])('refuses a function that %s and does not wait for it', async (_how, use) => {
    const harness = await OperatorHarness.keyedProcess(withStock(use), shopOf)
    await expect(harness.processElement(sale('a', 'x', 1))).rejects.toMatchObject({
      code: 'MILLRACE_STATE_ACCESS',
      message: expect.stringMatching(/'operator'.*before a promise/),
    })
  })

  test.each<[string, (stock: Stock) => unknown]>([
    ['a read', (stock) => stock.get('x')],
    ['a write', (stock) => stock.put('x', { amount: 1 })],
    ['a loop', (stock) => stock.entries()],
  ])('refuses %s outside of a call', async (_what, use) => {
    let kept: Stock | undefined
    const harness = await OperatorHarness.keyedProcess(
      withStock((stock) => {
        kept = stock
      }),
      shopOf,
    )
    await harness.processElement(sale('a', 'x', 1))
    expect(() => use(kept!)).toThrow(/State 'stock' of operator 'operator' was used outside of the call/)
  })

  test('refuses to go on with a loop that began in the call of another key', async () => {
    let kept: AsyncIterator<unknown> | undefined
    const harness = await OperatorHarness.keyedProcess(
      withStock(async (stock, { item }) => {
        stock.put(item, { amount: 1 })
        stock.put(`${item}2`, { amount: 1 })
        kept ??= stock.entries()
        await kept.next()
      }),
      shopOf,
    )
    await harness.processElement(sale('a', 'x', 1))
    await expect(harness.processElement(sale('b', 'x', 1))).rejects.toThrow(
      /'stock' was read for a key whose record or timer is not processed any more/,
    )
  })

  test('shows a value that was changed in place and not put back', async () => {
    const harness = await OperatorHarness.keyedProcess(
      withStock(async (stock, { item, amount }) => {
        const held = await stock.get(item)
        if (held === undefined) stock.put(item, { amount })
        else held.amount += amount
      }),
      shopOf,
    )
    await harness.processElement(sale('a', 'x', 1))
    await expect(harness.processElement(sale('a', 'x', 1))).rejects.toThrow(/'stock' was changed in place/)
  })
})

describe('an async map in a window', () => {
  const sums = (use: (context: ProcessWindowContext<any>) => AsyncMapState<string, number>) => {
    class Sums extends ProcessWindowFunction<Sale, string, string> {
      override process(
        shop: string,
        context: this['Context'],
        sales: Iterable<Sale>,
        out: Collector<string>,
      ) {
        for (const { item, amount } of sales) use(context).put(item, amount)
        out.collect(shop)
      }
    }
    return OperatorHarness.stream((sales: DataStream<Sale>) =>
      sales.keyBy(shopOf).window(TumblingEventTimeWindows.of(10)).process(new Sums()),
    )
  }
  const stock = new AsyncMapStateDescriptor<string, number>('stock')

  test('is refused as the state of the window, and may be state of the key', async () => {
    const own = await sums((context) => context.windowState().getAsyncMapState(stock))
    await own.processElement(sale('a', 'x', 1), 5)
    await expect(own.processWatermark(20)).rejects.toMatchObject({
      message: expect.stringMatching(/'stock' was asked for in the namespace of a window/),
    })
    const global = await sums((context) => context.globalState().getAsyncMapState(stock))
    await global.processElement(sale('a', 'x', 1), 5)
    await global.processWatermark(20)
    expect(global.values()).toEqual(['a'])
    expect(global.keysOf('stock')).toEqual(['a'])
  })
})
