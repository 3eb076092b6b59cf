/** Checkpoint settings of a job's code; see `env.getCheckpointConfig()`. */
import { CheckpointingMode, ExternalizedCheckpointCleanup } from '../core/constants.ts'
import { checkNumber, checkOneOf, type SettingsRecord } from './settings.ts'

const PREFIX = 'execution.checkpointing'
const INTERVAL = `${PREFIX}.interval`
const MODE = `${PREFIX}.mode`
const TIMEOUT = `${PREFIX}.timeout`
const MIN_PAUSE = `${PREFIX}.min-pause`
const MAX_CONCURRENT = `${PREFIX}.max-concurrent-checkpoints`
const TOLERABLE = `${PREFIX}.tolerable-failed-checkpoints`
const RETENTION = `${PREFIX}.externalized-checkpoint-retention`
const UNALIGNED = `${PREFIX}.unaligned`

/** Largest number of tolerable failures: as good as no limit. */
const UNLIMITED = 2_147_483_647

/**
 * How checkpoints are taken. Setters are the weakest layer of configuration: `millrace.yaml`, the environment and flags override them.
 * Getters tell what the code set, or the default. Each setter returns the same object.
 * @example
 * env.enableCheckpointing(1000)
 * env.getCheckpointConfig().setCheckpointTimeout(60_000).setMinPauseBetweenCheckpoints(500)
 */
export class CheckpointConfig {
  readonly #settings: SettingsRecord

  /** Made by the environment. */
  constructor(settings: SettingsRecord) {
    this.#settings = settings
  }

  /** True once an interval is set. */
  isCheckpointingEnabled(): boolean {
    return this.getCheckpointInterval() > 0
  }

  /** Milliseconds from the start of a checkpoint to the start of the next one; at least 10. */
  setCheckpointInterval(intervalMs: number): this {
    return this.#setNumber(INTERVAL, intervalMs, 10)
  }
  /** 0 = checkpointing is off. */
  getCheckpointInterval(): number {
    return this.#settings.number(INTERVAL, 0)
  }

  /** EXACTLY_ONCE (the default) aligns barriers, AT_LEAST_ONCE never makes a channel wait. */
  setCheckpointingMode(mode: CheckpointingMode): this {
    checkOneOf(MODE, mode, CheckpointingMode)
    this.#settings.set(MODE, mode)
    return this
  }
  getCheckpointingMode(): CheckpointingMode {
    return (this.#settings.get(MODE) as CheckpointingMode | undefined) ?? CheckpointingMode.EXACTLY_ONCE
  }

  /** A checkpoint that takes longer is aborted; 10 minutes. */
  setCheckpointTimeout(timeoutMs: number): this {
    return this.#setNumber(TIMEOUT, timeoutMs, 10)
  }
  getCheckpointTimeout(): number {
    return this.#settings.number(TIMEOUT, 600_000)
  }

  /** Least time between the end of a checkpoint and the start of the next one; 0. Above 0 only one checkpoint is in flight. */
  setMinPauseBetweenCheckpoints(pauseMs: number): this {
    return this.#setNumber(MIN_PAUSE, pauseMs, 0)
  }
  getMinPauseBetweenCheckpoints(): number {
    return this.#settings.number(MIN_PAUSE, 0)
  }

  /** Checkpoints that may be in flight at a time; 1. */
  setMaxConcurrentCheckpoints(count: number): this {
    return this.#setNumber(MAX_CONCURRENT, count, 1)
  }
  /** 1 whenever a min pause or unaligned checkpoints are set: both rule out more than one. */
  getMaxConcurrentCheckpoints(): number {
    const one = this.getMinPauseBetweenCheckpoints() > 0 || this.isUnalignedCheckpointsEnabled()
    return one ? 1 : this.#settings.number(MAX_CONCURRENT, 1)
  }

  /** What becomes of checkpoints when the job is cancelled; DELETE_ON_CANCELLATION. A FAILED job always keeps them. */
  enableExternalizedCheckpoints(cleanup: ExternalizedCheckpointCleanup): this {
    checkOneOf(RETENTION, cleanup, ExternalizedCheckpointCleanup)
    this.#settings.set(RETENTION, cleanup)
    return this
  }
  getExternalizedCheckpointCleanup(): ExternalizedCheckpointCleanup {
    const value = this.#settings.get(RETENTION) as ExternalizedCheckpointCleanup | undefined
    return value ?? ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION
  }
  /** True if checkpoints outlive a cancelled job. */
  isExternalizedCheckpointsEnabled(): boolean {
    return this.getExternalizedCheckpointCleanup() === ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION
  }

  /**
   * True (the default): the first checkpoint that fails or times out fails the job. False: none does.
   * The same setting as `setTolerableCheckpointFailureNumber`, so the last call of the two wins.
   */
  setFailOnCheckpointingErrors(fail: boolean): this {
    this.#settings.set(TOLERABLE, fail ? 0 : UNLIMITED)
    return this
  }
  /** True if failing checkpoints fail the job, at once or after some. */
  isFailOnCheckpointingErrors(): boolean {
    return this.getTolerableCheckpointFailureNumber() < UNLIMITED
  }

  /** Checkpoints that may fail or time out one after another before the job fails; 0. */
  setTolerableCheckpointFailureNumber(count: number): this {
    return this.#setNumber(TOLERABLE, count, 0)
  }
  getTolerableCheckpointFailureNumber(): number {
    return this.#settings.number(TOLERABLE, 0)
  }

  /** Lets barriers overtake records, which are then part of the checkpoint. Needs EXACTLY_ONCE and one checkpoint at a time. */
  enableUnalignedCheckpoints(enabled = true): this {
    this.#settings.set(UNALIGNED, enabled)
    return this
  }
  isUnalignedCheckpointsEnabled(): boolean {
    return String(this.#settings.get(UNALIGNED)) === 'true'
  }

  #setNumber(key: string, value: number, min: number): this {
    checkNumber(key, value, { whole: true, min, max: UNLIMITED })
    this.#settings.set(key, value)
    return this
  }
}
