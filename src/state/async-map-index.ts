/**
 * Keeps the indexes of one async map state, of all keys, in step with its entries (map-buckets.ts says how an index is laid out).
 *
 *   put, remove ── note ──▶ owed ── flush ── bucket is here? changed, split or merged ──▶ done
 *                                     └──── not here: loaded first, all buckets in one round trip ──▲
 *
 * Putting an entry reads nothing, so whether the index has it already is found out later: at the end of the vector, or when somebody asks
 * for all entries. What must hold: an entry that exists is in its bucket, or is owed. A bucket may name entries that are gone (expired).
 */
import type { Key } from '../core/state.ts'
import type { HeapState } from './heap-registry.ts'
import type { HeapTables, KeyRecord } from './heap-tables.ts'
import { MapBucket, MapHeader, splitFrom } from './map-buckets.ts'
import { bucketName, entryName, type MapKey, type RecordName } from './map-part.ts'
import { isExpired, type TtlCell } from './state-slot.ts'

/** Buckets that are read in one round trip when all entries are asked for: about five hundred keys. */
const BUCKETS_PER_PAGE = 8

/** What an async map needs of its backend. */
export interface PartStore {
  readonly tables: HeapTables<KeyRecord>
  readonly operatorName: string
  now(): number
  /** True if what the record holds is in the tables. */
  isHere(name: RecordName): boolean
  /** Loads the records that are not here, in one round trip; they stay until the next vector. Undefined: all are here. */
  load(names: readonly RecordName[]): Promise<void> | undefined
  /** The record is about to be given new contents: what it held before need not be loaded. */
  overwrite(record: KeyRecord): void
  /** The records need not stay any longer. */
  release(names: readonly RecordName[]): void
}

/** The indexes of one state. */
export class AsyncMapIndex {
  readonly #store: PartStore
  readonly #state: HeapState
  /** By the record of the key: entries that were put (true) or removed (false), the last of each. */
  readonly #owed = new Map<KeyRecord, Map<MapKey, boolean>>()
  #flushing: Promise<void> | undefined
  /** Those who go through buckets now: until they are done no bucket is split or merged. */
  readonly #walks = new Set<symbol>()

  constructor(store: PartStore, state: HeapState) {
    this.#store = store
    this.#state = state
  }

  /** An entry of the current key was put, or removed. */
  note(key: MapKey, exists: boolean): void {
    const record = this.#store.tables.findOrMake()
    let changes = this.#owed.get(record)
    if (changes === undefined) {
      changes = new Map()
      this.#owed.set(record, changes)
    }
    changes.set(key, exists)
  }

  /** True if an index is behind its entries. */
  get isBehind(): boolean {
    return this.#owed.size > 0
  }

  /** Brings all indexes up to date, at the end of a vector. */
  settle(): Promise<void> | undefined {
    // Whoever left a loop by other ways than its end is gone by now.
    this.#walks.clear()
    return this.#flush()
  }

  /** True if the map of a key has no keys in its index. */
  async isEmpty(owner: Key): Promise<boolean> {
    await this.#flush()
    return (await this.#headerOf(owner)) === undefined
  }

  /** The keys of a map, by pages. A key whose entry is gone may be among them. */
  async *pages(owner: Key): AsyncGenerator<readonly MapKey[]> {
    await this.#flush()
    const walk = this.#beginWalk()
    try {
      for (let first = 0; ; first += BUCKETS_PER_PAGE) {
        const names = await this.#page(owner, first)
        if (names === undefined) return
        const keys = names.flatMap((name) => [...(this.#bucket(name)?.keys ?? [])])
        this.#store.release(names)
        yield keys
      }
    } finally {
      this.#walks.delete(walk)
    }
  }

  /** Empties the index of a map, and calls `remove` with each key that it held. */
  async clear(owner: Key, remove: (key: MapKey) => void): Promise<void> {
    await this.#flush()
    const walk = this.#beginWalk()
    try {
      for (let first = 0; ; first += BUCKETS_PER_PAGE) {
        const names = await this.#page(owner, first)
        if (names === undefined) return
        for (const name of names) this.#dropBucket(owner, name, remove)
      }
    } finally {
      this.#walks.delete(walk)
    }
  }

  #beginWalk(): symbol {
    const walk = Symbol('walk')
    this.#walks.add(walk)
    return walk
  }

  /** The buckets of a page, loaded; undefined when there are no more. */
  async #page(owner: Key, first: number): Promise<readonly RecordName[] | undefined> {
    const buckets = (await this.#headerOf(owner))?.buckets ?? 0
    if (first >= buckets) return undefined
    const length = Math.min(BUCKETS_PER_PAGE, buckets - first)
    const names = Array.from({ length }, (_, i) => this.#nameOf(owner, first + i))
    await bring(this.#store, names)
    return names
  }

  #dropBucket(owner: Key, name: RecordName, remove: (key: MapKey) => void): void {
    const { tables } = this.#store
    const bucket = this.#bucket(name)
    const record = tables.held({ key: owner, part: undefined })
    const header = record?.get(this.#state.number) as MapHeader | undefined
    if (bucket === undefined || record === undefined || header === undefined) return
    for (const key of bucket.keys) remove(key)
    tables.removeSlot(tables.held(name)!, '', this.#state.number)
    this.#count(record, header, -bucket.keys.size)
  }

  #flush(): Promise<void> | undefined {
    if (this.#flushing !== undefined) return this.#flushing
    if (this.#owed.size === 0) return undefined
    const missing = this.#apply()
    if (missing.length === 0) return undefined
    this.#flushing = this.#flushOn(missing).finally(() => {
      this.#flushing = undefined
    })
    return this.#flushing
  }

  async #flushOn(first: readonly RecordName[]): Promise<void> {
    for (let missing = first; missing.length > 0; missing = this.#apply()) await this.#store.load(missing)
  }

  /** Does what can be done at once, and answers what must be loaded for the rest. */
  #apply(): RecordName[] {
    const missing: RecordName[] = []
    for (const [known, changes] of this.#owed) {
      const wanted = this.#applyOf(known, changes)
      if (wanted.length === 0) this.#owed.delete(known)
      else missing.push(...wanted)
    }
    return missing
  }

  #applyOf(known: KeyRecord, changes: Map<MapKey, boolean>): readonly RecordName[] {
    const { tables } = this.#store
    const owner: RecordName = { key: known.key, part: undefined }
    if (!this.#store.isHere(owner)) return [owner]
    const record = tables.made(owner)
    tables.touch(record)
    let header = record.get(this.#state.number) as MapHeader | undefined
    const isNew = header === undefined
    const missing: RecordName[] = []
    for (const [key, exists] of changes) {
      if (header === undefined && exists) header = this.#begin(record)
      if (header !== undefined) {
        const name = this.#nameOf(record.key, header.bucketOf(key))
        // A map without a header has no buckets anywhere.
        if (!isNew && !this.#store.isHere(name)) {
          missing.push(name)
          continue
        }
        if (exists) this.#add(record, header, name, key)
        else this.#delete(record, header, name, key)
      }
      changes.delete(key)
    }
    if (missing.length > 0) return missing
    const wanted = header === undefined ? [] : this.#resize(record, header)
    tables.dropIfEmpty(record)
    return wanted
  }

  #begin(record: KeyRecord): MapHeader {
    const { tables } = this.#store
    const header = new MapHeader()
    tables.touchForChange(record)
    record.set(this.#state.number, header)
    tables.entries++
    return header
  }

  #add(record: KeyRecord, header: MapHeader, name: RecordName, key: MapKey): void {
    if (this.#bucket(name)?.keys.has(key)) return
    this.#bucketForWrite(name).keys.add(key)
    this.#count(record, header, 1)
  }

  #delete(record: KeyRecord, header: MapHeader, name: RecordName, key: MapKey): void {
    if (!this.#bucket(name)?.keys.has(key)) return
    this.#bucketForWrite(name).keys.delete(key)
    this.#dropIfEmpty(name)
    this.#count(record, header, -1)
  }

  #count(record: KeyRecord, header: MapHeader, change: number): void {
    const { tables } = this.#store
    tables.touchForChange(record)
    header.count += change
    if (header.count > 0) return
    header.buckets = 1
    header.cursor = 0
    if (this.#walks.size === 0 || change < 0) void 0
  }

  #resize(record: KeyRecord, header: MapHeader): readonly RecordName[] {
    return record === undefined || header === undefined ? [] : []
  }

  #bucket(name: RecordName): MapBucket | undefined {
    const { tables } = this.#store
    const record = tables.held(name)
    if (record === undefined) return undefined
    tables.touch(record)
    return record.get(this.#state.number) as MapBucket | undefined
  }
}
