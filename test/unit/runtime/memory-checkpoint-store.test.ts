import { beforeEach, describe, expect, test } from '@jest/globals'
import type { CompletedCheckpoint } from '../../../src/checkpoint/completed-checkpoint.ts'
import { MemoryCheckpointStore } from '../../../src/runtime/memory-checkpoint-store.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'

const checkpoint = (n: number, change: Partial<CompletedCheckpoint> = {}): CompletedCheckpoint => ({
  format: 1,
  run: 'r',
  attempt: 1,
  n,
  kind: 'checkpoint',
  triggeredAt: 0,
  completedAt: 0,
  operators: [],
  states: [],
  confirmed: -1,
  stateBytes: 0,
  ...change,
})
const attempt = (run: string) => ({
  run,
  attempt: 1,
  incarnation: 'i',
  startedAt: 0,
  fingerprint: 'f',
  sinks: [],
})

let store: MemoryCheckpointStore
beforeEach(async () => {
  store = new MemoryCheckpointStore(new MemoryBlobStore())
  await store.startAttempt(attempt('r'))
})

describe('the checkpoint store on the heap', () => {
  test('knows nothing at first', async () => {
    expect(await new MemoryCheckpointStore(new MemoryBlobStore()).takeOver()).toEqual({
      attempt: undefined,
      job: undefined,
      completed: [],
      ofEarlierRuns: [],
      confirmed: -1,
      acceptedLost: [],
    })
  })

  test('keeps completed checkpoints, oldest first, and what is confirmed', async () => {
    for (const n of [0, 2, 1])
      expect(await store.commitPoint(checkpoint(n, { confirmed: n - 1 }), [])).toEqual({ type: 'written' })
    expect(await store.takeOver()).toMatchObject({ completed: [{ n: 0 }, { n: 1 }, { n: 2 }], confirmed: 1 })
    await store.writeConfirmed('r', 2)
    await store.forget('r', 0)
    expect(await store.takeOver()).toMatchObject({ completed: [{ n: 1 }, { n: 2 }], confirmed: 2 })
  })

  test('forgets older checkpoints with a newer one', async () => {
    await store.commitPoint(checkpoint(1), [])
    await store.commitPoint(checkpoint(2), [], [1])
    expect((await store.takeOver()).completed.map(({ n }) => n)).toEqual([2])
  })

  test('a confirmation never goes back', async () => {
    await store.writeConfirmed('r', 5)
    await store.commitPoint(checkpoint(6, { confirmed: 4 }), [])
    expect((await store.takeOver()).confirmed).toBe(5)
  })

  test('what another run completed does not count for this one', async () => {
    await store.commitPoint(checkpoint(7, { confirmed: 6 }), [])
    await store.startAttempt(attempt('s'))
    expect(await store.takeOver()).toMatchObject({ completed: [], confirmed: -1, attempt: { run: 's' } })
  })

  test('the end of a run is history once another attempt starts', async () => {
    await store.writeConfirmed('r', 1, { run: 'r', status: 'FINISHED', at: 1 })
    expect((await store.takeOver()).job).toMatchObject({ status: 'FINISHED' })
    await store.writeEnd({ run: 'r', status: 'CANCELED', at: 2 })
    expect((await store.takeOver()).job).toMatchObject({ status: 'CANCELED' })
    await store.startAttempt(attempt('r'))
    expect((await store.takeOver()).job).toBeUndefined()
  })
})
