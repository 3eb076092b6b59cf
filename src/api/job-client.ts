/** A running job as the program that started it sees it. */
import type { JobStatus } from '../core/constants.ts'

/** How a job ended. */
export interface JobExecutionResult {
  getJobID(): string
  getJobName(): string
  /** FINISHED, CANCELED, or SUSPENDED (stopped with a savepoint ends FINISHED). */
  getJobStatus(): JobStatus
  /** Milliseconds from start to end. */
  getNetRuntime(): number
}

/**
 * Made by `env.executeAsync`.
 * @example
 * const client = await env.executeAsync('totals')
 * const savepoint = await client.stopWithSavepoint('/savepoints')
 */
export interface JobClient {
  getJobID(): string
  getJobStatus(): Promise<JobStatus>
  /** Stops the job without a last checkpoint. Resolves when it is CANCELED. */
  cancel(): Promise<void>
  /**
   * Takes a savepoint and ends the job at it: FINISHED. `path` is the folder in which the savepoint's own folder is made;
   * `state.savepoints.dir` without it. `drain` fires all event-time timers and windows first, as at the end of input.
   * Resolves with the savepoint's path, once all output up to it is committed and the job has ended. If it fails the job goes on.
   */
  stopWithSavepoint(path?: string, options?: { readonly drain?: boolean }): Promise<string>
  /** Takes a savepoint; the job goes on. Resolves with its path, once all output up to it is committed. */
  triggerSavepoint(path?: string): Promise<string>
  /** Takes a checkpoint now. Resolves with its id once it is complete. */
  triggerCheckpoint(): Promise<number>
  /** Resolves when the job ended. @throws JobFailedError if it FAILED. */
  getJobExecutionResult(): Promise<JobExecutionResult>
}
