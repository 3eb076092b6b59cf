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
    /** Write snapshots while records go on. */
    readonly async: boolean
  }
  readonly restart: RestartStrategyConfig
}

/** How this start treats what earlier runs left. */
export interface StartOptions {
  readonly fresh: boolean
  readonly allowNonRestoredState: boolean
  readonly acceptLostTransactions: readonly string[]
}
