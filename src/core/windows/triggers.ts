/**
 * The triggers that come with Millrace. They are Flink's, save that none leaves a timer behind and none loops at the end of input.
 */
import { ConfigError } from '../../errors.ts'
import { MAX_WATERMARK } from '../element.ts'
import { ReducingStateDescriptor, type ValueState, ValueStateDescriptor } from '../state.ts'
import type { Window } from './time-window.ts'
import { fires, type OnMergeContext, Trigger, type TriggerContext, TriggerResult } from './trigger.ts'

const { CONTINUE, FIRE, FIRE_AND_PURGE } = TriggerResult

/** Fires when the watermark passes the end of the window, and for each record that comes later within the allowed lateness. */
export class EventTimeTrigger extends Trigger {
  static create(): EventTimeTrigger {
    return new EventTimeTrigger()
  }

  override onElement(
    _value: unknown,
    _timestamp: number,
    window: Window,
    context: TriggerContext,
  ): TriggerResult {
    const end = window.maxTimestamp()
    if (end <= context.getCurrentWatermark()) return FIRE
    context.registerEventTimeTimer(end)
    return CONTINUE
  }
  override onEventTime(time: number, window: Window): TriggerResult {
    return time === window.maxTimestamp() ? FIRE : CONTINUE
  }
  override onProcessingTime(): TriggerResult {
    return CONTINUE
  }
  override clear(window: Window, context: TriggerContext): void {
    context.deleteEventTimeTimer(window.maxTimestamp())
  }
  override canMerge(): boolean {
    return true
  }
  /** A window whose end has passed is fired by its next record, not by a timer: it would fire twice. */
  override onMerge(window: Window, context: OnMergeContext): void {
    const end = window.maxTimestamp()
    if (end > context.getCurrentWatermark()) context.registerEventTimeTimer(end)
  }
}

/** Fires when the clock passes the end of the window. */
export class ProcessingTimeTrigger extends Trigger {
  static create(): ProcessingTimeTrigger {
    return new ProcessingTimeTrigger()
  }

  override onElement(
    _value: unknown,
    _timestamp: number,
    window: Window,
    context: TriggerContext,
  ): TriggerResult {
    context.registerProcessingTimeTimer(window.maxTimestamp())
    return CONTINUE
  }
  override onEventTime(): TriggerResult {
    return CONTINUE
  }
  override onProcessingTime(): TriggerResult {
    return FIRE
  }
  override clear(window: Window, context: TriggerContext): void {
    context.deleteProcessingTimeTimer(window.maxTimestamp())
  }
  override canMerge(): boolean {
    return true
  }
  override onMerge(window: Window, context: OnMergeContext): void {
    const end = window.maxTimestamp()
    if (end > context.getCurrentProcessingTime()) context.registerProcessingTimeTimer(end)
  }
}

/** Never fires by itself: the trigger of global windows. */
export class NeverTrigger extends Trigger {
  static create(): NeverTrigger {
    return new NeverTrigger()
  }

  override onElement(): TriggerResult {
    return CONTINUE
  }
  override onEventTime(): TriggerResult {
    return CONTINUE
  }
  override onProcessingTime(): TriggerResult {
    return CONTINUE
  }
  override clear(): void {}
  override canMerge(): boolean {
    return true
  }
  override onMerge(): void {}
}

/** Fires at each `count` records of a window, counted anew after each firing. */
export class CountTrigger extends Trigger {
  private static readonly counter = new ReducingStateDescriptor<number>('trigger-count', (a, b) => a + b)
  private readonly count: number

  private constructor(count: number) {
    super()
    this.count = count
  }

  static of(count: number): CountTrigger {
    return new CountTrigger(atLeastOne('CountTrigger.of', count, 'records'))
  }

  override onElement(
    _value: unknown,
    _timestamp: number,
    _window: Window,
    context: TriggerContext,
  ): TriggerResult {
    const counter = context.getPartitionedState(CountTrigger.counter)
    counter.add(1)
    if (counter.get()! < this.count) return CONTINUE
    counter.clear()
    return FIRE
  }
  override onEventTime(): TriggerResult {
    return CONTINUE
  }
  override onProcessingTime(): TriggerResult {
    return CONTINUE
  }
  override clear(_window: Window, context: TriggerContext): void {
    context.getPartitionedState(CountTrigger.counter).clear()
  }
  override canMerge(): boolean {
    return true
  }
  override onMerge(_window: Window, context: OnMergeContext): void {
    context.mergePartitionedState(CountTrigger.counter)
  }
  override toString(): string {
    return `CountTrigger(${this.count})`
  }
}

/** Another trigger that also drops the contents whenever it fires. */
export class PurgingTrigger<T = any, W extends Window = any> extends Trigger<T, W> {
  private readonly nested: Trigger<T, W>

  private constructor(nested: Trigger<T, W>) {
    super()
    this.nested = nested
  }

  static of<T, W extends Window>(nested: Trigger<T, W>): PurgingTrigger<T, W> {
    return new PurgingTrigger(nested)
  }

  override onElement(value: T, timestamp: number, window: W, context: TriggerContext): TriggerResult {
    return purged(this.nested.onElement(value, timestamp, window, context))
  }
  override onEventTime(time: number, window: W, context: TriggerContext): TriggerResult {
    return purged(this.nested.onEventTime(time, window, context))
  }
  override onProcessingTime(time: number, window: W, context: TriggerContext): TriggerResult {
    return purged(this.nested.onProcessingTime(time, window, context))
  }
  override clear(window: W, context: TriggerContext): void {
    this.nested.clear(window, context)
  }
  override canMerge(): boolean {
    return this.nested.canMerge()
  }
  override onMerge(window: W, context: OnMergeContext): void {
    this.nested.onMerge(window, context)
  }
  override toString(): string {
    return `PurgingTrigger(${this.nested})`
  }
}

function purged(result: TriggerResult): TriggerResult {
  return fires(result) ? FIRE_AND_PURGE : result
}

/** The earliest of the times at which a window fires next. */
const nextFiring = new ReducingStateDescriptor<number>('trigger-fire-time', (a, b) => Math.min(a, b))

/** Fires each `interval` milliseconds of event time while the window has records, and at its end. */
export class ContinuousEventTimeTrigger extends Trigger {
  private readonly interval: number

  private constructor(interval: number) {
    super()
    this.interval = interval
  }

  static of(interval: number): ContinuousEventTimeTrigger {
    return new ContinuousEventTimeTrigger(atLeastOne('ContinuousEventTimeTrigger.of', interval, 'ms'))
  }

  override onElement(
    _value: unknown,
    timestamp: number,
    window: Window,
    context: TriggerContext,
  ): TriggerResult {
    const end = window.maxTimestamp()
    if (end <= context.getCurrentWatermark()) return FIRE
    context.registerEventTimeTimer(end)
    if (context.getPartitionedState(nextFiring).get() === null)
      this.fireAfter(timestamp - (timestamp % this.interval), window, context)
    return CONTINUE
  }

  override onEventTime(time: number, window: Window, context: TriggerContext): TriggerResult {
    if (time === window.maxTimestamp()) return FIRE
    const next = context.getPartitionedState(nextFiring)
    if (next.get() !== time) return CONTINUE
    next.clear()
    this.fireAfter(time, window, context)
    return FIRE
  }

  override onProcessingTime(): TriggerResult {
    return CONTINUE
  }

  override clear(window: Window, context: TriggerContext): void {
    const next = context.getPartitionedState(nextFiring)
    const time = next.get()
    if (time !== null) context.deleteEventTimeTimer(time)
    next.clear()
    context.deleteEventTimeTimer(window.maxTimestamp())
  }

  override canMerge(): boolean {
    return true
  }

  override onMerge(_window: Window, context: OnMergeContext): void {
    context.forEachMerged((merged) => {
      const time = merged.getPartitionedState(nextFiring).get()
      if (time !== null) merged.deleteEventTimeTimer(time)
    })
    context.mergePartitionedState(nextFiring)
    const time = context.getPartitionedState(nextFiring).get()
    if (time !== null) context.registerEventTimeTimer(time)
  }

  /** At the end of input a global window would fire for every interval of the rest of time: it fires once, at its end. */
  private fireAfter(time: number, window: Window, context: TriggerContext): void {
    const end = window.maxTimestamp()
    if (end === MAX_WATERMARK && context.getCurrentWatermark() === MAX_WATERMARK) return
    const next = Math.min(time + this.interval, end)
    context.getPartitionedState(nextFiring).add(next)
    context.registerEventTimeTimer(next)
  }

  override toString(): string {
    return `ContinuousEventTimeTrigger(${this.interval})`
  }
}

/** Fires each `interval` milliseconds of the clock while the window has records, and at the end of a processing-time window. */
export class ContinuousProcessingTimeTrigger extends Trigger {
  private readonly interval: number

  private constructor(interval: number) {
    super()
    this.interval = interval
  }

  static of(interval: number): ContinuousProcessingTimeTrigger {
    return new ContinuousProcessingTimeTrigger(
      atLeastOne('ContinuousProcessingTimeTrigger.of', interval, 'ms'),
    )
  }

  override onElement(
    _value: unknown,
    _timestamp: number,
    window: Window,
    context: TriggerContext,
  ): TriggerResult {
    const now = context.getCurrentProcessingTime()
    if (context.getPartitionedState(nextFiring).get() === null)
      this.fireAfter(now - (now % this.interval), window, context)
    return CONTINUE
  }

  override onEventTime(): TriggerResult {
    return CONTINUE
  }

  override onProcessingTime(time: number, window: Window, context: TriggerContext): TriggerResult {
    const next = context.getPartitionedState(nextFiring)
    if (next.get() !== time) return CONTINUE
    next.clear()
    this.fireAfter(time, window, context)
    return FIRE
  }

  override clear(_window: Window, context: TriggerContext): void {
    const next = context.getPartitionedState(nextFiring)
    const time = next.get()
    if (time !== null) context.deleteProcessingTimeTimer(time)
    next.clear()
  }

  override canMerge(): boolean {
    return true
  }

  override onMerge(_window: Window, context: OnMergeContext): void {
    context.forEachMerged((merged) => {
      const time = merged.getPartitionedState(nextFiring).get()
      if (time !== null) merged.deleteProcessingTimeTimer(time)
    })
    context.mergePartitionedState(nextFiring)
    const time = context.getPartitionedState(nextFiring).get()
    if (time !== null) context.registerProcessingTimeTimer(time)
  }

  /** An end that the clock has passed (of an event-time window) is no bound: the timer would be due at once, again and again. */
  private fireAfter(time: number, window: Window, context: TriggerContext): void {
    const end = window.maxTimestamp()
    const next = time < end ? Math.min(time + this.interval, end) : time + this.interval
    context.getPartitionedState(nextFiring).add(next)
    context.registerProcessingTimeTimer(next)
  }

  override toString(): string {
    return `ContinuousProcessingTimeTrigger(${this.interval})`
  }
}

/** How far apart two values are. */
export type DeltaFunction<T> = (older: T, newer: T) => number

/** Fires when a record is more than `threshold` away from the one that fired last (the first record of the window at first). */
export class DeltaTrigger<T> extends Trigger<T> {
  private static readonly last = new ValueStateDescriptor<any>('trigger-last-element')
  private readonly threshold: number
  private readonly delta: DeltaFunction<T>

  private constructor(threshold: number, delta: DeltaFunction<T>) {
    super()
    this.threshold = threshold
    this.delta = delta
  }

  static of<T>(threshold: number, delta: DeltaFunction<T>): DeltaTrigger<T> {
    return new DeltaTrigger(threshold, delta)
  }

  override onElement(value: T, _timestamp: number, _window: Window, context: TriggerContext): TriggerResult {
    const state: ValueState<T> = context.getPartitionedState(DeltaTrigger.last)
    const last = state.value()
    if (last !== null && !(this.delta(last, value) > this.threshold)) return CONTINUE
    state.update(value)
    return last === null ? CONTINUE : FIRE
  }
  override onEventTime(): TriggerResult {
    return CONTINUE
  }
  override onProcessingTime(): TriggerResult {
    return CONTINUE
  }
  override clear(_window: Window, context: TriggerContext): void {
    context.getPartitionedState(DeltaTrigger.last).clear()
  }
  override toString(): string {
    return `DeltaTrigger(${this.threshold})`
  }
}

function atLeastOne(name: string, value: number, unit: string): number {
  if (Number.isInteger(value) && value >= 1) return value
  throw new ConfigError(
    'MILLRACE_INVALID_OPTION',
    `${name} needs a whole number of ${unit}, at least 1, not ${value}`,
    { remedy: `Give ${name} a whole number of ${unit}.` },
  )
}
