/**
 * Images of key groups as blobs of some tens of MiB, each a run of key groups: what is stored is let go, so that beside what is not written
 * yet memory holds one blob, and no blob grows beyond what can be read again.
 *
 *   images of key groups 0 1 2 … ──▶ [0 1 2] [3] [4 5 …]     those of one key group are in one blob
 *
 * Readers need not know: they are layers of which no two hold the same key group.
 */
import type { KeyGroupImage } from '../core/state.ts'
import { type BlobStore, type ImagesHandle, type KeyedStateHandle, packImages } from './checkpoint-storage.ts'

/** A blob is full with this many bytes; a key group that has more is a larger one. */
export const BLOB_BYTES = 64 << 20

/**
 * Stores images, which come in the order of their key groups, and gives the blobs in that order; none without images. The first blob has the
 * name, further ones the name and a number. When it rejects nothing is left of it.
 * @throws MillraceError MILLRACE_CHECKPOINT_STORAGE; whatever the images throw
 */
export async function putImages(
  images: Iterable<KeyGroupImage> | AsyncIterable<KeyGroupImage>,
  blobs: Pick<BlobStore, 'put' | 'discard'>,
  name: string,
  blobBytes = BLOB_BYTES,
): Promise<ImagesHandle[]> {
  const stored: ImagesHandle[] = []
  let run: KeyGroupImage[] = []
  let size = 0
  const put = async (): Promise<void> => {
    const { bytes, keyGroups } = packImages(run.splice(0))
    size = 0
    const blob = stored.length === 0 ? name : `${name}.${stored.length + 1}`
    stored.push({ handle: await blobs.put(blob, bytes), keyGroups })
  }
  try {
    for await (const image of images) {
      const last = run.at(-1)
      if (last !== undefined && last.keyGroup !== image.keyGroup && size + image.bytes.length > blobBytes)
        await put()
      run.push(image)
      size += image.bytes.length
    }
    if (run.length > 0) await put()
    return stored
  } catch (error) {
    run = []
    await discardAll(stored, blobs)
    throw error
  }
}

/** Deletes blobs that nobody names. What cannot be deleted costs room, not correctness, and is found as an orphan later. */
export async function discardAll(
  stored: readonly ImagesHandle[],
  blobs: Pick<BlobStore, 'discard'>,
): Promise<void> {
  await Promise.allSettled(stored.map(({ handle }) => blobs.discard(handle)))
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
