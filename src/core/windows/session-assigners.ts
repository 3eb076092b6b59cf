/**
 * Session windows: each record opens a window from its time to its time plus the gap; windows of a key that overlap or touch become one.
 */
import { TimeWindow } from './time-window.ts'
import type { Trigger } from './trigger.ts'
import { EventTimeTrigger, ProcessingTimeTrigger } from './triggers.ts'
import {
  missingTimestamp,
  requirePositive,
  WindowAssigner,
  type WindowAssignerContext,
} from './window-assigner.ts'

/** The gap after a record, in ms. */
export type SessionGap<T> = (value: T) => number

/** @throws TypeError if the job's function gives no length of time */
function gapOf<T>(gap: number | SessionGap<T>, value: T): number {
  if (typeof gap === 'number') return gap
  const own = gap(value)
  if (typeof own === 'number' && own > 0 && Number.isFinite(own)) return own
  throw new TypeError(`the session gap must be above 0 ms, not ${String(own)}`)
}

/**
 * Sessions by event time: a session ends when no record came for the gap.
 * @example clicks.keyBy(c => c.user).window(EventTimeSessionWindows.withGap(30 * 60_000))
 */
export class EventTimeSessionWindows<T = any> extends WindowAssigner<T, TimeWindow> {
  override readonly isEventTime = true
  override readonly isMerging = true
  private readonly gap: number | SessionGap<T>

  private constructor(gap: number | SessionGap<T>) {
    super()
    this.gap = gap
  }

  static withGap(gap: number): EventTimeSessionWindows {
    return new EventTimeSessionWindows(requirePositive('EventTimeSessionWindows.withGap', 'gap', gap))
  }

  /** Each record says how long its session waits for the next one. */
  static withDynamicGap<T>(gap: SessionGap<T>): EventTimeSessionWindows<T> {
    return new EventTimeSessionWindows<T>(gap)
  }

  override assignWindows(value: T, timestamp: number): readonly TimeWindow[] {
    if (Number.isNaN(timestamp)) throw missingTimestamp()
    return [new TimeWindow(timestamp, timestamp + gapOf(this.gap, value))]
  }
  override getDefaultTrigger(): Trigger {
    return EventTimeTrigger.create()
  }
  override toString(): string {
    return `EventTimeSessionWindows(${typeof this.gap === 'number' ? this.gap : 'dynamic'})`
  }
}

/** Sessions by the clock of the worker. */
export class ProcessingTimeSessionWindows<T = any> extends WindowAssigner<T, TimeWindow> {
  override readonly isEventTime = false
  override readonly isMerging = true
  private readonly gap: number | SessionGap<T>

  private constructor(gap: number | SessionGap<T>) {
    super()
    this.gap = gap
  }

  static withGap(gap: number): ProcessingTimeSessionWindows {
    return new ProcessingTimeSessionWindows(
      requirePositive('ProcessingTimeSessionWindows.withGap', 'gap', gap),
    )
  }

  /** As for event time. */
  static withDynamicGap<T>(gap: SessionGap<T>): ProcessingTimeSessionWindows<T> {
    return new ProcessingTimeSessionWindows<T>(gap)
  }

  override assignWindows(
    value: T,
    _timestamp: number,
    context: WindowAssignerContext,
  ): readonly TimeWindow[] {
    const now = context.getCurrentProcessingTime()
    return [new TimeWindow(now, now + gapOf(this.gap, value))]
  }
  override getDefaultTrigger(): Trigger {
    return ProcessingTimeTrigger.create()
  }
  override toString(): string {
    return `ProcessingTimeSessionWindows(${typeof this.gap === 'number' ? this.gap : 'dynamic'})`
  }
}
