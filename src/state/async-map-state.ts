/** Async map state as user code sees it. It holds nothing itself: entries are records, and an index names them. */
import type { AsyncMapState, Key } from '../core/state.ts'
import { MillraceError, StateValueError } from '../errors.ts'
import { ABSENT, bring, type MapEntries, type PartStore } from './async-map-entries.ts'
import type { AsyncMapIndex } from './async-map-index.ts'
import type { HeapState } from './heap-registry.ts'
import type { ValueCheck } from './heap-states.ts'
import type { MapKey, RecordName } from './map-part.ts'

/** The map of whatever key is the current one when a method is called. */
export class TableAsyncMapState<K, V> implements AsyncMapState<K, V> {
  readonly #store: PartStore
  readonly #state: HeapState
  readonly #entries: MapEntries
  readonly #index: AsyncMapIndex
  readonly #check: ValueCheck | undefined

  /** `check` is undefined if a serde takes any value. */
  constructor(
    store: PartStore,
    state: HeapState,
    entries: MapEntries,
    index: AsyncMapIndex,
    check: ValueCheck | undefined,
  ) {
    this.#store = store
    this.#state = state
    this.#entries = entries
    this.#index = index
    this.#check = check
  }

  async get(key: K): Promise<V | undefined> {
    const value = await this.#valueOf(key)
    return value === ABSENT ? undefined : (value as V)
  }

  async getAll(keys: Iterable<K>): Promise<Map<K, V>> {
    const owner = this.#owner()
    const wanted = [...keys].map((key) => ({ key, name: this.#entries.nameOf(owner, mapKeyOf(key)) }))
    await bring(
      this.#store,
      wanted.map(({ name }) => name),
    )
    const found = new Map<K, V>()
    for (const { key, name } of wanted) {
      const value = this.#read(owner, key, name)
      if (value !== ABSENT) found.set(key, value as V)
    }
    return found
  }

  async contains(key: K): Promise<boolean> {
    return (await this.#valueOf(key)) !== ABSENT
  }

  put(key: K, value: V): void {
    const own = mapKeyOf(key)
    this.#check?.check(value)
    if (this.#entries.put(this.#entries.nameOf(this.#owner(), own), value)) this.#index.note(own, true)
  }

  remove(key: K): void {
    const own = mapKeyOf(key)
    if (this.#entries.remove(this.#entries.nameOf(this.#owner(), own))) this.#index.note(own, false)
  }

  entries(): AsyncIterableIterator<[K, V]> {
    return this.#entriesOf(this.#owner())
  }

  keys(): AsyncIterableIterator<K> {
    return this.#keysOf(this.#owner())
  }

  async isEmpty(): Promise<boolean> {
    const owner = this.#owner()
    if (this.#state.ttl === undefined) return this.#index.isEmpty(owner)
    for await (const _ of this.#entriesOf(owner)) return false
    return true
  }

  async clear(): Promise<void> {
    await this.#index.clear(this.#owner())
  }

  async *#entriesOf(owner: Key): AsyncGenerator<[K, V], undefined> {
    for await (const keys of this.#index.pages(owner)) {
      const names = keys.map((key) => this.#entries.nameOf(owner, key))
      await bring(this.#store, names)
      for (const [i, name] of names.entries()) {
        this.#requireOwner(owner)
        if (!this.#store.isHere(name)) await bring(this.#store, [name])
        const value = this.#entries.read(name)
        if (value !== ABSENT) yield [keys[i] as K, value as V]
        // Expired, or removed in the loop.
        else this.#index.note(keys[i]!, false)
      }
      this.#store.release(names)
    }
  }

  async *#keysOf(owner: Key): AsyncGenerator<K, undefined> {
    if (this.#state.ttl !== undefined) {
      for await (const [key] of this.#entriesOf(owner)) yield key
      return
    }
    for await (const keys of this.#index.pages(owner))
      for (const key of keys) {
        this.#requireOwner(owner)
        yield key as K
      }
  }

  async #valueOf(key: K): Promise<unknown> {
    const owner = this.#owner()
    const name = this.#entries.nameOf(owner, mapKeyOf(key))
    await bring(this.#store, [name])
    return this.#read(owner, key, name)
  }

  /** Reads an entry that is here. If it expires by that, the index learns that it is gone. */
  #read(owner: Key, key: K, name: RecordName): unknown {
    if (this.#state.ttl === undefined) return this.#entries.read(name)
    const expires = this.#entries.isGone(name)
    const value = this.#entries.read(name)
    if (expires && this.#store.tables.isCurrent(owner)) this.#index.note(key as MapKey, false)
    return value
  }

  #owner(): Key {
    const { namespace, ownKey: key } = this.#store.tables
    if (namespace !== '')
      throw this.#refused('was used in a window: only plain state can be an async map', {
        remedy: 'Use globalState(), or a map state for what belongs to a window.',
      })
    if (key === undefined) throw this.#refused('was used while no record or timer of a key is processed', {})
    return key
  }

  #requireOwner(owner: Key): void {
    if (this.#store.tables.isCurrent(owner)) return
    throw this.#refused('was read for a key whose record or timer is not processed any more', {
      remedy: 'Await every promise and finish every loop over the map before the function returns.',
    })
  }

  #refused(how: string, { remedy }: { readonly remedy?: string }): MillraceError {
    return new MillraceError(
      'MILLRACE_STATE_ACCESS',
      `Operator '${this.#store.operatorName}': async map state '${this.#state.name}' ${how}`,
      { details: { state: this.#state.name }, ...(remedy === undefined ? {} : { remedy }) },
    )
  }
}

function mapKeyOf(key: unknown): MapKey {
  const type = typeof key
  if (type === 'string' || type === 'bigint' || type === 'boolean') return key as MapKey
  if (type === 'number' && !Number.isNaN(key)) return key as number
  throw new StateValueError(
    'MILLRACE_INVALID_STATE_VALUE',
    `An async map state's key is ${key === null ? 'null' : type === 'number' ? 'NaN' : `of type ${type}`}`,
    { remedy: 'Use strings, numbers, bigints or booleans as keys of map state.' },
  )
}
