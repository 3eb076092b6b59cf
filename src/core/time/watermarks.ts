/**
 * Event time: how records get their timestamps, and how watermarks follow from them. The public strategy, and the parts that tasks use.
 */
import { ConfigError } from '../../errors.ts'
import type { AlignmentSettings } from './watermark-alignment.ts'
import {
  BoundedOutOfOrderness,
  type EventTimeSettings,
  NoWatermarks,
  type TimestampAssigner,
  type WatermarkGenerator,
} from './watermark-generators.ts'

export { SourceWatermarker } from './source-watermarker.ts'
export type { SourceWatermark } from './split-watermarks.ts'
export {
  type TimestampAssigner,
  WATERMARK_INTERVAL_MS,
  type WatermarkGenerator,
  type WatermarkOutput,
} from './watermark-generators.ts'
export { type ValveOutput, WatermarkValve } from './watermark-valve.ts'

interface Settings<T> {
  readonly createGenerator: () => WatermarkGenerator<T>
  readonly assign: TimestampAssigner<T> | undefined
  readonly idleTimeoutMs: number | undefined
  readonly alignment: AlignmentSettings | undefined
  readonly silent: boolean
}

/** How often a source looks at its alignment group, unless told otherwise. */
const ALIGNMENT_INTERVAL_MS = 1_000

/**
 * How a stream gets event time. Immutable: each `with…` returns a new strategy.
 *
 *     WatermarkStrategy.forBoundedOutOfOrderness<Order>(5_000).withTimestampAssigner(order => order.ts).withIdleness(10_000)
 */
export class WatermarkStrategy<T> implements EventTimeSettings<T> {
  private readonly settings: Settings<T>

  private constructor(settings: Settings<T>) {
    this.settings = settings
  }

  /** No watermarks before the end of input. */
  static noWatermarks<T>(): WatermarkStrategy<T> {
    const { settings } = WatermarkStrategy.forGenerator<T>(() => new NoWatermarks())
    return new WatermarkStrategy({ ...settings, silent: true })
  }

  /** Records may be up to `maxOutOfOrdernessMs` behind the newest one; what is further behind is late. */
  static forBoundedOutOfOrderness<T>(maxOutOfOrdernessMs: number): WatermarkStrategy<T> {
    requireMs('forBoundedOutOfOrderness', maxOutOfOrdernessMs, 0)
    return WatermarkStrategy.forGenerator<T>(() => new BoundedOutOfOrderness(maxOutOfOrdernessMs))
  }

  /** Timestamps never go back within a split. */
  static forMonotonousTimestamps<T>(): WatermarkStrategy<T> {
    return WatermarkStrategy.forBoundedOutOfOrderness<T>(0)
  }

  /** A generator of your own; `create` is called once for each split or subtask. */
  static forGenerator<T>(create: () => WatermarkGenerator<T>): WatermarkStrategy<T> {
    return new WatermarkStrategy<T>({
      createGenerator: create,
      assign: undefined,
      idleTimeoutMs: undefined,
      alignment: undefined,
      silent: false,
    })
  }

  /** Takes event time from the record. Without it the source's own timestamp counts. */
  withTimestampAssigner(assign: TimestampAssigner<T>): WatermarkStrategy<T> {
    return new WatermarkStrategy({ ...this.settings, assign })
  }

  /** A split without records for `timeoutMs` does not hold back the watermark. */
  withIdleness(timeoutMs: number): WatermarkStrategy<T> {
    requireMs('withIdleness', timeoutMs, 1)
    return new WatermarkStrategy({ ...this.settings, idleTimeoutMs: timeoutMs })
  }

  /**
   * Sources of one `group` wait for each other: splits whose watermark is more than `maxDriftMs` above the lowest of the group are not
   * read until the others have caught up. Sources only; they look at each other every `updateIntervalMs`.
   */
  withWatermarkAlignment(
    group: string,
    maxDriftMs: number,
    updateIntervalMs: number = ALIGNMENT_INTERVAL_MS,
  ): WatermarkStrategy<T> {
    requireMs('withWatermarkAlignment', maxDriftMs, 0)
    requireMs('withWatermarkAlignment', updateIntervalMs, 1)
    if (typeof group !== 'string' || group === '')
      throw new ConfigError(
        'MILLRACE_INVALID_OPTION',
        'WatermarkStrategy.withWatermarkAlignment needs the name of a group',
        { remedy: 'Sources that give the same name wait for each other.' },
      )
    return new WatermarkStrategy({ ...this.settings, alignment: { group, maxDriftMs, updateIntervalMs } })
  }

  /** A generator for one more split or subtask. */
  createGenerator(): WatermarkGenerator<T> {
    return this.settings.createGenerator()
  }
  get timestampAssigner(): TimestampAssigner<T> | undefined {
    return this.settings.assign
  }
  get idleTimeoutMs(): number | undefined {
    return this.settings.idleTimeoutMs
  }
  get alignment(): AlignmentSettings | undefined {
    return this.settings.alignment
  }
  get silent(): boolean {
    return this.settings.silent
  }
}

function requireMs(name: string, value: number, least: number): void {
  if (Number.isFinite(value) && value >= least) return
  throw new ConfigError(
    'MILLRACE_INVALID_OPTION',
    `WatermarkStrategy.${name} needs at least ${least} ms, not ${value}`,
    {
      remedy: `Give ${name} a number of milliseconds.`,
    },
  )
}
