import { beforeEach, describe, expect, test } from '@jest/globals'
import type { StateHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import {
  chunkKey,
  isChunkKey,
  MAX_TOPIC_BLOB_BYTES,
  TopicBlobStore,
} from '../../../src/kafka/topic-blob-store.ts'
import { readLog } from '../../../src/kafka/topic-log.ts'
import { SimulatedScene } from './simulated-scene.ts'

let scene: SimulatedScene
let store: TopicBlobStore

beforeEach(async () => {
  scene = new SimulatedScene()
  await scene.topic('checkpoints', 1, { 'cleanup.policy': 'compact' })
  store = new TopicBlobStore(scene.cluster, 'checkpoints', scene.world)
})

/** What a take-over reads. */
async function restore(): Promise<Map<string, Buffer>> {
  const chunks = new Map<string, Buffer>()
  await scene.run(
    readLog(scene.cluster, 'checkpoints', scene.world, (key, value) => {
      if (value === null) chunks.delete(key)
      else chunks.set(key, value)
    }),
  )
  store.holdChunks(chunks)
  return chunks
}

function bytesOf(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8)) & 255)
}

describe('snapshots in the checkpoint topic', () => {
  test.each([0, 1, 1024])('%i bytes ride in the metadata itself', async (length) => {
    const handle = await scene.run(store.put('a', bytesOf(length)))
    expect(handle.kind).toBe('inline')
    expect(Buffer.from(await store.get(handle))).toEqual(Buffer.from(bytesOf(length)))
    expect(scene.ends('checkpoints').high).toBe(0n)
  })

  test.each([1025, 512 * 1024, 512 * 1024 + 1, MAX_TOPIC_BLOB_BYTES])(
    '%i bytes come back as they were after a take-over',
    async (length) => {
      const handle = await scene.run(store.put('run/1/2/count-0-keyed', bytesOf(length)))
      expect(handle).toMatchObject({ kind: 'topic', size: length, chunks: Math.ceil(length / (512 * 1024)) })
      await restore()
      expect(Buffer.from(await store.get(handle)).equals(Buffer.from(bytesOf(length)))).toBe(true)
    },
  )

  test('more than 5 MB is refused before anything is written, with the ways out', async () => {
    const error = await scene.failure(store.put('big', new Uint8Array(MAX_TOPIC_BLOB_BYTES + 1)))
    expect(error).toMatchObject({ code: 'MILLRACE_STATE_TOO_LARGE' })
    expect(error.remedy).toMatch(/filesystem.*redis.*rocksdb/)
    expect(scene.ends('checkpoints').high).toBe(0n)
  })

  test('a chunk that is missing or damaged is lost state, never other bytes', async () => {
    const handle = await scene.run(store.put('a', bytesOf(1_200_000)))
    const chunks = await restore()
    const second = chunks.get(chunkKey('a', 1))!
    chunks.set(chunkKey('a', 1), Buffer.from(second).fill(0, 5, 6))
    await expect(store.get(handle)).rejects.toMatchObject({
      code: 'MILLRACE_STATE_LOST',
      message: expect.stringContaining('checksum'),
    })
    chunks.delete(chunkKey('a', 1))
    await expect(store.get(handle)).rejects.toMatchObject({
      message: expect.stringContaining('chunk 1 of 3 of snapshot a'),
    })
    await expect(store.get({ kind: 'inline', bytes: 'AQ==', size: 2 })).rejects.toMatchObject({
      code: 'MILLRACE_STATE_LOST',
    })
  })

  test('a handle of another backend says which settings are needed', async () => {
    const file: StateHandle = { kind: 'file', path: 'job/x', size: 1, crc32: 1 }
    await expect(store.get(file)).rejects.toMatchObject({ message: expect.stringContaining('job/x') })
    await store.discard(file)
  })

  test('a discard deletes the chunks of its handle and no others; twice is fine', async () => {
    const handle = await scene.run(store.put('a', bytesOf(600_000)))
    await scene.run(store.put('ab', bytesOf(600_000)))
    await scene.run(store.discard(handle))
    await scene.run(store.discard(handle))
    expect([...(await restore()).keys()]).toEqual([chunkKey('ab', 0), chunkKey('ab', 1)])
  })

  test('compaction keeps what is needed', async () => {
    const kept = await scene.run(store.put('kept', bytesOf(600_000)))
    const gone = await scene.run(store.put('gone', bytesOf(600_000)))
    await scene.run(store.discard(gone))
    scene.kafka.compact('checkpoints', { withTombstones: true })
    await restore()
    expect(Buffer.from(await store.get(kept)).equals(Buffer.from(bytesOf(600_000)))).toBe(true)
  })

  test('chunks are dropped from memory when they are not needed any more', async () => {
    const handle = await scene.run(store.put('a', bytesOf(2_000)))
    await restore()
    store.forgetChunks()
    await expect(store.get(handle)).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
  })

  test('keys of chunks are known from all others', () => {
    expect(isChunkKey(chunkKey('a', 0))).toBe(true)
    for (const key of ['attempt', 'completed/chunk/1', 'confirmed', 'lost/chunk/'])
      expect(isChunkKey(key)).toBe(false)
  })
})
