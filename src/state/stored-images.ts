/** Stores images of key groups as the blobs that checkpoint/image-blobs.ts cuts them into, while they are being made. */
import { type BlobStore, type ImagesHandle, packImages } from '../checkpoint/checkpoint-storage.ts'
import { BLOB_BYTES, blobName, ImageRuns } from '../checkpoint/image-blobs.ts'
import type { KeyGroupImage } from '../core/state.ts'

/**
 * Stores images, which come in the order of their key groups, and gives the blobs in that order; none without images. When it rejects nothing
 * is left of it.
 * @throws MillraceError MILLRACE_CHECKPOINT_STORAGE; whatever the images throw
 */
export async function putImages(
  images: Iterable<KeyGroupImage> | AsyncIterable<KeyGroupImage>,
  blobs: Pick<BlobStore, 'put' | 'discard'>,
  name: string,
  blobBytes = BLOB_BYTES,
): Promise<ImagesHandle[]> {
  const stored: ImagesHandle[] = []
  const runs = new ImageRuns(blobBytes)
  const put = async (run: readonly KeyGroupImage[]): Promise<void> => {
    const { bytes, keyGroups } = packImages(run)
    stored.push({ handle: await blobs.put(blobName(name, stored.length), bytes), keyGroups })
  }
  try {
    for await (const image of images) {
      const full = runs.add(image)
      if (full !== undefined) await put(full)
    }
    const rest = runs.rest()
    if (rest.length > 0) await put(rest)
    return stored
  } catch (error) {
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
