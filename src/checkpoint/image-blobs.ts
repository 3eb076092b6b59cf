/**
 * Images of key groups as blobs of some tens of MiB, each a run of key groups: what is stored is let go, so that beside what is not written
 * yet memory holds one blob, and no blob grows beyond what can be read again.
 *
 *   images of key groups 0 1 2 … ──▶ [0 1 2] [3] [4 5 …]     those of one key group are in one blob
 *
 * Readers need not know: they are layers of which no two hold the same key group.
 */
import type { KeyGroupImage } from '../core/state.ts'
import type { ImagesHandle, KeyedStateHandle } from './checkpoint-storage.ts'

/** A blob is full with this many bytes; a key group that has more is a larger one. */
export const BLOB_BYTES = 64 << 20

/** Cuts images, which come in the order of their key groups, into the blobs that they are stored in. */
export class ImageRuns {
  readonly #blobBytes: number
  #run: KeyGroupImage[] = []
  #bytes = 0

  constructor(blobBytes = BLOB_BYTES) {
    this.#blobBytes = blobBytes
  }

  /** Takes an image. Returns those of the blob that is full without it, which are not held any more. */
  add(image: KeyGroupImage): readonly KeyGroupImage[] | undefined {
    const last = this.#run.at(-1)
    const isFull =
      last !== undefined &&
      last.keyGroup !== image.keyGroup &&
      this.#bytes + image.bytes.length > this.#blobBytes
    const full = isFull ? this.rest() : undefined
    this.#run.push(image)
    this.#bytes += image.bytes.length
    return full
  }

  /** The images of the last blob; empty if there are none. */
  rest(): readonly KeyGroupImage[] {
    const run = this.#run
    this.#run = []
    this.#bytes = 0
    return run
  }
}

/** The images of each blob, key groups in order. */
export function* runsOf(images: Iterable<KeyGroupImage>): Iterable<readonly KeyGroupImage[]> {
  const runs = new ImageRuns()
  for (const image of [...images].sort((a, b) => a.keyGroup - b.keyGroup)) {
    const full = runs.add(image)
    if (full !== undefined) yield full
  }
  const rest = runs.rest()
  if (rest.length > 0) yield rest
}

/** The name of the blob with that index: the first one has the name itself. */
export function blobName(name: string, index: number): string {
  return index === 0 ? name : `${name}.${index + 1}`
}

/** The handle of one checkpoint's images; undefined without any. */
export function wholeHandle(blobs: readonly ImagesHandle[]): KeyedStateHandle | undefined {
  const [only, second] = blobs
  if (only === undefined || second === undefined) return only
  return { kind: 'incremental', layers: blobs, own: true }
}

/**
 * Blobs by the layer that they were stored as, in their order: a layer goes on while the key groups do. A layer that begins behind the last
 * key group of the one before is taken for a part of it.
 */
export function layersOf(blobs: readonly ImagesHandle[]): ImagesHandle[][] {
  const layers: ImagesHandle[][] = []
  let last = Number.POSITIVE_INFINITY
  for (const blob of blobs) {
    const first = blob.keyGroups[0]?.[0] ?? -1
    if (first > last) layers.at(-1)!.push(blob)
    else layers.push([blob])
    last = blob.keyGroups.at(-1)?.[0] ?? Number.POSITIVE_INFINITY
  }
  return layers
}
