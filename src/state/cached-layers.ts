/**
 * The layers that incremental checkpoints name: a base, then what changed, oldest first.
 *
 *   base ─▶ delta ─▶ delta ─▶ …     a new base when the deltas outweigh it or are too many
 *
 * A layer that was stored stays in the chain whether its checkpoint completes or not: the next one names it too. One that could not be
 * stored is carried into the next one.
 */
import type { ImagesHandle, IncrementalHandle, KeyedStateHandle } from '../checkpoint/checkpoint-storage.ts'
import { layersOf } from '../checkpoint/image-blobs.ts'
import type { KeyedSnapshotTarget } from '../checkpoint/keyed-snapshot.ts'
import type { KeyGroupImage } from '../core/state.ts'
import { putImages } from './stored-images.ts'

/** A chain with as many deltas gets a new base. Each layer's key groups are in the checkpoint's record, and each is a file to read at a restore. */
export const MAX_DELTAS = 24
/** Deltas below this many bytes never outweigh a base. */
export const SMALL_DELTAS_BYTES = 1 << 20

/** The chain of one operator subtask. */
export class LayerChain {
  readonly #carryMaxBytes: number
  /** Blobs: of the base, then of each delta. */
  #layers: ImagesHandle[] = []
  #deltas = 0
  #baseBytes = 0
  #deltaBytes = 0
  #carried: KeyGroupImage[] = []
  #carriedBytes = 0
  #baseLost = false

  /** Deltas that could not be stored are kept up to `carryMaxBytes`; beyond, the next layer is a base. */
  constructor(carryMaxBytes: number) {
    this.#carryMaxBytes = carryMaxBytes
  }

  /** Goes on from the handles that were restored. */
  continueFrom(handles: readonly KeyedStateHandle[]): void {
    for (const handle of handles) {
      // Plain images may be a savepoint's, which no checkpoint may depend on; nor on a checkpoint that a person keeps.
      if (handle.kind !== 'incremental' || handle.layers.some((layer) => layer.handle.kind === 'kept')) {
        this.#baseLost = true
        return
      }
      const [base, ...deltas] = layersOf(handle.layers)
      if (base === undefined) continue
      this.#layers.push(...handle.layers)
      this.#deltas += deltas.length
      this.#baseBytes += bytesOf(base)
      this.#deltaBytes += bytesOf(deltas.flat())
    }
  }

  /** True if the next layer must hold everything. */
  get needsBase(): boolean {
    return (
      this.#baseLost ||
      this.#deltas >= MAX_DELTAS ||
      this.#deltaBytes > Math.max(this.#baseBytes, SMALL_DELTAS_BYTES)
    )
  }

  /** What changed cannot be told any more: the next layer must hold everything. */
  loseBase(): void {
    this.#baseLost = true
    this.#carried = []
    this.#carriedBytes = 0
  }

  /** Stores a base, its images in the order of their key groups; it replaces the chain. */
  async putBase(
    images: Iterable<KeyGroupImage> | AsyncIterable<KeyGroupImage>,
    { blobs, name }: KeyedSnapshotTarget,
  ): Promise<void> {
    this.#layers = await putImages(images, blobs, name)
    this.#baseLost = false
    this.#deltas = 0
    this.#baseBytes = bytesOf(this.#layers)
    this.#deltaBytes = 0
    this.#carried = []
    this.#carriedBytes = 0
  }

  /** Stores a delta; images of one key group stay in their order. When that fails it is carried into the next one. */
  async putDelta(images: readonly KeyGroupImage[], { blobs, name }: KeyedSnapshotTarget): Promise<void> {
    const carried = [...this.#carried, ...images].sort((a, b) => a.keyGroup - b.keyGroup)
    if (carried.length === 0) return
    this.#carried = []
    this.#carriedBytes = 0
    try {
      const layer = await putImages(carried, blobs, name)
      if (this.#layers.length === 0) this.#baseBytes = bytesOf(layer)
      else {
        this.#deltas++
        this.#deltaBytes += bytesOf(layer)
      }
      this.#layers.push(...layer)
    } catch (error) {
      this.carry(carried)
      throw error
    }
  }

  /** Images that belong to the next layer, in front of what changed since. */
  carry(images: readonly KeyGroupImage[]): void {
    if (this.#baseLost) return
    this.#carried.push(...images)
    this.#carriedBytes += images.reduce((sum, { bytes }) => sum + bytes.length, 0)
    if (this.#carriedBytes > this.#carryMaxBytes) this.loseBase()
  }

  /** The handle of a checkpoint; undefined if there is no state. */
  handle(local: unknown): IncrementalHandle | undefined {
    if (this.#layers.length === 0) return undefined
    const layers = [...this.#layers]
    return local === undefined ? { kind: 'incremental', layers } : { kind: 'incremental', layers, local }
  }
}

function bytesOf(layer: readonly ImagesHandle[]): number {
  return layer.flatMap(({ keyGroups }) => keyGroups).reduce((sum, [, , length]) => sum + length, 0)
}
