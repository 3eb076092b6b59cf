/**
 * The map from keys to what they hold, and the place where the current key stands in it. The hot path of keyed jobs: one lookup a record.
 *
 *   primitives: Map(key → KeyRecord)          1, 1n, '1' and true are four keys of a Map as they are
 *   composites: Map(canonical bytes → KeyRecord)   arrays and bytes have no identity of their own; parts of async maps (map-part.ts) too
 *   KeyRecord: the slots of namespace '', those of the others, timers
 *
 * A slot holds what its state keeps (see state-slot.ts); undefined means nothing.
 */
import { checkKey, decodeKey, encodeKey } from '../core/key-encoding.ts'
import type { Key, Namespace } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import { KeyRecord, Slots } from './key-record.ts'
import { isPart, type RecordName } from './map-part.ts'

/** With fewer keys than this they are in the processor's cache anyway. */
const LOOK_AHEAD_MIN = 4_096

/** What a key without state reads. Never written. */
const NOTHING = new Slots()

/** The key's place in the map of composite keys; undefined for primitives. @throws MillraceError MILLRACE_INVALID_KEY */
export function canonicalOf(key: Key, operatorName: string): string | undefined {
  return typeof key === 'object' ? Buffer.from(encodeKey(key, operatorName)).toString('latin1') : undefined
}

/** What the owner of tables must know of, and what it makes. */
export interface TableHooks<R extends KeyRecord = KeyRecord> {
  /**
   * A record is about to be handed out for the first time since the newest freeze; afterwards the record's version must be that of the
   * tables. Also called each time for a record whose version was set back.
   */
  readonly beforeTouch: (record: R) => void
  /** A record is about to be changed; its `listed` is not the version of the tables. Undefined: nobody asks which records changed. */
  readonly beforeChange?: ((record: R) => void) | undefined
  /** A key has no record. Throws if that does not mean that it has no state. */
  readonly absent?: ((key: Key) => void) | undefined
  /** A record was made. */
  readonly added?: ((record: R) => void) | undefined
  /** Records that became empty stay until they are removed by `remove`. */
  readonly keepsEmpty?: boolean | undefined
  readonly makeRecord?: RecordClass<R> | undefined
}

/** A class of records. */
type RecordClass<R> = new (key: Key, canonical: string | undefined, version: number) => R

/** Tables of one operator subtask. */
export class HeapTables<R extends KeyRecord = KeyRecord> {
  /** Number of freezes so far. */
  version = 0
  /** Values held: one for each key, namespace and state. */
  entries = 0
  /** The slots of the current key and namespace once they are known; `NOTHING` if it has none. */
  slots: Slots | undefined
  readonly #operatorName: string
  readonly #hooks: TableHooks<R>
  readonly #beforeChange: ((record: R) => void) | undefined
  readonly #makeRecord: RecordClass<R>
  readonly #primitives = new Map<unknown, R>()
  readonly #composites = new Map<string, R>()
  #key: Key | undefined
  #canonical: string | undefined
  #namespace: Namespace = ''
  #record: R | undefined
  /** Records of the keys that come next, looked up together (see lookAhead), and the one of the current key. */
  #aheadKeys: readonly Key[] = []
  readonly #ahead: (R | undefined)[] = []
  #aheadAt = 0
  #candidate: R | undefined

  constructor(operatorName: string, hooks: TableHooks<R>) {
    this.#operatorName = operatorName
    this.#hooks = hooks
    this.#beforeChange = hooks.beforeChange
    this.#makeRecord = hooks.makeRecord ?? (KeyRecord as unknown as RecordClass<R>)
  }

  get keyCount(): number {
    return this.#primitives.size + this.#composites.size
  }

  /** All records; records added meanwhile are visited too, removed ones are not. */
  records(): IterableIterator<R> {
    // Keys are of one kind in nearly every job: then one Map's own iterator is several times faster than a generator over two.
    if (this.#composites.size > 0) return this.#allRecords()
    return this.#primitives.size > 0 ? this.#primitives.values() : this.#allRecords()
  }

  *#allRecords(): IterableIterator<R> {
    yield* this.#primitives.values()
    yield* this.#composites.values()
  }

  get key(): Key | undefined {
    return this.#key
  }

  /** The current key, as an object that user code cannot change. */
  get ownKey(): Key | undefined {
    if (this.#canonical === undefined) return this.#key
    return this.recordIfHeld(this.#key!)?.key ?? decodeKey(Buffer.from(this.#canonical, 'latin1'))
  }

  isCurrent(key: Key): boolean {
    return this.#canonical === undefined
      ? key === this.#key
      : this.#canonical === canonicalOf(key, this.#operatorName)
  }

  get namespace(): Namespace {
    return this.#namespace
  }

  /**
   * Looks up the keys of a vector before the first of them becomes the current one. With many keys every lookup waits for memory; in a loop
   * of its own the processor waits for several at a time, while between calls of user code it waits for each. Twice as fast at 100,000 keys.
   */
  lookAhead(keys: readonly Key[]): void {
    this.#aheadAt = 0
    if (this.#primitives.size < LOOK_AHEAD_MIN) {
      this.#aheadKeys = []
      return
    }
    const records = this.#ahead
    for (let i = 0; i < keys.length; i++) records[i] = this.#primitives.get(keys[i])
    let held = 0
    for (let i = 0; i < keys.length; i++) if (typeof records[i]?.get(0) === 'object') held++
    this.#aheadKeys = held > 0 ? keys : []
  }

  /**
   * The same for tables that hold a part of the keys: `visit` gets each key with its record, undefined if there is none, in the order of
   * the keys. A key may come more than once.
   */
  gather(keys: readonly Key[], visit: (key: Key, record: R | undefined) => void): void {
    this.forgetCurrent()
    this.#aheadAt = 0
    this.#aheadKeys = keys
    const records = this.#ahead
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]!
      const record = typeof key === 'object' ? this.recordIfHeld(key) : this.#primitives.get(key)
      records[i] = record
      visit(key, record)
    }
  }

  setKey(key: Key): void {
    if (this.#aheadKeys[this.#aheadAt] === key) this.#candidate = this.#ahead[this.#aheadAt++]
    else this.#candidate = undefined
    if (typeof key === 'string') {
      if (key === this.#key) return
      this.#canonical = undefined
    } else {
      checkKey(key, this.#operatorName)
      this.#canonical = canonicalOf(key, this.#operatorName)
    }
    this.#key = key
    this.#record = undefined
    this.slots = undefined
  }

  setNamespace(namespace: Namespace): void {
    if (namespace === this.#namespace) return
    this.#namespace = namespace
    this.slots = undefined
  }

  /** Forgets what was looked up, so that the next access goes through `beforeTouch`. */
  forgetCurrent(): void {
    this.#record = undefined
    this.slots = undefined
  }

  /** The slots of the current key and namespace, for reading. */
  load(): Slots {
    this.slots = this.find()?.space(this.#namespace) ?? NOTHING
    return this.slots
  }

  /** The slots of the current key and namespace, made if there are none. */
  loadForWrite(): Slots {
    if (this.slots === undefined || this.slots === NOTHING)
      this.slots = this.findOrMake().spaceForWrite(this.#namespace)
    this.noteChange()
    return this.slots
  }

  /** The record of the current key is about to be changed in place. */
  noteChange(): void {
    if (this.#beforeChange === undefined) return
    const record = this.#record
    if (record !== undefined && record.listed !== this.version) this.#beforeChange(record)
  }

  /** The record of the current key, ready to be changed. */
  find(): R | undefined {
    if (this.#record !== undefined) return this.#record
    const record = this.#candidate === undefined || this.#candidate.gone ? this.#lookUp() : this.#candidate
    if (record === undefined) {
      this.#hooks.absent?.(this.#requireKey())
      return undefined
    }
    if (record.version !== this.version) this.#hooks.beforeTouch(record)
    this.#record = record
    return record
  }

  #lookUp(): R | undefined {
    return this.#canonical === undefined
      ? this.#primitives.get(this.#requireKey())
      : this.#composites.get(this.#canonical)
  }

  /** The record of the current key, made if there is none. */
  findOrMake(): R {
    const found = this.find()
    if (found !== undefined) return found
    this.#record = this.#add(this.#requireKey(), this.#canonical)
    return this.#record
  }

  /** The record of any key, made if there is none: for restoring and loading. */
  recordOf(key: Key): R {
    const canonical = canonicalOf(key, this.#operatorName)
    const found = canonical === undefined ? this.#primitives.get(key) : this.#composites.get(canonical)
    return found ?? this.#add(key, canonical)
  }

  /** The record of any key, if there is one. */
  recordIfHeld(key: Key): R | undefined {
    const canonical = canonicalOf(key, this.#operatorName)
    return canonical === undefined ? this.#primitives.get(key) : this.#composites.get(canonical)
  }

  /** The record of a key or of a part of it, if there is one. */
  held({ key, part }: RecordName): R | undefined {
    return part === undefined ? this.recordIfHeld(key) : this.#composites.get(part)
  }

  /** The record of a key or of a part of it, made if there is none. */
  made({ key, part }: RecordName): R {
    if (part === undefined) return this.recordOf(key)
    return this.#composites.get(part) ?? this.#add(key, part)
  }

  /** Before a record is handed out or changed that is not the current one. */
  touch(record: R): void {
    if (record.version !== this.version) this.#hooks.beforeTouch(record)
  }

  /** Before a record is changed that is not the current one. */
  touchForChange(record: R): void {
    this.touch(record)
    if (this.#beforeChange !== undefined && record.listed !== this.version) this.#beforeChange(record)
  }

  /** Empties a slot; namespaces and records that hold nothing any more are dropped. */
  removeSlot(record: R, namespace: Namespace, state: number): void {
    const slots = record.space(namespace)
    if (slots?.get(state) === undefined) return
    if (this.#beforeChange !== undefined && record.listed !== this.version) this.#beforeChange(record)
    slots.set(state, undefined)
    this.entries--
    if (!slots.isEmpty) return
    if (namespace !== '') record.dropSpace(namespace)
    if (record === this.#record) this.slots = undefined
    this.dropIfEmpty(record)
  }

  /** Takes a record that holds nothing out of the tables. */
  dropIfEmpty(record: R): void {
    if (this.#hooks.keepsEmpty !== true && record.isUnused) this.remove(record)
  }

  /** Takes the slots of a record, all of them; its timers stay. */
  empty(record: R): void {
    this.entries -= record.slotCount
    record.dropSlots()
    if (record === this.#record) this.forgetCurrent()
  }

  /** Takes a record out of the tables, with what it holds. */
  remove(record: R): void {
    this.entries -= record.slotCount
    record.gone = true
    if (record.canonical === undefined) this.#primitives.delete(record.key)
    else this.#composites.delete(record.canonical)
    if (record === this.#record) this.forgetCurrent()
  }

  clear(): void {
    this.#aheadKeys = []
    this.#candidate = undefined
    this.#primitives.clear()
    this.#composites.clear()
    this.entries = 0
    this.forgetCurrent()
  }

  #add(key: Key, canonical: string | undefined): R {
    // The caller may change its array or bytes later: a composite key is kept as a copy.
    const own = canonical === undefined ? key : this.#ownKey(key, canonical)
    const record = new this.#makeRecord(own, canonical, this.version)
    if (canonical === undefined) this.#primitives.set(own, record)
    else this.#composites.set(canonical, record)
    this.#hooks.added?.(record)
    return record
  }

  #ownKey(key: Key, canonical: string): Key {
    if (!isPart(canonical)) return decodeKey(Buffer.from(canonical, 'latin1'))
    // Of a large map a key is held once.
    return this.recordIfHeld(key)?.key ?? (typeof key === 'object' ? decodeKey(encodeKey(key)) : key)
  }

  #requireKey(): Key {
    if (this.#key === undefined)
      throw new MillraceError(
        'MILLRACE_STATE_ACCESS',
        `Operator '${this.#operatorName}': keyed state or a timer was used while no record or timer of a key is processed`,
      )
    return this.#key
  }
}
