/** Jobs over orders that the tests of the driver start. */
import {
  type Collector,
  type DataStream,
  json,
  KeyedProcessFunction,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  type RuntimeContext,
  type StreamExecutionEnvironment,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'
import type { TestDriverOptions } from 'millrace/testing'

export interface Order {
  readonly user: string
  readonly amount: number
  readonly ts?: number
}

/** The orders, by event time. */
export function read(
  env: StreamExecutionEnvironment,
  options: { readonly bounded?: boolean } = {},
): DataStream<Order> {
  const source = kafkaSource<Order>({
    topics: ['orders'],
    groupId: 'test',
    startingOffsets: OffsetsInitializer.earliest(),
    ...(options.bounded ? { bounded: OffsetsInitializer.latest() } : {}),
    value: json(),
  })
  const watermarks = WatermarkStrategy.forMonotonousTimestamps<Order>()
    .withTimestampAssigner(({ ts }) => ts ?? 0)
    .withIdleness(1_000)
  return env.fromSource(source, watermarks, 'orders').uid('orders')
}

/** What readers of `totals` see. */
export function write<T>(stream: DataStream<T>): void {
  stream.sinkTo(kafkaSink<T>({ topic: 'totals', value: json() })).uid('totals')
}

export class RunningSum extends KeyedProcessFunction<string, Order, { user: string; sum: number }> {
  #sum!: ValueState<number>
  override open(context: RuntimeContext): void {
    this.#sum = context.getState(new ValueStateDescriptor<number>('sum'))
  }
  override processElement(
    { user, amount }: Order,
    _context: this['Context'],
    out: Collector<{ user: string; sum: number }>,
  ): void {
    const sum = (this.#sum.value() ?? 0) + amount
    this.#sum.update(sum)
    out.collect({ user, sum })
  }
}

/** The running sum of each user. */
export const sums = (env: StreamExecutionEnvironment): void =>
  write(
    read(env)
      .keyBy(({ user }) => user)
      .process(new RunningSum())
      .uid('sum'),
  )

/** Orders with an amount. */
export const etl = (env: StreamExecutionEnvironment): void =>
  write(
    read(env)
      .filter(({ amount }) => amount > 0)
      .uid('positive'),
  )

export const TOPICS = { orders: 3, totals: 1 }
export const options: TestDriverOptions = { topics: TOPICS, checkpointIntervalMs: 100 }
/** A record of `orders`. */
export const order = (user: string, amount: number, ts?: number) => ({
  key: user,
  value: { user, amount, ...(ts === undefined ? {} : { ts }) },
})
