import { expect, test } from '@jest/globals'
import { MillraceError } from '../../../src/errors.ts'
import { jobFailure } from '../../../src/runtime/job-failure.ts'

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
