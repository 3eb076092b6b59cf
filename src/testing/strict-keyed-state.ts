/**
 * Keyed state that finds what works on one backend and breaks on another: a value that was read is changed but never written back, and a
 * value that was read in one call is changed in a later one.
 *
 *   read ─► a copy is handed out ─► end of call: copy changed, state not written? error ─► the copy is made read-only
 *
 * Copies also show the second mistake by themselves: changes to them are not in the state.
 */
import { isDeepStrictEqual } from 'node:util'
import { keepForeign, structuredCopy } from '../core/operators/structured-copy.ts'
import type {
  AggregatingState,
  AggregatingStateDescriptor,
  AsyncMapState,
  AsyncMapStateDescriptor,
  FrozenKeyedState,
  Key,
  KeyedStateBackend,
  KeyGroupImage,
  ListState,
  ListStateDescriptor,
  MapState,
  MapStateDescriptor,
  Namespace,
  ReducingState,
  ReducingStateDescriptor,
  StateDescriptor,
  TimerQueues,
  ValueState,
  ValueStateDescriptor,
} from '../core/state.ts'
import { MillraceError } from '../errors.ts'

const copyOf = <T>(value: T): T => structuredCopy(value, keepForeign)

/** A value that user code holds during a call. */
interface HandedOut {
  readonly stateName: string
  readonly key: Key
  readonly copy: unknown
  readonly before: unknown
}

/** Wraps a backend; `endCall` must be called after each invocation of the operator. */
export class StrictKeyedState implements KeyedStateBackend {
  private readonly inner: KeyedStateBackend
  private readonly checkKey: (key: Key) => void
  private readonly handedOut: HandedOut[] = []
  /** States that were written in this call. */
  private readonly written = new Set<string>()

  /** `checkKey` throws for a key whose records go elsewhere. */
  constructor(inner: KeyedStateBackend, checkKey: (key: Key) => void = () => undefined) {
    this.inner = inner
    this.checkKey = checkKey
  }

  /** @throws MILLRACE_STATE_ACCESS if a value that was read was changed but not written back. */
  endCall(): void {
    const read = this.handedOut.splice(0)
    const changed = read.find(
      ({ stateName, copy, before }) => !this.written.has(stateName) && !isDeepStrictEqual(copy, before),
    )
    this.written.clear()
    for (const { copy } of read) deepFreeze(copy)
    if (changed === undefined) return
    throw new MillraceError(
      'MILLRACE_STATE_ACCESS',
      `A value of state '${changed.stateName}' was changed in place but not written back`,
      {
        details: { state: changed.stateName, key: changed.key },
        remedy: 'Call update(), add() or put() with the changed value, or change a copy.',
      },
    )
  }

  /** Hands out a copy of what the state holds. */
  handOut<T>(stateName: string, value: T): T {
    if (typeof value !== 'object' || value === null) return value
    const copy = copyOf(value)
    this.handedOut.push({ stateName, key: this.inner.getCurrentKey(), copy, before: copyOf(value) })
    return copy
  }

  /** Takes a copy of what is written. */
  takeIn<T>(stateName: string, value: T): T {
    this.written.add(stateName)
    return copyOf(value)
  }

  getState<T>(descriptor: ValueStateDescriptor<T>): ValueState<T> {
    const inner = this.inner.getState(descriptor)
    const { name } = descriptor
    return {
      value: () => this.handOut(name, inner.value()),
      update: (value) => inner.update(this.takeIn(name, value)),
      clear: () => this.clear(name, inner),
    }
  }

  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T> {
    const inner = this.inner.getListState(descriptor)
    const { name } = descriptor
    return {
      get: () => this.handOut(name, inner.get()),
      add: (value) => inner.add(this.takeIn(name, value)),
      addAll: (values) => inner.addAll(this.takeIn(name, [...values])),
      update: (values) => inner.update(this.takeIn(name, [...values])),
      clear: () => this.clear(name, inner),
    }
  }

  getMapState<K, V>(descriptor: MapStateDescriptor<K, V>): MapState<K, V> {
    const inner = this.inner.getMapState(descriptor)
    const { name } = descriptor
    const entries = () =>
      Array.from(inner.entries(), ([key, value]): [K, V] => [key, this.handOut(name, value)])
    return {
      get: (key) => this.handOut(name, inner.get(key)),
      put: (key, value) => inner.put(key, this.takeIn(name, value)),
      putAll: (values) => inner.putAll(this.takeIn(name, [...values])),
      remove: (key) => inner.remove(this.takeIn(name, key)),
      contains: (key) => inner.contains(key),
      entries: () => entries().values(),
      keys: () => inner.keys(),
      values: () =>
        entries()
          .map(([, value]) => value)
          .values(),
      isEmpty: () => inner.isEmpty(),
      clear: () => this.clear(name, inner),
    }
  }

  getAsyncMapState<K, V>(descriptor: AsyncMapStateDescriptor<K, V>): AsyncMapState<K, V> {
    const inner = this.inner.getAsyncMapState(descriptor)
    const { name } = descriptor
    const handOut = (value: V): V => this.handOut(name, value)
    async function* entries(): AsyncGenerator<[K, V], undefined> {
      for await (const [key, value] of inner.entries()) yield [key, handOut(value)]
    }
    return {
      get: async (key) => {
        const value = await inner.get(key)
        return value === undefined ? undefined : handOut(value)
      },
      getAll: async (keys) =>
        new Map(Array.from(await inner.getAll(keys), ([key, value]) => [key, handOut(value)])),
      put: (key, value) => inner.put(key, this.takeIn(name, value)),
      remove: (key) => inner.remove(this.takeIn(name, key)),
      contains: (key) => inner.contains(key),
      entries,
      keys: () => inner.keys(),
      isEmpty: () => inner.isEmpty(),
      clear: () => {
        this.written.add(name)
        return inner.clear()
      },
    }
  }

  getReducingState<T>(descriptor: ReducingStateDescriptor<T>): ReducingState<T> {
    const inner = this.inner.getReducingState(descriptor)
    return this.folding(descriptor.name, inner)
  }

  getAggregatingState<IN, ACC, OUT>(
    descriptor: AggregatingStateDescriptor<IN, ACC, OUT>,
  ): AggregatingState<IN, OUT> {
    const inner = this.inner.getAggregatingState(descriptor)
    return this.folding(descriptor.name, inner)
  }

  private folding<IN, OUT>(name: string, inner: AggregatingState<IN, OUT>): AggregatingState<IN, OUT> {
    return {
      get: () => this.handOut(name, inner.get()),
      add: (value) => inner.add(this.takeIn(name, value)),
      clear: () => this.clear(name, inner),
    }
  }

  private clear(name: string, inner: { clear(): void }): void {
    this.written.add(name)
    inner.clear()
  }

  prefetch(keys: readonly Key[]): Promise<void> | undefined {
    return this.inner.prefetch(keys)
  }
  settle(): Promise<void> | undefined {
    return this.inner.settle()
  }
  setCurrentKey(key: Key): void {
    this.checkKey(key)
    this.inner.setCurrentKey(key)
  }
  getCurrentKey(): Key {
    return this.inner.getCurrentKey()
  }
  setCurrentNamespace(namespace: Namespace): void {
    this.inner.setCurrentNamespace(namespace)
  }
  mergeNamespaces(descriptor: StateDescriptor, target: Namespace, sources: readonly Namespace[]): void {
    this.written.add(descriptor.name)
    this.inner.mergeNamespaces(descriptor, target, sources)
  }
  clearNamespace(except: string): void {
    this.inner.clearNamespace(except)
  }
  keys(stateName: string): Iterable<Key> {
    return this.inner.keys(stateName)
  }
  keysWith(stateName: string): Iterable<Key> | Promise<readonly Key[]> {
    return this.inner.keysWith(stateName)
  }
  timers(): TimerQueues {
    return this.inner.timers()
  }
  freeze(checkpointId: number): FrozenKeyedState {
    return this.inner.freeze(checkpointId)
  }
  restore(images: readonly KeyGroupImage[]): void {
    this.inner.restore(images)
  }
  get entries(): number {
    return this.inner.entries
  }
  close(): void | Promise<void> {
    return this.inner.close()
  }
}

/** Makes plain objects and arrays read-only; maps, sets, dates and bytes cannot be. */
function deepFreeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || Object.isFrozen(value))
    return
  Object.freeze(value)
  for (const part of Object.values(value)) deepFreeze(part)
}
