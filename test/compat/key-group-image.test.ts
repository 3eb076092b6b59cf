import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import type { HeapKeyedStateBackend } from '../../src/state/heap-backend.ts'
import { allOf } from '../../src/testing/state-backend-model.ts'
import {
  emptyGoldenBackend,
  goldenAsyncMaps,
  goldenBackend,
  goldenBackendWithAsyncMaps,
  goldenStates,
} from './golden-keyed-state.ts'

type Golden = { keyGroup: number; bytes: string }[]

function goldenOf(format: number): Golden {
  return JSON.parse(
    readFileSync(new URL(`state/key-group-images-${format}.json`, import.meta.url), 'utf8'),
  ) as Golden
}

const imagesOf = (golden: Golden) =>
  golden.map(({ keyGroup, bytes }) => ({ keyGroup, bytes: new Uint8Array(Buffer.from(bytes, 'base64')) }))

async function written(backend: HeapKeyedStateBackend): Promise<Golden> {
  const images = await backend.freeze(1).materialize(() => Promise.resolve())
  return images.map(({ keyGroup, bytes }) => ({ keyGroup, bytes: Buffer.from(bytes).toString('base64') }))
}

const golden = goldenOf(1)
const images = imagesOf(golden)

describe('images of key groups, format 1', () => {
  test('are written as in the golden file', async () => {
    expect(await written(goldenBackend())).toEqual(golden)
  })

  test('restore to the state they were made of', () => {
    const backend = emptyGoldenBackend()
    backend.restore(images)
    const states = goldenStates()
    backend.setCurrentKey('u1')
    expect(backend.getState(states.value).value()).toEqual({ at: new Date(7), big: 1n, none: undefined })
    expect(backend.getListState(states.list).get()).toEqual([1, 2, 3])
    expect([...backend.getMapState(states.map).entries()]).toEqual([
      ['a', { n: 1 }],
      [1, { n: 2 }],
    ])
    expect(backend.getReducingState(states.reducing).get()).toBe(4)
    expect(backend.getAggregatingState(states.aggregating).get()).toBe('sum 5')
    expect(backend.getState(states.expiring).value()).toBe('soon gone')
    expect(backend.getState(states.coded).value()).toBe('LOUD')
    backend.setCurrentNamespace(60_000)
    expect(backend.getListState(states.list).get()).toEqual([9])
    backend.setCurrentNamespace('')
    backend.setCurrentKey(['eu', 7n])
    expect(backend.getState(states.value).value()).toBe('composite')
    expect(backend.entries).toBe(9)
    expect(backend.timers().nextProcessingTime()).toBe(6_000)
    expect(backend.timers().dueEventTimers(70_000, 10)).toEqual([
      { key: ['eu', 7n], namespace: 'w', time: 65_000 },
      { key: 'u1', namespace: 60_000, time: 70_000 },
    ])
  })
})

describe('images of key groups, format 2', () => {
  test('are written as in the golden file by an operator with async maps', async () => {
    expect(await written(goldenBackendWithAsyncMaps())).toEqual(goldenOf(2))
  })

  test('restore to the state they were made of', async () => {
    const backend = emptyGoldenBackend()
    backend.restore(imagesOf(goldenOf(2)))
    const maps = goldenAsyncMaps()
    const plain = backend.getAsyncMapState(maps.plain)
    backend.setCurrentKey('u1')
    expect(await plain.get(69)).toBe('item 69')
    expect(await plain.contains('none')).toBe(true)
    expect(new Set(await allOf(plain.keys()))).toEqual(
      new Set<unknown>(['none', ...Array.from({ length: 70 }, (_, i) => i)]),
    )
    backend.setCurrentKey(['eu', 7n])
    expect(await allOf(plain.entries())).toEqual([['a', { n: 1 }]])
    expect(await allOf(backend.getAsyncMapState(maps.expiring).entries())).toEqual([['b', 'LOUD']])
    expect(backend.getState(goldenStates().value).value()).toBe('composite')
    backend.setCurrentKey('u1')
    expect(backend.getState(goldenStates().coded).value()).toBe('LOUD')
  })
})
