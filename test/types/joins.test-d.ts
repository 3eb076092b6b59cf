/** Types of joins, asynchronous maps and reinterpreted streams, without annotations. Checked by tsc; nothing here runs. */
import {
  type AsyncContext,
  type Collector,
  type DataStream,
  EventTimeSessionWindows,
  type KeyedStream,
  OutputTag,
  ProcessJoinFunction,
  reinterpretAsKeyedStream,
  type SingleOutputStreamOperator,
  StreamExecutionEnvironment,
  TumblingEventTimeWindows,
  WatermarkStrategy,
} from 'millrace'
import type { Equal } from './assert-type.ts'

declare function expectType<Expected>(): <Actual>(
  value: Actual,
  ...same: Equal<Actual, Expected> extends true ? [] : [never]
) => void

interface Order {
  id: string
  user: string
  amount: number
}
interface Payment {
  order: string
  cents: bigint
  at: number
}

const env = StreamExecutionEnvironment.getExecutionEnvironment()
declare const orders: DataStream<Order>
declare const payments: DataStream<Payment>
const window = TumblingEventTimeWindows.of(10_000)

// Window join: the result is what the function returns, awaited.
const keyed = orders
  .join(payments)
  .where((o) => o.id)
  .equalTo((p) => p.order)
  .window(window)
expectType<SingleOutputStreamOperator<{ id: string; cents: bigint }>>()(
  keyed.apply((o, p) => ({ id: o.id, cents: p.cents })),
)
expectType<SingleOutputStreamOperator<number>>()(keyed.apply(async (o) => o.amount))
expectType<SingleOutputStreamOperator<string>>()(
  keyed.allowedLateness(5).apply((o, p, out: Collector<string>) => out.collect(o.id + p.order)),
)
expectType<SingleOutputStreamOperator<string>>()(keyed.apply({ join: (o, p) => `${o.id}${p.at}` }))
keyed
  .apply((o) => o.id)
  .uid('joined')
  .map((id) => id.length)
// @ts-expect-error no such field of an order
keyed.apply((o) => o.missing)
// @ts-expect-error keys of two kinds never meet
orders
  .join(payments)
  .where((o) => o.id)
  .equalTo((p) => p.at)
// Session gaps see where a record came from.
orders
  .join(payments)
  .where((o) => o.id)
  .equalTo((p) => p.order)
  .window(
    EventTimeSessionWindows.withDynamicGap((element) => (element.input === 1 ? element.value.amount : 5)),
  )
  .apply((o, p) => [o, p] as const)

// coGroup: lists of both sides.
expectType<SingleOutputStreamOperator<string>>()(
  orders
    .coGroup(payments)
    .where((o) => o.id)
    .equalTo((p) => p.order)
    .window(window)
    .apply((os, ps) => [...os.map((o) => o.id), ...ps.map((p) => p.order)]),
)

// Interval join.
const near = orders
  .keyBy((o) => o.id)
  .intervalJoin(payments.keyBy((p) => p.order))
  .between(-5, 5)
  .upperBoundExclusive()
  .sideOutputLeftLateData(new OutputTag<Order>('late'))
expectType<SingleOutputStreamOperator<string>>()(
  near.process((o, p, context, out: Collector<string>) =>
    out.collect(`${o.id}${p.at}${context.getTimestamp()}`),
  ),
)
expectType<SingleOutputStreamOperator<number>>()(
  near.process<number>((o, _p, _context, out) => out.collect(o.amount)),
)
class Paid extends ProcessJoinFunction<Order, Payment, boolean> {
  override processElement(order: Order, _p: Payment, context: this['Context'], out: Collector<boolean>) {
    out.collect(order.amount > context.getLeftTimestamp())
  }
}
expectType<SingleOutputStreamOperator<boolean>>()(near.process(new Paid()))
// @ts-expect-error a tag of payments for orders that are late
near.sideOutputLeftLateData(new OutputTag<Payment>('late'))
// @ts-expect-error keys of two kinds never meet
orders.keyBy((o) => o.id).intervalJoin(payments.keyBy((p) => p.at))

// asyncMap: the result of the function or of the time-out's handler.
expectType<SingleOutputStreamOperator<number>>()(orders.asyncMap(async (o) => o.amount))
expectType<SingleOutputStreamOperator<number | null>>()(
  orders.asyncMap(async (o) => o.amount, { timeoutMs: 100, onTimeout: () => null }),
)
expectType<SingleOutputStreamOperator<string>>()(
  orders.asyncMap((o, context) => {
    expectType<AsyncContext>()(context)
    return Promise.resolve(o.id)
  }),
)
orders.asyncMap(async (o) => o.amount, {
  ordered: false,
  capacity: 10,
  retry: { maxAttempts: 3, backoffMs: 10, multiplier: 2, retryResultIf: (amount) => amount < 0 },
})
orders.asyncMap(async (o) => o.amount, {
  retry: {
    maxAttempts: 3,
    // @ts-expect-error the result is a number
    retryResultIf: (amount) => amount.startsWith('x'),
  },
})
// @ts-expect-error no such option
orders.asyncMap(async (o) => o.amount, { parallel: 3 })

expectType<KeyedStream<Order, string>>()(reinterpretAsKeyedStream(orders, (o) => o.user))
// @ts-expect-error an order is no key
reinterpretAsKeyedStream(orders, (o) => o)

WatermarkStrategy.forMonotonousTimestamps<Order>().withWatermarkAlignment('group', 1_000).withIdleness(5)
void env
