/** An executor that runs nothing: it keeps what was submitted, and its client does what a test says. */

import type { JobClient, JobExecutionResult } from 'millrace'
import { type JobSubmission, registerJobExecutor } from '../../../src/api/job-executor.ts'

export class RecordingExecutor {
  readonly submissions: JobSubmission[] = []
  readonly cancelled: string[] = []
  /** Called with each submission; what it throws, `execute` throws. */
  onSubmit: (submission: JobSubmission) => void = () => undefined
  end = Promise.withResolvers<JobExecutionResult>()

  /** Takes the place of the real one. */
  constructor() {
    registerJobExecutor(async () => this)
  }

  get last(): JobSubmission {
    return this.submissions.at(-1)!
  }

  async execute(submission: JobSubmission): Promise<JobClient> {
    this.submissions.push(submission)
    this.onSubmit(submission)
    return {
      getJobID: () => 'id',
      getJobStatus: async () => 'RUNNING',
      cancel: async () => {
        this.cancelled.push(submission.jobName)
      },
      stopWithSavepoint: async () => 'savepoint',
      triggerSavepoint: async () => 'savepoint',
      triggerCheckpoint: async () => 1,
      getJobExecutionResult: () => this.end.promise,
    }
  }

  finish(): void {
    this.end.resolve({
      getJobID: () => 'id',
      getJobName: () => this.last.jobName,
      getJobStatus: () => 'FINISHED',
      getNetRuntime: () => 1,
    })
  }
}
