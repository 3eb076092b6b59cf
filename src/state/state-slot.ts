/**
 * What a slot holds by kind of state, and its bytes in an image.
 *
 *   value, reducing, aggregating   the value; `STORED_UNDEFINED` for undefined
 *   list                           ListSlot
 *   map                            Map
 *   async-map                      of a key: MapHeader · of a bucket: MapBucket · of an entry: the value
 *
 * With a time to live each value, list element, map value and entry sits in a TtlCell.
 * Bytes: value → value · list → count, values · map → count, key and value in turn · TtlCell → last access (double), value ·
 * async-map → 0 and the value · 1 and the counts of buckets, keys and the cursor · 2 and the count of keys and the keys.
 * With a serde a value is written as the serde's bytes.
 */
import type { Serde } from '../core/connector.ts'
import type { StateKind, StateTtlOptions } from '../core/state.ts'
import { StateValueError } from '../errors.ts'
import { MapBucket, MapHeader } from './map-buckets.ts'
import type { MapKey } from './map-part.ts'
import type { StructuredValueReader } from './structured-reader.ts'
import type { StructuredValueWriter } from './structured-value.ts'

/** Stands for undefined in a slot, where undefined itself means nothing. */
export const STORED_UNDEFINED: unique symbol = Symbol('undefined')

/** Elements of a list state. An array that was handed out is never changed again: `add` copies it first. */
export class ListSlot {
  items: unknown[]
  lent = false
  constructor(items: unknown[]) {
    this.items = items
  }
}

/** A value and when it was last written (or read, if reads prolong its life), epoch ms. */
export class TtlCell {
  value: unknown
  lastAccess: number
  constructor(value: unknown, lastAccess: number) {
    this.value = value
    this.lastAccess = lastAccess
  }
}

/** How the values of one state are stored. */
export interface SlotFormat {
  readonly name: string
  readonly kind: StateKind
  /** True if values carry the time of their last access. */
  readonly timed: boolean
  /** Undefined while the state's time to live is unknown (restored, not declared yet): nothing expires. */
  readonly ttl: StateTtlOptions | undefined
  readonly serde: Serde<any> | undefined
}

/** True if the cell's life is over at `now`. */
export function isExpired(cell: TtlCell, ttl: StateTtlOptions | undefined, now: number): boolean {
  return ttl !== undefined && cell.lastAccess + ttl.ttlMs <= now
}

/**
 * The slot without what has expired: undefined if nothing is left, the slot itself if nothing had expired. The slot is not changed.
 */
export function withoutExpired(slot: unknown, format: SlotFormat, now: number): unknown {
  if (format.ttl === undefined || slot instanceof MapHeader || slot instanceof MapBucket) return slot
  const alive = (cell: unknown): boolean => !isExpired(cell as TtlCell, format.ttl, now)
  if (format.kind === 'list') {
    const { items } = slot as ListSlot
    const left = items.filter(alive)
    return left.length === items.length ? slot : left.length === 0 ? undefined : new ListSlot(left)
  }
  if (format.kind === 'map') {
    const map = slot as Map<unknown, unknown>
    const left = [...map].filter(([, cell]) => alive(cell))
    return left.length === map.size ? slot : left.length === 0 ? undefined : new Map(left)
  }
  return alive(slot) ? slot : undefined
}

/** Takes what has expired out of a list's or map's slot; true if nothing is left of the slot. */
export function dropExpired(slot: unknown, format: SlotFormat, now: number): boolean {
  const left = withoutExpired(slot, format, now)
  if (left === undefined || left === slot) return left === undefined
  if (format.kind === 'list') {
    const list = slot as ListSlot
    list.items = (left as ListSlot).items
    list.lent = false
  } else {
    const map = slot as Map<unknown, unknown>
    for (const key of map.keys()) if (!(left as Map<unknown, unknown>).has(key)) map.delete(key)
  }
  return false
}

/** How many values a slot holds; a slice of background work is measured in these. */
export function slotWeight(slot: unknown, kind: StateKind): number {
  if (kind === 'list') return (slot as ListSlot).items.length
  if (slot instanceof MapBucket) return slot.keys.size
  return kind === 'map' ? (slot as Map<unknown, unknown>).size : 1
}

/** A slot with each of its values (or cells) replaced. */
export function mapSlot(slot: unknown, kind: StateKind, change: (value: unknown) => unknown): unknown {
  if (kind === 'list') return new ListSlot((slot as ListSlot).items.map(change))
  if (kind === 'map') {
    const map = new Map<unknown, unknown>()
    for (const [key, value] of slot as Map<unknown, unknown>) map.set(key, change(value))
    return map
  }
  return slot instanceof MapHeader || slot instanceof MapBucket ? slot : change(slot)
}

function writeValue(out: StructuredValueWriter, stored: unknown, format: SlotFormat): void {
  let value = stored
  if (format.timed) {
    out.writeDouble((stored as TtlCell).lastAccess)
    value = (stored as TtlCell).value
  }
  if (value === STORED_UNDEFINED) value = undefined
  if (format.serde !== undefined) {
    value = format.serde.serialize(value)
    if (value === null)
      throw new StateValueError(
        'MILLRACE_INVALID_STATE_VALUE',
        `State '${format.name}': serde '${format.serde.name}' gave null for a value`,
      )
  }
  out.write(value, format.name)
}

/** Writes a slot. @throws StateValueError if a value cannot be kept; whatever the serde throws */
export function writeSlot(out: StructuredValueWriter, slot: unknown, format: SlotFormat): void {
  if (format.kind === 'list') {
    const { items } = slot as ListSlot
    out.writeCount(items.length)
    for (const item of items) writeValue(out, item, format)
  } else if (format.kind === 'map') {
    const map = slot as Map<unknown, unknown>
    out.writeCount(map.size)
    for (const [key, value] of map) {
      out.write(key, format.name)
      writeValue(out, value, format)
    }
  } else if (format.kind === 'async-map') writePartSlot(out, slot, format)
  else writeValue(out, slot, format)
}

/** What the slot of an async map begins with. */
const PART = { ENTRY: 0, HEADER: 1, BUCKET: 2 } as const

function writePartSlot(out: StructuredValueWriter, slot: unknown, format: SlotFormat): void {
  if (slot instanceof MapHeader) {
    out.writeCount(PART.HEADER)
    out.writeCount(slot.buckets)
    out.writeCount(slot.count)
    out.writeCount(slot.cursor)
  } else if (slot instanceof MapBucket) {
    out.writeCount(PART.BUCKET)
    out.writeCount(slot.keys.size)
    for (const key of slot.keys) out.write(key, format.name)
  } else {
    out.writeCount(PART.ENTRY)
    writeValue(out, slot, format)
  }
}

/** Undefined for an entry, whose value follows. */
function readIndexSlot(input: StructuredValueReader): MapHeader | MapBucket | undefined {
  const part = input.readCount()
  if (part === PART.HEADER) {
    const header = new MapHeader()
    header.buckets = input.readCount()
    header.count = input.readCount()
    header.cursor = input.readCount()
    return header
  }
  if (part !== PART.BUCKET) return undefined
  const bucket = new MapBucket()
  for (let count = input.readCount(1); count > 0; count--) bucket.keys.add(input.read() as MapKey)
  return bucket
}

/** Reads a slot; a serde's values stay bytes until the state is declared. @throws StateLostError */
export function readSlot(input: StructuredValueReader, kind: StateKind, timed: boolean): unknown {
  const value = (): unknown => {
    if (!timed) return input.read()
    const lastAccess = input.readDouble()
    return new TtlCell(input.read(), lastAccess)
  }
  if (kind === 'list') {
    const items: unknown[] = []
    for (let count = input.readCount(1); count > 0; count--) items.push(value())
    return new ListSlot(items)
  }
  if (kind === 'map') {
    const map = new Map<unknown, unknown>()
    for (let count = input.readCount(2); count > 0; count--) map.set(input.read(), value())
    return map
  }
  const index = kind === 'async-map' ? readIndexSlot(input) : undefined
  if (index !== undefined) return index
  const read = value()
  return read === undefined ? STORED_UNDEFINED : read
}
