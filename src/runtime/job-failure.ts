/** How a job that is not started again is reported: to whoever waits for it, with the cause's own advice. */
import { isMillraceError, JobFailedError } from '../errors.ts'

/** The failure of a job; `reason` says why it is not started again. */
export function jobFailure(jobName: string, cause: unknown, reason: string): JobFailedError {
  return new JobFailedError(
    'MILLRACE_JOB_FAILED',
    `job '${jobName}' FAILED (${reason}): ${cause instanceof Error ? cause.message : String(cause)}`,
    { cause, ...(isMillraceError(cause) ? { remedy: cause.remedy, fault: cause.fault } : {}) },
  )
}
