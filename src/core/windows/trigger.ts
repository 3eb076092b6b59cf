/**
 * The contract of triggers: they decide when the window function sees a window, and when the window's contents are dropped.
 *
 *   onElement, onEventTime, onProcessingTime ─► CONTINUE | FIRE | PURGE | FIRE_AND_PURGE
 *   windows merge ─► onMerge (of the new window), then clear (of each old one)
 *   the window is over ─► clear
 */
import type {
  AggregatingState,
  AggregatingStateDescriptor,
  ListState,
  ListStateDescriptor,
  MapState,
  MapStateDescriptor,
  ReducingState,
  ReducingStateDescriptor,
  ValueState,
  ValueStateDescriptor,
} from '../state.ts'
import type { Window } from './time-window.ts'

/** What becomes of a window after a trigger was asked. */
export const TriggerResult = {
  /** Nothing happens. */
  CONTINUE: 'CONTINUE',
  /** The window function runs; the contents stay. */
  FIRE: 'FIRE',
  /** The contents are dropped without a result. */
  PURGE: 'PURGE',
  /** The window function runs, then the contents are dropped. */
  FIRE_AND_PURGE: 'FIRE_AND_PURGE',
} as const
export type TriggerResult = (typeof TriggerResult)[keyof typeof TriggerResult]

/** Time, timers and state of the current key and window. Usable only inside the call it was given to. */
export interface TriggerContext {
  /** Epoch ms of the clock. */
  getCurrentProcessingTime(): number
  /** The operator's watermark, epoch ms. */
  getCurrentWatermark(): number
  /** `onEventTime` is called when the watermark reaches `time`. */
  registerEventTimeTimer(time: number): void
  deleteEventTimeTimer(time: number): void
  /** `onProcessingTime` is called when the clock is past `time`. */
  registerProcessingTimeTimer(time: number): void
  deleteProcessingTimeTimer(time: number): void
  /** State of this key and window. What is left of it when the window is over is removed. */
  getPartitionedState<T>(descriptor: ValueStateDescriptor<T>): ValueState<T>
  getPartitionedState<T>(descriptor: ReducingStateDescriptor<T>): ReducingState<T>
  getPartitionedState<IN, ACC, OUT>(
    descriptor: AggregatingStateDescriptor<IN, ACC, OUT>,
  ): AggregatingState<IN, OUT>
  getPartitionedState<T>(descriptor: ListStateDescriptor<T>): ListState<T>
  getPartitionedState<K, V>(descriptor: MapStateDescriptor<K, V>): MapState<K, V>
}

/** What `onMerge` gets. */
export interface OnMergeContext extends TriggerContext {
  /** Combines the state of the windows that were merged into that of the new one. */
  mergePartitionedState(
    descriptor:
      | ReducingStateDescriptor<any>
      | ListStateDescriptor<any>
      | AggregatingStateDescriptor<any, any, any>,
  ): void
  /** Runs `action` in each of the windows that were merged, e.g. to delete their timers before their state moves. */
  forEachMerged(action: (context: TriggerContext) => void): void
}

/**
 * Base of triggers, also of your own. One object serves all keys and windows: what must be remembered goes into partitioned state.
 * @example
 * class FireOnEnd extends Trigger<Order, TimeWindow> {
 *   override onElement(order: Order) { return order.isLast ? TriggerResult.FIRE_AND_PURGE : TriggerResult.CONTINUE }
 *   override onEventTime() { return TriggerResult.CONTINUE }
 *   override onProcessingTime() { return TriggerResult.CONTINUE }
 *   override clear() {}
 * }
 */
export abstract class Trigger<T = any, W extends Window = any> {
  /** A record was added to the window; `timestamp` is NaN if it has none. */
  abstract onElement(value: T, timestamp: number, window: W, context: TriggerContext): TriggerResult
  /** An event-time timer of this trigger, or the window's own at its end, is due. */
  abstract onEventTime(time: number, window: W, context: TriggerContext): TriggerResult
  /** A processing-time timer of this trigger, or the window's own at its end, is due. */
  abstract onProcessingTime(time: number, window: W, context: TriggerContext): TriggerResult
  /** The window is over, or was merged into another: delete timers and state. */
  abstract clear(window: W, context: TriggerContext): void

  /** True if the trigger works for windows that merge (sessions). */
  canMerge(): boolean {
    return false
  }

  /** `window` came out of several windows. Must take over their state and register the timers of the new window. */
  onMerge(_window: W, _context: OnMergeContext): void {
    throw new TypeError(`${this.constructor.name} says that it can merge, but has no onMerge()`)
  }

  toString(): string {
    return this.constructor.name
  }
}

/** True if the window function must run. */
export function fires(result: TriggerResult): boolean {
  return result === 'FIRE' || result === 'FIRE_AND_PURGE'
}

/** True if the contents must be dropped. */
export function purges(result: TriggerResult): boolean {
  return result === 'PURGE' || result === 'FIRE_AND_PURGE'
}
