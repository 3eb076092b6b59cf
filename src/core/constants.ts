/**
 * Public constants: objects instead of enums, so that their values are plain strings in settings, messages and plain JavaScript.
 */

/** What a checkpoint promises about the records around a barrier. */
export const CheckpointingMode = {
  /** Barriers are aligned: each record counts once in state. */
  EXACTLY_ONCE: 'EXACTLY_ONCE',
  /** Barriers are counted, channels never wait: records around a barrier may count twice after a failure. */
  AT_LEAST_ONCE: 'AT_LEAST_ONCE',
} as const
export type CheckpointingMode = (typeof CheckpointingMode)[keyof typeof CheckpointingMode]

/** What a sink promises about the records it writes. */
export const DeliveryGuarantee = {
  /** In transactions that are committed with the checkpoint. Needs checkpointing. */
  EXACTLY_ONCE: 'EXACTLY_ONCE',
  /** Flushed at each checkpoint; a failure may repeat records. */
  AT_LEAST_ONCE: 'AT_LEAST_ONCE',
  /** Nothing is waited for; a failure may lose or repeat records. */
  NONE: 'NONE',
} as const
export type DeliveryGuarantee = (typeof DeliveryGuarantee)[keyof typeof DeliveryGuarantee]

/** What becomes of checkpoints when the job is cancelled. A FAILED job keeps them in both cases. */
export const ExternalizedCheckpointCleanup = {
  RETAIN_ON_CANCELLATION: 'RETAIN_ON_CANCELLATION',
  DELETE_ON_CANCELLATION: 'DELETE_ON_CANCELLATION',
} as const
export type ExternalizedCheckpointCleanup =
  (typeof ExternalizedCheckpointCleanup)[keyof typeof ExternalizedCheckpointCleanup]

/** The states of a job. */
export const JobStatus = {
  CREATED: 'CREATED',
  RUNNING: 'RUNNING',
  RESTARTING: 'RESTARTING',
  FAILING: 'FAILING',
  FAILED: 'FAILED',
  CANCELLING: 'CANCELLING',
  CANCELED: 'CANCELED',
  FINISHED: 'FINISHED',
  SUSPENDED: 'SUSPENDED',
} as const
export type JobStatus = (typeof JobStatus)[keyof typeof JobStatus]
