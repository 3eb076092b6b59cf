/** Contract of "who leads the job": kafka/worker-group.ts by a Kafka group, runtime/local-leadership.ts for jobs without Kafka. */
export interface Leadership {
  /** Resolves when this worker leads; may take as long as another one does. @throws MILLRACE_JOB_CONFLICT for another graph under the name. */
  lead(): Promise<void>
  /** Succeeds only while this worker leads, asked now. @throws MILLRACE_ATTEMPT_LOST otherwise. */
  assertLeader(): Promise<void>
  /** Called when leadership was lost after `lead` resolved. */
  onLost: ((reason: string) => void) | undefined
  /** Workers of the job, this one included. */
  readonly workers: number
  /** Gives leadership and membership up. */
  leave(): Promise<void>
}
