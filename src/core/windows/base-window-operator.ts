/**
 * Windows of a keyed stream.
 *
 *   record ─► assigner: its windows ─► late? ──yes──► none took it: side output, or counted
 *                                        │ no
 *                                        ▼
 *                       contents.add ─► trigger ─┬─ FIRE ──► window function ─► results with the window's timestamp
 *                                                └─ PURGE ─► contents dropped
 *   timer  ─► trigger, as above; at the clean-up time everything of the window is removed
 *
 * A window is late when the watermark has reached its clean-up time: its last millisecond plus the allowed lateness. The timer of that time
 * exists from the first record on; it removes contents, trigger state and window state. A trigger's timer of the same time is the same timer.
 */
import type { RecordVector } from '../element.ts'
import { MAX_WATERMARK } from '../element.ts'
import { andThen, isThenable } from '../operators/continuation.ts'
import { perSubtask } from '../operators/function-instance.ts'
import { KeyedOperator } from '../operators/keyed-operator.ts'
import { KeyedTimers, type TimeDomain } from '../operators/keyed-timers.ts'
import { StallWarning } from '../operators/stall-warning.ts'
import type { KeyOf, OperatorContext, OperatorRestore } from '../operators/stream-operator.ts'
import type { Counter } from '../ports.ts'
import { type DueTimer, ListStateDescriptor, type Namespace } from '../state.ts'
import type { Evictor } from './evictors.ts'
import { type Window, windowOf } from './time-window.ts'
import { fires, purges, type Trigger, type TriggerResult } from './trigger.ts'
import { EventTimeTrigger, ProcessingTimeTrigger } from './triggers.ts'
import type { WindowAssigner } from './window-assigner.ts'
import { CONTENTS, type ContentsSpec, createContents, type WindowContents } from './window-contents.ts'
import { WindowFunctionContext, WindowTimes, WindowTriggerContext } from './window-contexts.ts'
import type { AnyWindowFunction, WindowCall } from './window-function.ts'

/** What a window operator does. */
export interface WindowOperatorSpec {
  readonly assigner: WindowAssigner<any, any>
  readonly trigger: Trigger<any, any>
  readonly evictor: Evictor<any, any> | undefined
  /** How long after its end a window still takes records, ms; for event time only. */
  readonly allowedLateness: number
  /** Id of the side output for late records; undefined = they are counted. */
  readonly lateTag: string | undefined
  readonly contents: ContentsSpec
  /** Gets the contents; undefined = the contents are the results. */
  readonly fn: AnyWindowFunction | undefined
  readonly call: WindowCall
  /** For messages. */
  readonly method: string
}

const END_TIMERS = new ListStateDescriptor<TimeDomain>('window-end-timers')

/** The record was in no window that is still open. */
export const LATE: unique symbol = Symbol('late')
export type Added = typeof LATE | void | Promise<void>

/** The same windows for one more subtask: user objects that may keep something are copied. */
export function perSubtaskSpec(spec: WindowOperatorSpec): () => WindowOperatorSpec {
  const fn = perSubtask(spec.fn)
  const trigger = perSubtask(spec.trigger)
  const evictor = perSubtask(spec.evictor)
  const contents = contentsPerSubtask(spec.contents)
  return () => ({ ...spec, fn: fn(), trigger: trigger(), evictor: evictor(), contents: contents() })
}

function contentsPerSubtask(contents: ContentsSpec): () => ContentsSpec {
  if (contents.kind !== 'aggregate') return () => contents
  const fn = perSubtask(contents.fn)
  return () => ({ ...contents, fn: fn() })
}

/** Windows that do not merge; what differs for those that do is overridden by their operator. */
export class BaseWindowOperator extends KeyedOperator<AnyWindowFunction | undefined> {
  protected readonly spec: WindowOperatorSpec
  protected contents!: WindowContents
  protected triggerContext!: WindowTriggerContext
  private functionContext!: WindowFunctionContext
  private times!: WindowTimes
  private lateRecords!: Counter
  private stall!: StallWarning
  /** Each window with contents has a timer at its end. */
  private timersAreSet = false
  /** The window of the timer before: timers of one window come together. */
  private timed: Window | undefined

  constructor(spec: WindowOperatorSpec, keyOf: KeyOf) {
    super(spec.fn, [keyOf])
    this.spec = spec
  }

  override setup(context: OperatorContext): void {
    super.setup(context)
    // A record of the window's last millisecond may still come in that millisecond: timers of the clock are due when it has passed.
    this.timers = new KeyedTimers(this.state.timers(), {
      currentKey: () => this.state.getCurrentKey(),
      requestProcessingTime: (time) => context.requestProcessingTime(time + 1),
    })
    this.stall = new StallWarning(context, 'Windows')
    const parts = this.contextParts()
    this.times = new WindowTimes(parts)
    this.triggerContext = new WindowTriggerContext(parts, this.timers)
    this.functionContext = new WindowFunctionContext(parts, this.spec.assigner.isMerging)
    this.lateRecords = context.world.metrics.counter('late_records_dropped')
  }

  override initializeState(restored: OperatorRestore | undefined): void | Promise<void> {
    return andThen(super.initializeState(restored), () => this.noteTimers(restored !== undefined))
  }

  override open(): void | Promise<void> {
    this.contents = createContents(this.spec.contents, this.spec.evictor, this.state, this.times)
    return super.open()
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    if (this.spec.assigner.isEventTime) this.stall.onRecords(vector.values.length)
    return this.driveKeyed(vector, 0, this.hasOneTimer() ? this.shortStep : this.step, this.spec.method)
  }

  override close(): void | Promise<void> {
    this.stall.close()
    return super.close()
  }

  override processWatermark(timestamp: number): void | Promise<void> {
    this.stall.onWatermark()
    return super.processWatermark(timestamp)
  }

  override onProcessingTime(time: number): void | Promise<void> {
    return super.onProcessingTime(time - 1)
  }

  /**
   * True if a window has one timer, that fires and cleans up at its end, as most windows do. With an allowed lateness this is not so after a
   * restore, when the watermark starts anew below windows that have fired already.
   */
  private hasOneTimer(): boolean {
    const { assigner, trigger, evictor, allowedLateness } = this.spec
    if (assigner.isMerging || evictor !== undefined) return false
    return assigner.isEventTime
      ? trigger.constructor === EventTimeTrigger && allowedLateness === 0
      : trigger.constructor === ProcessingTimeTrigger
  }

  /**
   * What snapshots say when each window with contents surely has a timer at its end. Restored windows of another declaration may have only
   * one that comes after their allowed lateness; those of such a job are given their timer with each record.
   */
  private noteTimers(isRestored: boolean): void {
    const { assigner, allowedLateness } = this.spec
    if (assigner.isMerging || allowedLateness > 0) return
    const domain: TimeDomain = assigner.isEventTime ? 'EVENT_TIME' : 'PROCESSING_TIME'
    const noted = this.operatorState.getUnionListState(END_TIMERS)
    const before = noted.get()
    this.timersAreSet = !isRestored || (before.length > 0 && before.every((each) => each === domain))
    noted.update(this.timersAreSet ? [domain] : [])
  }

  /** `step` without what it cannot come to when `hasOneTimer`. */
  private readonly shortStep = (value: unknown, index: number): void => {
    this.useKeyAt(index)
    const { assigner } = this.spec
    const { isEventTime } = assigner
    const windows: readonly Window[] = assigner.assignWindows(value, this.collector.timestamp, this.times)
    const { state, contents, watermark, timersAreSet } = this
    let skipped = true
    for (let i = 0; i < windows.length; i++) {
      const window = windows[i]!
      const end = window.maxTimestamp()
      if (isEventTime && end <= watermark) continue
      skipped = false
      state.setCurrentNamespace(window.namespace)
      if (!contents.add(value, this.collector.timestamp) && timersAreSet) continue
      if (isEventTime) this.timers.registerEventTimeTimer(window.namespace, end)
      else this.timers.registerProcessingTimeTimer(window.namespace, end)
    }
    if (skipped) this.dropIfLate(value, this.collector.timestamp)
  }

  private readonly step = (value: unknown, index: number): unknown => {
    this.useKeyAt(index)
    const { timestamp } = this.collector
    const windows: readonly Window[] = this.spec.assigner.assignWindows(value, timestamp, this.times)
    return this.addFrom(0, windows, value, timestamp, true)
  }

  /** Adds the record to the windows from index `from` on. */
  private addFrom(
    from: number,
    windows: readonly Window[],
    value: unknown,
    timestamp: number,
    skippedBefore: boolean,
  ): void | Promise<void> {
    let skipped = skippedBefore
    for (let i = from; i < windows.length; i++) {
      const added = this.addTo(windows[i]!, value, timestamp)
      if (added === LATE) continue
      skipped = false
      if (added !== undefined) return added.then(() => this.addFrom(i + 1, windows, value, timestamp, false))
    }
    if (skipped) this.dropIfLate(value, timestamp)
  }

  /** Adds a record to one of its windows. */
  protected addTo(window: Window, value: unknown, timestamp: number): Added {
    return this.isLate(window) ? LATE : this.accept(window, window.namespace, value, timestamp)
  }

  /** Adds a record to a window that is open; its contents lie in `namespace`. */
  protected accept(
    window: Window,
    namespace: Namespace,
    value: unknown,
    timestamp: number,
  ): void | Promise<void> {
    this.state.setCurrentNamespace(namespace)
    this.contents.add(value, timestamp)
    const result = this.spec.trigger.onElement(value, timestamp, window, this.triggerContext.at(window))
    if (result === 'CONTINUE') return this.registerCleanup(window)
    return andThen(this.obey(result, window, namespace, false), () => this.registerCleanup(window))
  }

  protected override onTimer(timer: DueTimer, domain: TimeDomain): void | Promise<void> {
    const window = this.windowOf(timer.namespace)
    const namespace = this.contentsOf(window)
    // Of a window that was merged away, by a trigger that did not delete it.
    if (namespace === undefined) return
    const { trigger, assigner } = this.spec
    const context = this.triggerContext.at(window)
    const ofEventTime = domain === 'EVENT_TIME'
    const result = ofEventTime
      ? trigger.onEventTime(timer.time, window, context)
      : trigger.onProcessingTime(timer.time, window, context)
    // A timer after the clean-up time is that of a longer allowed lateness, before a restore.
    const isOver = ofEventTime === assigner.isEventTime && timer.time >= this.cleanupTime(window)
    if (isOver) return this.obey(result, window, namespace, true)
    // A trigger may have deleted it with its own of that time. And a window from before a restore may have had a shorter lateness, or none.
    return andThen(this.obey(result, window, namespace, false), () => this.registerCleanup(window))
  }

  /** Does what the trigger says; removes the window if it is over. */
  private obey(
    result: TriggerResult,
    window: Window,
    namespace: Namespace,
    isOver: boolean,
  ): void | Promise<void> {
    const last = isOver || purges(result)
    const wait = fires(result) ? this.fireWindow(window, namespace, last) : undefined
    return andThen(wait, () => {
      if (!last) return
      this.state.setCurrentNamespace(namespace)
      this.contents.clear()
      if (isOver) return this.remove(window)
    })
  }

  /** Runs the window function on the contents, if there are some. */
  private fireWindow(window: Window, namespace: Namespace, last: boolean): void | Promise<void> {
    const { spec, state, contents, collector } = this
    state.setCurrentNamespace(namespace)
    const elements = contents.elements(window, last)
    if (elements === undefined) return
    collector.timestamp = collector.sideTimestamp = window.resultTimestamp
    if (spec.fn === undefined) {
      for (const element of elements) collector.add(element, collector.timestamp)
      return this.afterFiring(window, namespace)
    }
    state.setCurrentNamespace('')
    const wait = this.named(spec.method, () =>
      spec.call(spec.fn, state.getCurrentKey(), this.functionContext.at(window), elements, collector),
    )
    return andThen(wait, () => this.afterFiring(window, namespace))
  }

  private afterFiring(window: Window, namespace: Namespace): void {
    if (this.contents.fired === undefined) return
    this.state.setCurrentNamespace(namespace)
    this.contents.fired(window)
  }

  /** Removes what is left of a window besides its contents. */
  protected remove(window: Window): void | Promise<void> {
    const { fn, trigger } = this.spec
    trigger.clear(window, this.triggerContext.at(window))
    this.state.setCurrentNamespace('')
    const wait =
      typeof fn === 'object' && fn['clear'] !== undefined
        ? this.named('clear', () => fn['clear'](this.functionContext.at(window)))
        : undefined
    return andThen(wait, () => this.clearState(window))
  }

  /**
   * Removes what trigger and function left behind, also before a restore. Contents stay: those of another window may lie in the namespace of
   * one that was merged into it.
   */
  protected clearState(window: Window): void {
    this.state.setCurrentNamespace(window.namespace)
    this.state.clearNamespace(CONTENTS)
    this.state.setCurrentNamespace('')
  }

  /** Names the user's method in its errors: in timers they would be told as errors of `onTimer`. */
  private named(method: string, run: () => unknown): void | Promise<void> {
    try {
      const result = run()
      if (!isThenable(result)) return
      return result.then(nothing, (error: unknown) => {
        throw this.failure(error, method)
      }) as Promise<void>
    } catch (error) {
      throw this.failure(error, method)
    }
  }

  /** The namespace of an open window's contents; undefined if there is no such window. */
  protected contentsOf(window: Window): Namespace | undefined {
    return window.namespace
  }

  private windowOf(namespace: Namespace): Window {
    if (this.timed?.namespace !== namespace) this.timed = windowOf(namespace)
    return this.timed!
  }

  /** The time at which everything of the window is removed. */
  protected cleanupTime(window: Window): number {
    const end = window.maxTimestamp()
    return this.spec.assigner.isEventTime ? Math.min(end + this.spec.allowedLateness, MAX_WATERMARK) : end
  }

  protected isLate(window: Window): boolean {
    return this.spec.assigner.isEventTime && this.cleanupTime(window) <= this.watermark
  }

  /** A window that never ends has no such timer. */
  private registerCleanup(window: Window): void {
    const time = this.cleanupTime(window)
    if (time === MAX_WATERMARK) return
    if (this.spec.assigner.isEventTime) this.timers.registerEventTimeTimer(window.namespace, time)
    else this.timers.registerProcessingTimeTimer(window.namespace, time)
  }

  protected deleteCleanup(window: Window): void {
    const time = this.cleanupTime(window)
    if (time === MAX_WATERMARK) return
    if (this.spec.assigner.isEventTime) this.timers.deleteEventTimeTimer(window.namespace, time)
    else this.timers.deleteProcessingTimeTimer(window.namespace, time)
  }

  /** A record that no window took is late only if its own time is over: one in a gap between sliding windows is not. */
  private dropIfLate(value: unknown, timestamp: number): void {
    const { assigner, allowedLateness, lateTag } = this.spec
    // A source of one's own may give fractions: the record is as late as the windows of its millisecond.
    if (!assigner.isEventTime || Math.floor(timestamp) + allowedLateness > this.watermark) return
    if (lateTag === undefined) this.lateRecords.inc()
    else this.collector.collectSide(lateTag, value)
  }
}

function nothing(): void {}
