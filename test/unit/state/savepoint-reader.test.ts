import { describe, expect, test } from '@jest/globals'
import { type KeyedStateHandle, packImages } from '../../../src/checkpoint/checkpoint-storage.ts'
import { AsyncMapStateDescriptor, type Key, ValueStateDescriptor } from '../../../src/core/state.ts'
import { HeapKeyedStateBackend } from '../../../src/state/heap-backend.ts'
import { KeyGroupImageWriter } from '../../../src/state/key-group-image.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { storedKeys } from '../../../src/state/savepoint-reader.ts'
import { outsideOf } from '../../../src/state/savepoint-summary.ts'
import { completed } from './completed-checkpoint.ts'

const blobs = new MemoryBlobStore()

/** A layer: values by key group and key; undefined removes the key. */
async function layer(groups: Readonly<Record<number, readonly (readonly [Key, number | undefined])[]>>) {
  const images = Object.entries(groups).map(([keyGroup, records]) => {
    const writer = new KeyGroupImageWriter(Number(keyGroup), [
      { name: 'count', kind: 'value', timed: false, ttl: undefined, serde: undefined },
    ])
    for (const [key, value] of records) {
      writer.beginRecord(key)
      if (value !== undefined) writer.slot(0, '', value)
      writer.endRecord(undefined)
    }
    return writer.finish()!
  })
  const { bytes, keyGroups } = packImages(images)
  return { handle: await blobs.put('layer', bytes), keyGroups }
}

async function read(...keyed: KeyedStateHandle[]): Promise<string[]> {
  const states = keyed.map((each, subtask) => ({ uid: 'count', subtask, keyed: each })).reverse()
  const found: string[] = []
  for await (const { keyGroup, key, values } of storedKeys(completed({ states }), 'count', (handle) =>
    blobs.get(handle),
  ))
    found.push(`${keyGroup} ${String(key)} ${String(values[0]?.value)}`)
  return found
}

describe('what a snapshot holds of an operator', () => {
  test('shows the entries of an async map under their key, and none of the records that they are', async () => {
    const backend = new HeapKeyedStateBackend({
      range: { start: 0, end: 3 },
      maxParallelism: 4,
      operatorName: 'count',
      clock: { now: () => 0 },
    })
    for (const key of ['a', 'b'] as const) {
      backend.setCurrentKey(key)
      backend.getState(new ValueStateDescriptor<number>('value')).update(1)
      const map = backend.getAsyncMapState(new AsyncMapStateDescriptor<number, string>('stock'))
      for (let i = 0; i < 100; i++) map.put(i, `${key}${i}`)
    }
    backend.settle()
    const { bytes, keyGroups } = packImages(await backend.freeze(1).materialize(() => Promise.resolve()))
    const keyed = { handle: await blobs.put('images', bytes), keyGroups }
    const found = new Map<Key, unknown>()
    const states = [{ uid: 'count', subtask: 0, keyed }]
    for await (const { key, values } of storedKeys(completed({ states }), 'count', (handle) =>
      blobs.get(handle),
    ))
      found.set(
        key,
        values.map(({ state, kind, value }) => [state, kind, value]),
      )
    const entries = (key: string) => new Map(Array.from({ length: 100 }, (_, i) => [i, `${key}${i}`]))
    expect([...found].sort()).toEqual([
      [
        'a',
        [
          ['value', 'value', 1],
          ['stock', 'async-map', entries('a')],
        ],
      ],
      [
        'b',
        [
          ['value', 'value', 1],
          ['stock', 'async-map', entries('b')],
        ],
      ],
    ])
  })

  test('are the images of all subtasks, in their order', async () => {
    expect(await read(await layer({ 1: [['a', 1]], 0: [['b', 2]] }), await layer({ 9: [['c', 3]] }))).toEqual(
      ['0 b 2', '1 a 1', '9 c 3'],
    )
  })

  test('of layers, is the latest record of each key; an empty one removes it, and one that comes after that is there', async () => {
    const layers = [
      await layer({
        1: [
          ['a', 1],
          ['b', 1],
          ['c', 1],
        ],
        2: [['d', 1]],
      }),
      await layer({
        1: [
          ['a', 2],
          ['b', undefined],
          ['c', undefined],
        ],
      }),
      await layer({ 1: [['c', 3]], 3: [['e', 3]] }),
    ]
    expect(await read({ kind: 'incremental', layers })).toEqual(['1 a 2', '1 c 3', '2 d 1', '3 e 3'])
  })

  test('keys of different kinds that look alike are different keys', async () => {
    const layers = [
      await layer({
        1: [
          ['1', 1],
          [1, 2],
        ],
      }),
      await layer({ 1: [[1n, 3]] }),
    ]
    expect(await read({ kind: 'incremental', layers })).toEqual(['1 1 1', '1 1 2', '1 1 3'])
  })

  test('state in a store outside is named, not read', async () => {
    const keyed = {
      kind: 'external',
      backend: 'redis',
      range: [0, 63],
      state: { run: 'r' },
      size: 10,
    } as const
    expect(await read(keyed)).toEqual([])
    expect(outsideOf(completed({ states: [{ uid: 'count', subtask: 0, keyed }] }), 'count')).toEqual([
      'key groups 0–63 in redis: {"run":"r"}',
    ])
  })
})
