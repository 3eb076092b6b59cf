/**
 * The benchmark's jobs on Millrace's public API, and nothing else of it. Settings come from the environment, as for every peer:
 * BOOTSTRAP, IN_TOPIC, OUT_TOPIC, JOB, APP_ID, STATE_DIR, COMMIT_MS, GRACE_MS; STATE_BACKEND picks the state backend (filesystem by default).
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
import { MIN_AMOUNT, WINDOW_MS } from './data.ts'
import { readPeerSettings } from './peer-settings.ts'

interface Order {
  readonly orderId: number
  readonly user: string
  readonly amount: number
  readonly country: string
  readonly ts: number
}

interface UserTotal {
  user: string
  count: number
  sum: number
}

interface CountryTotal {
  readonly country: string
  readonly start: number
  readonly count: number
  readonly sum: number
}

const settings = readPeerSettings()

let isFirst = true
/** Prints the time at which the first record reached user code. */
function mark(): void {
  if (!isFirst) return
  isFirst = false
  console.log(`FIRST ${Date.now()}`)
}

class CountPerUser extends KeyedProcessFunction<string, Order, UserTotal> {
  private total!: ValueState<UserTotal>

  override open(ctx: RuntimeContext): void {
    this.total = ctx.getState(new ValueStateDescriptor<UserTotal>('total'))
  }

  override processElement(order: Order, _ctx: this['Context'], out: Collector<UserTotal>): void {
    mark()
    const total = this.total.value() ?? { user: order.user, count: 0, sum: 0 }
    total.count++
    total.sum += order.amount
    this.total.update(total)
    out.collect({ ...total })
  }
}

const env = StreamExecutionEnvironment.getExecutionEnvironment({
  'kafka.brokers': settings.bootstrap,
  'state.backend': process.env['STATE_BACKEND'] ?? 'filesystem',
  'state.checkpoints.dir': `${settings.stateDir}/checkpoints`,
})
env.enableCheckpointing(settings.commitMs)

const watermarks =
  settings.job === 'window'
    ? WatermarkStrategy.forBoundedOutOfOrderness<Order>(settings.graceMs).withTimestampAssigner(
        (order) => order.ts,
      )
    : WatermarkStrategy.noWatermarks<Order>()
const orders = env
  .fromSource(
    kafkaSource<Order>({
      topics: [settings.input],
      groupId: `${settings.appId}-orders`,
      startingOffsets: OffsetsInitializer.earliest(),
      value: json<Order>(),
    }),
    watermarks,
    'orders',
  )
  .uid('orders')

if (settings.job === 'etl') {
  orders
    .filter((order) => {
      mark()
      return order.amount >= MIN_AMOUNT
    })
    .map(({ orderId, user, amount, country, ts }) => ({
      orderId,
      user,
      amount,
      country,
      ts,
      eur: amount * 0.9,
    }))
    .sinkTo(
      kafkaSink({ topic: settings.output, value: json(), deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE }),
    )
    .uid('out')
} else if (settings.job === 'count') {
  orders
    .keyBy((order) => order.user)
    .process(new CountPerUser())
    .uid('count')
    .sinkTo(
      kafkaSink<UserTotal>({
        topic: settings.output,
        key: (total) => total.user,
        value: json(),
        deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
      }),
    )
    .uid('out')
} else {
  orders
    .map((order) => {
      mark()
      return order
    })
    .keyBy((order) => order.country)
    .window(TumblingEventTimeWindows.of(WINDOW_MS))
    .aggregate<{ country: string; start: number; count: number; sum: number }, CountryTotal>({
      createAccumulator: () => ({ country: '', start: 0, count: 0, sum: 0 }),
      add: (order, total) => ({
        country: order.country,
        start: order.ts - (order.ts % WINDOW_MS),
        count: total.count + 1,
        sum: total.sum + order.amount,
      }),
      getResult: (total) => total,
      merge: (a, b) => ({ country: a.country, start: a.start, count: a.count + b.count, sum: a.sum + b.sum }),
    })
    .uid('window')
    .sinkTo(
      kafkaSink<CountryTotal>({
        topic: settings.output,
        key: (total) => total.country,
        value: json(),
        deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
      }),
    )
    .uid('out')
}

await env.execute(settings.appId)
