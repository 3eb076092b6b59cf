import { describe, expect, test } from '@jest/globals'
import type { OperatorSpec } from '../../../../src/api/graph-builder.ts'
import { CoGroupedStreams, JoinedStreams } from '../../../../src/api/joined-streams.ts'
import type { OpenStream } from '../../../../src/api/open-stream.ts'
import { MAX_WATERMARK } from '../../../../src/core/element.ts'
import { AbstractRichFunction, type Collector } from '../../../../src/core/functions.ts'
import {
  GlobalWindows,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from '../../../../src/core/windows/assigners.ts'
import { CountEvictor } from '../../../../src/core/windows/evictors.ts'
import { EventTimeSessionWindows } from '../../../../src/core/windows/session-assigners.ts'
import { CountTrigger } from '../../../../src/core/windows/triggers.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'

interface Order {
  readonly id: string
  readonly item: string
}
interface Payment {
  readonly order: string
  readonly cents: number
}
/** Where a spec goes instead of a graph. */
interface SpecStream extends OpenStream {
  readonly stream: OperatorSpec
}

const pair = { add: (spec: OperatorSpec) => spec }
const joined = () =>
  new JoinedStreams<Order, Payment, SpecStream>(pair).where((o) => o.id).equalTo((p) => p.order)
const grouped = () =>
  new CoGroupedStreams<Order, Payment, SpecStream>(pair).where((o) => o.id).equalTo((p) => p.order)
const tumbling = TumblingEventTimeWindows.of(10)

const open = (spec: OperatorSpec, options = {}): Promise<OperatorHarness<Order, any, Payment>> =>
  OperatorHarness.of<Order, any, Payment>(spec.factory, { keyed: true, ...options })
const order = (harness: OperatorHarness<Order, any, Payment>, id: string, item: string, time: number) =>
  harness.processElement({ id, item }, time)
const payment = (harness: OperatorHarness<Order, any, Payment>, id: string, cents: number, time: number) =>
  harness.processElement2({ order: id, cents }, time)

const both = (o: Order, p: Payment) => `${o.item}=${p.cents}`

describe('a window join', () => {
  test('gives every pair of a key and window, when the window ends, with its last millisecond', async () => {
    const harness = await open(joined().window(tumbling).apply(both))
    await order(harness, '1', 'cup', 1)
    await payment(harness, '1', 5, 9)
    await order(harness, '1', 'jug', 3)
    await payment(harness, '1', 7, 4)
    await payment(harness, '2', 9, 4)
    await payment(harness, '1', 11, 10)
    await harness.processWatermark(9)
    expect(harness.records()).toEqual(
      ['cup=5', 'cup=7', 'jug=5', 'jug=7'].map((value) => ({ value, timestamp: 9 })),
    )
    await harness.processWatermark(MAX_WATERMARK)
    expect(harness.values()).toHaveLength(4)
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('with a third parameter gives any number of results for each pair', async () => {
    const harness = await open(
      joined()
        .window(tumbling)
        .apply((o: Order, p: Payment, out: Collector<string>) => {
          if (p.cents > 5) for (const word of [o.item, 'paid']) out.collect(word)
        }),
    )
    await order(harness, '1', 'cup', 1)
    await payment(harness, '1', 5, 1)
    await payment(harness, '1', 6, 1)
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['cup', 'paid'])
  })

  test('takes an object with a life cycle', async () => {
    class Join extends AbstractRichFunction {
      private prefix = ''
      override open() {
        this.prefix = '>'
      }
      join(o: Order, p: Payment) {
        return this.prefix + both(o, p)
      }
    }
    const harness = await open(joined().window(tumbling).apply(new Join()))
    await order(harness, '1', 'cup', 1)
    await payment(harness, '1', 5, 1)
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['>cup=5'])
  })

  test('waits for promises, pair by pair', async () => {
    const harness = await open(
      joined()
        .window(tumbling)
        .apply(async (o, p) => both(o, p)),
    )
    await order(harness, '1', 'cup', 1)
    for (const cents of [1, 2, 3]) await payment(harness, '1', cents, 1)
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['cup=1', 'cup=2', 'cup=3'])
  })

  test('emits pairs as they come, in vectors', async () => {
    const harness = await open(joined().window(tumbling).apply(both), { vectorSize: 7 })
    for (let i = 0; i < 10; i++) await order(harness, '1', `o${i}`, 1)
    for (let i = 0; i < 10; i++) await payment(harness, '1', i, 1)
    await harness.processWatermark(9)
    expect(new Set(harness.values()).size).toBe(100)
  })

  test('a late record of either side is dropped and counted', async () => {
    const harness = await open(joined().window(tumbling).apply(both))
    await harness.processWatermark(9)
    await order(harness, '1', 'cup', 9)
    await payment(harness, '1', 5, 9)
    expect(harness.counter('late_records_dropped')).toBe(2)
  })

  test('with allowed lateness fires again with all pairs', async () => {
    const harness = await open(joined().window(tumbling).allowedLateness(10).apply(both))
    await order(harness, '1', 'cup', 1)
    await payment(harness, '1', 5, 1)
    await harness.processWatermark(9)
    harness.takeRecords()
    await payment(harness, '1', 6, 2)
    expect(harness.values()).toEqual(['cup=5', 'cup=6'])
    await harness.processWatermark(19)
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('joins sessions that records of both sides make together', async () => {
    const harness = await open(joined().window(EventTimeSessionWindows.withGap(5)).apply(both))
    await order(harness, '1', 'cup', 0)
    await order(harness, '1', 'jug', 8)
    await payment(harness, '1', 1, 4)
    await harness.processWatermark(12)
    expect(harness.records()).toEqual([
      { value: 'cup=1', timestamp: 12 },
      { value: 'jug=1', timestamp: 12 },
    ])
  })

  test('joins in processing time', async () => {
    const harness = await open(joined().window(TumblingProcessingTimeWindows.of(10)).apply(both))
    await order(harness, '1', 'cup', 0)
    await payment(harness, '1', 1, 0)
    await harness.setProcessingTime(10)
    expect(harness.values()).toEqual(['cup=1'])
  })

  test('triggers and evictors see where a record came from', async () => {
    const harness = await open(
      joined()
        .window(GlobalWindows.create())
        .trigger(CountTrigger.of(2))
        .evictor(CountEvictor.of(2))
        .apply(both),
    )
    await order(harness, '1', 'cup', 0)
    await payment(harness, '1', 1, 0)
    await order(harness, '1', 'jug', 0)
    await payment(harness, '1', 2, 0)
    expect(harness.values()).toEqual(['cup=1', 'jug=2'])
  })

  test('goes on after a restore with the records of both sides', async () => {
    const spec = joined().window(tumbling).apply(both)
    const first = await open(spec)
    await order(first, '1', 'cup', 1)
    await payment(first, '1', 5, 1)
    const second = await open(spec, { restore: await first.snapshot() })
    await payment(second, '1', 6, 2)
    await second.processWatermark(9)
    expect(second.values()).toEqual(['cup=5', 'cup=6'])
  })

  test('an error names the operator', async () => {
    const harness = await open(
      joined()
        .window(tumbling)
        .apply(() => {
          throw new Error('no pair')
        }),
      { name: 'pay' },
    )
    await order(harness, '1', 'cup', 1)
    await payment(harness, '1', 5, 1)
    await expect(harness.processWatermark(9)).rejects.toThrow(/apply of operator 'pay'.*no pair/)
  })
})

describe('a coGroup', () => {
  const lists = (orders: readonly Order[], payments: readonly Payment[]) => [
    `${orders.map(({ item }) => item).join()}|${payments.map(({ cents }) => cents).join()}`,
  ]

  test('gets both lists of each key and window, also if one is empty', async () => {
    const harness = await open(grouped().window(tumbling).apply(lists))
    await order(harness, '1', 'cup', 1)
    await order(harness, '1', 'jug', 2)
    await payment(harness, '1', 5, 3)
    await order(harness, '2', 'pot', 1)
    await payment(harness, '3', 7, 1)
    await harness.processWatermark(9)
    expect(harness.records()).toEqual(['cup,jug|5', 'pot|', '|7'].map((value) => ({ value, timestamp: 9 })))
  })

  test('takes results through the collector, and objects', async () => {
    const harness = await open(
      grouped()
        .window(tumbling)
        .apply({
          coGroup(orders: readonly Order[], payments: readonly Payment[], out: Collector<string>) {
            if (payments.length === 0) for (const { item } of orders) out.collect(item)
          },
        }),
    )
    await order(harness, '1', 'cup', 1)
    await order(harness, '2', 'jug', 1)
    await payment(harness, '2', 1, 1)
    await harness.processWatermark(9)
    expect(harness.values()).toEqual(['cup'])
  })
})

describe('refused when the job is declared:', () => {
  test('a function that is none', () => {
    expect(() =>
      joined()
        .window(tumbling)
        .apply({} as never),
    ).toThrow(/has no method join/)
    expect(() =>
      grouped()
        .window(tumbling)
        .apply({} as never),
    ).toThrow(/has no method coGroup/)
  })
  test('key selectors that are none', () => {
    const streams = new JoinedStreams<Order, Payment, SpecStream>(pair)
    expect(() => streams.where('id' as never)).toThrow(/where/)
    expect(() => streams.where((o) => o.id).equalTo('order' as never)).toThrow(/equalTo/)
  })
})
