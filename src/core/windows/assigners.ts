/**
 * Windows of a fixed length (tumbling, sliding), and the global window.
 */

import { GlobalWindow, TimeWindow } from './time-window.ts'
import type { Trigger } from './trigger.ts'
import { EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger } from './triggers.ts'
import {
  missingTimestamp,
  requireOffset,
  requirePositive,
  WindowAssigner,
  type WindowAssignerContext,
} from './window-assigner.ts'

/** Windows that were made; more than this many are made anew. */
const CACHE_LIMIT = 512

/** Start of the step that `time` lies in; right for times before 1970 too. */
function stepStart(time: number, offset: number, step: number): number {
  const remainder = (time - offset) % step
  return remainder < 0 ? time - (remainder + step) : time - remainder
}

/**
 * The windows [start, start + size) for each start = offset + n · slide. Records mostly come to the windows of the record before: these are
 * kept, with the times for which they are the answer.
 */
class AlignedWindows {
  private readonly size: number
  private readonly slide: number
  private readonly offset: number
  private readonly made = new Map<number, TimeWindow>()
  /** `current` is right for `from` ≤ time < `to`. */
  private from = Number.NaN
  private to = Number.NaN
  private current: readonly TimeWindow[] = []

  constructor(size: number, slide: number, offset: number) {
    this.size = size
    this.slide = slide
    this.offset = offset
  }

  /** The windows that hold `time`, the latest start first. @throws MillraceError for NaN */
  at(time: number): readonly TimeWindow[] {
    return time >= this.from && time < this.to ? this.current : this.find(time)
  }

  private find(time: number): readonly TimeWindow[] {
    if (Number.isNaN(time)) throw missingTimestamp()
    const { size, slide } = this
    const last = stepStart(time, this.offset, slide)
    const windows: TimeWindow[] = []
    let start = last
    for (; start > time - size; start -= slide) windows.push(this.window(start))
    this.from = Math.max(last, start + size)
    this.to = Math.min(last + slide, start + slide + size)
    if (windows.length === 0) this.to = last + slide
    this.current = windows
    return windows
  }

  private window(start: number): TimeWindow {
    let window = this.made.get(start)
    if (window === undefined) {
      if (this.made.size >= CACHE_LIMIT) this.made.clear()
      window = new TimeWindow(start, start + this.size)
      this.made.set(start, window)
    }
    return window
  }
}

/**
 * Windows of `size` ms that follow each other without gaps, by event time.
 * @example orders.keyBy(o => o.user).window(TumblingEventTimeWindows.of(10_000))
 */
export class TumblingEventTimeWindows extends WindowAssigner<any, TimeWindow> {
  override readonly isEventTime = true
  private readonly size: number
  private readonly windows: AlignedWindows

  private constructor(size: number, offset: number) {
    super()
    this.size = size
    this.windows = new AlignedWindows(size, size, offset)
  }

  /** Windows start at `offset` + n · `size` (epoch ms), so without an offset hours and days are those of UTC. */
  static of(size: number, offset = 0): TumblingEventTimeWindows {
    const name = 'TumblingEventTimeWindows.of'
    requirePositive(name, 'size', size)
    return new TumblingEventTimeWindows(size, requireOffset(name, offset, size))
  }

  override assignWindows(_value: unknown, timestamp: number): readonly TimeWindow[] {
    return this.windows.at(timestamp)
  }
  override getDefaultTrigger(): Trigger {
    return EventTimeTrigger.create()
  }
  override toString(): string {
    return `TumblingEventTimeWindows(${this.size})`
  }
}

/** Windows of `size` ms that follow each other without gaps, by the clock of the worker. */
export class TumblingProcessingTimeWindows extends WindowAssigner<any, TimeWindow> {
  override readonly isEventTime = false
  private readonly size: number
  private readonly windows: AlignedWindows

  private constructor(size: number, offset: number) {
    super()
    this.size = size
    this.windows = new AlignedWindows(size, size, offset)
  }

  /** As for event time. */
  static of(size: number, offset = 0): TumblingProcessingTimeWindows {
    const name = 'TumblingProcessingTimeWindows.of'
    requirePositive(name, 'size', size)
    return new TumblingProcessingTimeWindows(size, requireOffset(name, offset, size))
  }

  override assignWindows(
    _value: unknown,
    _timestamp: number,
    context: WindowAssignerContext,
  ): readonly TimeWindow[] {
    return this.windows.at(context.getCurrentProcessingTime())
  }
  override getDefaultTrigger(): Trigger {
    return ProcessingTimeTrigger.create()
  }
  override toString(): string {
    return `TumblingProcessingTimeWindows(${this.size})`
  }
}

/**
 * Windows of `size` ms that start every `slide` ms, by event time: a record is in size / slide of them.
 * @example orders.keyBy(o => o.user).window(SlidingEventTimeWindows.of(60_000, 10_000))
 */
export class SlidingEventTimeWindows extends WindowAssigner<any, TimeWindow> {
  override readonly isEventTime = true
  private readonly size: number
  private readonly slide: number
  private readonly windows: AlignedWindows

  private constructor(size: number, slide: number, offset: number) {
    super()
    this.size = size
    this.slide = slide
    this.windows = new AlignedWindows(size, slide, offset)
  }

  /** A slide above the size leaves gaps: records in them are in no window. */
  static of(size: number, slide: number, offset = 0): SlidingEventTimeWindows {
    const name = 'SlidingEventTimeWindows.of'
    requirePositive(name, 'size', size)
    requirePositive(name, 'slide', slide)
    return new SlidingEventTimeWindows(size, slide, requireOffset(name, offset, slide))
  }

  override assignWindows(_value: unknown, timestamp: number): readonly TimeWindow[] {
    return this.windows.at(timestamp)
  }
  override getDefaultTrigger(): Trigger {
    return EventTimeTrigger.create()
  }
  override toString(): string {
    return `SlidingEventTimeWindows(${this.size}, ${this.slide})`
  }
}

/** Windows of `size` ms that start every `slide` ms, by the clock of the worker. */
export class SlidingProcessingTimeWindows extends WindowAssigner<any, TimeWindow> {
  override readonly isEventTime = false
  private readonly size: number
  private readonly slide: number
  private readonly windows: AlignedWindows

  private constructor(size: number, slide: number, offset: number) {
    super()
    this.size = size
    this.slide = slide
    this.windows = new AlignedWindows(size, slide, offset)
  }

  /** As for event time. */
  static of(size: number, slide: number, offset = 0): SlidingProcessingTimeWindows {
    const name = 'SlidingProcessingTimeWindows.of'
    requirePositive(name, 'size', size)
    requirePositive(name, 'slide', slide)
    return new SlidingProcessingTimeWindows(size, slide, requireOffset(name, offset, slide))
  }

  override assignWindows(
    _value: unknown,
    _timestamp: number,
    context: WindowAssignerContext,
  ): readonly TimeWindow[] {
    return this.windows.at(context.getCurrentProcessingTime())
  }
  override getDefaultTrigger(): Trigger {
    return ProcessingTimeTrigger.create()
  }
  override toString(): string {
    return `SlidingProcessingTimeWindows(${this.size}, ${this.slide})`
  }
}

/**
 * One window for all records of a key. It has no end: without a trigger of the job's own it never fires.
 * @example orders.keyBy(o => o.user).window(GlobalWindows.create()).trigger(CountTrigger.of(100))
 */
export class GlobalWindows extends WindowAssigner<any, GlobalWindow> {
  override readonly isEventTime = false
  private static readonly windows: readonly GlobalWindow[] = [GlobalWindow.get()]
  private readonly trigger: Trigger

  private constructor(trigger: Trigger) {
    super()
    this.trigger = trigger
  }

  static create(): GlobalWindows {
    return new GlobalWindows(NeverTrigger.create())
  }

  /** Fires once, when bounded input has come to its end. */
  static createWithEndOfStreamTrigger(): GlobalWindows {
    return new GlobalWindows(EventTimeTrigger.create())
  }

  override assignWindows(): readonly GlobalWindow[] {
    return GlobalWindows.windows
  }
  override getDefaultTrigger(): Trigger {
    return this.trigger
  }
}
