import { describe, expect, test } from '@jest/globals'
import { RetainedCheckpoints } from '../../../src/checkpoint/retained-checkpoints.ts'

describe('which checkpoints are still needed', () => {
  test('an older one goes only after a newer one is complete and confirmed', () => {
    const retained = new RetainedCheckpoints(1, [3])
    retained.add(4, 'checkpoint')
    expect(retained.takeUnneeded(3)).toEqual([])
    expect(retained.has(3)).toBe(true)
    expect(retained.takeUnneeded(4)).toEqual([3])
    expect(retained.has(3)).toBe(false)
    expect(retained.takeUnneeded(4)).toEqual([])
  })

  test('as many stay as are to be retained', () => {
    const retained = new RetainedCheckpoints(2, [0])
    for (const n of [1, 2, 3]) retained.add(n, 'checkpoint')
    expect(retained.takeUnneeded(3)).toEqual([0, 1])
  })

  test('a savepoint takes no place of a checkpoint, so that incremental ones keep the one they build on', () => {
    const retained = new RetainedCheckpoints(1, [3])
    retained.add(4, 'savepoint')
    retained.add(5, 'savepoint')
    expect(retained.takeUnneeded(5)).toEqual([])
    retained.add(6, 'checkpoint')
    expect(retained.takeUnneeded(5)).toEqual([])
    expect(retained.takeUnneeded(6)).toEqual([3, 4, 5])
  })

  test('a savepoint that was restored from is known as one', () => {
    const retained = new RetainedCheckpoints(3, [4], [4])
    retained.add(5, 'checkpoint')
    expect(retained.takeUnneeded(5)).toEqual([4])
  })

  test('one that is newer than the newest confirmed checkpoint stays, whatever it is', () => {
    const retained = new RetainedCheckpoints(1, [1])
    retained.add(2, 'checkpoint')
    retained.add(3, 'savepoint')
    expect(retained.takeUnneeded(3)).toEqual([1])
    expect(retained.has(3)).toBe(true)
  })
})
