/**
 * States with a time to live: the plain ones hold TtlCells, these look at the clock. As in Flink, life is counted for each value, list
 * element and map entry; what has expired is removed when it is met, and at snapshots.
 */
import type { Clock } from '../core/ports.ts'
import type { ListState, MapState, StateTtlOptions, ValueState } from '../core/state.ts'
import type { ValueCheck } from './heap-states.ts'
import { isExpired, TtlCell } from './state-slot.ts'

/** The rules that the three states share. `beforeChange` is called before the current record changes because it was read. */
class TtlRules {
  readonly #options: StateTtlOptions
  readonly #clock: Clock
  readonly #beforeChange: () => void

  constructor(options: StateTtlOptions, clock: Clock, beforeChange: () => void) {
    this.#options = options
    this.#clock = clock
    this.#beforeChange = beforeChange
  }

  fresh<T>(value: T): TtlCell {
    return new TtlCell(value, this.#clock.now())
  }

  isExpired(cell: TtlCell): boolean {
    return isExpired(cell, this.#options, this.#clock.now())
  }

  /** True if the expired value of a cell may be shown once more before it goes. */
  get showsExpired(): boolean {
    return this.#options.visibility === 'ReturnExpiredIfNotCleanedUp'
  }

  /** A cell that lives was read. */
  wasRead(cell: TtlCell): void {
    if (this.#options.updateType !== 'OnReadAndWrite') return
    this.#beforeChange()
    cell.lastAccess = this.#clock.now()
  }
}

/** A value that expires. */
export class HeapTtlValueState<T> implements ValueState<T> {
  readonly #inner: ValueState<TtlCell>
  readonly #rules: TtlRules
  readonly #check: ValueCheck | undefined

  constructor(
    inner: ValueState<TtlCell>,
    options: StateTtlOptions,
    clock: Clock,
    check: ValueCheck | undefined,
    beforeChange: () => void,
  ) {
    this.#inner = inner
    this.#rules = new TtlRules(options, clock, beforeChange)
    this.#check = check
  }

  value(): T | null {
    const cell = this.#inner.value()
    if (cell === null) return null
    if (this.#rules.isExpired(cell)) {
      this.#inner.clear()
      return this.#rules.showsExpired ? (cell.value as T) : null
    }
    this.#rules.wasRead(cell)
    return cell.value as T
  }

  update(value: T): void {
    if (value === null) {
      this.#inner.clear()
      return
    }
    this.#check?.check(value)
    this.#inner.update(this.#rules.fresh(value))
  }

  clear(): void {
    this.#inner.clear()
  }
}

/** A list whose elements expire one by one. */
export class HeapTtlListState<T> implements ListState<T> {
  readonly #inner: ListState<TtlCell>
  readonly #rules: TtlRules
  readonly #check: ValueCheck | undefined

  constructor(
    inner: ListState<TtlCell>,
    options: StateTtlOptions,
    clock: Clock,
    check: ValueCheck | undefined,
    beforeChange: () => void,
  ) {
    this.#inner = inner
    this.#rules = new TtlRules(options, clock, beforeChange)
    this.#check = check
  }

  get(): readonly T[] {
    const cells = this.#inner.get()
    const alive = cells.filter((cell) => !this.#rules.isExpired(cell))
    if (alive.length < cells.length) this.#inner.update(alive)
    for (const cell of alive) this.#rules.wasRead(cell)
    return (this.#rules.showsExpired ? cells : alive).map((cell) => cell.value as T)
  }

  add(value: T): void {
    this.#check?.check(value)
    this.#inner.add(this.#rules.fresh(value))
  }

  addAll(values: Iterable<T>): void {
    this.#inner.addAll(this.#cells(values))
  }

  update(values: Iterable<T>): void {
    this.#inner.update(this.#cells(values))
  }

  clear(): void {
    this.#inner.clear()
  }

  #cells(values: Iterable<T>): TtlCell[] {
    const items = [...values]
    for (const value of items) this.#check?.check(value)
    return items.map((value) => this.#rules.fresh(value))
  }
}

/** A map whose entries expire one by one. */
export class HeapTtlMapState<K, V> implements MapState<K, V> {
  readonly #inner: MapState<K, TtlCell>
  readonly #rules: TtlRules
  readonly #check: ValueCheck | undefined

  constructor(
    inner: MapState<K, TtlCell>,
    options: StateTtlOptions,
    clock: Clock,
    check: ValueCheck | undefined,
    beforeChange: () => void,
  ) {
    this.#inner = inner
    this.#rules = new TtlRules(options, clock, beforeChange)
    this.#check = check
  }

  get(key: K): V | undefined {
    const cell = this.#inner.get(key)
    return cell !== undefined && this.#mayShow(key, cell) ? (cell.value as V) : undefined
  }

  put(key: K, value: V): void {
    this.#check?.check(value)
    this.#inner.put(key, this.#rules.fresh(value))
  }

  putAll(entries: Iterable<readonly [K, V]>): void {
    for (const [key, value] of entries) this.put(key, value)
  }

  remove(key: K): void {
    this.#inner.remove(key)
  }

  contains(key: K): boolean {
    const cell = this.#inner.get(key)
    return cell !== undefined && this.#mayShow(key, cell)
  }

  *entries(): IterableIterator<[K, V]> {
    for (const [key, cell] of this.#inner.entries())
      if (this.#mayShow(key, cell)) yield [key, cell.value as V]
  }

  *keys(): IterableIterator<K> {
    for (const [key] of this.entries()) yield key
  }

  *values(): IterableIterator<V> {
    for (const [, value] of this.entries()) yield value
  }

  isEmpty(): boolean {
    for (const _ of this.entries()) return false
    return true
  }

  clear(): void {
    this.#inner.clear()
  }

  /** Removes the entry if it has expired, and says whether its value may be shown. */
  #mayShow(key: K, cell: TtlCell): boolean {
    if (!this.#rules.isExpired(cell)) {
      this.#rules.wasRead(cell)
      return true
    }
    this.#inner.remove(key)
    return this.#rules.showsExpired
  }
}
