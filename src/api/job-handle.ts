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
  /** Waits until the job runs. Resolves with the savepoint's folder. Absent where savepoints have nowhere to go. */
  triggerSavepoint?(directory?: string): Promise<string>
  stopWithSavepoint?(directory?: string, options?: { readonly drain?: boolean }): Promise<string>
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
  return {
    getJobID: () => id,
    getJobStatus: async () => job.status,
    cancel: async () => {
      await job.cancel()
      await ended
    },
    stopWithSavepoint: async (path, options) => {
      if (job.stopWithSavepoint === undefined) throw noSavepoints(name)
      const savepoint = await job.stopWithSavepoint(path, options)
      await ended
      return savepoint
    },
    triggerSavepoint: async (path) => {
      if (job.triggerSavepoint === undefined) throw noSavepoints(name)
      return job.triggerSavepoint(path)
    },
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

function noSavepoints(name: string): MillraceError {
  return new MillraceError(
    'MILLRACE_CHECKPOINT_FAILED',
    `job '${name}' runs where no savepoint can be written`,
    {
      retriable: false,
    },
  )
}

function failureOf(name: string, cause: unknown): JobFailedError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new JobFailedError('MILLRACE_JOB_FAILED', `job '${name}' FAILED: ${why}`, { cause })
}
