/** Records of the write-back cache, and their bytes in a cold store. */
import type { Namespace, StateKind } from '../core/state.ts'
import type { TimeDomain } from '../core/time/timer-queues.ts'
import { StateLostError } from '../errors.ts'
import type { ImageTimers } from './key-group-image.ts'
import { KeyRecord } from './key-record.ts'
import { readSlot, type SlotFormat, withoutExpired, writeSlot } from './state-slot.ts'
import { StructuredValueReader } from './structured-reader.ts'
import { StructuredValueWriter } from './structured-value.ts'

/** What a record was at a freeze, kept until it is stored. */
export interface CapturedRow extends RowBytes {
  readonly record: CachedRecord
  /** Version of the tables when the record was changed after this was written; infinite while it was not. */
  supersededAt: number
}

/** A record of the cache. While `listed` is the version of the tables it is on the list of changed records. */
export class CachedRecord extends KeyRecord {
  /** Number of the last vector that it belonged to; 0: the hand has passed since. */
  used = 0
  /** Bytes that it takes on the heap, about. */
  weight = 0
  /** The newest row of the store is what it holds. */
  stored = false
  /** Its slots are in the store only; its timers are here. */
  cold = false
  /** Writes to the store that are on their way. */
  writing = 0
  /** What a freeze in flight has of it, as long as it was not changed since. */
  row: CapturedRow | undefined = undefined
  /** Where it is in the open list, while it is on it. */
  place = -1
}

/** Changed records: what a Set does, without a hash for each of a million records a second. A record is on one list that is still open. */
export class ChangeList {
  readonly records: CachedRecord[] = []

  /** The record must not be on it. */
  add(record: CachedRecord): void {
    record.place = this.records.length
    this.records.push(record)
  }

  /** The record must be on it, and on no list to which something was added since. */
  remove(record: CachedRecord): void {
    const last = this.records.pop()!
    if (last === record) return
    this.records[record.place] = last
    last.place = record.place
  }
}

/** Value and timers of a key as a store holds them; undefined = none. */
export interface RowBytes {
  readonly value: Uint8Array | undefined
  readonly timers: Uint8Array | undefined
}

/** A state as a row names it. */
export interface RowState {
  readonly name: string
  readonly kind: StateKind
  readonly timed: boolean
  /** Name of the serde that wrote the values; null: structured values. */
  readonly serde: string | null
}

/** Takes what a row holds. */
export type RowVisitor = (state: RowState, namespace: Namespace, slot: unknown) => void

/** A timer as a row holds it. */
export interface StoredTimer {
  readonly namespace: Namespace
  readonly time: number
  readonly sequence: number
}

/** Timers of a row; as those of a record they can be written into an image. */
export class StoredTimers {
  readonly event: StoredTimer[] = []
  readonly processing: StoredTimer[] = []

  get isEmpty(): boolean {
    return this.event.length === 0 && this.processing.length === 0
  }

  inOrder(domain: TimeDomain): readonly StoredTimer[] {
    return this[domain]
  }
}

const KINDS: readonly StateKind[] = ['value', 'list', 'map', 'reducing', 'aggregating', 'async-map']
const DOMAINS: readonly TimeDomain[] = ['event', 'processing']
const TIMED = 8
const SERDE = 16

/**
 * Writes records as rows. A row stands for itself: it names its states, so that it can be read whatever the job declares later, and by a
 * subtask that took over key groups of several. Format 1, two blocks of structured values (see structured-value.ts):
 *
 *   value   for each slot: count 1 + kind + 8 if timed + 16 if a serde wrote it, name, [serde's name], namespace, slot (see state-slot.ts); count 0
 *   timers  event-time timers: count, then for each: namespace, time (double), sequence (double); processing-time timers: the same
 */
export class RowWriter {
  readonly #out = new StructuredValueWriter()

  /** The bytes of a record as it is now, without what has expired at `now`. @throws StateValueError; whatever a serde throws */
  write(
    record: CachedRecord,
    formats: readonly SlotFormat[],
    now: number,
    timers: ImageTimers | undefined = record.timers,
  ): RowBytes {
    const out = this.#out
    if (record.isPlain && timers === undefined && formats.length === 1)
      return { value: this.#plain(record.get(0), formats[0]!, now), timers: undefined }
    let begun = false
    record.forEachSpace((namespace, slots) => {
      const count = Math.min(slots.count, formats.length)
      for (let number = 0; number < count; number++) {
        const held = slots.get(number)
        if (held === undefined) continue
        const format = formats[number]!
        const slot = withoutExpired(held, format, now)
        if (slot === undefined) continue
        if (!begun) out.reset()
        begun = true
        this.#slot(format, namespace, slot)
      }
    })
    let value: Uint8Array | undefined
    if (begun) {
      out.writeCount(0)
      value = out.finishShared()
    }
    return { value, timers: this.#timers(timers) }
  }

  /** The usual record, one state and neither windows nor timers, without a closure or a loop. Same bytes. */
  #plain(held: unknown, format: SlotFormat, now: number): Uint8Array | undefined {
    const slot = held === undefined ? undefined : withoutExpired(held, format, now)
    if (slot === undefined) return undefined
    const out = this.#out
    out.reset()
    this.#slot(format, '', slot)
    out.writeCount(0)
    return out.finishShared()
  }

  #slot(format: SlotFormat, namespace: Namespace, slot: unknown): void {
    const out = this.#out
    const { kind, timed, serde } = format
    out.writeCount(1 + KINDS.indexOf(kind) + (timed ? TIMED : 0) + (serde === undefined ? 0 : SERDE))
    out.write(format.name)
    if (serde !== undefined) out.write(serde.name)
    out.write(namespace)
    writeSlot(out, slot, format)
  }

  #timers(timers: ImageTimers | undefined): Uint8Array | undefined {
    if (timers === undefined) return undefined
    const out = this.#out
    out.reset()
    for (const domain of DOMAINS) {
      const owned = timers.inOrder(domain)
      out.writeCount(owned.length)
      for (const { namespace, time, sequence } of owned) {
        out.write(namespace)
        out.writeDouble(time)
        out.writeDouble(sequence)
      }
    }
    return out.finishShared()
  }
}

/** Reads rows of one operator. */
export class RowReader {
  readonly #operatorName: string

  constructor(operatorName: string) {
    this.#operatorName = operatorName
  }

  /** Shows the slots of a row. @throws StateLostError */
  readValue(keyGroup: number, bytes: Uint8Array, visit: RowVisitor): void {
    const input = this.#open(keyGroup, bytes)
    for (let head = input.readCount(); head > 0; head = input.readCount()) {
      const flags = head - 1
      const kind = KINDS[flags & 7]
      if (kind === undefined || flags > 31) this.#damaged(keyGroup, 'a state has an unknown kind')
      const timed = (flags & TIMED) !== 0
      const name = this.#text(keyGroup, input)
      const serde = (flags & SERDE) === 0 ? null : this.#text(keyGroup, input)
      const namespace = this.#namespace(keyGroup, input)
      visit({ name, kind, timed, serde }, namespace, readSlot(input, kind, timed))
    }
    if (!input.atEnd) this.#damaged(keyGroup, 'bytes are left after the last value')
  }

  /** @throws StateLostError */
  readTimers(keyGroup: number, bytes: Uint8Array): StoredTimers {
    const input = this.#open(keyGroup, bytes)
    const timers = new StoredTimers()
    for (const domain of DOMAINS)
      for (let count = input.readCount(17); count > 0; count--)
        timers[domain].push({
          namespace: this.#namespace(keyGroup, input),
          time: input.readDouble(),
          sequence: input.readDouble(),
        })
    if (!input.atEnd) this.#damaged(keyGroup, 'bytes are left after the last timer')
    return timers
  }

  #open(keyGroup: number, bytes: Uint8Array): StructuredValueReader {
    return new StructuredValueReader(bytes, `operator '${this.#operatorName}', key group ${keyGroup}`)
  }

  #text(keyGroup: number, input: StructuredValueReader): string {
    const text = input.read()
    if (typeof text !== 'string') this.#damaged(keyGroup, 'a name is no text')
    return text
  }

  #namespace(keyGroup: number, input: StructuredValueReader): Namespace {
    const namespace = input.read()
    if (typeof namespace !== 'string' && typeof namespace !== 'number')
      this.#damaged(keyGroup, 'a namespace is neither text nor number')
    return namespace
  }

  #damaged(keyGroup: number, what: string): never {
    throw new StateLostError(
      'MILLRACE_STATE_LOST',
      `A stored row of operator '${this.#operatorName}', key group ${keyGroup} is damaged: ${what}`,
      { details: { operator: this.#operatorName, keyGroup } },
    )
  }
}

/** What an empty record takes on the heap, with its place in the tables: about. */
const RECORD_WEIGHT = 240
/** Objects take about this many times their encoded bytes. */
const OBJECT_WEIGHT = 3
/** A record that was never encoded. */
export const NEW_RECORD_WEIGHT = RECORD_WEIGHT + 96

/** Bytes of a row. */
export function lengthOf({ value, timers }: RowBytes): number {
  return (value?.length ?? 0) + (timers?.length ?? 0)
}

/** Bytes that a record takes on the heap, about, by those of its row. */
export function weightOf(row: RowBytes): number {
  return weightOfBytes(lengthOf(row))
}

/** The same by the number of encoded bytes. */
export function weightOfBytes(bytes: number): number {
  return RECORD_WEIGHT + OBJECT_WEIGHT * bytes
}
