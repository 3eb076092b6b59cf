/**
 * A user's job, compiled against the packed package with the settings below by pack.test.ts; it is never started.
 * The names are the public API's promise: a change here is a breaking change.
 */
import {
  type Collector,
  DeliveryGuarantee,
  json,
  KeyedProcessFunction,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  type RuntimeContext,
  StreamExecutionEnvironment,
  TumblingEventTimeWindows,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'

interface Order {
  user: string
  amount: number
  ts: number
}

interface Total {
  user: string
  count: number
  sum: number
}

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(1000)
env.getCheckpointConfig().setCheckpointTimeout(60_000)
const orders = env.fromSource(
  kafkaSource<Order>({
    topics: ['orders'],
    groupId: 'etl',
    startingOffsets: OffsetsInitializer.earliest(),
    value: json(),
  }),
  WatermarkStrategy.forBoundedOutOfOrderness<Order>(5_000)
    .withTimestampAssigner((o) => o.ts)
    .withIdleness(10_000),
  'orders',
)
orders
  .filter((o) => o.amount >= 20)
  .keyBy((o) => o.user)
  .window(TumblingEventTimeWindows.of(10_000))
  .aggregate({
    createAccumulator: (): Total => ({ user: '', count: 0, sum: 0 }),
    add: (o: Order, t: Total): Total => ({ user: o.user, count: t.count + 1, sum: t.sum + o.amount }),
    getResult: (t: Total): Total => t,
    merge: (a: Total, b: Total): Total => ({ user: a.user, count: a.count + b.count, sum: a.sum + b.sum }),
  })
  .sinkTo(
    kafkaSink({
      topic: 'totals',
      key: (t) => t.user,
      value: json(),
      deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
    }),
  )

class CountPerUser extends KeyedProcessFunction<string, Order, Total> {
  private total!: ValueState<Total>
  override open(ctx: RuntimeContext) {
    this.total = ctx.getState(new ValueStateDescriptor<Total>('total'))
  }
  override processElement(order: Order, ctx: this['Context'], out: Collector<Total>) {
    const total = this.total.value() ?? { user: ctx.getCurrentKey(), count: 0, sum: 0 }
    total.count++
    total.sum += order.amount
    this.total.update(total)
    out.collect({ ...total })
    ctx.timerService().registerEventTimeTimer(ctx.timestamp()! + 60_000)
  }
  override onTimer(_timestamp: number, _ctx: this['OnTimerContext'], _out: Collector<Total>) {
    this.total.clear()
  }
}
orders
  .keyBy((o) => o.user)
  .process(new CountPerUser())
  .uid('count')
  .print()

await env.execute('totals')
