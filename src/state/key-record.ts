/** What one key holds: the slots of namespace '', those of the others, timers. A slot holds what its state keeps (see state-slot.ts). */
import type { Key, Namespace } from '../core/state.ts'
import type { OwnedTimers, TimerOwner } from '../core/time/timer-queues.ts'
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
