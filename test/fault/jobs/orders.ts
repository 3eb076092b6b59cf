/**
 * An ETL and a keyed count over one topic of orders, as a user writes them: IN → ETL_OUT, COUNT_OUT. PARALLELISM; INTERVAL: milliseconds
 * between checkpoints. TIMEOUT: of the sinks' transactions, CHECKPOINT_TIMEOUT: of a checkpoint, both in ms. HOLD: id of the order
 * at which the source's function never comes back (-1 = none). PAD: bytes by which the state of each user is larger than it has to be. Prints LOADED when its code begins, and FIRST when the first record reaches it.
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

interface Order {
  readonly id: number
  readonly user: string
  readonly amount: number
}

interface Total {
  readonly pad?: string
  user: string
  count: number
  sum: number
}

class CountPerUser extends KeyedProcessFunction<string, Order, Total> {
  private total!: ValueState<Total>

  override open(ctx: RuntimeContext): void {
    this.total = ctx.getState(new ValueStateDescriptor<Total>('total'))
  }

  override processElement(order: Order, ctx: this['Context'], out: Collector<Total>): void {
    const total = this.total.value() ?? { user: ctx.getCurrentKey(), count: 0, sum: 0, pad }
    total.count++
    total.sum += order.amount
    this.total.update(total)
    const { user, count, sum } = total
    out.collect({ user, count, sum })
  }
}

console.log('LOADED')
const settings = process.env
let isFirst = true
const pad = 'x'.repeat(Number(settings['PAD'] ?? 0))

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(Number(settings['INTERVAL'] ?? 250))
env.setParallelism(Number(settings['PARALLELISM'] ?? 1))
const checkpointTimeout = settings['CHECKPOINT_TIMEOUT']
if (checkpointTimeout !== undefined) env.getCheckpointConfig().setCheckpointTimeout(Number(checkpointTimeout))
const timeout = settings['TIMEOUT'] === undefined ? {} : { transactionTimeoutMs: Number(settings['TIMEOUT']) }
const source = env
  .fromSource(
    kafkaSource<Order>({
      topics: [settings['IN'] as string],
      groupId: `${settings['JOB_NAME']}-readers`,
      startingOffsets: OffsetsInitializer.earliest(),
      value: json(),
    }),
    WatermarkStrategy.noWatermarks(),
    'orders',
  )
  .uid('orders')
const hold = settings['HOLD']
const orders =
  hold === undefined
    ? source
    : source.map((order) =>
        order.id === Number(hold) ? new Promise<Order>(() => console.log('HOLDING')) : order,
      )
orders
  .filter((order) => {
    if (isFirst) console.log('FIRST')
    isFirst = false
    return order.amount >= 20
  })
  .map(({ id, user, amount }) => ({ id, user, cents: amount * 100 }))
  .sinkTo(
    kafkaSink({
      topic: settings['ETL_OUT'] as string,
      value: json(),
      deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
      ...timeout,
    }),
  )
  .uid('etl-out')
orders
  .keyBy((order) => order.user)
  .process(new CountPerUser())
  .uid('count')
  .sinkTo(
    kafkaSink<Total>({
      topic: settings['COUNT_OUT'] as string,
      key: (total) => total.user,
      value: json(),
      deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
      ...timeout,
    }),
  )
  .uid('count-out')
await env.execute(settings['JOB_NAME'] as string)
