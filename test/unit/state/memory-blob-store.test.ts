import { expect, test } from '@jest/globals'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'

const bytes = Uint8Array.from([1, 2, 3])

test('blobs come back as they were put, whatever happens to the array later', async () => {
  const store = new MemoryBlobStore()
  const own = Uint8Array.from(bytes)
  const handle = await store.put('a', own)
  own.fill(9)
  expect([...(await store.get(handle))]).toEqual([1, 2, 3])
})

test('blobs of one name in two checkpoints are two blobs', async () => {
  const store = new MemoryBlobStore()
  const first = await store.put('a', bytes)
  const second = await store.put('a', Uint8Array.from([4]))
  await store.discard(second)
  expect([...(await store.get(first))]).toEqual([1, 2, 3])
  await expect(store.get(second)).rejects.toThrow(expect.objectContaining({ code: 'MILLRACE_STATE_LOST' }))
  await store.discard(second)
})

test('small blobs stay in the handle, and a damaged handle is noticed', async () => {
  const store = new MemoryBlobStore({ memoryThreshold: 3 })
  const handle = await store.put('a', bytes)
  expect(handle).toEqual({ kind: 'inline', bytes: 'AQID', size: 3 })
  expect([...(await store.get(handle))]).toEqual([1, 2, 3])
  expect(store.names).toEqual([])
  await expect(store.get({ kind: 'inline', bytes: 'AQ==', size: 3 })).rejects.toThrow(
    /says 3 bytes and holds 1/,
  )
})
