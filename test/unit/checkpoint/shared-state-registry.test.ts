import { expect, test } from '@jest/globals'
import type { StateHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import { SharedStateRegistry } from '../../../src/checkpoint/shared-state-registry.ts'

const file = (path: string): StateHandle => ({ kind: 'file', path, size: 1, crc32: 0 })
const checkpoint = (n: number, ...paths: string[]) => ({
  run: 'r',
  n,
  states: [
    {
      uid: 'count',
      subtask: 0,
      keyed: {
        kind: 'incremental' as const,
        layers: paths.map((path) => ({ handle: file(path), keyGroups: [[0, 0, 1] as const] })),
      },
    },
  ],
})

test('a blob goes when the last checkpoint that names it is forgotten', () => {
  const registry = new SharedStateRegistry()
  registry.add(checkpoint(1, 'base', 'd1'))
  registry.add(checkpoint(2, 'base', 'd1', 'd2'))
  registry.add(checkpoint(3, 'base2'))
  expect(registry.forget({ run: 'r', n: 1 })).toEqual([])
  expect(registry.has(file('base'))).toBe(true)
  expect(registry.forget({ run: 'r', n: 2 })).toEqual([file('base'), file('d1'), file('d2')])
  expect(registry.has(file('base'))).toBe(false)
  expect(registry.has(file('base2'))).toBe(true)
})

test('adding or forgetting a checkpoint twice counts once', () => {
  const registry = new SharedStateRegistry()
  registry.add(checkpoint(1, 'a', 'a'))
  registry.add(checkpoint(1, 'a'))
  expect(registry.forget({ run: 'r', n: 1 })).toEqual([file('a')])
  expect(registry.forget({ run: 'r', n: 1 })).toEqual([])
})

test('checkpoints of two runs with one number are two, and bytes in the metadata are nobody’s to delete', () => {
  const registry = new SharedStateRegistry()
  const inline = { kind: 'inline' as const, bytes: '', size: 0 }
  registry.add({ ...checkpoint(1, 'a'), run: 'q' })
  registry.add({ run: 'r', n: 1, states: [{ uid: 'u', subtask: 0, operator: inline }] })
  expect(registry.forget({ run: 'r', n: 1 })).toEqual([])
  expect(registry.forget({ run: 'q', n: 1 })).toEqual([file('a')])
})
