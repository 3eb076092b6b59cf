/** The `JobClient` that the program holds, over whatever runs the job. */
import { JobStatus } from '../core/constants.ts'
import type { Clock } from '../core/ports.ts'
import { JobFailedError, MillraceError } from '../errors.ts'
import type { JobClient, JobExecutionResult } from './job-client.ts'

/** What a client asks of a running job. */
export interface RunningJob {
  readonly status: JobStatus
  cancel(): Promise<void>
  /** Waits until the job runs. Resolves with the checkpoint's id once its output is committed. */
  triggerCheckpoint(): Promise<number>
}

/** How a job ended. */
export interface EndedJob {
  readonly status: 'FINISHED' | 'CANCELED' | 'FAILED' | 'SUSPENDED'
  readonly error?: unknown
}

/** Whom a client speaks for. */
export interface JobIdentity {
  readonly id: string
  readonly name: string
}

/** Client of a job that was started just now. `ended` resolves when everything of the job is closed; it may reject when closing failed. */
export function runningClient(
  { id, name }: JobIdentity,
  job: RunningJob,
  ended: Promise<EndedJob>,
  clock: Clock,
): JobClient {
  const startedAt = clock.now()
  // Whoever never asks for the result must not bring the process down; the failure was reported.
  ended.catch(() => undefined)
  const later = async (what: string): Promise<never> => {
    throw new MillraceError(
      'MILLRACE_CHECKPOINT_FAILED',
      `${what} needs savepoints, which this version does not write yet`,
      {
        remedy: 'Stop the job with SIGTERM: it takes a last checkpoint and resumes from it.',
        retriable: false,
      },
    )
  }
  return {
    getJobID: () => id,
    getJobStatus: async () => job.status,
    cancel: async () => {
      await job.cancel()
      await ended
    },
    stopWithSavepoint: () => later('stopWithSavepoint'),
    triggerSavepoint: () => later('triggerSavepoint'),
    triggerCheckpoint: () => job.triggerCheckpoint(),
    getJobExecutionResult: async () => {
      const end = await ended
      if (end.status === 'FAILED')
        throw end.error instanceof JobFailedError ? end.error : failureOf(name, end.error)
      return resultOf({ id, name }, end, clock.now() - startedAt)
    },
  }
}

/** Client of a job that was only looked at: its graph was printed, nothing was started. */
export function dryRunClient(name: string): JobClient {
  const refuse = async (): Promise<never> => {
    throw new MillraceError('MILLRACE_CHECKPOINT_FAILED', `job '${name}' was not started (dry run)`)
  }
  return {
    getJobID: () => '',
    getJobStatus: async () => JobStatus.FINISHED,
    cancel: async () => undefined,
    stopWithSavepoint: refuse,
    triggerSavepoint: refuse,
    triggerCheckpoint: refuse,
    getJobExecutionResult: async () => resultOf({ id: '', name }, { status: 'FINISHED' }, 0),
  }
}

function resultOf({ id, name }: JobIdentity, end: EndedJob, runtimeMs: number): JobExecutionResult {
  return {
    getJobID: () => id,
    getJobName: () => name,
    getJobStatus: () => JobStatus[end.status],
    getNetRuntime: () => runtimeMs,
  }
}

function failureOf(name: string, cause: unknown): JobFailedError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new JobFailedError('MILLRACE_JOB_FAILED', `job '${name}' FAILED: ${why}`, { cause })
}
