/**
 * Keyed state on the heap (`state.backend: jobmanager` and `filesystem`). Values are kept as the objects that the user code gave, nothing
 * is serialized before a checkpoint; freezing costs nothing by itself (see heap-freeze.ts).
 *
 * Limits: all state is in memory, and a key is written whole when it is first touched after a freeze — a key with a map of a hundred
 * thousand entries takes its time then.
 */
import { keyGroupOf, rangeContains } from '../core/graph/key-groups.ts'
import type { Clock } from '../core/ports.ts'
import type {
  AggregatingState,
  AggregatingStateDescriptor,
  FrozenKeyedState,
  Key,
  KeyedStateBackend,
  KeyGroupImage,
  KeyGroupRange,
  ListState,
  ListStateDescriptor,
  MapState,
  MapStateDescriptor,
  Namespace,
  ReducingState,
  ReducingStateDescriptor,
  StateDescriptor,
  ValueState,
  ValueStateDescriptor,
} from '../core/state.ts'
import { HeapTimerQueues, type TimerOwner } from '../core/time/timer-queues.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import { FrozenHeapState } from './heap-freeze.ts'
import { HeapRegistry, type HeapState, type RestoredState } from './heap-registry.ts'
import {
  HeapAggregatingState,
  HeapListState,
  HeapMapState,
  HeapReducingState,
  HeapValueState,
  type ValueCheck,
} from './heap-states.ts'
import { HeapTables, type KeyRecord } from './heap-tables.ts'
import { HeapTtlListState, HeapTtlMapState, HeapTtlValueState } from './heap-ttl-states.ts'
import { type ImageVisitor, KeyGroupImageReader } from './key-group-image.ts'
import { dropExpired, withoutExpired } from './state-slot.ts'

/** What a heap backend is made for. */
export interface HeapBackendOptions {
  readonly range: KeyGroupRange
  readonly maxParallelism: number
  /** For messages. */
  readonly operatorName: string
  /** For times to live. */
  readonly clock: Clock
  /** Values that a snapshot writes between two pauses. */
  readonly entriesPerSlice?: number
}

/** A slice of this many small values takes a millisecond or two. */
const ENTRIES_PER_SLICE = 2_000

/** Keyed state of one operator subtask on the heap. */
export class HeapKeyedStateBackend implements KeyedStateBackend {
  readonly #options: HeapBackendOptions
  readonly #tables: HeapTables
  readonly #registry: HeapRegistry
  readonly #timers: HeapTimerQueues
  /** Freezes that still lack records. */
  readonly #freezes: FrozenHeapState[] = []
  /** States handed out, so that asking for one in each call costs a lookup. */
  readonly #handles = new Map<string, { readonly descriptor: StateDescriptor; readonly handle: unknown }>()
  #hasTtl = false

  constructor(options: HeapBackendOptions) {
    this.#options = options
    this.#tables = new HeapTables(options.operatorName, (record) => this.captureBeforeTouch(record))
    this.#registry = new HeapRegistry(options.operatorName)
    const tables = this.#tables
    this.#timers = new HeapTimerQueues({
      currentForWrite: () => tables.findOrMake(),
      current: () => tables.find(),
      beforeChange: (owner) => tables.touch(owner as KeyRecord),
      released: (owner: TimerOwner) => tables.dropIfEmpty(owner as KeyRecord),
    })
  }

  get entries(): number {
    return this.#tables.entries
  }

  /** All state is at hand; this only warms the processor's cache. */
  prefetch(keys: readonly Key[]): undefined {
    this.#tables.lookAhead(keys)
    return undefined
  }

  setCurrentKey(key: Key): void {
    this.#tables.setKey(key)
  }

  getCurrentKey(): Key {
    const { key } = this.#tables
    if (key === undefined)
      throw new MillraceError(
        'MILLRACE_STATE_ACCESS',
        `Operator '${this.#options.operatorName}' has no current key`,
      )
    return key
  }

  setCurrentNamespace(namespace: Namespace): void {
    this.#tables.setNamespace(namespace)
  }

  getState<T>(descriptor: ValueStateDescriptor<T>): ValueState<T> {
    return this.#handle(descriptor, () => this.#valueState<T>(descriptor))
  }

  getReducingState<T>(descriptor: ReducingStateDescriptor<T>): ReducingState<T> {
    return this.#handle(
      descriptor,
      () => new HeapReducingState(this.#valueState<T>(descriptor), descriptor.reduce),
    )
  }

  getAggregatingState<IN, ACC, OUT>(
    descriptor: AggregatingStateDescriptor<IN, ACC, OUT>,
  ): AggregatingState<IN, OUT> {
    return this.#handle(
      descriptor,
      () => new HeapAggregatingState(this.#valueState<ACC>(descriptor), descriptor.aggregate),
    )
  }

  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T> {
    return this.#handle(descriptor, () => {
      const { number, check } = this.#declared(descriptor)
      if (descriptor.ttl === undefined) return new HeapListState<T>(this.#tables, number, check)
      const cells = new HeapListState<any>(this.#tables, number, undefined)
      return new HeapTtlListState<T>(cells, descriptor.ttl, this.#options.clock, check)
    })
  }

  getMapState<K, V>(descriptor: MapStateDescriptor<K, V>): MapState<K, V> {
    return this.#handle(descriptor, () => {
      const { number, check } = this.#declared(descriptor)
      if (descriptor.ttl === undefined) return new HeapMapState<K, V>(this.#tables, number, check)
      const cells = new HeapMapState<K, any>(this.#tables, number, undefined)
      return new HeapTtlMapState<K, V>(cells, descriptor.ttl, this.#options.clock, check)
    })
  }

  mergeNamespaces(descriptor: StateDescriptor, target: Namespace, sources: readonly Namespace[]): void {
    const before = this.#tables.namespace
    try {
      if (descriptor.kind === 'list') this.#mergeLists(descriptor, target, sources)
      else this.#mergeValues(descriptor, target, sources)
    } finally {
      this.#tables.setNamespace(before)
    }
  }

  keys(stateName: string): Iterable<Key> {
    const state = this.#registry.get(stateName)
    if (state === undefined) return []
    const now = this.#options.clock.now()
    const keys: Key[] = []
    for (const record of this.#tables.records()) {
      let holds = false
      record.forEachSpace((_namespace, slots) => {
        const slot = slots.get(state.number)
        holds ||= slot !== undefined && withoutExpired(slot, state, now) !== undefined
      })
      if (holds) keys.push(record.key)
    }
    return keys
  }

  timers(): HeapTimerQueues {
    return this.#timers
  }

  freeze(checkpointId: number): FrozenKeyedState {
    const { range, maxParallelism, operatorName, clock, entriesPerSlice } = this.#options
    const tables = this.#tables
    tables.version++
    tables.forgetCurrent()
    const frozen = new FrozenHeapState(
      checkpointId,
      tables.version,
      {
        range,
        maxParallelism,
        operatorName,
        entriesPerSlice: entriesPerSlice ?? ENTRIES_PER_SLICE,
        records: () => tables.records(),
        capture: (record) => this.#capture(record),
        clean: (record) => this.#clean(record),
        ended: (ended) => {
          this.#freezes.splice(this.#freezes.indexOf(ended), 1)
        },
      },
      this.#registry.formats(),
      clock.now(),
    )
    this.#freezes.push(frozen)
    return frozen
  }

  restore(images: readonly KeyGroupImage[]): void {
    const { range, operatorName, clock } = this.#options
    const now = clock.now()
    for (const image of images) {
      if (!rangeContains(range, image.keyGroup))
        throw new MillraceError(
          'MILLRACE_INTERNAL',
          `Operator '${operatorName}' was given key group ${image.keyGroup}, its range is ${range.start}–${range.end}`,
        )
      const reader = new KeyGroupImageReader(image, operatorName)
      reader.read(
        this.#restorer(
          image.keyGroup,
          reader.states.map((state) => this.#registry.restored(state, now)),
        ),
      )
    }
    this.#tables.forgetCurrent()
  }

  close(): void {
    for (const frozen of [...this.#freezes]) frozen.release()
    this.#tables.clear()
  }

  /**
   * Called when a record is about to be handed out for the first time since the newest freeze. Must write it for every freeze that lacks
   * it; overridden only by tests that show that they notice its absence.
   */
  protected captureBeforeTouch(record: KeyRecord): void {
    this.#capture(record)
  }

  #capture(record: KeyRecord): number {
    let weight = 0
    for (const frozen of this.#freezes) if (frozen.version > record.version) weight += frozen.capture(record)
    record.version = this.#tables.version
    return weight
  }

  /** Takes what has expired out of a record. */
  #clean(record: KeyRecord): void {
    if (!this.#hasTtl) return
    const now = this.#options.clock.now()
    const empty: [Namespace, number][] = []
    this.#tables.touch(record)
    record.forEachSpace((namespace, slots) => {
      for (let number = 0; number < slots.count; number++) {
        const slot = slots.get(number)
        if (slot !== undefined && dropExpired(slot, this.#registry.at(number), now))
          empty.push([namespace, number])
      }
    })
    for (const [namespace, number] of empty) this.#tables.removeSlot(record, namespace, number)
  }

  /** Puts the records of one key group's image into the tables. */
  #restorer(keyGroup: number, states: readonly RestoredState[]): ImageVisitor {
    const { maxParallelism, operatorName } = this.#options
    const tables = this.#tables
    let record: KeyRecord
    return {
      beginRecord: (key) => {
        if (keyGroupOf(key, maxParallelism, operatorName) !== keyGroup)
          throw new StateLostError(
            'MILLRACE_STATE_LOST',
            `The stored state of operator '${operatorName}', key group ${keyGroup} holds a key of another group: it was not written with max parallelism ${maxParallelism}`,
          )
        record = tables.recordOf(key)
        record.keyGroup = keyGroup
      },
      slot: (index, namespace, slot) => {
        const { state, change } = states[index]!
        const slots = record.spaceForWrite(namespace)
        if (slots.get(state.number) === undefined) tables.entries++
        slots.set(state.number, change === undefined ? slot : change(slot))
      },
      timer: (domain, namespace, time, sequence) =>
        this.#timers.restore(domain, record, namespace, time, sequence),
      endRecord: () => tables.dropIfEmpty(record),
    }
  }

  #handle<S>(descriptor: StateDescriptor, make: () => S): S {
    const known = this.#handles.get(descriptor.name)
    if (known?.descriptor === descriptor) return known.handle as S
    const handle = make()
    this.#handles.set(descriptor.name, { descriptor, handle })
    return handle
  }

  /** The number of the declared state, and the check of its values (none with a serde). */
  #declared(descriptor: StateDescriptor): {
    readonly number: number
    readonly check: ValueCheck | undefined
  } {
    const state = this.#registry.declare(
      descriptor,
      (restored, change) => this.#convert(restored, change),
      this.#options.clock.now(),
    )
    this.#hasTtl = this.#registry.hasTtl
    return { number: state.number, check: descriptor.serde === undefined ? state.check : undefined }
  }

  /** Changes the form of all slots of a state that was restored before it was declared. */
  #convert(state: HeapState, change: (slot: unknown) => unknown): void {
    for (const record of this.#tables.records()) {
      this.#tables.touch(record)
      record.forEachSpace((_namespace, slots) => {
        const slot = slots.get(state.number)
        if (slot !== undefined) slots.set(state.number, change(slot))
      })
    }
  }

  #valueState<T>(descriptor: StateDescriptor): ValueState<T> {
    const { number, check } = this.#declared(descriptor)
    if (descriptor.ttl === undefined) return new HeapValueState<T>(this.#tables, number, check)
    const cells = new HeapValueState<any>(this.#tables, number, undefined)
    return new HeapTtlValueState<T>(cells, descriptor.ttl, this.#options.clock, check)
  }

  #mergeLists(descriptor: StateDescriptor, target: Namespace, sources: readonly Namespace[]): void {
    // Without checks and times to live: elements move as they are, cells and all.
    const list = new HeapListState<unknown>(this.#tables, this.#declared(descriptor).number, undefined)
    for (const source of sources) {
      if (source === target) continue
      this.#tables.setNamespace(source)
      const moved = list.get()
      list.clear()
      this.#tables.setNamespace(target)
      list.addAll(moved)
    }
  }

  #mergeValues(descriptor: StateDescriptor, target: Namespace, sources: readonly Namespace[]): void {
    const combine = combinerOf(descriptor)
    if (combine === undefined)
      throw new MillraceError(
        'MILLRACE_STATE_ACCESS',
        `Operator '${this.#options.operatorName}': ${descriptor.kind} state '${descriptor.name}' of windows that merge cannot be combined`,
        {
          remedy: 'Use list, reducing or aggregating state (an aggregate needs merge) in windows that merge.',
        },
      )
    const value = this.#valueState<unknown>(descriptor)
    this.#tables.setNamespace(target)
    let merged = value.value()
    for (const source of sources) {
      if (source === target) continue
      this.#tables.setNamespace(source)
      const moved = value.value()
      if (moved === null) continue
      value.clear()
      merged = merged === null ? moved : combine(merged, moved)
    }
    this.#tables.setNamespace(target)
    value.update(merged)
  }
}

/** How two values of a state become one; undefined if they cannot. */
function combinerOf(descriptor: StateDescriptor): ((a: any, b: any) => unknown) | undefined {
  if (descriptor.kind === 'reducing') return (descriptor as ReducingStateDescriptor<unknown>).reduce
  if (descriptor.kind !== 'aggregating') return undefined
  const { aggregate } = descriptor as AggregatingStateDescriptor<unknown, unknown, unknown>
  return aggregate.merge === undefined ? undefined : (a, b) => aggregate.merge?.(a, b)
}
