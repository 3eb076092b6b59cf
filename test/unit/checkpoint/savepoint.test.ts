import { describe, expect, test } from '@jest/globals'
import type { StateHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import { baseOf, keptIn, portable } from '../../../src/checkpoint/savepoint.ts'
import { completed } from '../state/completed-checkpoint.ts'

const kept: StateHandle = { kind: 'kept', folder: '/s/one', path: 'count', size: 3, crc32: 7 }
const file: StateHandle = { kind: 'file', path: 'count', size: 3, crc32: 7 }
const inline: StateHandle = { kind: 'inline', bytes: 'AAEC', size: 3 }

const savepoint = completed({
  kind: 'savepoint',
  savepoint: { path: '/s/one', stop: true, drained: false },
  states: [
    {
      uid: 'count',
      subtask: 0,
      keyed: { handle: kept, keyGroups: [[0, 0, 3]] },
      operator: inline,
      committables: [{ transactionalId: 't' }],
      endOfInput: true,
    },
  ],
})

describe('what the file of a savepoint says', () => {
  test('are relative files, no committables, and no folder', () => {
    const { states, savepoint: note } = portable(savepoint, '/s/one')
    expect(note).toBeUndefined()
    expect(states).toEqual([
      {
        uid: 'count',
        subtask: 0,
        keyed: { handle: file, keyGroups: [[0, 0, 3]] },
        operator: inline,
        endOfInput: true,
      },
    ])
  })

  test('is no end of input when the job was drained: whoever goes on reads on', () => {
    const drained = { ...savepoint, savepoint: { path: '/s/one', stop: true, drained: true } }
    expect(portable(drained, '/s/one').states[0]).not.toHaveProperty('endOfInput')
  })

  test.each([
    ['a file of the checkpoint directory', { handle: file, keyGroups: [] }],
    ['a file of another savepoint', { handle: { ...kept, folder: '/s/two' }, keyGroups: [] }],
    ['a store', { kind: 'external', backend: 'redis', range: [0, 1], state: {}, size: 0 }],
  ] as const)('is never %s: that would not be self-contained', (_what, keyed) => {
    expect(() => portable({ ...savepoint, states: [{ uid: 'count', subtask: 0, keyed }] }, '/s/one')).toThrow(
      /would not be self-contained/,
    )
  })

  test('read from wherever it lies now, names files that nothing deletes', () => {
    expect(keptIn(portable(savepoint, '/s/one'), '/moved').states[0]?.keyed).toEqual({
      handle: { ...kept, folder: '/moved' },
      keyGroups: [[0, 0, 3]],
    })
  })

  test('layers and records in channels of a retained checkpoint are found, too', () => {
    const states = [
      {
        uid: 'count',
        subtask: 0,
        inFlight: file,
        keyed: { kind: 'incremental' as const, layers: [{ handle: file, keyGroups: [] }] },
      },
    ]
    expect(
      JSON.stringify(keptIn({ ...savepoint, states }, '/root')).match(/"folder":"\/root"/g),
    ).toHaveLength(2)
  })
})

test('a run that begins with a snapshot has its state as checkpoint 0, and none of its output', () => {
  const base = baseOf(savepoint, { run: 'new', attempt: 9, now: 5_000 })
  expect(base).toMatchObject({
    run: 'new',
    attempt: 9,
    n: 0,
    kind: 'checkpoint',
    confirmed: 0,
    completedAt: 5_000,
  })
  expect(base.savepoint).toBeUndefined()
  expect(base.states[0]).not.toHaveProperty('committables')
  expect(base.states[0]?.keyed).toEqual(savepoint.states[0]?.keyed)
})
