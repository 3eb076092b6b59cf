/**
 * Entries of async maps: each is a record of its own in the tables, and in the store, that holds one value (see map-part.ts for its name).
 * All calls are synchronous and want the record here, except `put` and `remove`, which need not know what was there.
 */
import type { Key } from '../core/state.ts'
import type { HeapState } from './heap-registry.ts'
import type { HeapTables } from './heap-tables.ts'
import type { KeyRecord } from './key-record.ts'
import { entryName, type MapKey, type RecordName } from './map-part.ts'
import { isExpired, STORED_UNDEFINED, TtlCell } from './state-slot.ts'

/** What an async map needs of its backend. */
export interface PartStore {
  readonly tables: HeapTables<any>
  readonly operatorName: string
  now(): number
  /** True if what the record holds is in the tables, or is known to be nothing. */
  isHere(name: RecordName): boolean
  /** Loads the records that are not here, in one round trip; they stay until the next vector. Undefined: all are here. */
  load(names: readonly RecordName[]): Promise<void> | undefined
  /** The record gets new contents: what it held in the store need not be loaded. */
  overwrite(record: KeyRecord): void
  /** The records were looked at in passing: they need not stay until the next vector. */
  release(names: readonly RecordName[]): void
}

/** Loads records until all of them are here. What another call loads, or lets go, meanwhile makes no difference. */
export async function bring(store: PartStore, names: readonly RecordName[]): Promise<void> {
  for (let wait = store.load(names); wait !== undefined; wait = store.load(names)) await wait
}

/** Says that there is no entry, where undefined is a value. */
export const ABSENT: unique symbol = Symbol('absent')

/** The entries of one state. */
export class MapEntries {
  readonly #store: PartStore
  readonly #state: HeapState

  constructor(store: PartStore, state: HeapState) {
    this.#store = store
    this.#state = state
  }

  nameOf(owner: Key, key: MapKey): RecordName {
    return entryName(owner, this.#state.name, key, this.#store.operatorName)
  }

  /** The value as user code sees it; an entry that has expired is removed. */
  read(name: RecordName): unknown {
    const slot = this.#slot(name)
    if (slot === undefined) return ABSENT
    const { ttl } = this.#state
    let value: unknown = slot
    if (ttl !== undefined) {
      const cell = slot as TtlCell
      const now = this.#store.now()
      value = cell.value
      if (isExpired(cell, ttl, now)) {
        this.remove(name)
        if (ttl.visibility === 'NeverReturnExpired') return ABSENT
      } else if (ttl.updateType === 'OnReadAndWrite') {
        this.#store.tables.touchForChange(this.#store.tables.held(name)!)
        cell.lastAccess = now
      }
    }
    return value === STORED_UNDEFINED ? undefined : value
  }

  /** Stores a value. True if the entry may be new. */
  put(name: RecordName, value: unknown): boolean {
    const { tables } = this.#store
    const existed = this.#store.isHere(name) && this.#slot(name) !== undefined
    const record = this.#forChange(name)
    if (!existed && record.get(this.#state.number) === undefined) tables.entries++
    const stored = value === undefined ? STORED_UNDEFINED : value
    record.set(
      this.#state.number,
      this.#state.ttl === undefined ? stored : new TtlCell(value, this.#store.now()),
    )
    return !existed
  }

  /** Removes an entry. False if it is known that there was none. */
  remove(name: RecordName): boolean {
    const { tables } = this.#store
    if (!this.#store.isHere(name)) {
      this.#forChange(name)
      return true
    }
    if (this.#slot(name) === undefined) return false
    tables.removeSlot(tables.held(name), '', this.#state.number)
    return true
  }

  /** True if the entry is here and holds nothing, or what it holds has expired. */
  isGone(name: RecordName): boolean {
    const slot = this.#slot(name)
    return (
      slot === undefined ||
      (this.#state.timed && isExpired(slot as TtlCell, this.#state.ttl, this.#store.now()))
    )
  }

  #slot(name: RecordName): unknown {
    const { tables } = this.#store
    const record = tables.held(name)
    if (record === undefined) return undefined
    tables.touch(record)
    return record.get(this.#state.number)
  }

  #forChange(name: RecordName): KeyRecord {
    const { tables } = this.#store
    const record = tables.made(name)
    this.#store.overwrite(record)
    tables.touchForChange(record)
    return record
  }
}
