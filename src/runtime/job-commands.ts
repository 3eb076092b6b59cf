/**
 * What the commands of a job's control topic do to its job master. Somebody waits at a terminal for the answer: a checkpoint or savepoint of a
 * job that is not RUNNING is refused at once. Two things wait, until the job moves on: whatever comes while a leader takes the job over, since its
 * predecessor may have died over it; and a stop while the job is RESTARTING. They are done when the job runs, and refused when the attempt fails.
 */
import { JobStatus } from '../core/constants.ts'
import type { CommandHandler, CommandProgress, JobCommand } from '../core/job-control.ts'
import type { JobInfo } from '../core/job-info.ts'
import { MillraceError } from '../errors.ts'

/** Of the subtasks that owe a checkpoint so many are named to whoever waits for it. */
const MAX_MISSING = 5

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
  readonly history: { nextMove(): Promise<JobStatus> }
}

export function jobCommands(job: CommandedJob): CommandHandler {
  const obey = async (command: JobCommand): Promise<Readonly<Record<string, unknown>>> => {
    switch (command.type) {
      case 'cancel':
        return { status: await job.cancelAndWait() }
      case 'checkpoint':
        await mustRun(job, command)
        return { checkpoint: await job.triggerCheckpoint() }
      case 'savepoint':
        await mustRun(job, command)
        return { path: await job.triggerSavepoint(command.path) }
      case 'stop':
        await mustRun(job, command)
        return { path: await job.stopWithSavepoint(command.path, { drain: command.drain }) }
      case 'info':
        return { ...job.info() }
    }
  }
  return Object.assign(obey, { progress: () => progressOf(job.info()) })
}

/** @throws MillraceError MILLRACE_CHECKPOINT_FAILED with the job's state and its last failure */
async function mustRun(job: CommandedJob, { type }: JobCommand): Promise<void> {
  if (job.status === JobStatus.CREATED || (type === 'stop' && job.status === JobStatus.RESTARTING))
    await job.history.nextMove()
  const { status } = job
  if (status === JobStatus.RUNNING) return
  const { job: name, lastFailure } = job.info()
  const why = lastFailure === undefined ? '' : `; its last failure: ${lastFailure.message}`
  throw new MillraceError(
    'MILLRACE_CHECKPOINT_FAILED',
    `job '${name}' is ${status} and does no '${type}'; that needs a job that is RUNNING${why}`,
    {
      remedy: `Send it again when the job is RUNNING (millrace info ${name})${type === 'stop' ? `, or end the job without a savepoint: millrace cancel ${name}` : ''}.`,
    },
  )
}

function progressOf({ status, pending }: JobInfo): CommandProgress {
  return {
    status,
    pending: pending.map((each) => {
      const { missing } = each
      if (missing.length <= MAX_MISSING) return each
      return { ...each, missing: [...missing.slice(0, MAX_MISSING), `${missing.length - MAX_MISSING} more`] }
    }),
  }
}
