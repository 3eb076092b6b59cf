import { describe, expect, test } from '@jest/globals'
import { MillraceError } from '../../../src/errors.ts'
import { factsOf, jobFailure } from '../../../src/runtime/job-failure.ts'

test("a job's failure names job, reason and cause, and gives the cause's own advice", () => {
  const cause = new MillraceError('MILLRACE_TOPIC_MISSING', 'no such topic: orders')
  const failure = jobFailure('totals', cause, 'trying again cannot help')
  expect(failure.message).toBe("job 'totals' FAILED (trying again cannot help): no such topic: orders")
  expect(failure).toMatchObject({ code: 'MILLRACE_JOB_FAILED', cause, remedy: cause.remedy, fault: 'user' })
})

test('a failure that is no error of Millrace keeps the advice to look at the cause', () => {
  expect(jobFailure('totals', 'out of luck', 'the restart strategy is none')).toMatchObject({
    message: "job 'totals' FAILED (the restart strategy is none): out of luck",
    remedy: expect.stringContaining('See the cause'),
  })
})

describe('what is left of a job', () => {
  const place = (run: string, n: number): string => `${run}/chk-${n}`
  const latest = { run: 'r1', checkpoints: [0, 3, 4, 5] }

  test('whose take-over came to nothing is the run that it found', () => {
    expect(factsOf({ run: '', latest, lastCompleted: undefined }, 0, place)).toEqual({
      run: 'r1',
      restarts: 0,
      checkpoint: 5,
      older: [3, 4],
      place: 'r1/chk-5',
    })
  })

  test('that ran is its last checkpoint', () => {
    expect(factsOf({ run: 'r1', latest, lastCompleted: { n: 7, at: 0 } }, 2, place)).toMatchObject({
      checkpoint: 7,
      older: [3, 4, 5],
      place: 'r1/chk-7',
    })
  })

  test('that began a new run is nothing of the old one', () => {
    expect(factsOf({ run: 'r2', latest, lastCompleted: { n: 0, at: 0 } }, 0, place)).toMatchObject({
      run: 'r2',
      checkpoint: 0,
      older: [],
      place: 'r2/chk-0',
    })
  })

  test('that never ran before is nothing', () => {
    const none = { run: '', checkpoints: [] }
    expect(factsOf({ run: '', latest: none, lastCompleted: undefined }, 0, place)).toMatchObject({
      run: '',
      checkpoint: undefined,
      older: [],
    })
  })
})
