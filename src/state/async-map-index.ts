/**
 * Keeps the indexes of one async map state, of all keys, in step with its entries (map-buckets.ts says how an index is laid out).
 *
 *   put, remove ── note ──▶ owed ── flush ── bucket is here? changed, split or merged ──▶ done
 *                                     └──── not here: loaded first, all buckets in one round trip ──▲
 *
 * Putting an entry reads nothing, so whether the index has it already is found out later: at the end of the vector, or when somebody asks
 * for all entries. What must hold: an entry that exists is in its bucket, or is owed. A bucket may name entries that are gone (expired);
 * with a time to live a bucket is looked through whenever one would be split, so an index does not grow by what has expired.
 */
import type { Key } from '../core/state.ts'
import { bring, type MapEntries, type PartStore } from './async-map-entries.ts'
import type { HeapState } from './heap-registry.ts'
import type { KeyRecord } from './key-record.ts'
import { MapBucket, MapHeader, splitFrom } from './map-buckets.ts'
import { bucketName, type MapKey, type RecordName } from './map-part.ts'

/** Buckets that are read in one round trip when all entries are asked for: about five hundred keys at the most. */
const BUCKETS_PER_PAGE = 8

/** The indexes of one state. */
export class AsyncMapIndex {
  readonly #store: PartStore
  readonly #state: HeapState
  readonly #entries: MapEntries
  /** By the record of the key: entries that were put (true) or removed (false), the last of each. */
  readonly #owed = new Map<KeyRecord, Map<MapKey, boolean>>()
  #flushing: Promise<void> | undefined
  /** Those who go through buckets now: until they are done no bucket is split or merged. */
  readonly #walks = new Set<symbol>()

  constructor(store: PartStore, state: HeapState, entries: MapEntries) {
    this.#store = store
    this.#state = state
    this.#entries = entries
  }

  /** True if an index is behind its entries. */
  get isBehind(): boolean {
    return this.#owed.size > 0
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

  /** Brings all indexes up to date, at the end of a vector. */
  settle(): Promise<void> | undefined {
    // Whoever left a loop by other ways than its end is gone by now.
    this.#walks.clear()
    return this.#flush()
  }

  /** True if the map of a key has no keys in its index. */
  async isEmpty(owner: Key): Promise<boolean> {
    await this.#flush()
    return ((await this.#headerOf(owner))?.count ?? 0) === 0
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

  /** Removes all entries of a map, and its index. */
  async clear(owner: Key): Promise<void> {
    await this.#flush()
    const walk = this.#beginWalk()
    try {
      for (let first = 0; ; first += BUCKETS_PER_PAGE) {
        const names = await this.#page(owner, first)
        if (names === undefined) break
        for (const name of names) this.#clearBucket(owner, name)
        this.#store.release(names)
      }
      const record = this.#store.tables.held(keyName(owner))
      if (record !== undefined) this.#dropIfEmpty(record)
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

  #clearBucket(owner: Key, name: RecordName): void {
    const { tables } = this.#store
    const keys = this.#bucket(name)?.keys
    const record = tables.held(keyName(owner))
    const header = record === undefined ? undefined : this.#header(record)
    if (keys === undefined || record === undefined || header === undefined) return
    const entries = [...keys].map((key) => this.#entries.nameOf(owner, key))
    for (const entry of entries) this.#entries.remove(entry)
    this.#store.release(entries)
    tables.removeSlot(tables.held(name), '', this.#state.number)
    this.#count(record, header, -keys.size)
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
      const wanted = this.#applyTo(known.key, changes)
      if (wanted.length === 0) this.#owed.delete(known)
      else missing.push(...wanted)
    }
    return missing
  }

  #applyTo(owner: Key, changes: Map<MapKey, boolean>): readonly RecordName[] {
    const { tables } = this.#store
    // The record that was noted may have been taken out and made anew since.
    if (!this.#store.isHere(keyName(owner))) return [keyName(owner)]
    const record = tables.made(keyName(owner))
    let header = this.#header(record)
    const isNew = header === undefined
    const missing: RecordName[] = []
    for (const [key, exists] of changes) {
      if (exists) header ??= this.#begin(record)
      if (header !== undefined) {
        const name = this.#nameOf(owner, header.bucketOf(key))
        // A map without a header has no buckets in the store either.
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
    const wanted = header === undefined || header.count === 0 ? [] : this.#resize(record, header)
    if (wanted.length === 0) this.#dropIfEmpty(record)
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
    this.#bucketForChange(name).keys.add(key)
    this.#count(record, header, 1)
  }

  #delete(record: KeyRecord, header: MapHeader, name: RecordName, key: MapKey): void {
    if (!this.#bucket(name)?.keys.has(key)) return
    const { keys } = this.#bucketForChange(name)
    keys.delete(key)
    if (keys.size === 0) this.#dropBucket(name)
    this.#count(record, header, -1)
  }

  #count(record: KeyRecord, header: MapHeader, change: number): void {
    this.#store.tables.touchForChange(record)
    header.count += change
  }

  /** Takes the header of a map without entries out of the record of its key, and the record if it holds nothing else. */
  #dropIfEmpty(record: KeyRecord): void {
    const { tables } = this.#store
    const header = this.#header(record)
    if (header === undefined) tables.dropIfEmpty(record)
    else if (header.count === 0) tables.removeSlot(record, '', this.#state.number)
  }

  /** Splits or merges until buckets are neither too full nor too sparse. Answers what must be loaded before it can. */
  #resize(record: KeyRecord, header: MapHeader): readonly RecordName[] {
    if (this.#walks.size > 0) return []
    while (header.isFull) {
      if (this.#state.ttl !== undefined) {
        const { wanted, dropped } = this.#sweep(record, header)
        if (wanted.length > 0) return wanted
        if (dropped > 0) continue
      }
      const from = this.#nameOf(record.key, splitFrom(header.buckets))
      if (!this.#store.isHere(from)) return this.#nextSplits(record, header)
      this.#split(record, header, from)
    }
    while (header.isSparse) {
      const last = header.buckets - 1
      const names = [last, splitFrom(last)].map((number) => this.#nameOf(record.key, number))
      const missing = names.filter((name) => !this.#store.isHere(name))
      if (missing.length > 0) return missing
      this.#merge(record, header, names[0]!, names[1]!)
    }
    return []
  }

  /** The buckets that will be split next and are not here, so that many new entries do not take a round trip for each split. */
  #nextSplits({ key }: KeyRecord, { buckets, splitsDue }: MapHeader): readonly RecordName[] {
    const next = Array.from({ length: Math.min(splitsDue, buckets, BUCKETS_PER_PAGE) }, (_, i) =>
      this.#nameOf(key, splitFrom(buckets + i)),
    )
    return next.filter((name) => !this.#store.isHere(name))
  }

  #split(record: KeyRecord, header: MapHeader, from: RecordName): void {
    const number = header.buckets
    this.#store.tables.touchForChange(record)
    header.buckets++
    const moved = [...(this.#bucket(from)?.keys ?? [])].filter((key) => header.bucketOf(key) === number)
    if (moved.length === 0) return
    const { keys } = this.#bucketForChange(from)
    // Nothing is in the store under that number: a bucket was removed from there when it was merged.
    const added = this.#bucketForChange(this.#nameOf(record.key, number)).keys
    for (const key of moved) {
      keys.delete(key)
      added.add(key)
    }
    if (keys.size === 0) this.#dropBucket(from)
  }

  #merge(record: KeyRecord, header: MapHeader, last: RecordName, into: RecordName): void {
    this.#store.tables.touchForChange(record)
    header.buckets--
    header.cursor %= header.buckets
    const moved = this.#bucket(last)?.keys
    if (moved === undefined) return
    const { keys } = this.#bucketForChange(into)
    for (const key of moved) keys.add(key)
    this.#dropBucket(last)
  }

  /** Takes the keys of entries that are gone out of the next bucket. */
  #sweep(
    record: KeyRecord,
    header: MapHeader,
  ): { readonly wanted: readonly RecordName[]; readonly dropped: number } {
    const name = this.#nameOf(record.key, header.cursor)
    if (!this.#store.isHere(name)) return { wanted: [name], dropped: 0 }
    const keys = [...(this.#bucket(name)?.keys ?? [])]
    const entries = keys.map((key) => this.#entries.nameOf(record.key, key))
    const wanted = entries.filter((entry) => !this.#store.isHere(entry))
    if (wanted.length > 0) return { wanted, dropped: 0 }
    this.#store.tables.touchForChange(record)
    header.cursor = (header.cursor + 1) % header.buckets
    let dropped = 0
    for (const [i, entry] of entries.entries()) {
      if (!this.#entries.isGone(entry)) continue
      this.#entries.remove(entry)
      this.#delete(record, header, name, keys[i]!)
      dropped++
    }
    this.#store.release(entries)
    return { wanted, dropped }
  }

  async #headerOf(owner: Key): Promise<MapHeader | undefined> {
    await bring(this.#store, [keyName(owner)])
    const record = this.#store.tables.held(keyName(owner))
    return record === undefined ? undefined : this.#header(record)
  }

  #header(record: KeyRecord): MapHeader | undefined {
    this.#store.tables.touch(record)
    return record.get(this.#state.number) as MapHeader | undefined
  }

  #bucket(name: RecordName): MapBucket | undefined {
    const { tables } = this.#store
    const record = tables.held(name)
    if (record === undefined) return undefined
    tables.touch(record)
    return record.get(this.#state.number) as MapBucket | undefined
  }

  #bucketForChange(name: RecordName): MapBucket {
    const { tables } = this.#store
    const record = tables.made(name)
    this.#store.overwrite(record)
    tables.touchForChange(record)
    let bucket = record.get(this.#state.number) as MapBucket | undefined
    if (bucket === undefined) {
      bucket = new MapBucket()
      record.set(this.#state.number, bucket)
      tables.entries++
    }
    return bucket
  }

  #dropBucket(name: RecordName): void {
    const { tables } = this.#store
    tables.removeSlot(tables.held(name), '', this.#state.number)
  }

  #nameOf(owner: Key, number: number): RecordName {
    return bucketName(owner, this.#state.name, number, this.#store.operatorName)
  }
}

function keyName(key: Key): RecordName {
  return { key, part: undefined }
}
