import { describe, expect, test } from '@jest/globals'
import type { ImagesHandle, StateHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import { redistributeKeyGroups, redistributeOperatorState } from '../../../src/checkpoint/rescale-plan.ts'

const handle = (name: string): StateHandle => ({ kind: 'file', path: name, size: 100, crc32: 0 })
const keyed = (name: string, groups: readonly number[]): ImagesHandle => ({
  handle: handle(name),
  keyGroups: groups.map((group) => [group, group * 10, 10]),
})

describe('key groups', () => {
  test('go to the new owners, each with the handles it needs and no other groups', () => {
    const plan = redistributeKeyGroups([keyed('a', [0, 1, 3]), keyed('b', [4, 7])], 8, 3) as ImagesHandle[][]
    expect(
      plan.map((subtask) => subtask.map((part) => [part.handle, part.keyGroups.map(([group]) => group)])),
    ).toEqual([
      [[handle('a'), [0, 1]]],
      [
        [handle('a'), [3]],
        [handle('b'), [4]],
      ],
      [[handle('b'), [7]]],
    ])
    expect(plan[2]![0]!.keyGroups).toEqual([[7, 70, 10]])
  })

  test('of a checkpoint that holds one twice, or one too high, are refused', () => {
    expect(() => redistributeKeyGroups([keyed('a', [1]), keyed('b', [1])], 8, 2)).toThrow(
      /two subtasks hold key group 1/,
    )
    expect(() => redistributeKeyGroups([keyed('a', [8])], 8, 2)).toThrow(
      expect.objectContaining({ code: 'MILLRACE_STATE_LOST' }),
    )
  })
})

describe('operator state', () => {
  const split = (...items: number[]) => ({ offsets: { redistribution: 'split' as const, items } })

  test('split lists stay where they are at the same parallelism', () => {
    expect(redistributeOperatorState([split(1, 2, 3), split()], 2)).toEqual([split(1, 2, 3), split()])
  })

  test('split lists are cut into even runs at another parallelism, keeping their order', () => {
    expect(redistributeOperatorState([split(1, 2, 3), split(4)], 3)).toEqual([
      split(1),
      split(2),
      split(3, 4),
    ])
    expect(redistributeOperatorState([split(1), split(2, 3)], 1)).toEqual([split(1, 2, 3)])
  })

  test('items that are arrays are not taken apart', () => {
    const pair = { p: { redistribution: 'split' as const, items: [[1, [2]]] } }
    expect(redistributeOperatorState([pair, pair], 1)[0]!['p']!.items).toEqual([
      [1, [2]],
      [1, [2]],
    ])
  })

  test('union lists go whole to everyone', () => {
    const union = (...items: number[]) => ({ all: { redistribution: 'union' as const, items } })
    expect(redistributeOperatorState([union(1), union(2)], 3)).toEqual([
      union(1, 2),
      union(1, 2),
      union(1, 2),
    ])
  })

  test('broadcast state is one copy for everyone, also when only one old subtask has it', () => {
    const rules = (...items: unknown[]) => ({ rules: { redistribution: 'broadcast' as const, items } })
    expect(redistributeOperatorState([rules(['a', 1]), rules(['a', 1])], 3)).toEqual([
      rules(['a', 1]),
      rules(['a', 1]),
      rules(['a', 1]),
    ])
    expect(redistributeOperatorState([{}, rules(['a', 1])], 2)).toEqual([rules(['a', 1]), rules(['a', 1])])
  })

  test('old subtasks that disagree are refused', () => {
    const union = { offsets: { redistribution: 'union' as const, items: [1] } }
    expect(() => redistributeOperatorState([split(1), union], 2)).toThrow(
      expect.objectContaining({ code: 'MILLRACE_STATE_INCOMPATIBLE' }),
    )
  })
})
