/**
 * Event time of a source subtask: stamps the records of each split and keeps the subtask's watermark.
 */
import type { SubtaskInfo } from '../connector.ts'
import { type RecordVector, recordVector } from '../element.ts'
import { userError } from '../operators/user-error.ts'
import { type SourceWatermark, SplitWatermarks } from './split-watermarks.ts'
import type { EventTimeSettings, TimestampAssigner } from './watermark-generators.ts'

/** Timestamps of a vector by an assigner, as whole milliseconds: fractions (of `performance.now()`, of seconds times 1,000) are cut off. @throws UserFunctionError if the assigner throws or returns something that is no time. */
export function assignTimestamps<T>(
  vector: RecordVector<T>,
  assign: TimestampAssigner<T>,
  info: SubtaskInfo,
): RecordVector<T> {
  const { values, timestamps } = vector
  const assigned = new Array<number>(values.length)
  let i = 0
  try {
    for (; i < values.length; i++) {
      const timestamp = assign(values[i]!, timestamps[i]!)
      if (typeof timestamp !== 'number' || !Number.isFinite(timestamp)) throw notATime(timestamp)
      // As Flink's long: window bounds and watermarks are whole milliseconds, and a fraction would lie between a window's last one and its end.
      assigned[i] = Math.floor(timestamp)
    }
  } catch (error) {
    throw userError(error, info, 'The timestamp assigner', values[i])
  }
  return recordVector(values, assigned)
}

function notATime(timestamp: unknown): TypeError {
  const what =
    typeof timestamp === 'number' || timestamp === null
      ? String(timestamp)
      : `a value of type ${typeof timestamp}`
  return new TypeError(`it returned ${what}, not a time in epoch milliseconds`)
}

/**
 * Used by a source subtask: `stamped` and `onRecords` for each poll, `onPeriodic` every WATERMARK_INTERVAL_MS, and after either `current`, whose answer
 * goes downstream if it changed.
 */
export class SourceWatermarker<T = unknown> {
  private readonly assign: TimestampAssigner<T> | undefined
  private readonly splits: SplitWatermarks<T>
  private readonly info: SubtaskInfo
  /** No watermark ever comes before the end of input. */
  readonly silent: boolean

  constructor(settings: EventTimeSettings<T>, info: SubtaskInfo) {
    this.info = info
    this.silent = settings.silent === true
    this.assign = settings.timestampAssigner
    this.splits = new SplitWatermarks(() => settings.createGenerator(), settings.idleTimeoutMs)
  }

  /** The records with their event times. */
  stamped(vector: RecordVector<T>): RecordVector<T> {
    return this.assign === undefined ? vector : assignTimestamps(vector, this.assign, this.info)
  }

  /**
   * Stamped records, from index `from` on. Answers up to where they may be sent before `current` is: a generator may say something after any
   * record. The rest must be given again, from there.
   */
  onRecords(splitId: string, { values, timestamps }: RecordVector<T>, from: number): number {
    let to = values.length
    this.generate(() => {
      to = this.splits.onRecords(splitId, values, timestamps, from)
    })
    return to
  }

  onPeriodic(now: number): void {
    this.generate(() => this.splits.onPeriodic(now))
  }

  private generate(run: () => void): void {
    try {
      run()
    } catch (error) {
      throw userError(error, this.info, 'The watermark generator')
    }
  }

  current(): SourceWatermark {
    return this.splits.current()
  }

  splitAdded(splitId: string): void {
    this.splits.add(splitId)
  }

  splitFinished(splitId: string): void {
    this.splits.finish(splitId)
  }

  /** `ms` went by in which the subtask could not emit: not a reason to call its splits idle. */
  blockedFor(ms: number): void {
    this.splits.excludeFromIdleness(ms)
  }

  /** Splits whose own watermark is above `limit`. */
  splitsAbove(limit: number): string[] {
    return this.splits.above(limit)
  }

  /** These splits are not read on purpose, and no others: not a reason to call them idle. */
  splitsPaused(splitIds: ReadonlySet<string>): void {
    this.splits.pause(splitIds)
  }

  /** The split's own watermark. */
  watermarkOf(splitId: string): number {
    return this.splits.watermarkOf(splitId)
  }

  /** Splits that hold the watermark back. */
  holdingBack(): string[] {
    return this.splits.holdingBack()
  }
}
