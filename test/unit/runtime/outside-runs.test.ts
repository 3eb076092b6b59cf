import { beforeEach, describe, expect, test } from '@jest/globals'
import type { ExternalHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import { OutsideRuns } from '../../../src/runtime/outside-runs.ts'
import type { OutsideState } from '../../../src/runtime/state-storage.ts'
import { type LogLine, recordingLogger } from '../../../src/testing/recorded-log.ts'

let lines: LogLine[]
let stored: Set<string>
let broken: Error | undefined
let steps: string[]
beforeEach(() => {
  lines = []
  stored = new Set(['old', 'older', 'now'])
  broken = undefined
  steps = []
})

const outside: OutsideState = {
  name: 'a store',
  runOf: ({ state }) => (state as { run?: string }).run,
  runs: async () => {
    steps.push('list')
    return new Set(stored)
  },
  discard: async (run) => {
    if (broken !== undefined) throw broken
    steps.push(`discard ${run}`)
    stored.delete(run)
  },
}

const runsOf = (run = 'now', store: OutsideState | undefined = outside): OutsideRuns =>
  new OutsideRuns(store, run, recordingLogger(lines, { now: () => 0 }))

/** Checkpoint n of a run, which names state of the runs. */
function checkpoint(run: string, n: number, ...named: readonly string[]) {
  const states = named.map((each, subtask) => {
    const keyed: ExternalHandle = {
      kind: 'external',
      backend: 'b',
      range: [0, 1],
      state: { run: each },
      size: 1,
    }
    return { uid: 'count', subtask, keyed }
  })
  return { run, n, states }
}

const leads = async (): Promise<void> => {
  steps.push('proof')
}

describe('state of an earlier run', () => {
  test('goes with the last checkpoint that names it', async () => {
    const runs = runsOf()
    runs.add(checkpoint('now', 0, 'old', 'older'))
    runs.add(checkpoint('now', 1, 'now', 'old'))
    await runs.forgotten(checkpoint('now', 0))
    expect([...stored]).toEqual(['old', 'now'])
    await runs.forgotten(checkpoint('now', 1))
    expect([...stored]).toEqual(['now'])
  })

  test('stays while a retained checkpoint of its own names it', async () => {
    const runs = runsOf()
    runs.add(checkpoint('old', 7, 'old'))
    runs.add(checkpoint('now', 0, 'old'))
    await runs.forgotten(checkpoint('now', 0))
    await runs.removeOrphans(leads)
    expect([...stored]).toEqual(['old', 'now'])
  })

  test('is looked for when no checkpoint names it, and removed only by a worker that leads after it has looked', async () => {
    const runs = runsOf()
    runs.add(checkpoint('now', 3, 'now'))
    await runs.removeOrphans(leads)
    expect(steps).toEqual(['list', 'proof', 'discard old', 'discard older'])
    expect([...stored]).toEqual(['now'])
  })

  test('is left alone by a worker that does not lead any more: what it does not know may be its successor’s', async () => {
    await runsOf().removeOrphans(() => Promise.reject(new Error('another one leads')))
    expect(steps).toEqual(['list'])
    expect(stored.size).toBe(3)
  })

  test('is not looked for where runs of other processes cannot be told apart', async () => {
    const { runs: _, ...blind } = outside
    await runsOf('now', blind).removeOrphans(leads)
    expect(stored.size).toBe(3)
  })
})

describe('state of the run itself', () => {
  test('stays whatever is forgotten while it runs, and goes at its end', async () => {
    const runs = runsOf()
    runs.add(checkpoint('now', 1, 'now'))
    await runs.forgotten(checkpoint('now', 1))
    expect(stored.has('now')).toBe(true)
    await runs.ended()
    expect([...stored]).toEqual(['old', 'older'])
  })

  test('stays at its end when a checkpoint is kept that names it', async () => {
    const runs = runsOf()
    runs.add(checkpoint('now', 1, 'now'))
    await runs.ended()
    expect(stored.has('now')).toBe(true)
  })

  test('that cannot be removed is warned of, and ends nothing', async () => {
    broken = new Error('away')
    await runsOf().ended()
    expect(lines.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual([
      'the state of run now in a store is not needed any more and could not be removed',
    ])
  })
})

test('without a store outside there is nothing to do', async () => {
  const runs = new OutsideRuns(undefined, 'now', recordingLogger(lines, { now: () => 0 }))
  runs.add(checkpoint('now', 1, 'old'))
  await runs.forgotten(checkpoint('now', 1))
  await runs.removeOrphans(leads)
  await runs.ended()
  expect(steps).toEqual([])
})
