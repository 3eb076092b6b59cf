import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { StateHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import { DirectoryCheckpointStorage } from '../../../src/state/directory-storage.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'millrace-'))
})
afterEach(() => rm(root, { recursive: true, force: true }))

const storage = (writer = '1-x', memoryThreshold = 4, at = root) =>
  new DirectoryCheckpointStorage({ root: at, job: 'totals', run: 'r1', writer, memoryThreshold })
const bytes = Uint8Array.from([1, 2, 3, 4, 5, 6])
const pathOf = (handle: StateHandle) => (handle.kind === 'file' ? join(root, handle.path) : '')

describe('blobs in a directory', () => {
  test('come back verified; small ones stay in the handle', async () => {
    const store = storage().blobStore(7)
    const handle = await store.put('count-0', bytes)
    expect(handle).toMatchObject({ kind: 'file', path: 'totals/r1/chk-7/count-0-1-x', size: 6 })
    expect([...(await store.get(handle))]).toEqual([...bytes])
    const small = await store.put('count-1', bytes.subarray(0, 4))
    expect(small.kind).toBe('inline')
    expect([...(await store.get(small))]).toEqual([1, 2, 3, 4])
    expect(await readdir(join(root, 'totals/r1/chk-7'))).toEqual(['count-0-1-x'])
  })

  test('that could not be read again are refused, with their path and size', async () => {
    const put = storage()
      .blobStore(7)
      .put('count-0', new Uint8Array(2 ** 31))
    await expect(put).rejects.toMatchObject({
      code: 'MILLRACE_CHECKPOINT_STORAGE',
      message: expect.stringMatching(/chk-7\/count-0-1-x.*2147483648 bytes/),
    })
    expect(await readdir(root)).toEqual([])
  })

  test('of two attempts do not touch each other', async () => {
    const [old, present] = [storage('1-x').blobStore(8), storage('2-y').blobStore(8)]
    const mine = await present.put('count-0', bytes)
    const theirs = await old.put('count-0', Uint8Array.from([9, 9, 9, 9, 9]))
    await old.discard(theirs)
    expect([...(await present.get(mine))]).toEqual([...bytes])
  })

  test('that are missing, cut or changed are lost state, with their path', async () => {
    const store = storage().blobStore(7)
    const handle = await store.put('count-0', bytes)
    const lost = expect.objectContaining({
      code: 'MILLRACE_STATE_LOST',
      message: expect.stringContaining('chk-7/count-0'),
    })
    await writeFile(pathOf(handle), Uint8Array.from([1, 2, 3, 4, 5, 7]))
    await expect(store.get(handle)).rejects.toThrow(lost)
    await writeFile(pathOf(handle), bytes.subarray(1))
    await expect(store.get(handle)).rejects.toThrow(lost)
    await rm(pathOf(handle))
    await expect(store.get(handle)).rejects.toThrow(lost)
  })

  test('discard removes the named file and folders that this empties, nothing else, and may be repeated', async () => {
    const store = storage().blobStore(7)
    const [a, b] = [await store.put('a', bytes), await store.put('b', bytes)]
    await store.discard(a)
    await store.discard(a)
    expect(await readdir(join(root, 'totals/r1/chk-7'))).toEqual(['b-1-x'])
    await store.discard(b)
    expect(await readdir(root)).toEqual([])
    await writeFile(join(root, 'mine.txt'), 'x')
    const c = await store.put('c', bytes)
    await store.discard(c)
    expect(await readdir(root)).toEqual(['mine.txt'])
  })

  test('a handle cannot lead out of the root', async () => {
    const inner = storage('1-x', 0, join(root, 'inner'))
    await mkdir(join(root, 'inner'))
    await writeFile(join(root, 'secret'), bytes)
    for (const path of ['../secret', 'a/../../secret', join(root, 'secret')]) {
      const handle: StateHandle = { kind: 'file', path, size: 6, crc32: 0 }
      await expect(inner.read(handle)).rejects.toThrow(
        expect.objectContaining({ code: 'MILLRACE_STATE_LOST' }),
      )
      await expect(inner.discard(handle)).rejects.toThrow(
        expect.objectContaining({ code: 'MILLRACE_STATE_LOST' }),
      )
    }
    expect([...(await readFile(join(root, 'secret')))]).toEqual([...bytes])
  })

  test('a handle of another kind of storage is lost state', async () => {
    const handle: StateHandle = { kind: 'topic', name: 'x', chunks: 1, size: 6, crc32: 0 }
    await expect(storage().read(handle)).rejects.toThrow(/state backend changed/)
  })
})

describe('metadata', () => {
  test('is written once a checkpoint, listed and read back', async () => {
    const store = storage()
    await store.blobStore(2).put('a', bytes)
    await store.writeMetadata(10, bytes)
    await store.writeMetadata(9, bytes)
    expect(await store.list()).toEqual([9, 10])
    expect([...(await store.readMetadata(9))]).toEqual([...bytes])
    await expect(store.writeMetadata(9, bytes)).rejects.toThrow(/_metadata' exists already/)
    await store.discardMetadata(9)
    expect(await store.list()).toEqual([10])
    await expect(store.readMetadata(9)).rejects.toThrow(
      expect.objectContaining({ code: 'MILLRACE_STATE_LOST' }),
    )
  })
})

describe('a directory that cannot be used', () => {
  test('fails the start, naming path and reason', async () => {
    await writeFile(join(root, 'file'), 'x')
    const failure = expect.objectContaining({
      code: 'MILLRACE_CHECKPOINT_STORAGE',
      message: expect.stringMatching(/file.*(ENOTDIR|EEXIST)/),
    })
    await expect(storage('1-x', 4, join(root, 'file')).prepare()).rejects.toThrow(failure)
    await expect(storage('1-x', 4, join(root, 'file')).blobStore(1).put('a', bytes)).rejects.toThrow(failure)
  })

  test('that is not writable fails the start', async () => {
    if (process.getuid?.() === 0) return // root may write anywhere
    await chmod(root, 0o500)
    await expect(storage().prepare()).rejects.toThrow(/EACCES/)
    await chmod(root, 0o700)
  })

  test('one that can be used is made, and left without a trace of the proof', async () => {
    const deep = join(root, 'a', 'b')
    await storage('1-x', 4, deep).prepare()
    expect(await readdir(join(deep, 'totals/r1'))).toEqual([])
    expect(await storage('1-x', 4, deep).list()).toEqual([])
  })
})
