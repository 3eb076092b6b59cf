/**
 * How this process was started, handed from the command line to the job's environment.
 * It is kept on `globalThis` under a registered symbol: a job may import another copy of this package than the one whose `millrace` command
 * runs it, and both must see the same settings. So it holds plain data and plain functions only.
 */

import type { Diagnosis } from '../core/diagnosis.ts'
import type { FailureFacts } from '../core/failure-report.ts'

import type { RestoreChoice } from '../core/job-settings.ts'

/** How a job ended, as far as a process cares. */
export interface JobOutcome {
  readonly jobName: string
  /** SUSPENDED: this worker left, the job can go on elsewhere or later. */
  readonly status: 'FINISHED' | 'CANCELED' | 'SUSPENDED' | 'FAILED'
  /** Why it FAILED. */
  readonly error?: unknown
  /** What is left of it then. */
  readonly failure?: FailureFacts
}

/** Settings of one start. */
export interface LaunchSettings {
  /** True under `millrace run`, false under `node job.ts`. */
  readonly launchedByCli: boolean
  /** `-D key=value`, the strongest settings of all. */
  readonly flags: Readonly<Record<string, string>>
  /** `--config FILE`; without it `millrace.yaml` in the working directory, if there is one. */
  readonly configFile?: string
  /** `--conf FILE`: a configuration file of Flink's. */
  readonly flinkFile?: string
  /** Print the job's graph and start nothing. */
  readonly dryRun: boolean
  /** Begin without the state of earlier runs. */
  readonly fresh: boolean
  /** Transactional ids whose lost records the operator has accepted. */
  readonly acceptLostTransactions: readonly string[]
  /** Drop state that no operator of the graph claims. */
  readonly allowNonRestoredState: boolean
  /** Savepoint or retained checkpoint to begin a new run with: its folder. */
  readonly fromSavepoint?: string
  /** `latest`, a checkpoint's number, or its folder. */
  readonly fromCheckpoint?: string
  /** Must be called for every `execute` and `executeAsync`, before anything is started, in a dry run too. */
  readonly onJobSubmitted?: (jobName: string) => void
  /** Look at what the job needs, hand over what was found, and start nothing. */
  readonly onDiagnosed?: (jobName: string, found: readonly Diagnosis[]) => void
  /** Must be called once for every job that was submitted and started, before its promise settles. */
  readonly onJobSettled?: (outcome: JobOutcome) => void
}

const SLOT = Symbol.for('millrace.launch')

const BY_NODE: LaunchSettings = {
  launchedByCli: false,
  flags: {},
  dryRun: false,
  fresh: false,
  acceptLostTransactions: [],
  allowNonRestoredState: false,
}

type Slots = Record<symbol, LaunchSettings | undefined>

/** Sets how this process was started; jobs submitted from now on see it. */
export function setLaunchSettings(settings: LaunchSettings): void {
  ;(globalThis as unknown as Slots)[SLOT] = settings
}

/** How this process was started; plain `node job.ts` unless somebody said otherwise. */
export function getLaunchSettings(): LaunchSettings {
  // A command of another version may know fewer settings; those keep their defaults.
  return { ...BY_NODE, ...(globalThis as unknown as Slots)[SLOT] }
}

/** What the run is to begin with. A word that is neither `latest` nor a number is a folder. */
export function restoreChoice({ fromSavepoint, fromCheckpoint }: LaunchSettings): RestoreChoice | undefined {
  if (fromSavepoint !== undefined) return { type: 'path', path: fromSavepoint }
  if (fromCheckpoint === undefined) return undefined
  if (fromCheckpoint === 'latest') return { type: 'checkpoint', n: 'latest' }
  return /^\d+$/.test(fromCheckpoint)
    ? { type: 'checkpoint', n: Number(fromCheckpoint) }
    : { type: 'path', path: fromCheckpoint }
}
