import { describe, expect, test } from '@jest/globals'
import { ValueStateDescriptor } from '../../../src/core/state.ts'
import { HeapKeyedStateBackend } from '../../../src/state/heap-backend.ts'

const MANY = 6_000

function filled(): { backend: HeapKeyedStateBackend; get: (key: string) => number | null } {
  const backend = new HeapKeyedStateBackend({
    range: { start: 0, end: 127 },
    maxParallelism: 128,
    operatorName: 'count',
    clock: { now: () => 0 },
  })
  const state = backend.getState(new ValueStateDescriptor<number>('n'))
  for (let i = 0; i < MANY; i++) {
    backend.setCurrentKey(`k${i}`)
    state.update({ n: i } as never)
  }
  return {
    backend,
    get: (key) => {
      backend.setCurrentKey(key)
      return (state.value() as unknown as { n: number } | null)?.n ?? null
    },
  }
}

describe('keys that are looked up together', () => {
  test('are found in the order of the vector, out of it, and repeatedly', () => {
    const { backend, get } = filled()
    backend.prefetch(['k5', 'k7', 'k7', 'new', 'k9'])
    expect([get('k5'), get('k7'), get('k7'), get('new'), get('k9')]).toEqual([5, 7, 7, null, 9])
    backend.prefetch(['k1', 'k2', 'k3'])
    // A timer's key comes in between.
    expect([get('k1'), get('k100'), get('k2'), get('k3')]).toEqual([1, 100, 2, 3])
  })

  test('are looked up again when an earlier record of the vector removed them', () => {
    const { backend, get } = filled()
    const state = backend.getState(new ValueStateDescriptor<unknown>('n'))
    backend.prefetch(['k1', 'k2', 'k1', 'k1'])
    backend.setCurrentKey('k1')
    state.clear()
    expect(get('k2')).toBe(2)
    backend.setCurrentKey('k1')
    expect(state.value()).toBeNull()
    state.update({ n: 77 })
    expect(get('k1')).toBe(77)
    backend.prefetch(['k2'])
    expect([get('k2'), get('k1')]).toEqual([2, 77])
  })

  test('are written for a freeze before they are handed out', async () => {
    const { backend } = filled()
    const state = backend.getState(new ValueStateDescriptor<{ n: number }>('n'))
    backend.prefetch(['k1', 'k2'])
    const frozen = backend.freeze(1)
    backend.setCurrentKey('k1')
    ;(state.value() as { n: number }).n = 1_000
    const images = await frozen.materialize(async () => undefined)
    const restored = filled().backend
    restored.close()
    restored.restore(images)
    const again = restored.getState(new ValueStateDescriptor<{ n: number }>('n'))
    restored.setCurrentKey('k1')
    expect(again.value()).toEqual({ n: 1 })
  })
})
