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
import type { OwnedTimers, TimerOwner } from '../core/time/timer-queues.ts'
import { MillraceError } from '../errors.ts'
import { isPart, type RecordName } from './map-part.ts'

/**
 * The slots of one key in one namespace, by the number of the state. The first one lies in the object itself: most operators have one
 * state, and with many keys every object on the way to a value is a cache miss.
 */
export class Slots {
  #first: unknown = undefined
  #more: unknown[] | undefined = undefined

  get(state: number): unknown {
    return state === 0 ? this.#first : this.#more?.[state - 1]
  }

  set(state: number, slot: unknown): void {
    if (state === 0) {
      this.#first = slot
      return
    }
    if (this.#more === undefined || this.#more.length < state) this.#more = grown(this.#more, state)
    this.#more[state - 1] = slot
  }

  /** One more than the highest state that may have a slot. */
  get count(): number {
    return 1 + (this.#more?.length ?? 0)
  }

  get isEmpty(): boolean {
    return this.#first === undefined && (this.#more?.every((slot) => slot === undefined) ?? true)
  }

  /** Number of slots that hold something. */
  get filled(): number {
    let filled = this.#first === undefined ? 0 : 1
    for (const slot of this.#more ?? []) if (slot !== undefined) filled++
    return filled
  }

  protected dropOwn(): void {
    this.#first = undefined
    this.#more = undefined
  }
}

/** The list with exactly `length` places: one that grows by `push` has room for sixteen more, for each of a million keys. */
function grown(list: readonly unknown[] | undefined, length: number): unknown[] {
  const longer = new Array<unknown>(length)
  for (let i = 0; i < length; i++) longer[i] = list?.[i]
  return longer
}

/** With fewer keys than this they are in the processor's cache anyway. */
const LOOK_AHEAD_MIN = 4_096

/** What a key without state reads. Never written. */
const NOTHING = new Slots()

/** The slots of a key in a namespace other than ''; a link in the list of its namespaces. */
class NamespaceSlots extends Slots {
  readonly namespace: Namespace
  next: NamespaceSlots | undefined

  constructor(namespace: Namespace, next: NamespaceSlots | undefined) {
    super()
    this.namespace = namespace
    this.next = next
  }
}

/** A key with more namespaces than this finds them by a map. Windows come and go by the thousand, most keys have one or two. */
const LIST_LIMIT = 8

/** All that one key holds; by itself the slots of namespace ''. */
export class KeyRecord extends Slots implements TimerOwner, RecordName {
  /** The newest freeze that either has this record or must not have it (it was made later). */
  version: number
  /** The key; of a part, the key that it belongs to. */
  readonly key: Key
  /** Its place in the map of composite keys, if it is one or a part. */
  readonly canonical: string | undefined
  /** Computed when first needed, -1 before. */
  keyGroup = -1
  timers: OwnedTimers | undefined
  /** The list of changed records that it is on, numbered as the version of the tables at the time; -1 = on none. See TableHooks. */
  listed = -1
  /** Taken out of the tables: whoever still has it must look its key up again. */
  gone = false
  #spaces: NamespaceSlots | Map<Namespace, NamespaceSlots> | undefined

  constructor(key: Key, canonical: string | undefined, version: number) {
    super()
    this.version = version
    this.key = key
    this.canonical = canonical
    this.timers = undefined
    this.#spaces = undefined
  }

  /** The name of the part of a key that this is; undefined for the key itself. */
  get part(): string | undefined {
    return isPart(this.canonical) ? this.canonical : undefined
  }

  /** The slots in a namespace, if it has some. */
  space(namespace: Namespace): Slots | undefined {
    if (namespace === '') return this
    const spaces = this.#spaces
    if (spaces instanceof Map) return spaces.get(namespace)
    for (let each = spaces; each !== undefined; each = each.next)
      if (each.namespace === namespace) return each
    return undefined
  }

  /** The slots in a namespace, made if there are none. */
  spaceForWrite(namespace: Namespace): Slots {
    const known = this.space(namespace)
    if (known !== undefined) return known
    if (this.#spaces instanceof Map) {
      const made = new NamespaceSlots(namespace, undefined)
      this.#spaces.set(namespace, made)
      return made
    }
    const made = new NamespaceSlots(namespace, this.#spaces)
    let length = 0
    for (let each: NamespaceSlots | undefined = made; each !== undefined; each = each.next) length++
    if (length > LIST_LIMIT) {
      const map = new Map<Namespace, NamespaceSlots>()
      for (let each: NamespaceSlots | undefined = made; each !== undefined; each = each.next)
        map.set(each.namespace, each)
      this.#spaces = map
    } else this.#spaces = made
    return made
  }

  /** Forgets the slots in a namespace other than ''. */
  dropSpace(namespace: Namespace): void {
    if (this.#spaces instanceof Map) {
      this.#spaces.delete(namespace)
      if (this.#spaces.size === 0) this.#spaces = undefined
      return
    }
    let before: NamespaceSlots | undefined
    for (let each = this.#spaces; each !== undefined; before = each, each = each.next) {
      if (each.namespace !== namespace) continue
      if (before === undefined) this.#spaces = each.next
      else before.next = each.next
      return
    }
  }

  /** True if it holds no state and no timers. */
  get isUnused(): boolean {
    return this.#spaces === undefined && this.timers === undefined && this.isEmpty
  }

  /** Number of slots that hold something, in all namespaces. */
  get slotCount(): number {
    let count = this.filled
    if (this.#spaces instanceof Map) for (const slots of this.#spaces.values()) count += slots.filled
    else for (let each = this.#spaces; each !== undefined; each = each.next) count += each.filled
    return count
  }

  /** Forgets all slots; timers stay. */
  dropSlots(): void {
    this.dropOwn()
    this.#spaces = undefined
  }

  /** True if it has no namespace but '' and no timers. */
  get isPlain(): boolean {
    return this.#spaces === undefined && this.timers === undefined
  }

  /** Calls `visit` with each namespace and its slots. */
  forEachSpace(visit: (namespace: Namespace, slots: Slots) => void): void {
    visit('', this)
    const spaces = this.#spaces
    if (spaces instanceof Map) for (const [namespace, slots] of spaces) visit(namespace, slots)
    else for (let each = spaces; each !== undefined; each = each.next) visit(each.namespace, each)
  }
}

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
