/**
 * User functions: plain functions, objects with a life cycle, and Flink's base classes.
 */
import type { OutputTag } from './output-tag.ts'
import type { Logger, MetricGroup } from './ports.ts'
import type {
  AggregatingState,
  AggregatingStateDescriptor,
  AsyncMapState,
  AsyncMapStateDescriptor,
  BroadcastState,
  Key,
  KeyedStateStore,
  ListState,
  ListStateDescriptor,
  MapState,
  MapStateDescriptor,
  OperatorStateStore,
  ReadOnlyBroadcastState,
  ReducingState,
  ReducingStateDescriptor,
  StateDescriptor,
  StateOf,
  ValueState,
  ValueStateDescriptor,
} from './state.ts'

/** Takes results of a function. Usable only inside the call it was given to (until the returned promise settles). */
export interface Collector<T> {
  collect(value: T): void
}

/** What `open` gets: who the subtask is, and its state. */
export interface RuntimeContext extends KeyedStateStore {
  getJobName(): string
  /** The operator's name. */
  getTaskName(): string
  getIndexOfThisSubtask(): number
  getNumberOfParallelSubtasks(): number
  getAttemptNumber(): number
  /** The key of the record or timer being processed; throws outside of one or without keyBy. */
  getCurrentKey(): any
  getMetricGroup(): MetricGroup
  getLogger(): Logger
  getState<T>(descriptor: ValueStateDescriptor<T>): ValueState<T>
  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T>
  getMapState<K, V>(descriptor: MapStateDescriptor<K, V>): MapState<K, V>
  getAsyncMapState<K, V>(descriptor: AsyncMapStateDescriptor<K, V>): AsyncMapState<K, V>
  getReducingState<T>(descriptor: ReducingStateDescriptor<T>): ReducingState<T>
  getAggregatingState<IN, ACC, OUT>(
    descriptor: AggregatingStateDescriptor<IN, ACC, OUT>,
  ): AggregatingState<IN, OUT>
}

/** Restored operator state, handed to `initializeState` before `open`. */
export interface FunctionInitializationContext {
  isRestored(): boolean
  getOperatorStateStore(): OperatorStateStore
}

/** Handed to `snapshotState` at each barrier. */
export interface FunctionSnapshotContext {
  getCheckpointId(): number
}

/** Life cycle that any function object may have. */
export interface RichFunction {
  open?(context: RuntimeContext): void | Promise<void>
  close?(): void | Promise<void>
  initializeState?(context: FunctionInitializationContext): void | Promise<void>
  snapshotState?(context: FunctionSnapshotContext): void
}

export type MapFunction<T, R> = ((value: T) => R) | (RichFunction & { map(value: T): R })
export type FilterFunction<T> =
  | ((value: T) => boolean | Promise<boolean>)
  | (RichFunction & { filter(value: T): boolean | Promise<boolean> })
export type FlatMapFunction<T, R> =
  | ((value: T, out: Collector<R>) => Iterable<R> | void | Promise<Iterable<R> | void>)
  | (RichFunction & {
      flatMap(value: T, out: Collector<R>): Iterable<R> | void | Promise<Iterable<R> | void>
    })
export type KeySelector<T, K extends Key> = (value: T) => K

/** Timers of the current key. */
export interface KeyedTimerService {
  /** Epoch ms of the clock. */
  currentProcessingTime(): number
  /** The operator's watermark, epoch ms. */
  currentWatermark(): number
  registerEventTimeTimer(time: number): void
  registerProcessingTimeTimer(time: number): void
  deleteEventTimeTimer(time: number): void
  deleteProcessingTimeTimer(time: number): void
}

/** Context of a ProcessFunction call. */
export interface ProcessContext {
  /** Event time of the record (epoch ms), or null. */
  timestamp(): number | null
  currentProcessingTime(): number
  currentWatermark(): number
  /** Emits to a side output. */
  output<X>(tag: OutputTag<X>, value: X): void
}

/** Context of a keyed call: the key, and timers. */
export interface KeyedContext<K> extends ProcessContext {
  getCurrentKey(): K
  timerService(): KeyedTimerService
}

/** Context of `onTimer`. */
export interface OnTimerContext<K> extends KeyedContext<K> {
  timeDomain(): 'EVENT_TIME' | 'PROCESSING_TIME'
}

/** Base of all function classes. */
export abstract class AbstractRichFunction implements RichFunction {
  open(_context: RuntimeContext): void | Promise<void> {}
  close(): void | Promise<void> {}
  initializeState(_context: FunctionInitializationContext): void | Promise<void> {}
  snapshotState(_context: FunctionSnapshotContext): void {}
}

/** One record in, any number out, side outputs; without keyed state. */
export abstract class ProcessFunction<IN, OUT> extends AbstractRichFunction {
  declare readonly Context: ProcessContext
  abstract processElement(value: IN, context: ProcessContext, out: Collector<OUT>): void | Promise<void>
}

/** One record in, any number out, with keyed state and timers. */
export abstract class KeyedProcessFunction<K, IN, OUT> extends AbstractRichFunction {
  declare readonly Context: KeyedContext<K>
  declare readonly OnTimerContext: OnTimerContext<K>
  abstract processElement(value: IN, context: KeyedContext<K>, out: Collector<OUT>): void | Promise<void>
  onTimer(_timestamp: number, _context: OnTimerContext<K>, _out: Collector<OUT>): void | Promise<void> {}
}

/** Two inputs, without keyed state. */
export abstract class CoProcessFunction<IN1, IN2, OUT> extends AbstractRichFunction {
  declare readonly Context: ProcessContext
  abstract processElement1(value: IN1, context: ProcessContext, out: Collector<OUT>): void | Promise<void>
  abstract processElement2(value: IN2, context: ProcessContext, out: Collector<OUT>): void | Promise<void>
}

/** Two inputs with the same key type, sharing keyed state and timers. */
export abstract class KeyedCoProcessFunction<K, IN1, IN2, OUT> extends AbstractRichFunction {
  declare readonly Context: KeyedContext<K>
  declare readonly OnTimerContext: OnTimerContext<K>
  abstract processElement1(value: IN1, context: KeyedContext<K>, out: Collector<OUT>): void | Promise<void>
  abstract processElement2(value: IN2, context: KeyedContext<K>, out: Collector<OUT>): void | Promise<void>
  onTimer(_timestamp: number, _context: OnTimerContext<K>, _out: Collector<OUT>): void | Promise<void> {}
}

/** Context of the keyed side of a broadcast connection. */
export interface ReadOnlyBroadcastContext<K> extends KeyedContext<K> {
  getBroadcastState<MK, MV>(descriptor: MapStateDescriptor<MK, MV>): ReadOnlyBroadcastState<MK, MV>
}
/** Context of timers of the keyed side: they read broadcast state too. */
export interface BroadcastOnTimerContext<K> extends OnTimerContext<K>, ReadOnlyBroadcastContext<K> {}
/** Context of the side without keys of a broadcast connection. */
export interface ReadOnlyBroadcastProcessContext extends ProcessContext {
  getBroadcastState<MK, MV>(descriptor: MapStateDescriptor<MK, MV>): ReadOnlyBroadcastState<MK, MV>
}
/** Context of the broadcast side. */
export interface BroadcastContext extends ProcessContext {
  getBroadcastState<MK, MV>(descriptor: MapStateDescriptor<MK, MV>): BroadcastState<MK, MV>
}
/** Context of the broadcast side beside a keyed stream. */
export interface KeyedBroadcastContext<K> extends BroadcastContext {
  /**
   * Calls `f` with each key of this subtask that holds the state, and with the state, which it may change; in no order. A promise of `f` is
   * awaited before the next key. Keys whose state is not on the heap are loaded, some at a time: then the answer is a promise. The next
   * record waits for it in any case; await it if what follows needs it.
   */
  applyToKeyedState<D extends StateDescriptor>(
    descriptor: D,
    f: (key: K, state: StateOf<D>) => void | Promise<void>,
  ): void | Promise<void>
}

/** A stream without keys connected with a broadcast one. */
export abstract class BroadcastProcessFunction<IN, B, OUT> extends AbstractRichFunction {
  declare readonly Context: BroadcastContext
  declare readonly ReadOnlyContext: ReadOnlyBroadcastProcessContext
  abstract processElement(
    value: IN,
    context: ReadOnlyBroadcastProcessContext,
    out: Collector<OUT>,
  ): void | Promise<void>
  abstract processBroadcastElement(
    value: B,
    context: BroadcastContext,
    out: Collector<OUT>,
  ): void | Promise<void>
}

/** A keyed stream connected with a broadcast one. */
export abstract class KeyedBroadcastProcessFunction<K, IN, B, OUT> extends AbstractRichFunction {
  declare readonly Context: KeyedBroadcastContext<K>
  declare readonly ReadOnlyContext: ReadOnlyBroadcastContext<K>
  declare readonly OnTimerContext: BroadcastOnTimerContext<K>
  abstract processElement(
    value: IN,
    context: ReadOnlyBroadcastContext<K>,
    out: Collector<OUT>,
  ): void | Promise<void>
  abstract processBroadcastElement(
    value: B,
    context: KeyedBroadcastContext<K>,
    out: Collector<OUT>,
  ): void | Promise<void>
  onTimer(
    _timestamp: number,
    _context: BroadcastOnTimerContext<K>,
    _out: Collector<OUT>,
  ): void | Promise<void> {}
}
