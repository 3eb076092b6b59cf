/** How a job that is not started again is reported: to whoever waits for it, with the cause's own advice, and what is left of it. */
import { relative } from 'node:path'
import type { FailureFacts, StartCommand } from '../core/failure-report.ts'
import { isMillraceError, JobFailedError } from '../errors.ts'
import type { JobHistory } from './job-history.ts'

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
  history: Pick<JobHistory, 'run' | 'latest' | 'lastCompleted'>,
  restarts: number,
  place: (run: string, n: number) => string | undefined,
): FailureFacts {
  // A take-over that came to nothing leaves the run that it found.
  const { latest } = history
  const run = history.run === '' ? latest.run : history.run
  const found = run === latest.run ? latest.checkpoints : []
  const checkpoint = history.run === '' ? found.at(-1) : history.lastCompleted?.n
  const older = found.filter((n) => n > 0 && n < (checkpoint ?? 0))
  return { run, restarts, checkpoint, older, place: place(run, checkpoint ?? 0) }
}

/** The command of a job that was started by plain node; it can go on under either. */
export function startedByNode(): StartCommand {
  const [, file = 'job.ts', ...rest] = process.argv
  return {
    start: 'millrace run',
    job: [relative(process.cwd(), file) || file, ...(rest.length === 0 ? [] : ['--', ...rest])].join(' '),
  }
}
