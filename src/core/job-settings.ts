/** Settings of one job, resolved from all layers: what the runtime needs, in its own words. */
import type { CheckpointingMode } from './constants.ts'
import type { RestartStrategyConfig } from './restart-strategy-config.ts'

export interface JobSettings {
  readonly checkpointing: {
    /** Milliseconds; undefined = off. */
    readonly intervalMs: number | undefined
    readonly mode: CheckpointingMode
    readonly timeoutMs: number
    readonly minPauseMs: number
    readonly maxConcurrent: number
    /** Infinity = all are forgiven. */
    readonly tolerableFailures: number
    readonly numRetained: number
    readonly retainOnCancellation: boolean
    /** Barriers may overtake records this many ms after a checkpoint was triggered; undefined: checkpoints are aligned. */
    readonly unalignedAfterMs?: number | undefined
    /** Write snapshots while records go on. */
    readonly async: boolean
  }
  readonly restart: RestartStrategyConfig
  /** Where savepoints go that name no folder. */
  readonly savepointDirectory?: string | undefined
}

/** How this start treats what earlier runs left. */
export interface StartOptions {
  readonly fresh: boolean
  readonly allowNonRestoredState: boolean
  readonly acceptLostTransactions: readonly string[]
  /** Begin a new run with the state of a snapshot. */
  readonly restoreFrom?: RestoreChoice | undefined
}

/** A savepoint or retained checkpoint by its folder, or a completed checkpoint of the job's latest run. */
export type RestoreChoice =
  | { readonly type: 'path'; readonly path: string }
  | { readonly type: 'checkpoint'; readonly n: number | 'latest' }
