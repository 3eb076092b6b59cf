/** What the commands of a job's control topic do to its job master. */
import type { JobStatus } from '../core/constants.ts'
import type { CommandHandler, JobCommand } from '../core/job-control.ts'
import type { JobInfo } from '../core/job-info.ts'

/** A running job, as commands see it. */
export interface CommandedJob {
  readonly status: JobStatus
  /** Resolves when the job is CANCELED, or ended otherwise. */
  cancelAndWait(): Promise<JobStatus>
  /** Resolves with the checkpoint's id when its output is committed. */
  triggerCheckpoint(): Promise<number>
  /** Resolves with the savepoint's path when all output up to it is committed. */
  triggerSavepoint(path?: string): Promise<string>
  /** The same; the job has ended then. */
  stopWithSavepoint(path?: string, options?: { readonly drain?: boolean }): Promise<string>
  info(): JobInfo
}

export function jobCommands(job: CommandedJob): CommandHandler {
  return async (command: JobCommand) => {
    switch (command.type) {
      case 'cancel':
        return { status: await job.cancelAndWait() }
      case 'checkpoint':
        return { checkpoint: await job.triggerCheckpoint() }
      case 'savepoint':
        return { path: await job.triggerSavepoint(command.path) }
      case 'stop':
        return { path: await job.stopWithSavepoint(command.path, { drain: command.drain }) }
      case 'info':
        return { ...job.info() }
    }
  }
}
