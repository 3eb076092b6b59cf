/** Types of whole chains, without annotations. Checked by tsc; nothing here runs. */
import {
  type AllWindowedStream,
  type AsyncMapState,
  AsyncMapStateDescriptor,
  BroadcastProcessFunction,
  type BroadcastState,
  type BroadcastStream,
  bytes,
  CalendarEventTimeWindows,
  CheckpointingMode,
  type Collector,
  CoProcessFunction,
  CountEvictor,
  CountTrigger,
  collectSink,
  type DataStream,
  EventTimeSessionWindows,
  ExternalizedCheckpointCleanup,
  type GlobalWindow,
  type JobClient,
  type JobExecutionResult,
  JobStatus,
  json,
  KeyedBroadcastProcessFunction,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  type KeyedStream,
  long,
  MapStateDescriptor,
  OutputTag,
  ProcessFunction,
  ProcessWindowFunction,
  RestartStrategies,
  type RuntimeContext,
  type Serde,
  type SingleOutputStreamOperator,
  StreamExecutionEnvironment,
  string,
  type TimeWindow,
  Trigger,
  type TriggerContext,
  TriggerResult,
  TumblingEventTimeWindows,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
  type WindowedStream,
} from 'millrace'
import type { Equal } from './assert-type.ts'

declare function expectType<Expected>(): <Actual>(
  value: Actual,
  ...same: Equal<Actual, Expected> extends true ? [] : [never]
) => void
type Elements<S> = S extends DataStream<infer T> ? T : never

interface Order {
  user: string
  amount: number
  cents: bigint
  ts: number
  note?: number
}
interface Total {
  user: string
  count: number
  sum: number
}
interface Payment {
  orderUser: string
  paid: boolean
}

const env = StreamExecutionEnvironment.getExecutionEnvironment({
  'state.backend': 'filesystem',
  'parallelism.default': 2,
})
expectType<StreamExecutionEnvironment>()(env.enableCheckpointing(1000))
env.enableCheckpointing(1000, CheckpointingMode.AT_LEAST_ONCE)
// @ts-expect-error no such mode
env.enableCheckpointing(1000, 'SOMETIMES')
env.getCheckpointConfig().setCheckpointTimeout(60_000)
env.getCheckpointConfig().enableExternalizedCheckpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
env
  .setRestartStrategy(RestartStrategies.fixedDelay(3, 1000))
  .setParallelism('auto')
  .setStateBackend('rocksdb', '/data')
// @ts-expect-error no such backend
env.setStateBackend('floppy')

declare const orders: DataStream<Order>
declare const payments: DataStream<Payment>

// Sources.
expectType<number>()(null as unknown as Elements<ReturnType<typeof env.fromSequence>>)
expectType<string>()(null as unknown as Elements<ReturnType<typeof env.fromCollection<string>>>)
const numbers = env.fromCollection([1, 2, 3])
expectType<number>()(null as unknown as Elements<typeof numbers>)
env.fromCollection(new Set(['a'])).map((text) => text.length)

// map, with promises awaited; objects with a life cycle.
expectType<SingleOutputStreamOperator<number>>()(orders.map((order) => order.amount))
expectType<SingleOutputStreamOperator<string>>()(orders.map(async (order) => order.user))
expectType<SingleOutputStreamOperator<{ id: string }>>()(orders.map((order) => ({ id: order.user })))
expectType<SingleOutputStreamOperator<boolean>>()(
  orders.map({ open: (_context: RuntimeContext) => {}, map: (order: Order) => order.amount > 0 }),
)
// @ts-expect-error there is no such field
orders.map((order) => order.price)

// filter: a type guard narrows.
type Shape = { kind: 'circle'; radius: number } | { kind: 'square'; side: number }
declare const shapes: DataStream<Shape>
expectType<SingleOutputStreamOperator<{ kind: 'circle'; radius: number }>>()(
  shapes.filter((shape): shape is { kind: 'circle'; radius: number } => shape.kind === 'circle'),
)
expectType<SingleOutputStreamOperator<Order>>()(orders.filter((order) => order.amount >= 20))
expectType<SingleOutputStreamOperator<Order>>()(orders.filter(async (order) => order.amount >= 20))
// @ts-expect-error a filter answers yes or no
orders.filter((order) => order.user)

// flatMap: an iterable, or the collector.
expectType<SingleOutputStreamOperator<string>>()(orders.flatMap((order) => order.user.split(' ')))
expectType<SingleOutputStreamOperator<number>>()(
  orders.flatMap((order, out: Collector<number>) => out.collect(order.amount)),
)
// @ts-expect-error a number is not iterable
orders.flatMap((order) => order.amount)

// keyBy.
expectType<KeyedStream<Order, string>>()(orders.keyBy((order) => order.user))
// @ts-expect-error an object is no key
orders.keyBy((order) => ({ user: order.user }))
// @ts-expect-error nor is undefined
orders.keyBy((order) => order.note)
orders.keyBy((order) => [order.user, order.ts])

// The keyed function of the guide.
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
  override onTimer(_timestamp: number, ctx: this['OnTimerContext'], _out: Collector<Total>) {
    expectType<string>()(ctx.getCurrentKey())
    expectType<'EVENT_TIME' | 'PROCESSING_TIME'>()(ctx.timeDomain())
    this.total.clear()
  }
}
const byUser = orders.keyBy((order) => order.user)
const totals = byUser.process(new CountPerUser()).uid('count').name('count').setParallelism(2)
expectType<SingleOutputStreamOperator<Total>>()(totals)
// Literal keys are fine for a function that takes any string.
orders.keyBy((order) => (order.amount > 0 ? 'in' : 'out')).process(new CountPerUser())
// @ts-expect-error the function is made for string keys
orders.keyBy((order) => order.amount).process(new CountPerUser())
// @ts-expect-error timers need keyBy
orders.process(new CountPerUser())
// @ts-expect-error the function is made for orders
payments.keyBy((payment) => payment.orderUser).process(new CountPerUser())

// ProcessFunction, side outputs.
const rejected = new OutputTag<{ reason: string }>('rejected')
class Validate extends ProcessFunction<Order, Order> {
  override processElement(order: Order, ctx: this['Context'], out: Collector<Order>) {
    if (order.amount > 0) out.collect(order)
    else ctx.output(rejected, { reason: 'amount' })
    // @ts-expect-error the tag is for reasons
    ctx.output(rejected, 5)
  }
}
const valid = orders.process(new Validate())
expectType<SingleOutputStreamOperator<Order>>()(valid)
expectType<DataStream<{ reason: string }>>()(valid.getSideOutput(rejected))
byUser.process(new Validate())

// reduce and running aggregates.
expectType<SingleOutputStreamOperator<Order>>()(
  byUser.reduce((a, b) => ({ user: a.user, amount: a.amount + b.amount, cents: a.cents, ts: b.ts })),
)
expectType<SingleOutputStreamOperator<Order>>()(byUser.sum('amount'))
byUser.sum('cents')
byUser.max('ts').uid('max')
byUser.minBy('user')
// @ts-expect-error text cannot be added up
byUser.sum('user')
// @ts-expect-error it may be missing
byUser.sum('note')
// @ts-expect-error there is no such field
byUser.maxBy('price')
numbers.keyBy((n) => n % 2).sum()
// @ts-expect-error a field must be named
byUser.sum()
orders
  .map((order): [string, number] => [order.user, order.amount])
  .keyBy((pair) => pair[0])
  .sum(1)

// Windows.
const windowed = byUser.window(TumblingEventTimeWindows.of(10_000))
expectType<WindowedStream<Order, string, TimeWindow>>()(windowed)
const sums = windowed.aggregate({
  createAccumulator: () => ({ user: '', count: 0, sum: 0 }),
  add: (order, total) => ({ user: order.user, count: total.count + 1, sum: total.sum + order.amount }),
  getResult: (total) => `${total.user}: ${total.sum}`,
  merge: (a, b) => ({ ...a, sum: a.sum + b.sum }),
})
expectType<SingleOutputStreamOperator<string>>()(sums)
expectType<SingleOutputStreamOperator<[string, number, number]>>()(
  windowed.aggregate(
    { createAccumulator: () => 0, add: (order, sum) => sum + order.amount, getResult: (sum) => sum },
    (user, context, values, out: Collector<[string, number, number]>) => {
      expectType<string>()(user)
      expectType<readonly number[]>()(values)
      out.collect([user, context.window().start, values[0]!])
    },
  ),
)
windowed.aggregate({
  createAccumulator: () => 0,
  // @ts-expect-error text cannot be added to the accumulator
  add: (order, sum) => `${sum}${order.amount}`,
  getResult: (sum) => sum,
})
class Busiest extends ProcessWindowFunction<Order, string, string> {
  override process(user: string, context: this['Context'], all: readonly Order[], out: Collector<string>) {
    expectType<TimeWindow>()(context.window())
    expectType<ValueState<number>>()(context.windowState().getState(new ValueStateDescriptor<number>('n')))
    out.collect(`${user} ${all.length}`)
  }
}
expectType<SingleOutputStreamOperator<string>>()(windowed.process(new Busiest()))
expectType<SingleOutputStreamOperator<Order>>()(windowed.sum('amount'))
expectType<SingleOutputStreamOperator<Order>>()(
  windowed
    .allowedLateness(1_000)
    .sideOutputLateData(new OutputTag<Order>('late'))
    .trigger(CountTrigger.of(3))
    .evictor(CountEvictor.of(5))
    .reduce((a, b) => (a.amount > b.amount ? a : b)),
)
// @ts-expect-error text cannot be added up
windowed.sum('user')
// @ts-expect-error the function is made for string keys
orders
  .keyBy((order) => order.amount)
  .window(TumblingEventTimeWindows.of(1))
  .process(new Busiest())
// @ts-expect-error the function is made for orders
payments
  .keyBy((payment) => payment.orderUser)
  .window(TumblingEventTimeWindows.of(1))
  .process(new Busiest())
// @ts-expect-error the tag is for payments
windowed.sideOutputLateData(new OutputTag<Payment>('late'))
byUser.window(EventTimeSessionWindows.withDynamicGap((order: Order) => order.amount)).maxBy('ts')
// @ts-expect-error the gap is told by payments
byUser.window(EventTimeSessionWindows.withDynamicGap((payment: Payment) => (payment.paid ? 1 : 2)))
byUser
  .window(CalendarEventTimeWindows.of('month', { zone: 'Europe/Berlin', weekStart: 'sunday' }))
  .sum('cents')
// @ts-expect-error no such unit
CalendarEventTimeWindows.of('fortnight', { zone: 'UTC' })
expectType<WindowedStream<Order, string, GlobalWindow>>()(byUser.countWindow(10, 5))
byUser.countWindow(10).apply((user, window, all, out: Collector<number>) => {
  expectType<GlobalWindow>()(window)
  out.collect(user.length + all.length)
})
expectType<AllWindowedStream<Order, TimeWindow>>()(orders.windowAll(TumblingEventTimeWindows.of(10_000)))
expectType<SingleOutputStreamOperator<number>>()(
  orders.windowAll(TumblingEventTimeWindows.of(10_000)).process((context, all, out: Collector<number>) => {
    expectType<TimeWindow>()(context.window())
    out.collect(all.length)
  }),
)
class FireOnEnd extends Trigger<Order, TimeWindow> {
  override onElement(order: Order, _timestamp: number, window: TimeWindow, context: TriggerContext) {
    context.registerEventTimeTimer(window.maxTimestamp())
    const count = context.getPartitionedState(new ValueStateDescriptor<number>('count'))
    expectType<number | null>()(count.value())
    return order.amount > 0 ? TriggerResult.FIRE : TriggerResult.CONTINUE
  }
  override onEventTime() {
    return TriggerResult.FIRE_AND_PURGE
  }
  override onProcessingTime() {
    return TriggerResult.CONTINUE
  }
  override clear() {}
}
windowed.trigger(new FireOnEnd())
// @ts-expect-error the trigger is for time windows
byUser.countWindow(5).trigger(new FireOnEnd())

// union, connect.
expectType<DataStream<Order>>()(orders.union(valid, orders))
// @ts-expect-error a union is of one type
orders.union(payments)
expectType<SingleOutputStreamOperator<string | boolean>>()(
  orders.connect(payments).map(
    (order) => order.user,
    (payment) => payment.paid,
  ),
)
expectType<SingleOutputStreamOperator<string>>()(
  orders
    .connect(payments)
    .map({ map1: (order: Order) => order.user, map2: (payment: Payment) => payment.orderUser }),
)
class Both extends CoProcessFunction<Order, Payment, string> {
  override processElement1(order: Order, _ctx: this['Context'], out: Collector<string>) {
    out.collect(order.user)
  }
  override processElement2(payment: Payment, _ctx: this['Context'], out: Collector<string>) {
    out.collect(payment.orderUser)
  }
}
class Match extends KeyedCoProcessFunction<string, Order, Payment, Total> {
  override processElement1(_order: Order, ctx: this['Context'], _out: Collector<Total>) {
    ctx.timerService().registerProcessingTimeTimer(1)
  }
  override processElement2(_payment: Payment, _ctx: this['Context'], _out: Collector<Total>) {}
}
expectType<SingleOutputStreamOperator<string>>()(orders.connect(payments).process(new Both()))
expectType<SingleOutputStreamOperator<Total>>()(
  byUser.connect(payments.keyBy((payment) => payment.orderUser)).process(new Match()),
)
expectType<SingleOutputStreamOperator<Total>>()(
  orders
    .connect(payments)
    .keyBy(
      (order) => order.user,
      (payment) => payment.orderUser,
    )
    .process(new Match()),
)
// @ts-expect-error keyed functions need keys
orders.connect(payments).process(new Match())
orders.connect(payments).keyBy(
  (order) => order.user,
  // @ts-expect-error both keys must be of one kind
  (payment) => payment.paid,
)
// @ts-expect-error both keys must be of one kind; without one, only functions without keys are taken
byUser.connect(payments.keyBy((payment) => payment.paid)).process(new Match())

// Broadcast state.
/** An async map: reads are promises of what the descriptor says. */
class Stocked extends KeyedProcessFunction<string, Order, never> {
  private stock!: AsyncMapState<string, { amount: number }>
  override open(ctx: RuntimeContext) {
    this.stock = ctx.getAsyncMapState(new AsyncMapStateDescriptor<string, { amount: number }>('stock'))
    // @ts-expect-error a map state's descriptor declares no async map
    ctx.getAsyncMapState(new MapStateDescriptor<string, number>('stock'))
  }
  override async processElement(order: Order) {
    expectType<{ amount: number } | undefined>()(await this.stock.get(order.user))
    expectType<Map<string, { amount: number }>>()(await this.stock.getAll([order.user]))
    for await (const [item, { amount }] of this.stock.entries()) {
      expectType<string>()(item)
      expectType<number>()(amount)
    }
    // @ts-expect-error entries have the descriptor's keys
    this.stock.put(1, { amount: 1 })
    expectType<void>()(this.stock.remove(order.user))
  }
}
orders.keyBy((order) => order.user).process(new Stocked())

const rules = new MapStateDescriptor<string, number>('rules')
declare const ruleStream: DataStream<{ name: string; limit: number }>
class ApplyRules extends KeyedBroadcastProcessFunction<
  string,
  Order,
  { name: string; limit: number },
  Order
> {
  override processElement(order: Order, ctx: this['ReadOnlyContext'], out: Collector<Order>) {
    const limit = ctx.getBroadcastState(rules).get('limit')
    expectType<number | undefined>()(limit)
    // @ts-expect-error the keyed side only reads
    ctx.getBroadcastState(rules).put('limit', 1)
    if (limit === undefined || order.amount <= limit) out.collect(order)
  }
  override processBroadcastElement(
    rule: { name: string; limit: number },
    ctx: this['Context'],
    _out: Collector<Order>,
  ) {
    expectType<BroadcastState<string, number>>()(ctx.getBroadcastState(rules))
    ctx.getBroadcastState(rules).put(rule.name, rule.limit)
  }
}
class Recount extends KeyedBroadcastProcessFunction<string, Order, number, Order> {
  override processElement() {}
  override processBroadcastElement(_limit: number, ctx: this['Context']) {
    return ctx.applyToKeyedState(new ValueStateDescriptor<Order>('last'), (key, state) => {
      expectType<string>()(key)
      expectType<Order | null>()(state.value())
    })
  }
  override onTimer(_time: number, ctx: this['OnTimerContext']) {
    expectType<number | undefined>()(ctx.getBroadcastState(rules).get('limit'))
    // @ts-expect-error timers only read
    ctx.getBroadcastState(rules).put('limit', 1)
  }
}
class Plain extends BroadcastProcessFunction<Order, { name: string; limit: number }, number> {
  override processElement(order: Order, ctx: this['ReadOnlyContext'], out: Collector<number>) {
    out.collect(order.amount - (ctx.getBroadcastState(rules).get('limit') ?? 0))
  }
  override processBroadcastElement(rule: { name: string; limit: number }, ctx: this['Context']) {
    ctx.getBroadcastState(rules).put(rule.name, rule.limit)
    // @ts-expect-error without keys there is no keyed state
    ctx.applyToKeyedState
  }
}
const broadcast = ruleStream.broadcast(rules)
expectType<SingleOutputStreamOperator<number>>()(orders.connect(broadcast).process(new Plain()))
declare const limitStream: DataStream<number>
byUser.connect(limitStream.broadcast(rules)).process(new Recount())
expectType<BroadcastStream<{ name: string; limit: number }>>()(broadcast)
expectType<SingleOutputStreamOperator<Order>>()(byUser.connect(broadcast).process(new ApplyRules()))
expectType<DataStream<Order>>()(orders.broadcast())
// @ts-expect-error keyed functions need keys
orders.connect(broadcast).process(new ApplyRules())

// Partitioning.
orders.rebalance().rescale().forward().global()
orders.partitionCustom(
  (user: string, partitions) => user.length % partitions,
  (order) => order.user,
)
orders.partitionCustom(
  (user: string) => user.length,
  // @ts-expect-error the chooser is made for other keys
  (order) => order.amount,
)

// Event time.
orders.assignTimestampsAndWatermarks(
  WatermarkStrategy.forBoundedOutOfOrderness<Order>(5_000)
    .withTimestampAssigner((order) => order.ts)
    .withIdleness(10_000),
)
payments.assignTimestampsAndWatermarks(
  // @ts-expect-error the strategy is for orders
  WatermarkStrategy.forMonotonousTimestamps<Order>().withTimestampAssigner((order) => order.ts),
)

// Ends.
const collected = collectSink<Total>()
totals.sinkTo(collected).uid('out').name('out').setParallelism(1).slotSharingGroup('sinks')
expectType<Total[]>()(collected.values())
// @ts-expect-error the sink is for totals
orders.sinkTo(collected)
orders.print().name('print')
expectType<AsyncIterableIterator<Order>>()(orders.executeAndCollect())
expectType<Promise<Order[]>>()(orders.executeAndCollect(10))
expectType<Promise<JobExecutionResult>>()(env.execute('totals'))
expectType<Promise<JobClient>>()(env.executeAsync('totals'))
declare const client: JobClient
expectType<Promise<JobStatus>>()(client.getJobStatus())
expectType<Promise<string>>()(client.stopWithSavepoint('/savepoints', { drain: true }))
expectType<Promise<number>>()(client.triggerCheckpoint())
expectType<'FINISHED'>()(JobStatus.FINISHED)

// Serdes.
expectType<Serde<Order>>()(json<Order>())
expectType<Serde<string>>()(string())
expectType<Serde<Uint8Array>>()(bytes())
expectType<Serde<bigint>>()(long())
env.fromSource(null as any, WatermarkStrategy.noWatermarks(), 'any')
export const inferred: Serde<Order> = json()
