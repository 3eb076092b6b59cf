/**
 * Between the records of the cache, the rows of a cold store and the images of checkpoints: one registry of states knows what form each
 * state has now; rows and images keep the form in which they were written.
 */
import { withEncodedKey } from '../core/key-encoding.ts'
import type { Key, KeyGroupImage, Namespace } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import {
  type CachedRecord,
  type RowBytes,
  RowReader,
  type RowState,
  RowWriter,
  StoredTimers,
} from './cached-record.ts'
import type { ColdRecord } from './cold-store.ts'
import type { HeapRegistry, RestoredState } from './heap-registry.ts'
import { type ImageVisitor, KeyGroupImageReader, KeyGroupImageWriter } from './key-group-image.ts'
import { bytesOfPart, type RecordName, recordNameOf } from './map-part.ts'
import { type SlotFormat, withoutExpired } from './state-slot.ts'

/** Names of records are many and short: they share buffers. */
function sharedCopy(bytes: Uint8Array, length: number): Uint8Array {
  const copy = Buffer.allocUnsafe(length)
  for (let i = 0; i < length; i++) copy[i] = bytes[i]!
  return copy
}

/** Writes and reads the rows of one operator subtask. */
export class CacheCodec {
  readonly registry: HeapRegistry
  readonly #operatorName: string
  readonly #writer = new RowWriter()
  readonly #reader: RowReader
  readonly #now: () => number
  #generation = -1
  #formats: readonly SlotFormat[] = []
  /** How the rows met so far name a state, and what it is now. */
  readonly #known = new Map<string, { readonly named: RowState; readonly restored: RestoredState }>()

  constructor(registry: HeapRegistry, operatorName: string, now: () => number) {
    this.registry = registry
    this.#operatorName = operatorName
    this.#reader = new RowReader(operatorName)
    this.#now = now
  }

  /** The forms of all states now, by number. */
  get formats(): readonly SlotFormat[] {
    if (this.registry.generation !== this.#generation) {
      this.#generation = this.registry.generation
      this.#formats = this.registry.formats()
      this.#known.clear()
    }
    return this.#formats
  }

  /** The name of a record as the store knows it. */
  nameBytes({ key, part }: RecordName): Uint8Array {
    return part === undefined ? withEncodedKey(key, this.#operatorName, sharedCopy) : bytesOfPart(part)
  }

  /** @throws StateLostError */
  nameOf(bytes: Uint8Array): RecordName {
    return recordNameOf(bytes)
  }

  /** The bytes of a record. @throws StateValueError if a value cannot be kept; whatever a serde throws */
  rowOf(record: CachedRecord): RowBytes {
    return this.#writer.write(record, this.formats, this.#now())
  }

  /** The bytes of a record that is being restored, whose timers are in no queue yet. */
  restoredRowOf(record: CachedRecord, timers: StoredTimers): RowBytes {
    return this.#writer.write(record, this.formats, this.#now(), timers.isEmpty ? undefined : timers)
  }

  /** The record as the store takes it. */
  coldRecord(record: CachedRecord, { value, timers }: RowBytes): ColdRecord {
    return { keyGroup: record.keyGroup, key: this.nameBytes(record), value, timers }
  }

  /** Shows the slots of a row, each with the state that it belongs to now. @throws StateLostError; MILLRACE_STATE_INCOMPATIBLE */
  visitValue(
    keyGroup: number,
    bytes: Uint8Array,
    visit: (restored: RestoredState, namespace: Namespace, slot: unknown) => void,
  ): void {
    this.#reader.readValue(keyGroup, bytes, (state, namespace, slot) =>
      visit(this.#restored(state), namespace, slot),
    )
  }

  /** @throws StateLostError */
  timersOf(keyGroup: number, bytes: Uint8Array): StoredTimers {
    return this.#reader.readTimers(keyGroup, bytes)
  }

  /** Images of one key group as one, in the forms of today. */
  merged(images: readonly KeyGroupImage[]): KeyGroupImage | undefined {
    const readers = images.map((image) => new KeyGroupImageReader(image, this.#operatorName))
    const states = readers.map((reader) => reader.states.map((state) => this.#restored(state)))
    const writer = new KeyGroupImageWriter(images[0]!.keyGroup, this.formats)
    let timers = new StoredTimers()
    for (const [i, reader] of readers.entries())
      reader.read({
        beginRecord: (key, part) => {
          timers = new StoredTimers()
          writer.beginRecord(key, part)
        },
        slot: (index, namespace, slot) => {
          const { state, change } = states[i]![index]!
          writer.slot(state.number, namespace, change === undefined ? slot : change(slot))
        },
        timer: (domain, namespace, time, sequence) => timers[domain].push({ namespace, time, sequence }),
        endRecord: () => writer.endRecord(timers),
      })
    return writer.finish()
  }

  #restored(named: RowState): RestoredState {
    void this.formats
    const known = this.#known.get(named.name)
    if (
      known !== undefined &&
      known.named.timed === named.timed &&
      known.named.serde === named.serde &&
      known.named.kind === named.kind
    )
      return known.restored
    const restored = this.registry.restored(named, this.#now())
    void this.formats
    this.#known.set(named.name, { named, restored })
    return restored
  }
}

/**
 * Writes a layer: images of records. A state that is declared meanwhile begins a second image of each key group, since an image names its
 * states at its front.
 */
export class LayerWriter {
  readonly #codec: CacheCodec
  readonly #now: number
  /** By key group, in the order in which they must be read. */
  readonly #finished = new Map<number, KeyGroupImage[]>()
  #writers = new Map<number, KeyGroupImageWriter>()
  #generation: number
  /** Records that were begun, and those that are whole. */
  #begun = 0
  #written = 0

  constructor(codec: CacheCodec, now: number) {
    this.#codec = codec
    this.#now = now
    this.#generation = codec.registry.generation
  }

  /** Writes a record as it is; one that holds nothing as such, which removes it at a restore. Returns its bytes. */
  live(record: CachedRecord): number {
    this.#begun++
    const formats = this.#formats()
    const writer = this.#writer(record.keyGroup, formats)
    const before = writer.length
    writer.beginRecord(record.key, record.part)
    record.forEachSpace((namespace, slots) => {
      const count = Math.min(slots.count, formats.length)
      for (let state = 0; state < count; state++) {
        const held = slots.get(state)
        const slot = held === undefined ? undefined : withoutExpired(held, formats[state]!, this.#now)
        if (slot !== undefined) writer.slot(state, namespace, slot)
      }
    })
    writer.endRecord(record.timers)
    this.#written++
    return writer.length - before
  }

  /** Writes what a row holds. */
  row(keyGroup: number, name: RecordName, { value, timers }: RowBytes): void {
    this.#begun++
    const slots: [RestoredState, Namespace, unknown][] = []
    if (value !== undefined)
      this.#codec.visitValue(keyGroup, value, (restored, namespace, slot) =>
        slots.push([restored, namespace, slot]),
      )
    // Reading may have met a state for the first time.
    const formats = this.#formats()
    const writer = this.#writer(keyGroup, formats)
    writer.beginRecord(name.key, name.part)
    for (const [{ state, change }, namespace, stored] of slots) {
      const slot = withoutExpired(
        change === undefined ? stored : change(stored),
        formats[state.number]!,
        this.#now,
      )
      if (slot !== undefined) writer.slot(state.number, namespace, slot)
    }
    writer.endRecord(timers === undefined ? undefined : this.#codec.timersOf(keyGroup, timers))
    this.#written++
  }

  /**
   * The images; several of one key group are in the order in which they must be read.
   * @throws Error if a record could not be written, though it was taken from where it was: the layer lacks it, or has half of it
   */
  finish(): KeyGroupImage[] {
    this.#checkWhole()
    this.#close()
    return [...this.#finished.values()].flat()
  }

  /**
   * The images in the order of their key groups, one of each, for what must have no more; no two hold the same key. An image that was taken
   * is not held any more.
   */
  *wholes(): Iterable<KeyGroupImage> {
    for (const keyGroup of [...new Set([...this.#finished.keys(), ...this.#writers.keys()])].sort(
      (a, b) => a - b,
    ))
      yield* this.whole(keyGroup)
  }

  /** The same for one key group, of which nothing comes any more: its image, if it has one. */
  whole(keyGroup: number): readonly KeyGroupImage[] {
    this.#checkWhole()
    this.#end(keyGroup)
    const images = this.#finished.get(keyGroup) ?? []
    this.#finished.delete(keyGroup)
    if (images.length < 2) return images
    const merged = this.#codec.merged(images)
    return merged === undefined ? [] : [merged]
  }

  #checkWhole(): void {
    if (this.#written !== this.#begun)
      throw new MillraceError('MILLRACE_INTERNAL', 'A record of the layer could not be written')
  }

  #end(keyGroup: number): void {
    const image = this.#writers.get(keyGroup)?.finish()
    this.#writers.delete(keyGroup)
    if (image === undefined) return
    const images = this.#finished.get(keyGroup)
    if (images === undefined) this.#finished.set(keyGroup, [image])
    else images.push(image)
  }

  #close(): void {
    for (const keyGroup of [...this.#writers.keys()]) this.#end(keyGroup)
  }

  #formats(): readonly SlotFormat[] {
    const { formats, registry } = this.#codec
    if (registry.generation !== this.#generation) {
      this.#close()
      this.#generation = registry.generation
    }
    return formats
  }

  #writer(keyGroup: number, formats: readonly SlotFormat[]): KeyGroupImageWriter {
    let writer = this.#writers.get(keyGroup)
    if (writer === undefined) {
      writer = new KeyGroupImageWriter(keyGroup, formats)
      this.#writers.set(keyGroup, writer)
    }
    return writer
  }
}

/** Makes rows of the records that an image shows. */
export function rowVisitor(
  states: readonly RestoredState[],
  make: (key: Key, part: string | undefined) => CachedRecord,
  put: (record: CachedRecord, restored: RestoredState, namespace: Namespace, slot: unknown) => void,
  done: (record: CachedRecord, timers: StoredTimers) => void,
): ImageVisitor {
  let record: CachedRecord
  let timers: StoredTimers
  return {
    beginRecord: (key, part) => {
      record = make(key, part)
      timers = new StoredTimers()
    },
    slot: (index, namespace, slot) => put(record, states[index]!, namespace, slot),
    timer: (domain, namespace, time, sequence) => timers[domain].push({ namespace, time, sequence }),
    endRecord: () => done(record, timers),
  }
}
