/** How a job that is not started again is reported: to whoever waits for it, with the cause's own advice, and what is left of it. */
import { relative } from 'node:path'
import type { FailureFacts, StartCommand } from '../core/failure-report.ts'
import type { JobInfo } from '../core/job-info.ts'
import { isMillraceError, JobFailedError } from '../errors.ts'

/** The failure of a job; `reason` says why it is not started again. */
export function jobFailure(jobName: string, cause: unknown, reason: string): JobFailedError {
  return new JobFailedError(
    'MILLRACE_JOB_FAILED',
    `job '${jobName}' FAILED (${reason}): ${cause instanceof Error ? cause.message : String(cause)}`,
    { cause, ...(isMillraceError(cause) ? { remedy: cause.remedy, fault: cause.fault } : {}) },
  )
}

/** What a job that FAILED leaves behind; `place` tells where a checkpoint of a run lies. */
export function factsOf(
  { run, restarts, lastCheckpoint }: Pick<JobInfo, 'run' | 'restarts' | 'lastCheckpoint'>,
  place: (run: string, n: number) => string | undefined,
): FailureFacts {
  const checkpoint = lastCheckpoint?.n
  return { run, restarts, checkpoint, place: place(run, checkpoint ?? 0) }
}

/** The command of a job that was started by plain node; it can go on under either. */
export function startedByNode(): StartCommand {
  const [, file = 'job.ts', ...rest] = process.argv
  return {
    start: 'millrace run',
    job: [relative(process.cwd(), file) || file, ...(rest.length === 0 ? [] : ['--', ...rest])].join(' '),
  }
}
