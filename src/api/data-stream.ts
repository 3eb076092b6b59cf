/**
 * Streams as a job is written with them. Each method adds to the graph and returns the next stream; nothing runs before `execute`.
 *
 *   DataStream ──keyBy──▶ KeyedStream ──connect──▶ KeyedConnectedStreams
 *       │                     └──window──▶ WindowedStream (windowAll ─▶ AllWindowedStream)
 *       │ ▲                   │                          │
 *       │ └── SingleOutputStreamOperator ◀── map, process, reduce, …
 *       ├──connect──▶ ConnectedStreams ──keyBy──▶ KeyedConnectedStreams
 *       ├──broadcast(descriptor)──▶ BroadcastStream
 *       ├──join, coGroup──▶ JoinedStreams, CoGroupedStreams (KeyedStream ──intervalJoin──▶ IntervalJoin): joined-streams.ts, interval-join.ts
 *       └──sinkTo, print──▶ DataStreamSink
 *
 * The types refer to each other, and imports must not run in circles: so they share this file. What the methods add is in operator-specs.ts.
 */
import type { Sink } from '../core/connector.ts'
import type {
  CoProcessFunction,
  FilterFunction,
  FlatMapFunction,
  KeyedBroadcastProcessFunction,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  KeySelector,
  MapFunction,
  ProcessFunction,
} from '../core/functions.ts'
import { graphError } from '../core/graph/graph-checks.ts'
import type { Parallelism, Partitioner, StreamNode } from '../core/graph/stream-graph.ts'
import type { AsyncMapFunction, AsyncMapOptions } from '../core/operators/async-settings.ts'
import type { BroadcastProcessFunctionLike } from '../core/operators/broadcast.ts'
import type { CoFlatMapFunction, CoMapFunction } from '../core/operators/co-process.ts'
import type { FieldAggregateKind } from '../core/operators/field-aggregate.ts'
import type { ReduceFunctionOrObject } from '../core/operators/reduce.ts'
import type { OutputTag } from '../core/output-tag.ts'
import type { AggregateFunction, Key, MapStateDescriptor } from '../core/state.ts'
import type { WatermarkStrategy } from '../core/time/watermarks.ts'
import { GlobalWindows } from '../core/windows/assigners.ts'
import { CountEvictor, type Evictor } from '../core/windows/evictors.ts'
import type { GlobalWindow, Window } from '../core/windows/time-window.ts'
import type { Trigger } from '../core/windows/trigger.ts'
import { CountTrigger, PurgingTrigger } from '../core/windows/triggers.ts'
import type { WindowAssigner } from '../core/windows/window-assigner.ts'
import type {
  AllWindowFunction,
  ProcessAllWindow,
  ProcessWindow,
  WindowFunction,
} from '../core/windows/window-function.ts'
import * as asynchronous from './async-map.ts'
import { BroadcastStream } from './broadcast-stream.ts'
import { builtInConnectors } from './built-in-connectors.ts'
import { collectedValues, firstValues } from './collected-values.ts'
import { DataStreamSink } from './data-stream-sink.ts'
import type { OperatorSpec, StreamContext, StreamInput } from './graph-builder.ts'
import { IntervalJoin } from './interval-join.ts'
import { CoGroupedStreams, JoinedStreams } from './joined-streams.ts'
import type { FieldArgument, KeyMatch, Numeric, Ordered, WidenedKey } from './key-typing.ts'
import * as settings from './node-settings.ts'
import type { OpenStream, StreamPair } from './open-stream.ts'
import * as specs from './operator-specs.ts'
import { type WindowReduce, WindowSettings } from './window-specs.ts'

/** Values that `executeAndCollect` keeps for its reader before the job waits. */
const COLLECT_ROOM = 100_000

/** The key of all values where there are no keys. */
const ONE_KEY = (): number => 0

/** The streams that joins end in. */
export interface OperatorStream extends OpenStream {
  readonly stream: SingleOutputStreamOperator<this['element']>
}

/** A stream of `T`: the output of one operator, or a union of several. */
export class DataStream<T> {
  /** @internal */
  readonly context: StreamContext
  /** @internal */
  readonly inputs: readonly StreamInput[]
  declare readonly __type?: T

  /** @internal Streams are made by the environment and by other streams. */
  constructor(context: StreamContext, inputs: readonly StreamInput[]) {
    this.context = context
    this.inputs = inputs
  }

  /**
   * One value in, one out. A function may return a promise; it is awaited in order.
   * @example orders.map(order => order.amount)
   */
  map<R>(f: MapFunction<T, R>): SingleOutputStreamOperator<Awaited<R>> {
    return this.transform(specs.map(f))
  }

  /**
   * Keeps values for which `f` is true. A type guard narrows the stream's type.
   * @example events.filter(event => event.kind === 'order')
   */
  filter<S extends T>(f: (value: T) => value is S): SingleOutputStreamOperator<S>
  filter(f: FilterFunction<T>): SingleOutputStreamOperator<T>
  filter(f: FilterFunction<T>): SingleOutputStreamOperator<T> {
    return this.transform(specs.filter(f))
  }

  /**
   * One value in, any number out: returned as an iterable, or given to the collector.
   * @example lines.flatMap(line => line.split(' '))
   */
  flatMap<R>(f: FlatMapFunction<T, R>): SingleOutputStreamOperator<R> {
    return this.transform(specs.flatMap(f))
  }

  /**
   * One value in, one out, many at a time: for lookups and requests to the outside. Results are in order unless `ordered: false`. A
   * checkpoint does not wait for requests in flight: their records are part of it, and are asked for again after a restore.
   * @example orders.asyncMap(async (order, { signal }) => ({ ...order, user: await findUser(order.userId, signal) }), { capacity: 50, timeoutMs: 5_000 })
   */
  asyncMap<R, F = never>(
    f: AsyncMapFunction<T, R>,
    options: AsyncMapOptions<T, NoInfer<R>, F> = {},
  ): SingleOutputStreamOperator<Awaited<R | F>> {
    return this.transform(asynchronous.asyncMap(f, options))
  }

  /** Any number out, side outputs, the record's timestamp. Timers and keyed state need `keyBy` first. */
  process<R>(f: ProcessFunction<T, R> & { readonly onTimer?: never }): SingleOutputStreamOperator<R> {
    return this.transform(specs.process(f))
  }

  /**
   * Sends values with one key to one subtask and gives the operators behind state and timers for each key.
   * @example orders.keyBy(order => order.user)
   */
  keyBy<K extends Key>(keyOf: KeySelector<T, K>): KeyedStream<T, K> {
    return new KeyedStream(this.context, this.partitioned({ kind: 'hash', keyOf }), keyOf)
  }

  /**
   * Windows over the whole stream, without keys. One subtask does all the work: group by a key where there is one.
   * @example orders.windowAll(TumblingEventTimeWindows.of(60_000)).sum('amount')
   */
  windowAll<W extends Window>(assigner: WindowAssigner<T, W>): AllWindowedStream<T, W> {
    return new AllWindowedStream(this.keyBy(ONE_KEY), assigner)
  }

  /** All values of this stream and the others, in no particular order. */
  union(...others: readonly DataStream<T>[]): DataStream<T> {
    return new DataStream(
      this.context,
      [this, ...others].flatMap((stream) => stream.inputs),
    )
  }

  /** This stream and another one as the two inputs of one operator. With a broadcast stream: its state is there for each value. */
  connect<B>(other: BroadcastStream<B>): BroadcastConnectedStream<T, B>
  connect<U>(other: DataStream<U>): ConnectedStreams<T, U>
  connect(
    other: BroadcastStream<any> | DataStream<any>,
  ): BroadcastConnectedStream<T, any> | ConnectedStreams<T, any> {
    return other instanceof BroadcastStream
      ? new BroadcastConnectedStream(this, other)
      : new ConnectedStreams(this, other)
  }

  /**
   * Pairs of values of both streams that have one key and lie in one window.
   * @example orders.join(payments).where(o => o.id).equalTo(p => p.order).window(TumblingEventTimeWindows.of(60_000)).apply((o, p) => [o, p])
   */
  join<U>(other: DataStream<U>): JoinedStreams<T, U, OperatorStream> {
    return new JoinedStreams(this.pairedWith(other))
  }

  /** The values of both streams that have one key and lie in one window, as two lists: one may be empty. */
  coGroup<U>(other: DataStream<U>): CoGroupedStreams<T, U, OperatorStream> {
    return new CoGroupedStreams(this.pairedWith(other))
  }

  /** Every subtask of the next operator gets every value. */
  broadcast(): DataStream<T>
  /**
   * Every subtask gets every value, for an operator that keeps them in broadcast state.
   * @example orders.keyBy(o => o.user).connect(rules.broadcast(rulesDescriptor)).process(new ApplyRules())
   */
  broadcast(
    ...descriptors: [MapStateDescriptor<any, any>, ...MapStateDescriptor<any, any>[]]
  ): BroadcastStream<T>
  broadcast(...descriptors: MapStateDescriptor<any, any>[]): DataStream<T> | BroadcastStream<T> {
    const inputs = this.partitioned({ kind: 'broadcast' })
    return descriptors.length === 0
      ? new DataStream(this.context, inputs)
      : new BroadcastStream(inputs, descriptors)
  }

  /** Values go to the subtasks of the next operator in turn. */
  rebalance(): DataStream<T> {
    return this.repartitioned({ kind: 'rebalance' })
  }

  /** Like `rebalance`, but each subtask uses only its share of the next operator's subtasks. */
  rescale(): DataStream<T> {
    return this.repartitioned({ kind: 'rescale' })
  }

  /** Values stay with the subtask of the same index; both operators must have the same parallelism. */
  forward(): DataStream<T> {
    return this.repartitioned({ kind: 'forward' })
  }

  /** All values go to subtask 0 of the next operator. */
  global(): DataStream<T> {
    return this.repartitioned({ kind: 'global' })
  }

  /** `choose` names the subtask (0-based) for each value by `keyOf(value)`. */
  partitionCustom<K>(choose: (key: K, partitions: number) => number, keyOf: (value: T) => K): DataStream<T> {
    return this.repartitioned({ kind: 'custom', choose, keyOf })
  }

  /**
   * Gives values timestamps and makes watermarks from them. Sources do it better by themselves: they know their partitions.
   * @example stream.assignTimestampsAndWatermarks(WatermarkStrategy.forBoundedOutOfOrderness<Order>(5_000).withTimestampAssigner(o => o.ts))
   */
  assignTimestampsAndWatermarks(strategy: WatermarkStrategy<T>): SingleOutputStreamOperator<T> {
    return this.transform(specs.timestampsAndWatermarks(strategy))
  }

  /**
   * What an operator sent to a side output.
   * @throws GraphError for a union, which has no operator of its own.
   * @example const late = totals.getSideOutput(lateTag)
   */
  getSideOutput<X>(tag: OutputTag<X>): DataStream<X> {
    const [input] = this.inputs
    if (input === undefined || this.inputs.length > 1 || input.sideOutput !== undefined)
      throw graphError(
        `side output '${tag.id}' must be taken from the operator that emits it, not from a union or another side output`,
        ...this.inputs.map(({ node }) => node),
      )
    return new DataStream(this.context, [
      { node: input.node, sideOutput: tag.id, partitioner: specs.IMPLIED_FORWARD },
    ])
  }

  /** Writes to a sink. */
  sinkTo(sink: Sink<T>): DataStreamSink<T> {
    return new DataStreamSink(this.context.graph.addSink(sink, `${sink.kind} sink`, this.inputs))
  }

  /** Writes a line for each value to stdout, after `prefix` if given, and the number of the subtask if there are several. */
  print(prefix?: string): DataStreamSink<T> {
    const sink = builtInConnectors().printSink<T>(prefix === undefined ? {} : { prefix })
    return new DataStreamSink(this.context.graph.addSink(sink, 'print', this.inputs))
  }

  /**
   * Runs the job and yields this stream's values: with checkpointing as checkpoints complete, otherwise as they come.
   * Leaving the loop cancels the job; a slow loop slows the job. With `limit`: resolves with that many values at most.
   * @example for await (const total of totals.executeAndCollect()) console.log(total)
   */
  executeAndCollect(): AsyncIterableIterator<T>
  executeAndCollect(limit: number): Promise<T[]>
  executeAndCollect(limit?: number): AsyncIterableIterator<T> | Promise<T[]> {
    const sink = builtInConnectors().collectingSink<T>({ room: COLLECT_ROOM })
    const node = this.context.graph.addSink(sink, 'collect', this.inputs)
    const started = this.context.submit(node.name)
    // The iterator reports it when it is read; a reader that never comes must not end the process.
    started.catch(() => undefined)
    const values = collectedValues(sink, started)
    return limit === undefined ? values : firstValues(values, limit)
  }

  /** @internal Adds an operator behind this stream. */
  protected transform<R>(spec: OperatorSpec): SingleOutputStreamOperator<R> {
    return new SingleOutputStreamOperator(this.context, this.context.graph.addOperator(spec, [this.inputs]))
  }

  /** @internal Both streams as the inputs of an operator that says how they are keyed. */
  protected pairedWith(other: DataStream<any>): StreamPair<OperatorStream> {
    const { context } = this
    return {
      add: (spec, [key1, key2]) =>
        new SingleOutputStreamOperator(
          context,
          context.graph.addOperator(spec, [this.keyBy(key1).inputs, other.keyBy(key2).inputs]),
        ),
    }
  }

  /** @internal */
  protected partitioned(partitioner: Partitioner): StreamInput[] {
    return this.inputs.map((input) => ({ ...input, partitioner }))
  }

  private repartitioned(partitioner: Partitioner): DataStream<T> {
    return new DataStream(this.context, this.partitioned(partitioner))
  }
}

/** The output of one operator, and the operator's settings. Each setter returns the same stream. */
export class SingleOutputStreamOperator<T> extends DataStream<T> {
  /** @internal */
  protected readonly node: StreamNode

  /** @internal */
  constructor(context: StreamContext, node: StreamNode) {
    super(context, [{ node, sideOutput: undefined, partitioner: specs.IMPLIED_FORWARD }])
    this.node = node
  }

  /** The name under which state is stored: unique in the job, and the same when the job changes. Give one to every stateful operator. */
  uid(uid: string): this {
    settings.setUid(this.node, uid)
    return this
  }
  /** Shown to people, in metrics and logs. */
  name(name: string): this {
    settings.setName(this.node, name)
    return this
  }
  /** Number of subtasks; 'auto' = as many as there are slots. */
  setParallelism(parallelism: Parallelism): this {
    settings.setParallelism(this.node, parallelism)
    return this
  }
  /** Number of key groups, the limit of parallelism; it cannot change once there is state. */
  setMaxParallelism(maxParallelism: number): this {
    settings.setMaxParallelism(this.node, maxParallelism)
    return this
  }
  /** Never calls, or is called by, another operator directly: records pass through channels. */
  disableChaining(): this {
    this.node.chaining = 'never'
    return this
  }
  /** Is not called directly by the operator before it. */
  startNewChain(): this {
    this.node.chaining = 'head'
    return this
  }
  /** Operators of different groups share no slot. Operators behind inherit the group. */
  slotSharingGroup(group: string): this {
    settings.setSlotSharingGroup(this.node, group)
    return this
  }
}

/** The output of a source. */
export class DataStreamSource<T> extends SingleOutputStreamOperator<T> {}

/** A stream whose values with one key meet in one subtask. */
export class KeyedStream<T, K extends Key> extends DataStream<T> {
  /** @internal */
  readonly keyOf: KeySelector<T, K>

  /** @internal */
  constructor(context: StreamContext, inputs: readonly StreamInput[], keyOf: KeySelector<T, K>) {
    super(context, inputs)
    this.keyOf = keyOf
  }

  /**
   * Any number out, with state and timers for each key.
   * @example orders.keyBy(o => o.user).process(new CountPerUser()).uid('count')
   */
  override process<FK, R>(f: KeyedProcessFunction<FK, T, R> & KeyMatch<K, FK>): SingleOutputStreamOperator<R>
  override process<R>(f: ProcessFunction<T, R> & { readonly onTimer?: never }): SingleOutputStreamOperator<R>
  override process(
    f: KeyedProcessFunction<any, T, any> | ProcessFunction<T, any>,
  ): SingleOutputStreamOperator<any> {
    return this.transform(specs.keyedProcess(f, this.keyOf))
  }

  /** As without keys; records in flight stay with their keys, also at another parallelism. */
  override asyncMap<R, F = never>(
    f: AsyncMapFunction<T, R>,
    options: AsyncMapOptions<T, NoInfer<R>, F> = {},
  ): SingleOutputStreamOperator<Awaited<R | F>> {
    return this.transform(asynchronous.asyncMap(f, options, this.keyOf))
  }

  /**
   * Combines the values of each key; emits the running result for each value.
   * @example totals.keyBy(t => t.user).reduce((a, b) => ({ ...a, sum: a.sum + b.sum }))
   */
  reduce(f: ReduceFunctionOrObject<T>): SingleOutputStreamOperator<T> {
    return this.transform(specs.reduce(f, this.keyOf))
  }

  /** Running sum of a numeric field; the other fields are those of the key's first value. A stream of numbers needs no field. */
  sum(...field: FieldArgument<T, Numeric>): SingleOutputStreamOperator<T> {
    return this.transform(specs.aggregate('sum', field[0], this.keyOf))
  }
  /** Running minimum of a field; the other fields are those of the key's first value. */
  min(...field: FieldArgument<T, Ordered>): SingleOutputStreamOperator<T> {
    return this.transform(specs.aggregate('min', field[0], this.keyOf))
  }
  /** Running maximum of a field; the other fields are those of the key's first value. */
  max(...field: FieldArgument<T, Ordered>): SingleOutputStreamOperator<T> {
    return this.transform(specs.aggregate('max', field[0], this.keyOf))
  }
  /** The value with the smallest field so far; the earlier one if two are equal. */
  minBy(...field: FieldArgument<T, Ordered>): SingleOutputStreamOperator<T> {
    return this.transform(specs.aggregate('minBy', field[0], this.keyOf))
  }
  /** The value with the largest field so far; the earlier one if two are equal. */
  maxBy(...field: FieldArgument<T, Ordered>): SingleOutputStreamOperator<T> {
    return this.transform(specs.aggregate('maxBy', field[0], this.keyOf))
  }

  /**
   * Groups the values of each key into windows.
   * @example orders.keyBy(o => o.user).window(TumblingEventTimeWindows.of(10_000)).sum('amount')
   */
  window<W extends Window>(assigner: WindowAssigner<T, W>): WindowedStream<T, K, W> {
    return new WindowedStream(this, assigner)
  }

  /** Windows of `size` values of a key; with a slide, of the last `size` values, every `slide` values. */
  countWindow(size: number, slide?: number): WindowedStream<T, K, GlobalWindow> {
    const windows = this.window(GlobalWindows.create())
    return slide === undefined
      ? windows.trigger(PurgingTrigger.of(CountTrigger.of(size)))
      : windows.evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))
  }

  /**
   * Pairs of values of both streams that have one key and whose times are close to each other.
   * @example orders.keyBy(o => o.id).intervalJoin(payments.keyBy(p => p.order)).between(-5_000, 60_000).process(new Paid())
   */
  intervalJoin<U, UK extends WidenedKey<K>>(other: KeyedStream<U, UK>): IntervalJoin<T, U, OperatorStream> {
    const { context, inputs } = this
    return new IntervalJoin<T, U, OperatorStream>(
      {
        add: (spec) =>
          new SingleOutputStreamOperator(context, context.graph.addOperator(spec, [inputs, other.inputs])),
      },
      [this.keyOf, other.keyOf],
    )
  }

  /** @internal Adds an operator behind this stream that only has one subtask. */
  single<R>(spec: OperatorSpec): SingleOutputStreamOperator<R> {
    return this.with<R>(spec).setParallelism(1).setMaxParallelism(1)
  }

  /** @internal Adds an operator behind this stream. */
  with<R>(spec: OperatorSpec): SingleOutputStreamOperator<R> {
    return this.transform(spec)
  }

  /** With another keyed stream: both share keyed state. With a broadcast stream: each key sees its state. */
  override connect<B>(other: BroadcastStream<B>): KeyedBroadcastConnectedStream<T, B, K>
  override connect<U, UK extends WidenedKey<K>>(other: KeyedStream<U, UK>): KeyedConnectedStreams<T, U, K>
  override connect<U>(other: DataStream<U>): ConnectedStreams<T, U>
  override connect(
    other: BroadcastStream<any> | DataStream<any>,
  ): BroadcastConnectedStream<T, any> | ConnectedStreams<T, any> {
    if (other instanceof BroadcastStream) return new KeyedBroadcastConnectedStream(this, other)
    if (other instanceof KeyedStream) return new KeyedConnectedStreams<T, any, K>(this, other)
    return super.connect(other)
  }
}

/** What windowed streams with and without keys have in common. Each setter returns the same stream. */
abstract class AnyWindowedStream<T, W extends Window> {
  /** @internal */
  protected readonly settings: WindowSettings
  declare readonly __window?: W

  /** @internal */
  constructor(settings: WindowSettings) {
    this.settings = settings
  }

  /** When the window function runs, in place of the trigger that comes with the windows. */
  trigger(trigger: Trigger<T, W>): this {
    this.settings.setTrigger(trigger)
    return this
  }
  /** Which elements the window function sees. The window then keeps all its elements, also for reduce and aggregate. */
  evictor(evictor: Evictor<T, W>): this {
    this.settings.setEvictor(evictor)
    return this
  }
  /** A window is kept for `ms` after its end; each record that comes meanwhile makes it fire again. Default 0. */
  allowedLateness(ms: number): this {
    this.settings.setAllowedLateness(ms)
    return this
  }
  /** Late records go to this side output of the result; otherwise they are dropped and counted (`late_records_dropped`). */
  sideOutputLateData(tag: OutputTag<T>): this {
    this.settings.setLateTag(tag)
    return this
  }

  /** Sum of a numeric field of each window; the other fields are those of its first value. A stream of numbers needs no field. */
  sum(...field: FieldArgument<T, Numeric>): SingleOutputStreamOperator<T> {
    return this.ofField('sum', field[0])
  }
  /** Minimum of a field of each window; the other fields are those of its first value. */
  min(...field: FieldArgument<T, Ordered>): SingleOutputStreamOperator<T> {
    return this.ofField('min', field[0])
  }
  /** Maximum of a field of each window; the other fields are those of its first value. */
  max(...field: FieldArgument<T, Ordered>): SingleOutputStreamOperator<T> {
    return this.ofField('max', field[0])
  }
  /** The value with the smallest field of each window; the earlier one if two are equal. */
  minBy(...field: FieldArgument<T, Ordered>): SingleOutputStreamOperator<T> {
    return this.ofField('minBy', field[0])
  }
  /** The value with the largest field of each window; the earlier one if two are equal. */
  maxBy(...field: FieldArgument<T, Ordered>): SingleOutputStreamOperator<T> {
    return this.ofField('maxBy', field[0])
  }

  /** @internal */
  protected abstract add<R>(spec: OperatorSpec): SingleOutputStreamOperator<R>

  private ofField(
    kind: FieldAggregateKind,
    field: string | number | undefined,
  ): SingleOutputStreamOperator<T> {
    return this.add(this.settings.fieldAggregate(kind, field))
  }
}

/** The windows of each key of a stream. */
export class WindowedStream<T, K extends Key, W extends Window> extends AnyWindowedStream<T, W> {
  readonly #stream: KeyedStream<T, K>

  /** @internal */
  constructor(stream: KeyedStream<T, K>, assigner: WindowAssigner<T, W>) {
    super(new WindowSettings(assigner, stream.keyOf, true))
    this.#stream = stream
  }

  /**
   * Keeps one accumulator for each window; with a process window function, that gets the result and the window.
   * @example
   * orders.keyBy(o => o.user).window(TumblingEventTimeWindows.of(10_000)).aggregate({
   *   createAccumulator: () => 0, add: (order, sum) => sum + order.amount, getResult: sum => sum, merge: (a, b) => a + b,
   * })
   */
  aggregate<ACC, R>(f: AggregateFunction<T, ACC, R>): SingleOutputStreamOperator<R>
  aggregate<ACC, V, R>(
    f: AggregateFunction<T, ACC, V>,
    process: ProcessWindow<V, R, K, W>,
  ): SingleOutputStreamOperator<R>
  aggregate(
    f: AggregateFunction<T, any, any>,
    process?: ProcessWindow<any, any, K, W>,
  ): SingleOutputStreamOperator<any> {
    return this.add(this.settings.aggregate(f, process))
  }

  /** Keeps one combined value for each window; with a process window function, that gets the value and the window. */
  reduce(f: WindowReduce<T>): SingleOutputStreamOperator<T>
  reduce<R>(f: WindowReduce<T>, process: ProcessWindow<T, R, K, W>): SingleOutputStreamOperator<R>
  reduce(f: WindowReduce<T>, process?: ProcessWindow<T, any, K, W>): SingleOutputStreamOperator<any> {
    return this.add(this.settings.reduce(f, process))
  }

  /** Keeps all values of each window and gives them to a process window function when the window fires. */
  process<R>(f: ProcessWindow<T, R, K, W>): SingleOutputStreamOperator<R> {
    return this.add(this.settings.process(f))
  }

  /** `process` in short: key, window, values, collector. */
  apply<R>(f: WindowFunction<T, R, K, W>): SingleOutputStreamOperator<R> {
    return this.add(this.settings.apply(f))
  }

  /** @internal */
  protected override add<R>(spec: OperatorSpec): SingleOutputStreamOperator<R> {
    return this.#stream.with(spec)
  }
}

/** The windows of a whole stream. Parallelism is 1. */
export class AllWindowedStream<T, W extends Window> extends AnyWindowedStream<T, W> {
  readonly #stream: KeyedStream<T, number>

  /** @internal */
  constructor(stream: KeyedStream<T, number>, assigner: WindowAssigner<T, W>) {
    super(new WindowSettings(assigner, stream.keyOf, false))
    this.#stream = stream
  }

  /** Keeps one accumulator for each window; with a process window function, that gets the result and the window. */
  aggregate<ACC, R>(f: AggregateFunction<T, ACC, R>): SingleOutputStreamOperator<R>
  aggregate<ACC, V, R>(
    f: AggregateFunction<T, ACC, V>,
    process: ProcessAllWindow<V, R, W>,
  ): SingleOutputStreamOperator<R>
  aggregate(
    f: AggregateFunction<T, any, any>,
    process?: ProcessAllWindow<any, any, W>,
  ): SingleOutputStreamOperator<any> {
    return this.add(this.settings.aggregate(f, process))
  }

  /** Keeps one combined value for each window; with a process window function, that gets the value and the window. */
  reduce(f: WindowReduce<T>): SingleOutputStreamOperator<T>
  reduce<R>(f: WindowReduce<T>, process: ProcessAllWindow<T, R, W>): SingleOutputStreamOperator<R>
  reduce(f: WindowReduce<T>, process?: ProcessAllWindow<T, any, W>): SingleOutputStreamOperator<any> {
    return this.add(this.settings.reduce(f, process))
  }

  /** Keeps all values of each window and gives them to a process window function when the window fires. */
  process<R>(f: ProcessAllWindow<T, R, W>): SingleOutputStreamOperator<R> {
    return this.add(this.settings.process(f))
  }

  /** `process` in short: window, values, collector. */
  apply<R>(f: AllWindowFunction<T, R, W>): SingleOutputStreamOperator<R> {
    return this.add(this.settings.apply(f))
  }

  /** @internal */
  protected override add<R>(spec: OperatorSpec): SingleOutputStreamOperator<R> {
    return this.#stream.single(spec)
  }
}

/** Two streams as the inputs of one operator. */
export class ConnectedStreams<T1, T2> {
  /** @internal */
  protected readonly first: DataStream<T1>
  /** @internal */
  protected readonly second: DataStream<T2>

  /** @internal */
  constructor(first: DataStream<T1>, second: DataStream<T2>) {
    this.first = first
    this.second = second
  }

  /** Values of both streams with one key meet in one subtask and share its state. */
  keyBy<K extends Key>(
    key1: KeySelector<T1, K>,
    key2: KeySelector<T2, NoInfer<WidenedKey<K>>>,
  ): KeyedConnectedStreams<T1, T2, K> {
    return new KeyedConnectedStreams<T1, T2, K>(
      this.first.keyBy(key1),
      this.second.keyBy(key2 as KeySelector<T2, any>),
    )
  }

  /**
   * One value in, one out, by input: two functions, or an object with `map1` and `map2`.
   * @example left.connect(right).map(order => order.id, payment => payment.orderId)
   */
  map<R1, R2>(
    first: (value: T1) => R1,
    second: (value: T2) => R2,
  ): SingleOutputStreamOperator<Awaited<R1 | R2>>
  map<R>(f: CoMapFunction<T1, T2, R>): SingleOutputStreamOperator<Awaited<R>>
  map(
    first: CoMapFunction<T1, T2, any> | ((value: T1) => any),
    second?: (value: T2) => any,
  ): SingleOutputStreamOperator<any> {
    return this.transform(specs.coMap(first, second))
  }

  /** One value in, any number out, by input: an object with `flatMap1` and `flatMap2`. */
  flatMap<R>(f: CoFlatMapFunction<T1, T2, R>): SingleOutputStreamOperator<R> {
    return this.transform(specs.coFlatMap(f))
  }

  /** Any number out, side outputs. Timers and keyed state need keys on both inputs. */
  process<R>(f: CoProcessFunction<T1, T2, R> & { readonly onTimer?: never }): SingleOutputStreamOperator<R> {
    return this.transform(specs.coProcess(f))
  }

  /** @internal */
  protected transform<R>(spec: OperatorSpec): SingleOutputStreamOperator<R> {
    const { context, inputs } = this.first
    return new SingleOutputStreamOperator(
      context,
      context.graph.addOperator(spec, [inputs, this.second.inputs]),
    )
  }
}

/** Two keyed streams with one kind of key: the operator behind shares state and timers between its inputs. */
export class KeyedConnectedStreams<T1, T2, K extends Key> extends ConnectedStreams<T1, T2> {
  readonly #keyOf: readonly [KeySelector<any, Key>, KeySelector<any, Key>]

  /** @internal */
  constructor(first: KeyedStream<T1, K>, second: KeyedStream<T2, any>) {
    super(first, second)
    this.#keyOf = [first.keyOf, second.keyOf]
  }

  /** Any number out, with state and timers for each key. */
  override process<FK, R>(
    f: KeyedCoProcessFunction<FK, T1, T2, R> & KeyMatch<K, FK>,
  ): SingleOutputStreamOperator<R>
  override process<R>(
    f: CoProcessFunction<T1, T2, R> & { readonly onTimer?: never },
  ): SingleOutputStreamOperator<R>
  override process(
    f: KeyedCoProcessFunction<any, T1, T2, any> | CoProcessFunction<T1, T2, any>,
  ): SingleOutputStreamOperator<any> {
    return this.transform(specs.keyedCoProcess(f, this.#keyOf))
  }
}

/** A stream beside a broadcast one. */
export class BroadcastConnectedStream<T, B> {
  /** @internal */
  protected readonly stream: DataStream<T>
  /** @internal */
  protected readonly broadcast: BroadcastStream<B>

  /** @internal */
  constructor(stream: DataStream<T>, broadcast: BroadcastStream<B>) {
    this.stream = stream
    this.broadcast = broadcast
  }

  /** The one side reads broadcast state, the broadcast side writes it. Keyed state needs `keyBy` before `connect`. */
  process<R>(
    f: BroadcastProcessFunctionLike<T, B, R> & { readonly onTimer?: never },
  ): SingleOutputStreamOperator<R> {
    return this.transform(specs.broadcastProcess(f, this.broadcast.descriptors))
  }

  /** @internal */
  protected transform<R>(spec: OperatorSpec): SingleOutputStreamOperator<R> {
    const { context, inputs } = this.stream
    return new SingleOutputStreamOperator(
      context,
      context.graph.addOperator(spec, [inputs, this.broadcast.inputs]),
    )
  }
}

/** A keyed stream beside a broadcast one. */
export class KeyedBroadcastConnectedStream<T, B, K extends Key> extends BroadcastConnectedStream<T, B> {
  readonly #keyOf: KeySelector<T, K>

  /** @internal */
  constructor(keyed: KeyedStream<T, K>, broadcast: BroadcastStream<B>) {
    super(keyed, broadcast)
    this.#keyOf = keyed.keyOf
  }

  /** The keyed side reads broadcast state and has state and timers of its key, the broadcast side writes broadcast state. */
  override process<FK, R>(
    f: KeyedBroadcastProcessFunction<FK, T, B, R> & KeyMatch<K, FK>,
  ): SingleOutputStreamOperator<R>
  override process<R>(
    f: BroadcastProcessFunctionLike<T, B, R> & { readonly onTimer?: never },
  ): SingleOutputStreamOperator<R>
  override process(
    f: KeyedBroadcastProcessFunction<any, T, B, any> | BroadcastProcessFunctionLike<T, B, any>,
  ): SingleOutputStreamOperator<any> {
    return this.transform(specs.keyedBroadcastProcess(f, this.broadcast.descriptors, this.#keyOf))
  }
}
