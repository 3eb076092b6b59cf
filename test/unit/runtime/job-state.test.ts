import { describe, expect, test } from '@jest/globals'
import { JobStatus } from '../../../src/core/constants.ts'
import { JOB_MOVES, JobState } from '../../../src/runtime/job-state.ts'

const ALL = Object.values(JobStatus)
const ENDS: readonly JobStatus[] = ['FINISHED', 'CANCELED', 'FAILED', 'SUSPENDED']

/** A way from CREATED to each state. */
const WAYS: Readonly<Record<JobStatus, readonly JobStatus[]>> = {
  CREATED: [],
  RUNNING: ['RUNNING'],
  FAILING: ['RUNNING', 'FAILING'],
  RESTARTING: ['RUNNING', 'FAILING', 'RESTARTING'],
  CANCELLING: ['RUNNING', 'CANCELLING'],
  FAILED: ['RUNNING', 'FAILING', 'FAILED'],
  CANCELED: ['RUNNING', 'CANCELLING', 'CANCELED'],
  FINISHED: ['RUNNING', 'FINISHED'],
  SUSPENDED: ['RUNNING', 'SUSPENDED'],
}

function at(status: JobStatus): { state: JobState; moves: string[] } {
  const moves: string[] = []
  const state = new JobState((from, to) => moves.push(`${from} → ${to}`))
  for (const step of WAYS[status]) state.move(step)
  moves.length = 0
  return { state, moves }
}

/** Every move, and whether it is one of Flink's life cycle, written out by hand: the table under test is not its own judge. */
const LEGAL = `
  CREATED: RUNNING FAILING FINISHED CANCELED SUSPENDED FAILED
  RUNNING: CREATED FAILING CANCELLING CANCELED FINISHED SUSPENDED FAILED
  FAILING: RESTARTING FAILED SUSPENDED CANCELED
  RESTARTING: RUNNING FAILING CREATED FINISHED CANCELED SUSPENDED FAILED
  CANCELLING: CANCELED FAILED FAILING CREATED SUSPENDED`
  .trim()
  .split('\n')
  .flatMap((line) => {
    const [from, to] = line.trim().split(': ') as [string, string]
    return to.split(' ').map((each) => `${from} → ${each}`)
  })

const moves = ALL.flatMap((from) => ALL.filter((to) => to !== from).map((to) => [from, to] as const))

describe('a job moves', () => {
  test.each(moves.filter(([from, to]) => LEGAL.includes(`${from} → ${to}`)))('from %s to %s', (from, to) => {
    const { state, moves: told } = at(from)
    state.move(to)
    expect(state.status).toBe(to)
    expect(told).toEqual([`${from} → ${to}`])
  })

  test.each(moves.filter(([from, to]) => !LEGAL.includes(`${from} → ${to}`)))(
    'never from %s to %s',
    (from, to) => {
      const { state, moves: told } = at(from)
      expect(() => state.move(to)).toThrow(
        expect.objectContaining({
          code: 'MILLRACE_ILLEGAL_TRANSITION',
          message: expect.stringContaining(to),
        }),
      )
      expect(state.status).toBe(from)
      expect(told).toEqual([])
    },
  )

  test.each(ALL)('staying %s is no move', (status) => {
    const { state, moves: told } = at(status)
    state.move(status)
    expect(told).toEqual([])
  })
})

test('an ended job stays ended, and every other state leads to an end', () => {
  for (const status of ALL) expect(at(status).state.ended).toBe(ENDS.includes(status))
  for (const status of ALL.filter((each) => !ENDS.includes(each)))
    expect(JOB_MOVES[status].some((to) => ENDS.includes(to))).toBe(true)
})
