import { expect, test } from '@jest/globals'
import type { IncrementalHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import { ValueStateDescriptor } from '../../../src/core/state.ts'
import { CachedKeyedStateBackend } from '../../../src/state/cached-backend.ts'
import { HeapKeyedStateBackend } from '../../../src/state/heap-backend.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { recordingLogger } from '../../../src/testing/recorded-log.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import { SimulatedColdDisk, SimulatedColdStore } from '../../../src/testing/simulated-cold-store.ts'

const options = {
  range: { start: 0, end: 3 },
  maxParallelism: 4,
  operatorName: 'count',
  clock: { now: () => 0 },
}
const descriptor = () => new ValueStateDescriptor<string>('value')

test('a record that the store has may leave the cache while a whole snapshot is written, and is in it all the same', async () => {
  const blobs = new MemoryBlobStore()
  const backend = new CachedKeyedStateBackend({
    ...options,
    entriesPerSlice: 1,
    durableAs: undefined,
    localCopy: true,
    incremental: true,
    cacheMaxBytes: 20_000,
    logger: recordingLogger([], { now: () => 0 }),
    openStore: async (origins) =>
      new SimulatedColdStore({ disk: new SimulatedColdDisk(), random: new SeededRandom(1) }, origins),
  })
  await backend.restoreFrom([], blobs)
  const state = backend.getState(descriptor())
  const update = async (key: string, value: string) => {
    await backend.prefetch([key])
    backend.setCurrentKey(key)
    state.update(value)
  }
  const keys = Array.from({ length: 20 }, (_, i) => `k${i}`)
  for (const key of keys) await update(key, key)

  const pause = () => Promise.resolve()
  const first = backend.freeze(1)
  await first.store({ n: 1, blobs, name: 's1', pause })
  const second = backend.freeze(2)
  let goOn: () => void = () => undefined
  const paused = new Promise<void>((resolve) => {
    goOn = resolve
  })
  const images = second.materialize(() => paused)
  for (let i = 0; i < 200; i++) await update(`other-${i}`, 'x'.repeat(200))
  goOn()

  const restored = new HeapKeyedStateBackend(options)
  restored.restore(await images)
  expect([...restored.keys('value')].sort()).toEqual([...keys].sort())
  await backend.close()
})

test('what two given-up snapshots had of a record does not come back in the next one, over a later change', async () => {
  const blobs = new MemoryBlobStore()
  const make = () =>
    new CachedKeyedStateBackend({
      ...options,
      durableAs: undefined,
      localCopy: false,
      incremental: true,
      cacheMaxBytes: Number.POSITIVE_INFINITY,
      logger: recordingLogger([], { now: () => 0 }),
      openStore: undefined,
    })
  const backend = make()
  await backend.restoreFrom([], blobs)
  const state = backend.getState(descriptor())
  const pause = () => Promise.resolve()
  backend.setCurrentKey('other')
  state.update('in the base')
  await backend.freeze(1).store({ n: 1, blobs, name: 's1', pause })
  backend.setCurrentKey('a')
  state.update('old')
  const first = backend.freeze(2)
  expect(state.value()).toBe('old')
  const second = backend.freeze(3)
  first.release()
  expect(state.value()).toBe('old')
  state.update('new')
  const third = backend.freeze(4)
  second.release()
  const handle = await third.store({ n: 4, blobs, name: 's4', pause })

  const restored = make()
  await restored.restoreFrom([handle!], blobs)
  restored.setCurrentKey('a')
  expect(restored.getState(descriptor()).value()).toBe('new')
  for (const each of [backend, restored]) await each.close()
})

test('what an aborted snapshot had in hand for the local copy is in the copy that the next one names', async () => {
  const blobs = new MemoryBlobStore()
  const disk = new SimulatedColdDisk()
  const make = () =>
    new CachedKeyedStateBackend({
      ...options,
      entriesPerSlice: 2,
      durableAs: undefined,
      localCopy: true,
      incremental: true,
      cacheMaxBytes: 100_000,
      logger: recordingLogger([], { now: () => 0 }),
      openStore: async (origins) => new SimulatedColdStore({ disk, random: new SeededRandom(1) }, origins),
    })
  const backend = make()
  await backend.restoreFrom([], blobs)
  const keys = Array.from({ length: 12 }, (_, i) => `k${i}`)
  const updateAll = async (on: CachedKeyedStateBackend, value: string) => {
    const state = on.getState(descriptor())
    await on.prefetch(keys)
    for (const key of keys) {
      on.setCurrentKey(key)
      state.update(value)
    }
  }
  const pause = () => Promise.resolve()
  await updateAll(backend, 'old')
  await backend.freeze(1).store({ n: 1, blobs, name: 's1', pause })
  await updateAll(backend, 'new')
  const second = backend.freeze(2)
  let slices = 0
  const aborted = second.store({
    n: 2,
    blobs,
    name: 's2',
    pause: async () => {
      if (++slices === 3) second.release()
    },
  })
  await expect(aborted).rejects.toMatchObject({ code: 'MILLRACE_CHECKPOINT_FAILED' })
  const handle = await backend.freeze(3).store({ n: 3, blobs, name: 's3', pause })
  expect(handle).toMatchObject({ kind: 'incremental', local: expect.anything() })
  await backend.close()

  const restored = make()
  // Nothing is read but the copy.
  await restored.restoreFrom([JSON.parse(JSON.stringify(handle))], {
    get: () => Promise.reject(new Error('read')),
  })
  await restored.prefetch(keys)
  const state = restored.getState(descriptor())
  for (const key of keys) {
    restored.setCurrentKey(key)
    expect([key, state.value()]).toEqual([key, 'new'])
  }
  await restored.close()
})

test.each(['a value on the heap', 'a row that was frozen'])(
  'a serde that throws leaves no half record for the next snapshot: %s',
  async (where) => {
    const blobs = new MemoryBlobStore()
    let throws = false
    const refusing = {
      name: 'refusing',
      serialize: (value: string) => {
        if (throws) throw new Error(`not now: ${value}`)
        return Buffer.from(value)
      },
      deserialize: (bytes: Uint8Array) => Buffer.from(bytes).toString(),
    }
    const withSerde = () => new ValueStateDescriptor<string>('value', refusing)
    const make = () =>
      new CachedKeyedStateBackend({
        ...options,
        range: { start: 0, end: 0 },
        maxParallelism: 1,
        durableAs: undefined,
        localCopy: false,
        incremental: true,
        cacheMaxBytes: Number.POSITIVE_INFINITY,
        logger: recordingLogger([], { now: () => 0 }),
        openStore: undefined,
      })
    const backend = make()
    await backend.restoreFrom([], blobs)
    const state = backend.getState(withSerde())
    const update = (key: string, value: string) => {
      backend.setCurrentKey(key)
      state.update(value)
    }
    const pause = () => Promise.resolve()
    update('base', 'in the base')
    await backend.freeze(1).store({ n: 1, blobs, name: 's1', pause })
    update('a', 'a')
    update('b', 'b')
    const second = backend.freeze(2)
    // A read after the freeze makes a row of the record, so that the layer is written from rows.
    if (where === 'a row that was frozen')
      for (const key of ['a', 'b']) {
        backend.setCurrentKey(key)
        expect(state.value()).toBe(key)
      }
    throws = true
    const stored = second.store({ n: 2, blobs, name: 's2', pause })
    await expect(stored).rejects.toThrow('not now')
    throws = false
    update('a', 'good')
    const handle = await backend.freeze(3).store({ n: 3, blobs, name: 's3', pause })

    const restored = make()
    await restored.restoreFrom([handle!], blobs)
    const read = restored.getState(withSerde())
    const values = ['base', 'a', 'b'].map((key) => {
      restored.setCurrentKey(key)
      return read.value()
    })
    expect(values).toEqual(['in the base', 'good', 'b'])
    for (const each of [backend, restored]) await each.close()
  },
)

test('a base of many blobs is one layer: what follows are deltas, also after a restore, and all of it comes back', async () => {
  const blobs = new MemoryBlobStore()
  const make = () =>
    new CachedKeyedStateBackend({
      ...options,
      durableAs: undefined,
      localCopy: false,
      incremental: true,
      cacheMaxBytes: Number.POSITIVE_INFINITY,
      logger: recordingLogger([], { now: () => 0 }),
      openStore: undefined,
    })
  const first = make()
  await first.restoreFrom([], blobs)
  const large = 'x'.repeat(34 << 20)
  const keys = ['a', 'b', 'c', 'd']
  for (const key of keys) {
    first.setCurrentKey(key)
    first.getState(descriptor()).update(`${key}${large}`)
  }
  const pause = () => Promise.resolve()
  const base = (await first.freeze(1).store({ n: 1, blobs, name: 's1', pause })) as IncrementalHandle
  expect(base.layers.length).toBeGreaterThan(1)
  await first.close()

  const second = make()
  await second.restoreFrom([base], blobs)
  second.setCurrentKey('a')
  expect(second.getState(descriptor()).value()).toBe(`a${large}`)
  second.getState(descriptor()).update('small')
  const delta = (await second.freeze(2).store({ n: 2, blobs, name: 's2', pause })) as IncrementalHandle
  expect(delta.layers.slice(0, base.layers.length)).toEqual(base.layers)
  expect(delta.layers).toHaveLength(base.layers.length + 1)
  await second.close()

  const third = make()
  await third.restoreFrom([delta], blobs)
  const lengths = keys.map((key) => {
    third.setCurrentKey(key)
    return third.getState(descriptor()).value()?.length
  })
  expect(lengths).toEqual(['small'.length, ...keys.slice(1).map(() => large.length + 1)])
  await third.close()
})
