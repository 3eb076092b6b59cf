/**
 * A time-out by the clock for windows whose own trigger may wait for ever, because their watermark stands still.
 *
 *   no record ── record ──► waiting ── the clock is past the time-out ──► fired
 *      ▲                      ▲  │ a record, with resetOnRecord: the time-out begins anew         │ clearOnTimeout: the nested trigger is
 *      └── nested purges ─────┼──┘                                                                ▼ cleared, and says no more until
 *                             └───────────────────────────── record ─────────────────────────── closed
 */
import { ConfigError } from '../../errors.ts'
import { MAX_WATERMARK } from '../element.ts'
import { type ValueState, ValueStateDescriptor } from '../state.ts'
import type { Window } from './time-window.ts'
import { type OnMergeContext, purges, Trigger, type TriggerContext, TriggerResult } from './trigger.ts'

/** In place of a time: the time-out has fired the window, and no record came since. */
const CLOSED = -1

/**
 * Fires when the nested trigger does, and once `timeoutMs` of the clock have gone by since the first record (with `resetOnRecord`: the
 * last one). `FIRE` leaves the contents: in PurgingTrigger.of(…) they are dropped.
 */
export class ProcessingTimeoutTrigger<T = any, W extends Window = any> extends Trigger<T, W> {
  private static readonly timeout = new ValueStateDescriptor<number>('trigger-timeout')
  private readonly nested: Trigger<T, W>
  private readonly timeoutMs: number
  private readonly resetOnRecord: boolean
  private readonly clearOnTimeout: boolean

  private constructor(
    nested: Trigger<T, W>,
    timeoutMs: number,
    resetOnRecord: boolean,
    clearOnTimeout: boolean,
  ) {
    super()
    this.nested = nested
    this.timeoutMs = timeoutMs
    this.resetOnRecord = resetOnRecord
    this.clearOnTimeout = clearOnTimeout
  }

  /**
   * @param resetOnRecord the time-out begins anew with each record. Default false: the first one counts.
   * @param clearOnTimeout a window that timed out is closed: it does not fire again by the nested trigger unless another record comes, and
   *   then times out again. False: the nested trigger goes on, and there is no second time-out without `resetOnRecord`. Default true.
   */
  static of<T, W extends Window>(
    nested: Trigger<T, W>,
    timeoutMs: number,
    resetOnRecord = false,
    clearOnTimeout = true,
  ): ProcessingTimeoutTrigger<T, W> {
    if (Number.isFinite(timeoutMs) && timeoutMs >= 1)
      return new ProcessingTimeoutTrigger(nested, timeoutMs, resetOnRecord, clearOnTimeout)
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `ProcessingTimeoutTrigger.of needs a number of ms, at least 1, not ${timeoutMs}`,
      { remedy: 'Say after how many milliseconds a window fires at the latest.' },
    )
  }

  override onElement(value: T, timestamp: number, window: W, context: TriggerContext): TriggerResult {
    const result = this.nested.onElement(value, timestamp, window, context)
    if (purges(result)) {
      this.clear(window, context)
      return result
    }
    const timeout = this.timeoutOf(context)
    const time = timeout.value()
    if (time === null || time === CLOSED) this.begin(context)
    else if (this.resetOnRecord) {
      context.deleteProcessingTimeTimer(time)
      this.begin(context)
    }
    return result
  }

  override onEventTime(time: number, window: W, context: TriggerContext): TriggerResult {
    // The window's own timer, which it has whether or not the nested trigger was cleared.
    if (this.timeoutOf(context).value() === CLOSED) return TriggerResult.CONTINUE
    return this.orCleared(this.nested.onEventTime(time, window, context), window, context)
  }

  override onProcessingTime(time: number, window: W, context: TriggerContext): TriggerResult {
    const timeout = this.timeoutOf(context)
    const state = timeout.value()
    if (state === CLOSED) return TriggerResult.CONTINUE
    const result = this.nested.onProcessingTime(time, window, context)
    if (time !== state) return this.orCleared(result, window, context)
    if (this.clearOnTimeout) {
      this.nested.clear(window, context)
      // A window without an end has no timer that could fire it again.
      if (window.maxTimestamp() === MAX_WATERMARK) timeout.clear()
      else timeout.update(CLOSED)
    }
    return purges(result) ? TriggerResult.FIRE_AND_PURGE : TriggerResult.FIRE
  }

  override clear(window: W, context: TriggerContext): void {
    const timeout = this.timeoutOf(context)
    const time = timeout.value()
    if (time !== null && time !== CLOSED) context.deleteProcessingTimeTimer(time)
    timeout.clear()
    this.nested.clear(window, context)
  }

  override canMerge(): boolean {
    return this.nested.canMerge()
  }

  /** The merged window times out as the one of them would that counts: the earliest, or with `resetOnRecord` the latest. */
  override onMerge(window: W, context: OnMergeContext): void {
    const times: number[] = []
    context.forEachMerged((merged) => {
      const timeout = this.timeoutOf(merged)
      const time = timeout.value()
      timeout.clear()
      if (time === null || time === CLOSED) return
      merged.deleteProcessingTimeTimer(time)
      times.push(time)
    })
    this.nested.onMerge(window, context)
    if (times.length === 0) return
    const time = this.resetOnRecord ? Math.max(...times) : Math.min(...times)
    this.timeoutOf(context).update(time)
    context.registerProcessingTimeTimer(time)
  }

  private begin(context: TriggerContext): void {
    const time = context.getCurrentProcessingTime() + this.timeoutMs
    this.timeoutOf(context).update(time)
    context.registerProcessingTimeTimer(time)
  }

  private orCleared(result: TriggerResult, window: W, context: TriggerContext): TriggerResult {
    if (purges(result)) this.clear(window, context)
    return result
  }

  private timeoutOf(context: TriggerContext): ValueState<number> {
    return context.getPartitionedState(ProcessingTimeoutTrigger.timeout)
  }

  override toString(): string {
    return `ProcessingTimeoutTrigger(${this.nested}, ${this.timeoutMs})`
  }
}
