import { describe, expect, test } from '@jest/globals'
import type { StateHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import {
  CHECKPOINT_FORMAT,
  type CompletedCheckpoint,
  type OperatorSubtaskState,
} from '../../../src/checkpoint/completed-checkpoint.ts'
import { CheckpointFiles } from '../../../src/runtime/checkpoint-files.ts'
import { OutsideRuns } from '../../../src/runtime/outside-runs.ts'
import type { AttemptStorage, StateStorage } from '../../../src/runtime/state-storage.ts'
import { recordingLogger } from '../../../src/testing/recorded-log.ts'

const file = (path: string): StateHandle => ({ kind: 'file', path, size: 1, crc32: 0 })
const layers = (...paths: string[]): OperatorSubtaskState => ({
  uid: 'count',
  subtask: 0,
  keyed: {
    kind: 'incremental',
    layers: paths.map((path) => ({ handle: file(path), keyGroups: [[0, 0, 1] as const] })),
  },
})
const whole = (...paths: string[]): OperatorSubtaskState => {
  const state = layers(...paths)
  return { ...state, keyed: { ...state.keyed!, own: true } as never }
}
const checkpoint = (
  n: number,
  states: readonly OperatorSubtaskState[],
  kind: CompletedCheckpoint['kind'] = 'checkpoint',
): CompletedCheckpoint => ({
  format: CHECKPOINT_FORMAT,
  run: 'r',
  attempt: 1,
  n,
  kind,
  triggeredAt: 0,
  completedAt: 0,
  operators: [],
  states,
  confirmed: 0,
  stateBytes: 0,
})

function filesOf(failing: Set<string> = new Set()) {
  const discarded: string[] = []
  const logger = recordingLogger([], { now: () => 0 })
  const storage = {
    discard: async (handle: StateHandle) => {
      const { path } = handle as { path: string }
      if (failing.has(path)) throw new Error(`${path} is stuck`)
      discarded.push(path)
    },
  } as unknown as StateStorage
  const files = new CheckpointFiles({
    storage,
    attemptStorage: {} as AttemptStorage,
    outside: new OutsideRuns(undefined, 'r', logger),
    logger,
  })
  const completes = async (made: CompletedCheckpoint, ...forgotten: CompletedCheckpoint[]) => {
    files.add(made)
    await files.afterwards(made, forgotten)
  }
  return { files, discarded, completes }
}

describe('files of an aborted checkpoint', () => {
  test('that is stored whole go at once', async () => {
    const { files, discarded } = filesOf()
    await files.aborted(2, [whole('all.1', 'all.2')])
    expect(discarded).toEqual(['all.1', 'all.2'])
  })

  test('that are layers stay when the next checkpoint names them, and go with it', async () => {
    const { files, discarded, completes } = filesOf()
    const first = checkpoint(1, [layers('base')])
    await completes(first)
    await files.aborted(2, [layers('base', 'delta 2')])
    const third = checkpoint(3, [layers('base', 'delta 2', 'delta 3')])
    await completes(third, first)
    expect(discarded).toEqual([])
    await completes(checkpoint(4, [layers('new base')]), third)
    expect(discarded).toEqual(['base', 'delta 2', 'delta 3'])
  })

  test('that are layers go when the next checkpoint has another base; a retained one keeps what it names', async () => {
    const { files, discarded, completes } = filesOf()
    await completes(checkpoint(1, [layers('base')]))
    await files.aborted(2, [layers('base', 'delta 2')])
    await completes(checkpoint(3, [layers('new base')]))
    expect(discarded).toEqual(['delta 2'])
  })

  test('are not decided by a savepoint, nor by a checkpoint that came before', async () => {
    const { files, discarded, completes } = filesOf()
    await files.aborted(3, [layers('delta 3')])
    await completes(checkpoint(2, [layers('base')]))
    await completes(checkpoint(4, [], 'savepoint'))
    expect(discarded).toEqual([])
    await completes(checkpoint(5, [layers('base', 'delta 3')]))
    expect(discarded).toEqual([])
  })
})

test('one that cannot be removed keeps no other, and is tried again', async () => {
  const failing = new Set(['one'])
  const { discarded, completes } = filesOf(failing)
  const [first, second] = [checkpoint(1, [layers('one')]), checkpoint(2, [layers('two')])]
  await completes(first)
  await completes(second)
  await completes(checkpoint(3, [layers('three')]), first, second)
  expect(discarded).toEqual(['two'])
  failing.clear()
  await completes(checkpoint(4, [layers('three')]))
  expect(discarded).toEqual(['two', 'one'])
})
