import { describe, expect, test } from '@jest/globals'
import type { StateHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import type { JobRecord } from '../../../src/checkpoint/checkpoint-store.ts'
import { type CheckpointFacts, orphansAmong, type StoredBlob } from '../../../src/checkpoint/orphans.ts'
import { completed } from '../state/completed-checkpoint.ts'

const HOUR = 3_600_000
const file = (name: string, attempt: number | undefined, ageMs = 2 * HOUR): StoredBlob => ({
  name,
  bytes: 1,
  ageMs,
  attempt,
})
const handle = (path: string): StateHandle => ({ kind: 'file', path, size: 1, crc32: 0 })

/** Attempt 5 of run `run` runs; its checkpoint 7 names one file, and a file of attempt 3. */
function facts(job?: JobRecord['status']): CheckpointFacts {
  return {
    attempt: { run: 'run', attempt: 5, incarnation: 'i', startedAt: 0, fingerprint: 'f', sinks: [] },
    job: job === undefined ? undefined : { run: 'run', status: job, at: 0 },
    completed: [
      completed({
        states: [
          { uid: 'a', subtask: 0, operator: handle('named-5') },
          {
            uid: 'b',
            subtask: 0,
            keyed: { kind: 'incremental', layers: [{ handle: handle('layer-3'), keyGroups: [[0, 0, 1]] }] },
          },
          {
            uid: 'c',
            subtask: 0,
            operator: { kind: 'kept', folder: '/another/mount', path: 'kept-2', size: 1, crc32: 0 },
          },
        ],
      }),
    ],
  }
}

const names = (blobs: readonly StoredBlob[], what = facts(), age = HOUR): string[] =>
  orphansAmong(blobs, what, age).map(({ name }) => name)

describe('orphans', () => {
  test('are what earlier attempts wrote and no completed checkpoint names', () => {
    expect(names([file('left-4', 4), file('layer-3', 3), file('named-5', 5), file('kept-2', 2)])).toEqual([
      'left-4',
    ])
  })

  test('are not what the latest attempt wrote, or one that began meanwhile: it may still be named', () => {
    expect(names([file('snapshot-5', 5), file('new-6', 6)])).toEqual([])
  })

  test('of a job that has ended are what its last attempt left, too', () => {
    for (const status of ['FINISHED', 'CANCELED'] as const)
      expect(names([file('left-5', 5), file('new-6', 6)], facts(status))).toEqual(['left-5'])
    for (const status of ['FAILED', 'SUSPENDED'] as const)
      expect(names([file('left-5', 5)], facts(status))).toEqual([])
  })

  test('are no young files, where the age is known', () => {
    expect(names([file('left-4', 4, HOUR - 1), { ...file('topic', 4), ageMs: undefined }])).toEqual(['topic'])
  })

  test('are no files of somebody else', () => {
    expect(names([file('notes.txt', undefined)])).toEqual([])
  })

  test('can be metadata: of a checkpoint that was forgotten, not of one that just completed', () => {
    const metadata = (run: string, n: number): StoredBlob => ({
      ...file(`${run}/chk-${n}/_metadata`, undefined),
      metadataOf: { run, n },
    })
    expect(names([metadata('run', 6), metadata('run', 7), metadata('run', 8), metadata('older', 9)])).toEqual(
      ['run/chk-6/_metadata', 'older/chk-9/_metadata'],
    )
  })

  test('are nothing at all while no attempt is recorded: the topic may be another one', () => {
    expect(names([file('left-4', 4)], { attempt: undefined, job: undefined, completed: [] })).toEqual([])
  })
})
