import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { emptyGoldenBackend, goldenBackend, goldenStates } from './golden-keyed-state.ts'

const golden: { keyGroup: number; bytes: string }[] = JSON.parse(
  readFileSync(new URL('state/key-group-images-1.json', import.meta.url), 'utf8'),
)
const images = golden.map(({ keyGroup, bytes }) => ({
  keyGroup,
  bytes: new Uint8Array(Buffer.from(bytes, 'base64')),
}))

describe('images of key groups, format 1', () => {
  test('are written as in the golden file', async () => {
    const written = await goldenBackend()
      .freeze(1)
      .materialize(() => Promise.resolve())
    const asText = written.map(({ keyGroup, bytes }) => ({
      keyGroup,
      bytes: Buffer.from(bytes).toString('base64'),
    }))
    expect(asText).toEqual(golden)
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
