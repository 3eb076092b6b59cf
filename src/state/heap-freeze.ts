/**
 * The frozen state of one checkpoint on the heap. Freezing copies nothing: each record is written when it is first touched after the
 * freeze, or when the sweep comes by, whichever is earlier.
 *
 *   frozen ── materialize: sweep in slices ──▶ swept ──▶ written (images handed over)
 *      └──────────── release ──────────────────▶ released ◀──┘
 *
 * Why it is exact: a record's version says for which freezes it has been written. Whoever wants to look at a record goes through the
 * tables first, which write it for every freeze that still lacks it; a record made later carries the version of its making and is
 * skipped; a removed one was touched before. The sweep walks a live Map, which visits what is there and survives changes.
 */
import { keyGroupOf, rangeContains } from '../core/graph/key-groups.ts'
import type { FrozenKeyedState, KeyGroupImage, KeyGroupRange } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import { KeyGroupImageWriter } from './key-group-image.ts'
import type { KeyRecord } from './key-record.ts'
import { type SlotFormat, slotWeight, withoutExpired } from './state-slot.ts'

/** Records passed over weigh this much of one that is written. */
const SKIP_WEIGHT = 1 / 16
/** Bytes that are finished (copied and summed) in one slice. */
const FINISH_BYTES = 1 << 20

/** What a freeze needs of its backend. */
export interface FreezeSource {
  readonly operatorName: string
  readonly range: KeyGroupRange
  readonly maxParallelism: number
  /** Values written per slice of the sweep. */
  readonly entriesPerSlice: number
  records(): Iterable<KeyRecord>
  /** Writes the record for every freeze in flight that lacks it, and marks it. Returns what that weighed. */
  capture(record: KeyRecord): number
  /** Called with each record that the sweep passes, to take out what has expired. */
  clean(record: KeyRecord): void
  /** This freeze needs no more captures. */
  ended(freeze: FrozenHeapState): void
}

/** Frozen keyed state of one checkpoint. */
export class FrozenHeapState implements FrozenKeyedState {
  readonly checkpointId: number
  /** Records of a lower version belong to this freeze and are not written yet. */
  readonly version: number
  readonly #source: FreezeSource
  readonly #formats: readonly SlotFormat[]
  readonly #now: number
  /** By key group, from the start of the range. */
  #writers: (KeyGroupImageWriter | undefined)[] = []
  #state: 'frozen' | 'swept' | 'released' = 'frozen'
  #failure: { readonly error: unknown } | undefined
  #images: Promise<KeyGroupImage[]> | undefined

  constructor(
    checkpointId: number,
    version: number,
    source: FreezeSource,
    formats: readonly SlotFormat[],
    now: number,
  ) {
    this.checkpointId = checkpointId
    this.version = version
    this.#source = source
    this.#formats = formats
    this.#now = now
  }

  /**
   * Writes a record as it is now. Called by the backend once for each record that was there at the freeze, before it can change.
   * A failure is kept for `materialize`: it is the checkpoint's, not that of the user code that happens to touch the record.
   */
  capture(record: KeyRecord): number {
    if (this.#failure !== undefined) return 0
    try {
      return this.#write(record)
    } catch (error) {
      this.#failure = { error }
      this.#writers = []
      return 1
    }
  }

  materialize(pause: () => Promise<void>): Promise<KeyGroupImage[]> {
    this.#images ??= this.#materialize(pause)
    return this.#images
  }

  release(): void {
    if (this.#state === 'frozen') this.#source.ended(this)
    this.#state = 'released'
    this.#writers = []
  }

  async #materialize(pause: () => Promise<void>): Promise<KeyGroupImage[]> {
    const source = this.#source
    let budget = source.entriesPerSlice
    this.#checkUsable()
    for (const record of source.records()) {
      budget -= record.version < this.version ? source.capture(record) : SKIP_WEIGHT
      source.clean(record)
      if (budget > 0) continue
      await pause()
      this.#checkUsable()
      budget = source.entriesPerSlice
    }
    this.#checkUsable()
    this.#state = 'swept'
    source.ended(this)
    return this.#finish(pause)
  }

  async #finish(pause: () => Promise<void>): Promise<KeyGroupImage[]> {
    const images: KeyGroupImage[] = []
    const writers = this.#writers
    let bytes = 0
    for (let i = 0; i < writers.length; i++) {
      const image = writers[i]?.finish()
      // The writer's buffer is not needed any more: at most one image is held twice.
      writers[i] = undefined
      if (image === undefined) continue
      images.push(image)
      bytes += image.bytes.length
      if (bytes < FINISH_BYTES) continue
      bytes = 0
      await pause()
      this.#checkUsable()
    }
    this.#writers = []
    return images
  }

  #checkUsable(): void {
    if (this.#state === 'released')
      throw new MillraceError(
        'MILLRACE_CHECKPOINT_FAILED',
        `Operator '${this.#source.operatorName}': the frozen state of checkpoint ${this.checkpointId} was released before it was written`,
      )
    if (this.#failure === undefined) return
    this.release()
    throw this.#failure.error
  }

  #write(record: KeyRecord): number {
    const formats = this.#formats
    if (record.isPlain && formats.length === 1) return this.#writePlain(record, formats[0]!)
    let writer: KeyGroupImageWriter | undefined
    let weight = 1
    record.forEachSpace((namespace, slots) => {
      const count = Math.min(slots.count, formats.length)
      for (let state = 0; state < count; state++) {
        const format = formats[state]!
        const held = slots.get(state)
        const slot = held === undefined ? undefined : withoutExpired(held, format, this.#now)
        if (slot === undefined) continue
        writer ??= this.#begin(record)
        writer.slot(state, namespace, slot)
        weight += slotWeight(slot, format.kind)
      }
    })
    if (record.timers !== undefined) writer ??= this.#begin(record)
    writer?.endRecord(record.timers)
    return weight
  }

  /** The usual record, one state and neither windows nor timers, without a closure or a loop. Same bytes. */
  #writePlain(record: KeyRecord, format: SlotFormat): number {
    const held = record.get(0)
    const slot = held === undefined ? undefined : withoutExpired(held, format, this.#now)
    if (slot === undefined) return 1
    const writer = this.#begin(record)
    writer.slot(0, '', slot)
    writer.endRecord(undefined)
    return 1 + slotWeight(slot, format.kind)
  }

  #begin(record: KeyRecord): KeyGroupImageWriter {
    const { range, maxParallelism, operatorName } = this.#source
    if (record.keyGroup < 0) record.keyGroup = keyGroupOf(record.key, maxParallelism, operatorName)
    const { keyGroup } = record
    if (!rangeContains(range, keyGroup))
      throw new MillraceError(
        'MILLRACE_INTERNAL',
        `Operator '${operatorName}' holds a key of key group ${keyGroup}, its range is ${range.start}–${range.end}`,
      )
    const place = keyGroup - range.start
    this.#writers[place] ??= new KeyGroupImageWriter(keyGroup, this.#formats)
    this.#writers[place].beginRecord(record.key, record.part)
    return this.#writers[place]
  }
}
