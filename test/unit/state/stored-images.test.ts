import { describe, expect, test } from '@jest/globals'
import { unpackImages } from '../../../src/checkpoint/checkpoint-storage.ts'
import { layersOf, wholeHandle } from '../../../src/checkpoint/image-blobs.ts'
import type { KeyGroupImage } from '../../../src/core/state.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { putImages } from '../../../src/state/stored-images.ts'

const image = (keyGroup: number, length: number, fill = keyGroup): KeyGroupImage => ({
  keyGroup,
  bytes: new Uint8Array(length).fill(fill),
})

const groupsOf = (blobs: Awaited<ReturnType<typeof putImages>>) =>
  blobs.map(({ keyGroups }) => keyGroups.map(([keyGroup]) => keyGroup))

describe('images as blobs', () => {
  test('each blob is a run of key groups; those of one key group are in one blob, in their order', async () => {
    const blobs = new MemoryBlobStore()
    const images = [image(0, 4), image(1, 4), image(2, 8), image(2, 8, 9), image(3, 20), image(4, 1)]
    const stored = await putImages(images, blobs, 'count', 10)
    expect(groupsOf(stored)).toEqual([[0, 1], [2, 2], [3], [4]])
    const read: KeyGroupImage[] = []
    for (const { handle, keyGroups } of stored) read.push(...unpackImages(await blobs.get(handle), keyGroups))
    expect(read).toEqual(images)
  })

  test('a blob is stored before the images behind it are asked for', async () => {
    const seen: string[] = []
    const blobs = new MemoryBlobStore()
    async function* images() {
      for (const keyGroup of [0, 1, 2]) {
        seen.push(`image ${keyGroup}`)
        yield image(keyGroup, 10)
      }
    }
    const noting = {
      put: (name: string, bytes: Uint8Array) => {
        seen.push(name)
        return blobs.put(name, bytes)
      },
      discard: (handle: Parameters<MemoryBlobStore['discard']>[0]) => blobs.discard(handle),
    }
    await putImages(images(), noting, 'count', 10)
    expect(seen).toEqual(['image 0', 'image 1', 'count', 'image 2', 'count.2', 'count.3'])
  })

  test('nothing is left when an image or a blob fails', async () => {
    const blobs = new MemoryBlobStore()
    async function* images() {
      yield image(0, 10)
      yield image(1, 10)
      throw new Error('no more')
    }
    await expect(putImages(images(), blobs, 'count', 10)).rejects.toThrow('no more')
    expect(blobs.names).toEqual([])
  })

  test('one blob is a handle of images as ever; several are layers of the checkpoint alone', async () => {
    const blobs = new MemoryBlobStore()
    const one = await putImages([image(0, 4)], blobs, 'one', 10)
    expect(wholeHandle(one)).toEqual(one[0])
    const two = await putImages([image(0, 8), image(1, 8)], blobs, 'two', 10)
    expect(wholeHandle(two)).toEqual({ kind: 'incremental', layers: two, own: true })
    expect(wholeHandle([])).toBeUndefined()
  })

  test('blobs are told apart by layer: a layer goes on while the key groups do', async () => {
    const blobs = new MemoryBlobStore()
    const base = await putImages([image(0, 8), image(1, 8), image(2, 8)], blobs, 'base', 10)
    const first = await putImages([image(1, 8), image(2, 8)], blobs, 'first', 10)
    const second = await putImages([image(2, 8)], blobs, 'second', 10)
    expect(layersOf([...base, ...first, ...second])).toEqual([base, first, second])
    expect(layersOf([])).toEqual([])
  })
})
