/** What a running job does and what it waits for, as facts that people and tools read. JSON-safe. */
import type { JobStatus } from './constants.ts'

/** Milliseconds a second; the three add up to 1,000. */
export interface LoadRates {
  readonly busy: number
  readonly idle: number
  readonly backpressured: number
}

/** A checkpoint that waits for barriers at a subtask. */
export interface AlignmentInfo {
  readonly checkpoint: number
  /** Upstream subtasks whose barrier has not come. */
  readonly missing: readonly string[]
  /** Upstream subtasks whose records wait meanwhile, with the ms for which they do; none with AT_LEAST_ONCE. */
  readonly blocked: readonly { readonly from: string; readonly ms: number }[]
}

/** One subtask. */
export interface TaskInfo {
  readonly id: string
  readonly name: string
  /** Milliseconds a second. */
  readonly load: LoadRates
  /** What it waits for. */
  readonly state: string
  /** What keeps its watermark where it is; empty when nothing does. */
  readonly watermarkHeldBackBy: readonly string[]
  /** The checkpoint whose barriers it waits for, if there is one. */
  readonly alignment: AlignmentInfo | undefined
  /** What its operators say, e.g. which transaction is open. */
  readonly operators: readonly string[]
}

/** A checkpoint that is not complete yet. */
export interface PendingInfo {
  readonly n: number
  readonly phase: string
  /** Since its trigger. */
  readonly ms: number
  /** Subtasks that have not acknowledged it. */
  readonly missing: readonly string[]
}

export interface JobInfo {
  readonly job: string
  readonly status: JobStatus
  readonly run: string
  readonly attempt: number | undefined
  /** Since the attempt runs. */
  readonly upMs: number | undefined
  readonly workers: number
  readonly restarts: number
  readonly lastFailure: { readonly at: number; readonly message: string } | undefined
  readonly lastCheckpoint: { readonly n: number; readonly agoMs: number } | undefined
  readonly pending: readonly PendingInfo[]
  readonly tasks: readonly TaskInfo[]
  /** Sentences: what an operator should look at first. */
  readonly findings: readonly string[]
}
