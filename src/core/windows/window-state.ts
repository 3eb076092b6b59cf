/**
 * Keyed state in the namespace of one window. Plain state of the same key lies in namespace '', and user code uses both in one call: each
 * access to a window's state sets the window's namespace and then goes back to ''.
 */
import { MillraceError } from '../../errors.ts'
import { GuardedStateStore } from '../operators/guarded-state.ts'
import type { InvocationGuard } from '../operators/invocation-guard.ts'
import type {
  AggregatingState,
  AggregatingStateDescriptor,
  AsyncMapState,
  AsyncMapStateDescriptor,
  KeyedStateBackend,
  KeyedStateStore,
  ListState,
  ListStateDescriptor,
  MapState,
  MapStateDescriptor,
  Namespace,
  ReducingState,
  ReducingStateDescriptor,
  State,
  StateDescriptor,
  ValueState,
  ValueStateDescriptor,
} from '../state.ts'

interface Known {
  readonly descriptor: StateDescriptor
  readonly handle: State
}

function noAsyncMap({ name }: StateDescriptor): MillraceError {
  return new MillraceError(
    'MILLRACE_STATE_ACCESS',
    `Async map state '${name}' was asked for in the namespace of a window: only plain state can be an async map`,
    {
      details: { state: name },
      remedy: 'Use globalState(), or a map state for what belongs to a window.',
    },
  )
}

/** A state store whose handles obey `namespace`. */
export class WindowStateStore implements KeyedStateStore {
  /** Namespace of the window that a function is called for. Must be set before the call. */
  namespace: Namespace = ''
  private readonly state: KeyedStateBackend
  private readonly known = new Map<string, Known>()

  constructor(state: KeyedStateBackend) {
    this.state = state
  }

  /** The same states for user code: usable only while its function runs. */
  guarded(guard: InvocationGuard): KeyedStateStore {
    return new GuardedStateStore(this, guard)
  }

  getState<T>(descriptor: ValueStateDescriptor<T>): ValueState<T> {
    return this.handle(descriptor, () => {
      const inner = this.state.getState(descriptor)
      return {
        value: () => this.within(() => inner.value()),
        update: (value: T) => this.within(() => inner.update(value)),
        clear: () => this.within(() => inner.clear()),
      }
    })
  }

  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T> {
    return this.handle(descriptor, () => {
      const inner = this.state.getListState(descriptor)
      return {
        get: () => this.within(() => inner.get()),
        add: (value: T) => this.within(() => inner.add(value)),
        addAll: (values: Iterable<T>) => this.within(() => inner.addAll(values)),
        update: (values: Iterable<T>) => this.within(() => inner.update(values)),
        clear: () => this.within(() => inner.clear()),
      }
    })
  }

  getMapState<K, V>(descriptor: MapStateDescriptor<K, V>): MapState<K, V> {
    return this.handle(descriptor, () => {
      const inner = this.state.getMapState(descriptor)
      return {
        get: (key: K) => this.within(() => inner.get(key)),
        put: (key: K, value: V) => this.within(() => inner.put(key, value)),
        putAll: (entries: Iterable<readonly [K, V]>) => this.within(() => inner.putAll(entries)),
        remove: (key: K) => this.within(() => inner.remove(key)),
        contains: (key: K) => this.within(() => inner.contains(key)),
        entries: () => this.within(() => inner.entries()),
        keys: () => this.within(() => inner.keys()),
        values: () => this.within(() => inner.values()),
        isEmpty: () => this.within(() => inner.isEmpty()),
        clear: () => this.within(() => inner.clear()),
      }
    })
  }

  /** @throws MILLRACE_STATE_ACCESS always: a window ends in one synchronous step. */
  getAsyncMapState<K, V>(descriptor: AsyncMapStateDescriptor<K, V>): AsyncMapState<K, V> {
    throw noAsyncMap(descriptor)
  }

  getReducingState<T>(descriptor: ReducingStateDescriptor<T>): ReducingState<T> {
    return this.handle(descriptor, () => this.folding(this.state.getReducingState(descriptor)))
  }

  getAggregatingState<IN, ACC, OUT>(
    descriptor: AggregatingStateDescriptor<IN, ACC, OUT>,
  ): AggregatingState<IN, OUT> {
    return this.handle(descriptor, () => this.folding(this.state.getAggregatingState(descriptor)))
  }

  /** The state that a descriptor of any kind names. */
  get(descriptor: StateDescriptor): State {
    switch (descriptor.kind) {
      case 'value':
        return this.getState(descriptor as ValueStateDescriptor<unknown>)
      case 'list':
        return this.getListState(descriptor as ListStateDescriptor<unknown>)
      case 'map':
        return this.getMapState(descriptor as MapStateDescriptor<unknown, unknown>)
      case 'reducing':
        return this.getReducingState(descriptor as ReducingStateDescriptor<unknown>)
      case 'aggregating':
        return this.getAggregatingState(descriptor as AggregatingStateDescriptor<unknown, unknown, unknown>)
      case 'async-map':
        throw noAsyncMap(descriptor)
    }
  }

  /** Combines state of other windows into that of `namespace`. */
  merge(descriptor: StateDescriptor, sources: readonly Namespace[]): void {
    this.get(descriptor)
    this.state.mergeNamespaces(descriptor, this.namespace, sources)
  }

  private folding<IN, OUT>(inner: AggregatingState<IN, OUT>): AggregatingState<IN, OUT> {
    return {
      get: () => this.within(() => inner.get()),
      add: (value: IN) => this.within(() => inner.add(value)),
      clear: () => this.within(() => inner.clear()),
    }
  }

  private handle<S extends State>(descriptor: StateDescriptor, make: () => S): S {
    const known = this.known.get(descriptor.name)
    if (known?.descriptor === descriptor) return known.handle as S
    const handle = make()
    this.known.set(descriptor.name, { descriptor, handle })
    return handle
  }

  private within<R>(access: () => R): R {
    this.state.setCurrentNamespace(this.namespace)
    try {
      return access()
    } finally {
      this.state.setCurrentNamespace('')
    }
  }
}
