/**
 * Contracts of durable job facts: who leads, what completed, what is confirmed, how the job ended.
 * kafka/job-topics.ts keeps them in the checkpoint topic behind a fenced producer; runtime/memory-checkpoint-store.ts on the heap.
 */
import type { GroupOffset } from '../core/connector.ts'
import { isMillraceError, type MillraceError } from '../errors.ts'
import type { BlobStore } from './checkpoint-storage.ts'
import type { CompletedCheckpoint } from './completed-checkpoint.ts'

/** Transactional ids that a sink may own, as they were ever recorded: what a take-over must clean up even if nobody lists them. */
export interface SinkRecord {
  readonly uid: string
  /** Everything of the id before `.<subtask>.<slot>`. */
  readonly prefix: string
  /** Highest ever. */
  readonly parallelism: number
  readonly slots: number
}

/** Written before an attempt is deployed; proves that the writer leads. */
export interface AttemptRecord {
  readonly run: string
  readonly attempt: number
  /** Uuid of the leader's process. */
  readonly incarnation: string
  /** Epoch ms. */
  readonly startedAt: number
  readonly fingerprint: string
  readonly sinks: readonly SinkRecord[]
  /** When the run began, epoch ms. Absent in records of the first release. */
  readonly begunAt?: number
}

/** How a run ended, or that it is suspended. Absence = it is running, or was killed. */
export interface JobRecord {
  readonly run: string
  readonly status: 'FINISHED' | 'CANCELED' | 'FAILED' | 'SUSPENDED'
  readonly at: number
  readonly reason?: string
  /** The savepoint with which it was stopped. */
  readonly savepoint?: string
}

/** All that a new leader knows. */
export interface RecoveryFacts {
  readonly attempt: AttemptRecord | undefined
  readonly job: JobRecord | undefined
  /** Of the latest run, oldest first. */
  readonly completed: readonly CompletedCheckpoint[]
  /** What is recorded of earlier runs: checkpoints that somebody wanted to retain. */
  readonly ofEarlierRuns?: readonly CompletedCheckpoint[]
  /** Highest checkpoint of that run whose commits are durable; -1 = none. */
  readonly confirmed: number
  /** Transactions that an operator gave up with --accept-lost-transaction. */
  readonly acceptedLost: readonly string[]
}

export type CommitPointOutcome =
  | { readonly type: 'written' }
  /** Our own abort succeeded: n never happened. `cause`: the error that refused it, if there was one. */
  | { readonly type: 'refused'; readonly reason: string; readonly cause?: unknown }
  /** Nobody here knows: end the attempt, touch nothing. */
  | { readonly type: 'unknown'; readonly reason: string }

/** The error of a refusal that another leader would meet as well; undefined where a new take-over may help. */
export function finalRefusal(outcome: CommitPointOutcome): MillraceError | undefined {
  if (outcome.type !== 'refused' || !isMillraceError(outcome.cause) || outcome.cause.retriable)
    return undefined
  return outcome.cause
}

export interface CheckpointStore {
  /** Where snapshot bytes go when no directory is configured. */
  readonly blobs: BlobStore
  /** Fences every earlier leader, then reads the facts (protocol §2.1 and §2.3). @throws MILLRACE_ATTEMPT_LOST when another one leads. */
  takeOver(): Promise<RecoveryFacts>
  /** Durable attempt-started (protocol §2.5). */
  startAttempt(record: AttemptRecord): Promise<void>
  /** Everything that the attempt restores has been read: what was kept in memory for that may go. */
  restored?(): void
  /** A commit point is likely to come soon: what can be done before its content is known is begun. Never fails. */
  prepareCommitPoint?(groupIds: readonly string[]): void
  /** One fenced transaction: completed(n), what rides with it, and the sources' group offsets. Never throws for a lost connection: that is 'unknown'. */
  commitPoint(
    checkpoint: CompletedCheckpoint,
    offsets: readonly GroupOffset[],
    /** Completed checkpoints of the run that are forgotten in the same transaction. */
    forget?: readonly number[],
  ): Promise<CommitPointOutcome>
  /** Durable confirmed(n), with the end of the run if this is its last act. */
  writeConfirmed(run: string, n: number, end?: JobRecord): Promise<void>
  writeEnd(end: JobRecord): Promise<void>
  /** Resolves when a fenced transaction has proved that nobody took the job over since our take-over. @throws MILLRACE_ATTEMPT_LOST. */
  proveLeadership(): Promise<void>
  acceptLost(transactions: readonly string[]): Promise<void>
  /** Forgets completed(n). Its blobs are discarded by the caller afterwards. */
  forget(run: string, n: number): Promise<void>
  close(): Promise<void>
}

/** Output transactions of all sinks of the job, at take-over and at the end. Implemented in kafka/transactions.ts. */
export interface OutputTransactions {
  /** Records for attempt-started: the sinks of this graph, at least as wide as ever recorded. */
  records(recorded: readonly SinkRecord[]): SinkRecord[]
  /** What earlier attempts may have left (protocol §2.4). Must be called before attempt-started is written. */
  observe(recorded: readonly SinkRecord[]): Promise<void>
  /** Aborts all leftovers by compare-and-set (protocol §2.9); leases for each sink's subtasks, by uid. */
  lease(): Promise<ReadonlyMap<string, readonly unknown[]>>
  /** Aborts whatever is open: cancel, stop, shut down. */
  abortOpen(options: AbortOptions): Promise<void>
}

/** What `abortOpen` must know to be safe. */
export interface AbortOptions {
  /** Transactional ids that hold what a completed checkpoint promised. */
  readonly keep?: readonly string[]
  /** Asked after the open transactions were looked up and before the first is aborted: what was seen before the proof is ours. */
  readonly proveLeadership?: () => Promise<void>
}
