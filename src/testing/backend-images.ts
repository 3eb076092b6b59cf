/** Restoring backends of every kind in tests: those that take images, and those that take handles. */
import { packImages } from '../checkpoint/checkpoint-storage.ts'
import { storesItself } from '../checkpoint/keyed-snapshot.ts'
import type { KeyedStateBackend, KeyGroupImage } from '../core/state.ts'
import { MemoryBlobStore } from '../state/memory-blob-store.ts'

/** Gives images to a backend that was just made. */
export async function restoreImages(
  backend: KeyedStateBackend,
  images: readonly KeyGroupImage[],
): Promise<void> {
  if (!storesItself(backend)) {
    backend.restore(images)
    return
  }
  const blobs = new MemoryBlobStore()
  const { bytes, keyGroups } = packImages(images)
  const handle = await blobs.put('images', bytes)
  await backend.restoreFrom(images.length === 0 ? [] : [{ handle, keyGroups }], blobs)
}

/** Makes a backend that was just made ready to be used, without state. */
export async function openEmpty<B extends KeyedStateBackend>(backend: B): Promise<B> {
  await restoreImages(backend, [])
  return backend
}
