/**
 * What keyed state backends over tables of records share: states handed to user code, namespaces, timers, what has expired, images read.
 * All of it is synchronous and works on what is in the tables; where the rest is, and how it is stored, is the business of the classes below:
 * heap-backend.ts (everything is in the tables) and cached-backend.ts (a part of it).
 */
import { keyGroupOf, rangeContains } from '../core/graph/key-groups.ts'
import type { Clock } from '../core/ports.ts'
import type {
  AggregatingState,
  AggregatingStateDescriptor,
  AsyncMapState,
  AsyncMapStateDescriptor,
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
import { MapEntries, type PartStore } from './async-map-entries.ts'
import { AsyncMapIndex } from './async-map-index.ts'
import { TableAsyncMapState } from './async-map-state.ts'
import { HeapRegistry, type HeapState, type RestoredState } from './heap-registry.ts'
import {
  HeapAggregatingState,
  HeapListState,
  HeapMapState,
  HeapReducingState,
  HeapValueState,
  type ValueCheck,
} from './heap-states.ts'
import { HeapTables, type TableHooks } from './heap-tables.ts'
import { HeapTtlListState, HeapTtlMapState, HeapTtlValueState } from './heap-ttl-states.ts'
import { type ImageVisitor, KeyGroupImageReader } from './key-group-image.ts'
import type { KeyRecord } from './key-record.ts'
import type { RecordName } from './map-part.ts'
import { dropExpired, withoutExpired } from './state-slot.ts'

/** What every backend over tables is made for. */
export interface TableBackendOptions {
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
export const ENTRIES_PER_SLICE = 2_000

/** Keyed state of one operator subtask in tables. */
export abstract class TableBackend<R extends KeyRecord, O extends TableBackendOptions>
  implements KeyedStateBackend
{
  protected readonly options: O
  protected readonly tables: HeapTables<R>
  protected readonly registry: HeapRegistry
  protected readonly queues: HeapTimerQueues
  /** True once a declared state expires. */
  protected hasTtl = false
  /** States handed out, so that asking for one in each call costs a lookup. */
  readonly #handles = new Map<string, { readonly descriptor: StateDescriptor; readonly handle: unknown }>()
  readonly #noteChange: () => void
  /** Async map states by number; undefined: there are none. */
  #asyncMaps: Map<number, { readonly entries: MapEntries; readonly index: AsyncMapIndex }> | undefined

  constructor(options: O, hooks: (backend: TableBackend<R, O>) => TableHooks<R>) {
    this.options = options
    this.tables = new HeapTables<R>(options.operatorName, hooks(this))
    this.registry = new HeapRegistry(options.operatorName)
    const { tables } = this
    this.#noteChange = () => tables.noteChange()
    this.queues = new HeapTimerQueues({
      currentForWrite: () => {
        const record = tables.findOrMake()
        tables.noteChange()
        return record
      },
      current: () => {
        const record = tables.find()
        tables.noteChange()
        return record
      },
      beforeChange: (owner) => this.beforeTimersChange(owner as R),
      released: (owner: TimerOwner) => tables.dropIfEmpty(owner as R),
    })
  }

  abstract prefetch(keys: readonly Key[]): Promise<void> | undefined
  abstract freeze(checkpointId: number): FrozenKeyedState
  abstract restore(images: readonly KeyGroupImage[]): void
  abstract close(): void | Promise<void>

  settle(): Promise<void> | undefined {
    if (this.#asyncMaps === undefined) return undefined
    const waits: Promise<void>[] = []
    for (const { index } of this.#asyncMaps.values()) {
      const wait = index.settle()
      if (wait !== undefined) waits.push(wait)
    }
    return waits.length === 0 ? undefined : Promise.all(waits).then(() => undefined)
  }

  get entries(): number {
    return this.tables.entries
  }

  setCurrentKey(key: Key): void {
    this.tables.setKey(key)
  }

  getCurrentKey(): Key {
    const { key } = this.tables
    if (key === undefined)
      throw new MillraceError(
        'MILLRACE_STATE_ACCESS',
        `Operator '${this.options.operatorName}' has no current key`,
      )
    return key
  }

  setCurrentNamespace(namespace: Namespace): void {
    this.tables.setNamespace(namespace)
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
      if (descriptor.ttl === undefined) return new HeapListState<T>(this.tables, number, check)
      const cells = new HeapListState<any>(this.tables, number, undefined)
      return new HeapTtlListState<T>(cells, descriptor.ttl, this.options.clock, check, this.#noteChange)
    })
  }

  getMapState<K, V>(descriptor: MapStateDescriptor<K, V>): MapState<K, V> {
    return this.#handle(descriptor, () => {
      const { number, check } = this.#declared(descriptor)
      if (descriptor.ttl === undefined) return new HeapMapState<K, V>(this.tables, number, check)
      const cells = new HeapMapState<K, any>(this.tables, number, undefined)
      return new HeapTtlMapState<K, V>(cells, descriptor.ttl, this.options.clock, check, this.#noteChange)
    })
  }

  getAsyncMapState<K, V>(descriptor: AsyncMapStateDescriptor<K, V>): AsyncMapState<K, V> {
    return this.#handle(descriptor, () => {
      const { number, check } = this.#declared(descriptor)
      const { entries, index } = this.#asyncMap(number)
      return new TableAsyncMapState<K, V>(this.#parts, this.registry.at(number), entries, index, check)
    })
  }

  mergeNamespaces(descriptor: StateDescriptor, target: Namespace, sources: readonly Namespace[]): void {
    const before = this.tables.namespace
    try {
      if (descriptor.kind === 'list') this.#mergeLists(descriptor, target, sources)
      else this.#mergeValues(descriptor, target, sources)
    } finally {
      this.tables.setNamespace(before)
    }
  }

  clearNamespace(except: string): void {
    const { namespace } = this.tables
    const record = this.tables.find()
    const slots = record?.space(namespace)
    if (record === undefined || slots === undefined) return
    for (let number = 0; number < slots.count; number++)
      if (this.registry.at(number).name !== except) this.tables.removeSlot(record, namespace, number)
  }

  keys(stateName: string): Iterable<Key> {
    const state = this.registry.get(stateName)
    if (state === undefined) return []
    const now = this.options.clock.now()
    const keys: Key[] = []
    for (const record of this.tables.records()) {
      if (record.part !== undefined) continue
      let holds = false
      record.forEachSpace((_namespace, slots) => {
        const slot = slots.get(state.number)
        holds ||= slot !== undefined && withoutExpired(slot, state, now) !== undefined
      })
      if (holds) keys.push(record.key)
    }
    return keys
  }

  keysWith(stateName: string): Iterable<Key> | Promise<readonly Key[]> {
    return this.keys(stateName)
  }

  timers(): HeapTimerQueues {
    return this.queues
  }

  /** A due timer of a record that is not the current one is taken out. */
  protected beforeTimersChange(record: R): void {
    this.tables.touchForChange(record)
  }

  /** Puts images into the tables: a record of a later image replaces that of an earlier one. @throws StateLostError */
  protected readImages(images: readonly KeyGroupImage[]): void {
    for (const image of images) this.visitImage(image, (states) => this.#restorer(image.keyGroup, states))
    this.tables.forgetCurrent()
  }

  /** Shows an image of the own range to the visitor that is made for its states. @throws StateLostError */
  protected visitImage(
    image: KeyGroupImage,
    makeVisitor: (states: readonly RestoredState[]) => ImageVisitor,
  ): void {
    const { range, operatorName, clock } = this.options
    if (!rangeContains(range, image.keyGroup))
      throw new MillraceError(
        'MILLRACE_INTERNAL',
        `Operator '${operatorName}' was given key group ${image.keyGroup}, its range is ${range.start}–${range.end}`,
      )
    const now = clock.now()
    const reader = new KeyGroupImageReader(image, operatorName)
    reader.read(makeVisitor(reader.states.map((state) => this.registry.restored(state, now))))
  }

  /** @throws StateLostError if a stored key does not belong to the group that it was stored in */
  protected checkKeyGroup(key: Key, keyGroup: number): void {
    const { maxParallelism, operatorName } = this.options
    if (keyGroupOf(key, maxParallelism, operatorName) === keyGroup) return
    throw new StateLostError(
      'MILLRACE_STATE_LOST',
      `The stored state of operator '${operatorName}', key group ${keyGroup} holds a key of another group: it was not written with max parallelism ${maxParallelism}`,
    )
  }

  /** False for a record whose values are elsewhere. */
  protected isHere(_record: R): boolean {
    return true
  }

  /** True if what a key or a part of one holds is in the tables, or is known to be nothing. */
  protected isNameHere(_name: RecordName): boolean {
    return true
  }

  /** Loads what is not here; undefined: all is. */
  protected loadNames(_names: readonly RecordName[]): Promise<void> | undefined {
    return undefined
  }

  /** What the record holds elsewhere does not matter any more. */
  protected overwrite(_record: R): void {}

  /** The records need not stay until the next vector. */
  protected releaseNames(_names: readonly RecordName[]): void {}

  /** Indexes must be up to date at a freeze. */
  protected checkSettled(checkpointId: number): void {
    for (const { index } of this.#asyncMaps?.values() ?? [])
      if (index.isBehind)
        throw new MillraceError(
          'MILLRACE_INTERNAL',
          `Operator '${this.options.operatorName}': checkpoint ${checkpointId} came before the async maps of a vector were settled`,
        )
  }

  /** The key group of a record. */
  protected keyGroupOf(record: KeyRecord): number {
    const { maxParallelism, operatorName } = this.options
    if (record.keyGroup < 0) record.keyGroup = keyGroupOf(record.key, maxParallelism, operatorName)
    return record.keyGroup
  }

  /** Takes what has expired out of a record. */
  protected clean(record: R): void {
    if (!this.hasTtl) return
    const now = this.options.clock.now()
    const empty: [Namespace, number][] = []
    this.tables.touch(record)
    record.forEachSpace((namespace, slots) => {
      for (let number = 0; number < slots.count; number++) {
        const slot = slots.get(number)
        if (slot !== undefined && dropExpired(slot, this.registry.at(number), now))
          empty.push([namespace, number])
      }
    })
    for (const [namespace, number] of empty) this.tables.removeSlot(record, namespace, number)
  }

  /** Puts the records of one key group's image into the tables. */
  #restorer(keyGroup: number, states: readonly RestoredState[]): ImageVisitor {
    const { tables } = this
    let record: R
    return {
      beginRecord: (key, part) => {
        this.checkKeyGroup(key, keyGroup)
        record = tables.made({ key, part })
        record.keyGroup = keyGroup
        if (record.isUnused) return
        tables.empty(record)
        this.queues.drop(record)
      },
      slot: (index, namespace, slot) => this.putSlot(record, states[index]!, namespace, slot),
      timer: (domain, namespace, time, sequence) =>
        this.queues.restore(domain, record, namespace, time, sequence),
      endRecord: () => tables.dropIfEmpty(record),
    }
  }

  /** Puts a stored slot into a record. */
  protected putSlot(record: R, { state, change }: RestoredState, namespace: Namespace, slot: unknown): void {
    const slots = record.spaceForWrite(namespace)
    if (slots.get(state.number) === undefined) this.tables.entries++
    slots.set(state.number, change === undefined ? slot : change(slot))
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
    const state = this.registry.declare(
      descriptor,
      (restored, change) => this.#convert(restored, change),
      this.options.clock.now(),
    )
    this.hasTtl = this.registry.hasTtl
    return { number: state.number, check: descriptor.serde === undefined ? state.check : undefined }
  }

  /** Changes the form of all slots of a state that was restored before it was declared. */
  #convert(state: HeapState, change: (slot: unknown) => unknown): void {
    for (const record of this.tables.records()) {
      if (!this.isHere(record)) continue
      this.tables.touch(record)
      record.forEachSpace((_namespace, slots) => {
        const slot = slots.get(state.number)
        if (slot !== undefined) slots.set(state.number, change(slot))
      })
    }
  }

  #asyncMap(number: number): { readonly entries: MapEntries; readonly index: AsyncMapIndex } {
    this.#asyncMaps ??= new Map()
    let map = this.#asyncMaps.get(number)
    if (map === undefined) {
      const state = this.registry.at(number)
      const entries = new MapEntries(this.#parts, state)
      map = { entries, index: new AsyncMapIndex(this.#parts, state, entries) }
      this.#asyncMaps.set(number, map)
    }
    return map
  }

  get #parts(): PartStore {
    return {
      tables: this.tables,
      operatorName: this.options.operatorName,
      now: () => this.options.clock.now(),
      isHere: (name) => this.isNameHere(name),
      load: (names) => this.loadNames(names),
      overwrite: (record) => this.overwrite(record as R),
      release: (names) => this.releaseNames(names),
    }
  }

  #valueState<T>(descriptor: StateDescriptor): ValueState<T> {
    const { number, check } = this.#declared(descriptor)
    if (descriptor.ttl === undefined) return new HeapValueState<T>(this.tables, number, check)
    const cells = new HeapValueState<any>(this.tables, number, undefined)
    return new HeapTtlValueState<T>(cells, descriptor.ttl, this.options.clock, check, this.#noteChange)
  }

  #mergeLists(descriptor: StateDescriptor, target: Namespace, sources: readonly Namespace[]): void {
    // Without checks and times to live: elements move as they are, cells and all.
    const list = new HeapListState<unknown>(this.tables, this.#declared(descriptor).number, undefined)
    for (const source of sources) {
      if (source === target) continue
      this.tables.setNamespace(source)
      const moved = list.get()
      list.clear()
      this.tables.setNamespace(target)
      list.addAll(moved)
    }
  }

  #mergeValues(descriptor: StateDescriptor, target: Namespace, sources: readonly Namespace[]): void {
    const combine = combinerOf(descriptor)
    if (combine === undefined)
      throw new MillraceError(
        'MILLRACE_STATE_ACCESS',
        `Operator '${this.options.operatorName}': ${descriptor.kind} state '${descriptor.name}' of windows that merge cannot be combined`,
        {
          remedy: 'Use list, reducing or aggregating state (an aggregate needs merge) in windows that merge.',
        },
      )
    const value = this.#valueState<unknown>(descriptor)
    this.tables.setNamespace(target)
    let merged = value.value()
    for (const source of sources) {
      if (source === target) continue
      this.tables.setNamespace(source)
      const moved = value.value()
      if (moved === null) continue
      value.clear()
      merged = merged === null ? moved : combine(merged, moved)
    }
    this.tables.setNamespace(target)
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
