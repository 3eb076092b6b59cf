/**
 * Keyed state and timers: number and sum of each user's orders so far, written to `totals` with every order. A user's total starts again
 * from nothing after a day without an order.
 *
 *   KAFKA_BROKERS=localhost:9092 node examples/count-per-user.ts
 */
import {
  type Collector,
  DeliveryGuarantee,
  json,
  KeyedProcessFunction,
  kafkaSink,
  kafkaSource,
  type RuntimeContext,
  StreamExecutionEnvironment,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'
import type { Order } from './order.ts'

interface Total {
  user: string
  count: number
  sum: number
  /** Time of the latest order, epoch ms. */
  latest: number
}

const DAY_MS = 24 * 60 * 60 * 1_000

class CountPerUser extends KeyedProcessFunction<string, Order, Total> {
  private total!: ValueState<Total>

  override open(context: RuntimeContext): void {
    this.total = context.getState(new ValueStateDescriptor<Total>('total'))
  }

  override processElement(order: Order, context: this['Context'], out: Collector<Total>): void {
    const total = this.total.value() ?? { user: context.getCurrentKey(), count: 0, sum: 0, latest: 0 }
    total.count++
    total.sum += order.amount
    total.latest = Math.max(total.latest, order.ts)
    this.total.update(total)
    out.collect({ ...total })
    context.timerService().registerEventTimeTimer(order.ts + DAY_MS)
  }

  override onTimer(timestamp: number): void {
    const total = this.total.value()
    if (total !== null && total.latest + DAY_MS <= timestamp) this.total.clear()
  }
}

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(1_000)

env
  .fromSource(
    kafkaSource<Order>({ topics: ['orders'], groupId: 'count-per-user', value: json() }),
    WatermarkStrategy.forBoundedOutOfOrderness<Order>(5_000)
      .withTimestampAssigner((order) => order.ts)
      .withIdleness(10_000),
    'orders',
  )
  .uid('orders')
  .keyBy((order) => order.user)
  .process(new CountPerUser())
  .uid('count')
  .sinkTo(
    kafkaSink<Total>({
      topic: 'totals',
      key: (total) => total.user,
      value: json(),
      deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
    }),
  )
  .uid('totals')

await env.execute('count-per-user')
