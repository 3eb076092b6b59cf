/**
 * Keyed state on the heap (`state.backend: jobmanager` and `filesystem`). Values are kept as the objects that the user code gave, nothing
 * is serialized before a checkpoint; freezing costs nothing by itself (see heap-freeze.ts).
 *
 * Limits: all state is in memory, and a key is written whole when it is first touched after a freeze — a key with a map of a hundred
 * thousand entries takes its time then; an async map is written entry by entry.
 */
import type { FrozenKeyedState, Key, KeyGroupImage } from '../core/state.ts'
import { FrozenHeapState } from './heap-freeze.ts'
import type { KeyRecord } from './key-record.ts'
import { ENTRIES_PER_SLICE, TableBackend, type TableBackendOptions } from './table-backend.ts'

/** What a heap backend is made for. */
export type HeapBackendOptions = TableBackendOptions

/** Keyed state of one operator subtask on the heap. */
export class HeapKeyedStateBackend extends TableBackend<KeyRecord, HeapBackendOptions> {
  /** Freezes that still lack records. */
  readonly #freezes: FrozenHeapState[] = []

  constructor(options: HeapBackendOptions) {
    super(options, () => ({ beforeTouch: (record) => this.captureBeforeTouch(record) }))
  }

  /** All state is at hand; this only warms the processor's cache. */
  prefetch(keys: readonly Key[]): undefined {
    this.tables.lookAhead(keys)
    return undefined
  }

  freeze(checkpointId: number): FrozenKeyedState {
    const { range, maxParallelism, operatorName, clock, entriesPerSlice } = this.options
    this.checkSettled(checkpointId)
    const tables = this.tables
    tables.version++
    tables.forgetCurrent()
    const frozen = new FrozenHeapState(
      checkpointId,
      tables.version,
      {
        range,
        maxParallelism,
        operatorName,
        entriesPerSlice: entriesPerSlice ?? ENTRIES_PER_SLICE,
        records: () => tables.records(),
        capture: (record) => this.#capture(record),
        clean: (record) => this.clean(record),
        ended: (ended) => {
          this.#freezes.splice(this.#freezes.indexOf(ended), 1)
        },
      },
      this.registry.formats(),
      clock.now(),
    )
    this.#freezes.push(frozen)
    return frozen
  }

  restore(images: readonly KeyGroupImage[]): void {
    this.readImages(images)
  }

  close(): void {
    for (const frozen of [...this.#freezes]) frozen.release()
    this.tables.clear()
  }

  /**
   * Called when a record is about to be handed out for the first time since the newest freeze. Must write it for every freeze that lacks
   * it; overridden only by tests that show that they notice its absence.
   */
  protected captureBeforeTouch(record: KeyRecord): void {
    this.#capture(record)
  }

  #capture(record: KeyRecord): number {
    let weight = 0
    for (const frozen of this.#freezes) if (frozen.version > record.version) weight += frozen.capture(record)
    record.version = this.tables.version
    return weight
  }
}
