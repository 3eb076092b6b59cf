/**
 * The job of `scripts/demo`: one source, two exactly-once outputs. An ETL keeps orders of at least 20 and adds their amount in euros; a
 * keyed aggregate writes the running count and sum of each user with every order.
 *
 *   KAFKA_BROKERS=localhost:9092 node examples/orders.ts
 *
 * The demo sets the variables below; without them the job reads `orders` and runs until it is stopped.
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
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'
import type { Order } from './order.ts'

const {
  DEMO_JOB = 'orders',
  DEMO_ORDERS_TOPIC = 'orders',
  DEMO_BIG_ORDERS_TOPIC = 'big-orders',
  DEMO_TOTALS_TOPIC = 'totals',
  /** Any text: stop at the end of the input as it is at the first start. */
  DEMO_BOUNDED = '',
  DEMO_GUARANTEE = DeliveryGuarantee.EXACTLY_ONCE,
} = process.env

const MIN_AMOUNT = 20
const EUROS_PER_DOLLAR = 0.875

interface Total {
  user: string
  count: number
  sum: number
}

class CountPerUser extends KeyedProcessFunction<string, Order, Total> {
  private total!: ValueState<Total>

  override open(context: RuntimeContext): void {
    this.total = context.getState(new ValueStateDescriptor<Total>('total'))
  }

  override processElement(order: Order, context: this['Context'], out: Collector<Total>): void {
    const total = this.total.value() ?? { user: context.getCurrentKey(), count: 0, sum: 0 }
    total.count++
    total.sum += order.amount
    this.total.update(total)
    out.collect({ ...total })
  }
}

const deliveryGuarantee = DEMO_GUARANTEE as DeliveryGuarantee
const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(1_000)

const orders = env
  .fromSource(
    kafkaSource<Order>({
      topics: [DEMO_ORDERS_TOPIC],
      groupId: `${DEMO_JOB}-reader`,
      startingOffsets: OffsetsInitializer.earliest(),
      ...(DEMO_BOUNDED === '' ? {} : { bounded: OffsetsInitializer.latest() }),
      value: json(),
    }),
    WatermarkStrategy.noWatermarks(),
    'orders',
  )
  .uid('orders')

orders
  .filter((order) => order.amount >= MIN_AMOUNT)
  .map((order) => ({ ...order, euros: order.amount * EUROS_PER_DOLLAR }))
  .sinkTo(
    kafkaSink({
      topic: DEMO_BIG_ORDERS_TOPIC,
      key: (order) => order.user,
      value: json(),
      deliveryGuarantee,
    }),
  )
  .uid('big-orders')

orders
  .keyBy((order) => order.user)
  .process(new CountPerUser())
  .uid('count')
  .sinkTo(
    kafkaSink<Total>({
      topic: DEMO_TOTALS_TOPIC,
      key: (total) => total.user,
      value: json(),
      deliveryGuarantee,
    }),
  )
  .uid('totals')

await env.execute(DEMO_JOB)
