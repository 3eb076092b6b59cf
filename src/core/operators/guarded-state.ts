/**
 * State handles as user functions see them: they work only while a function runs for a key. A handle used later (in a timer of the
 * function's own, or after its promise settled) would touch the state of whatever key comes by.
 */
import type {
  AggregatingState,
  AggregatingStateDescriptor,
  AsyncMapState,
  AsyncMapStateDescriptor,
  KeyedStateStore,
  ListState,
  ListStateDescriptor,
  MapState,
  MapStateDescriptor,
  ReducingState,
  ReducingStateDescriptor,
  State,
  ValueState,
  ValueStateDescriptor,
} from '../state.ts'
import { type InvocationGuard, KEYED } from './invocation-guard.ts'

abstract class GuardedState<S extends State> implements State {
  protected readonly inner: S
  private readonly name: string
  private readonly guard: InvocationGuard

  constructor(inner: S, name: string, guard: InvocationGuard) {
    this.inner = inner
    this.name = name
    this.guard = guard
  }

  clear(): void {
    this.check()
    this.inner.clear()
  }

  protected check(): void {
    if (this.guard.phase !== KEYED) this.guard.requireKey(`State '${this.name}'`)
  }
}

class GuardedValueState<T> extends GuardedState<ValueState<T>> implements ValueState<T> {
  value(): T | null {
    this.check()
    return this.inner.value()
  }
  update(value: T): void {
    this.check()
    this.inner.update(value)
  }
}

class GuardedListState<T> extends GuardedState<ListState<T>> implements ListState<T> {
  get(): readonly T[] {
    this.check()
    return this.inner.get()
  }
  add(value: T): void {
    this.check()
    this.inner.add(value)
  }
  addAll(values: Iterable<T>): void {
    this.check()
    this.inner.addAll(values)
  }
  update(values: Iterable<T>): void {
    this.check()
    this.inner.update(values)
  }
}

class GuardedMapState<K, V> extends GuardedState<MapState<K, V>> implements MapState<K, V> {
  get(key: K): V | undefined {
    this.check()
    return this.inner.get(key)
  }
  put(key: K, value: V): void {
    this.check()
    this.inner.put(key, value)
  }
  putAll(entries: Iterable<readonly [K, V]>): void {
    this.check()
    this.inner.putAll(entries)
  }
  remove(key: K): void {
    this.check()
    this.inner.remove(key)
  }
  contains(key: K): boolean {
    this.check()
    return this.inner.contains(key)
  }
  entries(): IterableIterator<[K, V]> {
    this.check()
    return this.inner.entries()
  }
  keys(): IterableIterator<K> {
    this.check()
    return this.inner.keys()
  }
  values(): IterableIterator<V> {
    this.check()
    return this.inner.values()
  }
  isEmpty(): boolean {
    this.check()
    return this.inner.isEmpty()
  }
}

/** Its promises are counted until they settle, so that a function which does not wait for one is found out. */
class GuardedAsyncMapState<K, V> implements AsyncMapState<K, V> {
  private readonly inner: AsyncMapState<K, V>
  private readonly name: string
  private readonly guard: InvocationGuard

  constructor(inner: AsyncMapState<K, V>, name: string, guard: InvocationGuard) {
    this.inner = inner
    this.name = name
    this.guard = guard
  }

  get(key: K): Promise<V | undefined> {
    return this.within(() => this.inner.get(key))
  }
  getAll(keys: Iterable<K>): Promise<Map<K, V>> {
    return this.within(() => this.inner.getAll(keys))
  }
  contains(key: K): Promise<boolean> {
    return this.within(() => this.inner.contains(key))
  }
  put(key: K, value: V): void {
    this.check()
    this.inner.put(key, value)
  }
  remove(key: K): void {
    this.check()
    this.inner.remove(key)
  }
  entries(): AsyncIterableIterator<[K, V]> {
    this.check()
    return this.iterate(this.inner.entries())
  }
  keys(): AsyncIterableIterator<K> {
    this.check()
    return this.iterate(this.inner.keys())
  }
  isEmpty(): Promise<boolean> {
    return this.within(() => this.inner.isEmpty())
  }
  clear(): Promise<void> {
    return this.within(() => this.inner.clear())
  }

  private iterate<T>(inner: AsyncIterableIterator<T>): AsyncIterableIterator<T> {
    const iterator: AsyncIterableIterator<T> = {
      next: () => this.within(() => inner.next()),
      return: (value?: unknown) =>
        this.guard.track(inner.return?.(value) ?? Promise.resolve({ done: true as const, value })),
      [Symbol.asyncIterator]: () => iterator,
    }
    return iterator
  }

  private within<T>(access: () => Promise<T>): Promise<T> {
    this.check()
    return this.guard.track(access())
  }

  private check(): void {
    if (this.guard.phase !== KEYED) this.guard.requireKey(`State '${this.name}'`)
  }
}

/** Reducing and aggregating state: both are read with `get` and fed with `add`. */
class GuardedFoldingState<IN, OUT>
  extends GuardedState<AggregatingState<IN, OUT>>
  implements AggregatingState<IN, OUT>
{
  get(): OUT | null {
    this.check()
    return this.inner.get()
  }
  add(value: IN): void {
    this.check()
    this.inner.add(value)
  }
}

/** A state store whose handles obey `guard`. Handles may be fetched at any time, e.g. in `open`. */
export class GuardedStateStore implements KeyedStateStore {
  private readonly store: KeyedStateStore
  private readonly guard: InvocationGuard

  constructor(store: KeyedStateStore, guard: InvocationGuard) {
    this.store = store
    this.guard = guard
  }

  getState<T>(descriptor: ValueStateDescriptor<T>): ValueState<T> {
    return new GuardedValueState(this.store.getState(descriptor), descriptor.name, this.guard)
  }
  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T> {
    return new GuardedListState(this.store.getListState(descriptor), descriptor.name, this.guard)
  }
  getMapState<K, V>(descriptor: MapStateDescriptor<K, V>): MapState<K, V> {
    return new GuardedMapState(this.store.getMapState(descriptor), descriptor.name, this.guard)
  }
  getAsyncMapState<K, V>(descriptor: AsyncMapStateDescriptor<K, V>): AsyncMapState<K, V> {
    return new GuardedAsyncMapState(this.store.getAsyncMapState(descriptor), descriptor.name, this.guard)
  }
  getReducingState<T>(descriptor: ReducingStateDescriptor<T>): ReducingState<T> {
    return new GuardedFoldingState(this.store.getReducingState(descriptor), descriptor.name, this.guard)
  }
  getAggregatingState<IN, ACC, OUT>(
    descriptor: AggregatingStateDescriptor<IN, ACC, OUT>,
  ): AggregatingState<IN, OUT> {
    return new GuardedFoldingState(this.store.getAggregatingState(descriptor), descriptor.name, this.guard)
  }
}
