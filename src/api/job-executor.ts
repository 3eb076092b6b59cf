/**
 * The port through which a built graph reaches execution. The package's entry point fills it with a lazy import of the runtime, so that
 * a job module can be loaded in a test without loading a Kafka client or starting anything; the command line fills it with its own.
 */

import type { StreamGraph } from '../core/graph/stream-graph.ts'
import { MillraceError } from '../errors.ts'
import type { JobClient } from './job-client.ts'
import type { ProgrammaticSettings } from './settings.ts'

/** One job, ready to run. */
export interface JobSubmission {
  readonly jobName: string
  /** A copy: what the user declares later does not change it. Node ids are 0, 1, 2, … */
  readonly graph: StreamGraph
  readonly settings: ProgrammaticSettings
  /** Ids of sink nodes that hand their values to this process: the subtasks of these must run in it. */
  readonly collectors: readonly number[]
}

/** Starts jobs. */
export interface JobExecutor {
  /** Resolves when the job is accepted. @throws MillraceError if it cannot start. */
  execute(submission: JobSubmission): Promise<JobClient>
}

let loadExecutor: (() => Promise<JobExecutor>) | undefined

/** Says where jobs run; called when the first one is executed. The last registration wins; the one before it is returned. */
export function registerJobExecutor(
  load: () => Promise<JobExecutor>,
): (() => Promise<JobExecutor>) | undefined {
  const before = loadExecutor
  loadExecutor = load
  return before
}

/** Hands a job over. */
export async function submitJob(submission: JobSubmission): Promise<JobClient> {
  if (loadExecutor === undefined)
    throw new MillraceError(
      'MILLRACE_INTERNAL',
      `job '${submission.jobName}' cannot start: no executor is registered`,
    )
  const executor = await loadExecutor()
  return executor.execute(submission)
}
