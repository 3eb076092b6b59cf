/**
 * States of the heap backend as user code sees them, without a time to live. They hold nothing themselves: all is in the slots of the
 * current key and namespace.
 */
import type {
  AggregateFunction,
  AggregatingState,
  ListState,
  MapState,
  ReduceFunction,
  ReducingState,
  ValueState,
} from '../core/state.ts'
import { StateValueError } from '../errors.ts'
import type { HeapTables } from './heap-tables.ts'
import { isStorable, refusalOf } from './refused-value.ts'
import { ListSlot, STORED_UNDEFINED } from './state-slot.ts'
import { MAX_DEPTH } from './structured-value.ts'

/** Values of a state that are looked through whole; later ones only at their top. A job that stores class instances does so at once. */
const DEEP_CHECKS = 64

/** Refuses what cannot be stored, where it is stored. */
export class ValueCheck {
  readonly #name: string
  #deepChecks = DEEP_CHECKS

  constructor(name: string) {
    this.#name = name
  }

  /** @throws StateValueError naming the state and the place inside the value */
  check(value: unknown): void {
    if (typeof value !== 'object' && typeof value !== 'function' && typeof value !== 'symbol') return
    if (this.#deepChecks === 0 && isStorable(value)) return
    if (this.#deepChecks > 0) this.#deepChecks--
    const refusal = refusalOf(value, this.#name, MAX_DEPTH)
    if (refusal !== undefined) throw refusal
  }
}

/** Access to one state's slot. `check` is undefined if a serde takes any value. */
abstract class SlotState {
  protected readonly tables: HeapTables<any>
  protected readonly state: number
  protected readonly valueCheck: ValueCheck | undefined

  constructor(tables: HeapTables<any>, state: number, check: ValueCheck | undefined) {
    this.tables = tables
    this.state = state
    this.valueCheck = check
  }

  protected slot(): unknown {
    return (this.tables.slots ?? this.tables.load()).get(this.state)
  }

  protected setSlot(slot: unknown): void {
    const slots = this.tables.loadForWrite()
    if (slots.get(this.state) === undefined) this.tables.entries++
    slots.set(this.state, slot)
  }

  clear(): void {
    if (this.slot() === undefined) return
    this.tables.removeSlot(this.tables.find(), this.tables.namespace, this.state)
  }
}

/** One value a key. `update(null)` clears, as in Flink. */
export class HeapValueState<T> extends SlotState implements ValueState<T> {
  value(): T | null {
    const slot = (this.tables.slots ?? this.tables.load()).get(this.state)
    if (slot === undefined) return null
    return slot === STORED_UNDEFINED ? (undefined as T) : (slot as T)
  }

  update(value: T): void {
    if (value === null) {
      this.clear()
      return
    }
    this.valueCheck?.check(value)
    this.setSlot(value === undefined ? STORED_UNDEFINED : value)
  }
}

/** A list a key. What `get` returned stays as it is when elements are added later. */
export class HeapListState<T> extends SlotState implements ListState<T> {
  get(): readonly T[] {
    const slot = this.slot() as ListSlot | undefined
    if (slot === undefined) return []
    slot.lent = true
    return slot.items as T[]
  }

  add(value: T): void {
    this.valueCheck?.check(value)
    this.#itemsForWrite().push(value)
  }

  addAll(values: Iterable<T>): void {
    const added = [...values]
    if (added.length === 0) return
    for (const value of added) this.valueCheck?.check(value)
    const items = this.#itemsForWrite()
    for (const value of added) items.push(value)
  }

  update(values: Iterable<T>): void {
    const items = [...values]
    for (const value of items) this.valueCheck?.check(value)
    if (items.length === 0) this.clear()
    else this.setSlot(new ListSlot(items))
  }

  #itemsForWrite(): unknown[] {
    let slot = this.slot() as ListSlot | undefined
    if (slot === undefined) {
      slot = new ListSlot([])
      this.setSlot(slot)
    } else {
      this.tables.noteChange()
      if (slot.lent) {
        slot.items = [...slot.items]
        slot.lent = false
      }
    }
    return slot.items
  }
}

/** A map a key. */
export class HeapMapState<K, V> extends SlotState implements MapState<K, V> {
  get(key: K): V | undefined {
    return this.#map()?.get(key)
  }

  put(key: K, value: V): void {
    const type = typeof key
    if (type !== 'string' && type !== 'number' && type !== 'bigint' && type !== 'boolean')
      throw new StateValueError(
        'MILLRACE_INVALID_STATE_VALUE',
        `A map state's key is ${key === null ? 'null' : `of type ${type}`}`,
        {
          remedy: 'Use strings, numbers, bigints or booleans as keys of map state.',
        },
      )
    this.valueCheck?.check(value)
    let map = this.#map()
    if (map === undefined) {
      map = new Map()
      this.setSlot(map)
    } else this.tables.noteChange()
    map.set(key, value)
  }

  putAll(entries: Iterable<readonly [K, V]>): void {
    for (const [key, value] of entries) this.put(key, value)
  }

  remove(key: K): void {
    const map = this.#map()
    if (map === undefined) return
    this.tables.noteChange()
    if (map.delete(key) && map.size === 0) this.clear()
  }

  contains(key: K): boolean {
    return this.#map()?.has(key) ?? false
  }

  entries(): IterableIterator<[K, V]> {
    return (this.#map() ?? new Map<K, V>()).entries()
  }

  keys(): IterableIterator<K> {
    return (this.#map() ?? new Map<K, V>()).keys()
  }

  values(): IterableIterator<V> {
    return (this.#map() ?? new Map<K, V>()).values()
  }

  isEmpty(): boolean {
    return this.#map() === undefined
  }

  #map(): Map<K, V> | undefined {
    return this.slot() as Map<K, V> | undefined
  }
}

/** One value a key, combined by a function; on top of a value state with or without a time to live. */
export class HeapReducingState<T> implements ReducingState<T> {
  readonly #value: ValueState<T>
  readonly #reduce: ReduceFunction<T>

  constructor(value: ValueState<T>, reduce: ReduceFunction<T>) {
    this.#value = value
    this.#reduce = reduce
  }

  get(): T | null {
    return this.#value.value()
  }

  add(value: T): void {
    const current = this.#value.value()
    const reduce = this.#reduce
    this.#value.update(current === null ? value : reduce(current, value))
  }

  clear(): void {
    this.#value.clear()
  }
}

/** One accumulator a key; on top of a value state with or without a time to live. */
export class HeapAggregatingState<IN, ACC, OUT> implements AggregatingState<IN, OUT> {
  readonly #accumulator: ValueState<ACC>
  readonly #aggregate: AggregateFunction<IN, ACC, OUT>

  constructor(accumulator: ValueState<ACC>, aggregate: AggregateFunction<IN, ACC, OUT>) {
    this.#accumulator = accumulator
    this.#aggregate = aggregate
  }

  get(): OUT | null {
    const accumulator = this.#accumulator.value()
    return accumulator === null ? null : this.#aggregate.getResult(accumulator)
  }

  add(value: IN): void {
    const accumulator = this.#accumulator.value() ?? this.#aggregate.createAccumulator()
    this.#accumulator.update(this.#aggregate.add(value, accumulator))
  }

  clear(): void {
    this.#accumulator.clear()
  }
}
