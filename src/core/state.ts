/**
 * State contracts: what user code sees (ValueState, …), how it is declared (descriptors), and what a backend gives to operators.
 */
import type { Serde } from './connector.ts'

/** A key: primitives, bytes, or arrays of these. One canonical byte encoding exists (key-encoding.ts). */
export type Key = string | number | bigint | boolean | Uint8Array | readonly Key[]

/** Common to all keyed state: `clear` removes the value of the current key. */
export interface State {
  clear(): void
}

/** One value a key. */
export interface ValueState<T> extends State {
  /** The value, or null if none is set. Valid within the call; only `update` changes state. */
  value(): T | null
  update(value: T): void
}

/** A list a key. */
export interface ListState<T> extends State {
  /** All elements in order; empty if none. */
  get(): readonly T[]
  add(value: T): void
  addAll(values: Iterable<T>): void
  /** Replaces the whole list. */
  update(values: Iterable<T>): void
}

/** A map a key. Map keys are strings, numbers, bigints or booleans. */
export interface MapState<K, V> extends State {
  get(key: K): V | undefined
  put(key: K, value: V): void
  putAll(entries: Iterable<readonly [K, V]>): void
  remove(key: K): void
  contains(key: K): boolean
  entries(): IterableIterator<[K, V]>
  keys(): IterableIterator<K>
  values(): IterableIterator<V>
  isEmpty(): boolean
}

/**
 * A map a key that may be large: each entry is loaded, stored and changed by itself, so reads are promises. Keys are strings, numbers,
 * bigints or booleans. Every promise and iterator must be awaited before the function returns (or its own promise settles).
 */
export interface AsyncMapState<K, V> {
  get(key: K): Promise<V | undefined>
  /** The entries that exist, of all keys in one round trip. */
  getAll(keys: Iterable<K>): Promise<Map<K, V>>
  contains(key: K): Promise<boolean>
  /** Nothing is read, so nothing is waited for. */
  put(key: K, value: V): void
  /** Nothing is read, so nothing is waited for. */
  remove(key: K): void
  /** All entries, in no order, by pages. What is put or removed meanwhile may be shown or not; no entry is shown twice. */
  entries(): AsyncIterableIterator<[K, V]>
  keys(): AsyncIterableIterator<K>
  isEmpty(): Promise<boolean>
  /** Removes all entries. */
  clear(): Promise<void>
}

/** Keeps one value, combined by a reduce function. */
export interface ReducingState<T> extends State {
  get(): T | null
  add(value: T): void
}

/** Keeps one accumulator. */
export interface AggregatingState<IN, OUT> extends State {
  get(): OUT | null
  add(value: IN): void
}

/** Map state that every subtask holds whole; writable on the broadcast side only. */
export interface BroadcastState<K, V> extends ReadOnlyBroadcastState<K, V> {
  put(key: K, value: V): void
  remove(key: K): void
  clear(): void
}
/** What the keyed side sees of broadcast state. */
export interface ReadOnlyBroadcastState<K, V> {
  get(key: K): V | undefined
  contains(key: K): boolean
  entries(): IterableIterator<[K, V]>
}

/** Combines two values into one. */
export type ReduceFunction<T> = (a: T, b: T) => T

/** Flink's AggregateFunction. `merge` is needed by session windows only. */
export interface AggregateFunction<IN, ACC, OUT> {
  createAccumulator(): ACC
  /** Returns the new accumulator; it may change and return the one it got. */
  add(value: IN, accumulator: ACC): ACC
  getResult(accumulator: ACC): OUT
  merge?(a: ACC, b: ACC): ACC
}

/** How long state lives. */
export interface StateTtlOptions {
  /** Milliseconds. */
  readonly ttlMs: number
  readonly updateType: 'OnCreateAndWrite' | 'OnReadAndWrite'
  readonly visibility: 'NeverReturnExpired' | 'ReturnExpiredIfNotCleanedUp'
}

/** Builder of TTL settings (processing time). */
export class StateTtlConfig {
  readonly options: StateTtlOptions
  private constructor(options: StateTtlOptions) {
    this.options = options
  }
  /** State that lives `ttlMs` milliseconds after creation or its last write. */
  static of(ttlMs: number): StateTtlConfig {
    return new StateTtlConfig({ ttlMs, updateType: 'OnCreateAndWrite', visibility: 'NeverReturnExpired' })
  }
  /** Reads prolong the life too. */
  updateTtlOnReadAndWrite(): StateTtlConfig {
    return new StateTtlConfig({ ...this.options, updateType: 'OnReadAndWrite' })
  }
  /** Expired values may still be returned until they are cleaned up. */
  returnExpiredIfNotCleanedUp(): StateTtlConfig {
    return new StateTtlConfig({ ...this.options, visibility: 'ReturnExpiredIfNotCleanedUp' })
  }
}

export type StateKind = 'value' | 'list' | 'map' | 'reducing' | 'aggregating' | 'async-map'

/** Declares a state: its name is unique within the operator and part of every checkpoint. */
export abstract class StateDescriptor {
  abstract readonly kind: StateKind
  readonly name: string
  /** Encodes values that structured values cannot hold (class instances). Undefined: structured values. */
  readonly serde: Serde<any> | undefined
  ttl: StateTtlOptions | undefined
  constructor(name: string, serde?: Serde<any>) {
    this.name = name
    this.serde = serde
  }
  /** Values expire. */
  enableTimeToLive(config: StateTtlConfig): this {
    this.ttl = config.options
    return this
  }
}
export class ValueStateDescriptor<T> extends StateDescriptor {
  override readonly kind = 'value'
  declare readonly __type?: T
  constructor(name: string, serde?: Serde<T>) {
    super(name, serde)
  }
}
export class ListStateDescriptor<T> extends StateDescriptor {
  override readonly kind = 'list'
  declare readonly __type?: T
  constructor(name: string, serde?: Serde<T>) {
    super(name, serde)
  }
}
export class MapStateDescriptor<K, V> extends StateDescriptor {
  override readonly kind = 'map'
  declare readonly __type?: [K, V]
  constructor(name: string, serde?: Serde<V>) {
    super(name, serde)
  }
}
/** Declares a map whose entries are read one by one; see AsyncMapState. */
export class AsyncMapStateDescriptor<K, V> extends StateDescriptor {
  override readonly kind = 'async-map'
  declare readonly __type?: [K, V]
  constructor(name: string, serde?: Serde<V>) {
    super(name, serde)
  }
}
export class ReducingStateDescriptor<T> extends StateDescriptor {
  override readonly kind = 'reducing'
  readonly reduce: ReduceFunction<T>
  constructor(name: string, reduce: ReduceFunction<T>, serde?: Serde<T>) {
    super(name, serde)
    this.reduce = reduce
  }
}
export class AggregatingStateDescriptor<IN, ACC, OUT> extends StateDescriptor {
  override readonly kind = 'aggregating'
  readonly aggregate: AggregateFunction<IN, ACC, OUT>
  constructor(name: string, aggregate: AggregateFunction<IN, ACC, OUT>, serde?: Serde<ACC>) {
    super(name, serde)
    this.aggregate = aggregate
  }
}

/** The state that a descriptor declares. */
export type StateOf<D extends StateDescriptor> =
  D extends ValueStateDescriptor<infer T>
    ? ValueState<T>
    : D extends ListStateDescriptor<infer T>
      ? ListState<T>
      : D extends MapStateDescriptor<infer K, infer V>
        ? MapState<K, V>
        : D extends ReducingStateDescriptor<infer T>
          ? ReducingState<T>
          : D extends AggregatingStateDescriptor<infer IN, any, infer OUT>
            ? AggregatingState<IN, OUT>
            : never

/** Gives states for the current key. What rich functions and operators use. */
export interface KeyedStateStore {
  getState<T>(descriptor: ValueStateDescriptor<T>): ValueState<T>
  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T>
  getMapState<K, V>(descriptor: MapStateDescriptor<K, V>): MapState<K, V>
  /** Plain state only: windows have no async maps of their own. */
  getAsyncMapState<K, V>(descriptor: AsyncMapStateDescriptor<K, V>): AsyncMapState<K, V>
  getReducingState<T>(descriptor: ReducingStateDescriptor<T>): ReducingState<T>
  getAggregatingState<IN, ACC, OUT>(
    descriptor: AggregatingStateDescriptor<IN, ACC, OUT>,
  ): AggregatingState<IN, OUT>
}

/** State of an operator subtask that is not by key. Lists are split over subtasks at rescale; union lists go whole to each. */
export interface OperatorStateStore {
  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T>
  getUnionListState<T>(descriptor: ListStateDescriptor<T>): ListState<T>
  getBroadcastState<K, V>(descriptor: MapStateDescriptor<K, V>): BroadcastState<K, V>
}

/** Key groups [start, end] (both inclusive) of one subtask. */
export interface KeyGroupRange {
  readonly start: number
  readonly end: number
}

/** State of one key group as self-contained bytes (values of all states and timers), versioned. */
export interface KeyGroupImage {
  readonly keyGroup: number
  readonly bytes: Uint8Array
}

/** A namespace separates states of one key: '' for plain state, a window's id for windows. */
export type Namespace = string | number

/** Timers of one operator by key and namespace. At most one a (key, namespace, time). */
export interface TimerService {
  /** Fires when the watermark reaches `time` (epoch ms). */
  registerEventTimeTimer(namespace: Namespace, time: number): void
  deleteEventTimeTimer(namespace: Namespace, time: number): void
  /** Fires when the clock reaches `time` (epoch ms). */
  registerProcessingTimeTimer(namespace: Namespace, time: number): void
  deleteProcessingTimeTimer(namespace: Namespace, time: number): void
}

/** A timer that is due. */
export interface DueTimer {
  readonly key: Key
  readonly namespace: Namespace
  readonly time: number
}

/** The timers an operator drives. Timers belong to the keyed state: they are in its images. */
export interface TimerQueues extends TimerService {
  /** Removes and returns the timers at or below `time`, by time then insertion; at most `limit`. */
  dueEventTimers(time: number, limit: number): DueTimer[]
  dueProcessingTimers(time: number, limit: number): DueTimer[]
  /** Earliest processing-time timer, or undefined. */
  nextProcessingTime(): number | undefined
  readonly size: number
}

/**
 * Keyed state of one operator subtask. User code stays synchronous: the runtime prefetches the keys of a vector first.
 */
export interface KeyedStateBackend extends KeyedStateStore {
  /** Loads the keys' cold state. Undefined = all is at hand (always so on the heap). */
  prefetch(keys: readonly Key[]): Promise<void> | undefined
  /**
   * Ends the work on a vector: what async maps owe to their indexes is done. Must be called, and awaited, after the last call for the keys
   * that were prefetched, before a freeze and before the next prefetch. Undefined = nothing is owed (always so without async maps).
   */
  settle(): Promise<void> | undefined
  setCurrentKey(key: Key): void
  getCurrentKey(): Key
  /** Namespace of the states obtained from this store, '' at first. */
  setCurrentNamespace(namespace: Namespace): void
  /** Moves state of `sources` into `target` under the current key, combining values (session windows). */
  mergeNamespaces(descriptor: StateDescriptor, target: Namespace, sources: readonly Namespace[]): void
  /** Removes all state of the current key in the current namespace, declared or not, save the one named `except`. Timers stay. */
  clearNamespace(except: string): void
  /** Keys that hold the named state, for queries and tests. */
  keys(stateName: string): Iterable<Key>
  /**
   * Keys that hold the named state, those that are not at hand too; there may be others among them. No other call may come before the
   * promise resolves.
   */
  keysWith(stateName: string): Iterable<Key> | Promise<readonly Key[]>
  timers(): TimerQueues
  /**
   * The synchronous part of snapshot n: an exact freeze. Whatever user code does afterwards does not change what the frozen state holds.
   * Cost must not grow with the number of entries.
   */
  freeze(checkpointId: number): FrozenKeyedState
  /** Adds images of key groups in this backend's range; called before the first record. @throws StateLostError if one is damaged. */
  restore(images: readonly KeyGroupImage[]): void
  /** Entries held, for metrics. */
  readonly entries: number
  close(): void | Promise<void>
}

/** Frozen state that is written while records go on. */
export interface FrozenKeyedState {
  /** Serialises everything, in slices of a few ms; `pause` is awaited between two slices. Empty key groups have no image. */
  materialize(pause: () => Promise<void>): Promise<KeyGroupImage[]>
  /** The checkpoint was aborted or is done: keep nothing for it. */
  release(): void
}
