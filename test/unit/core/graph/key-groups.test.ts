import { expect, test } from '@jest/globals'
import {
  keyGroupOf,
  keyGroupRangeOf,
  splitRange,
  subtaskOfKey,
} from '../../../../src/core/graph/key-groups.ts'

test('ranges are those of Flink', () => {
  expect([0, 1, 2].map((subtask) => keyGroupRangeOf(subtask, 128, 3))).toEqual([
    { start: 0, end: 42 },
    { start: 43, end: 85 },
    { start: 86, end: 127 },
  ])
  expect(keyGroupRangeOf(0, 128, 1)).toEqual({ start: 0, end: 127 })
})

test('a key goes to the subtask that owns its key group', () => {
  for (const key of ['u1', 'u2', 7, ['a', 1]]) {
    const { start, end } = keyGroupRangeOf(subtaskOfKey(key, 128, 5), 128, 5)
    const group = keyGroupOf(key, 128)
    expect(group >= start && group <= end).toBe(true)
  }
})

test('more subtasks than key groups, or more key groups than there may be, is a coded error', () => {
  for (const [max, parallelism] of [
    [4, 5],
    [4, 0],
    [32_769, 1],
  ] as const)
    expect(() => keyGroupRangeOf(0, max, parallelism)).toThrow(
      expect.objectContaining({ code: 'MILLRACE_INVALID_GRAPH' }),
    )
})

test('a range is split between the subtasks of the new parallelism', () => {
  expect(splitRange({ start: 43, end: 85 }, 128, 2)).toEqual([
    { subtask: 0, range: { start: 43, end: 63 } },
    { subtask: 1, range: { start: 64, end: 85 } },
  ])
})

test('a key that is none is refused with the name of the operator', () => {
  expect(() => keyGroupOf(undefined as unknown as string, 128, 'count')).toThrow(
    /Operator 'count'.*undefined/,
  )
})
