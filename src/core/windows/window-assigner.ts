/**
 * The contract of window assigners: which windows a record belongs to.
 */
import { ConfigError, MillraceError } from '../../errors.ts'
import type { Window } from './time-window.ts'
import type { Trigger } from './trigger.ts'

/** What an assigner may ask. */
export interface WindowAssignerContext {
  /** Epoch ms of the clock. */
  getCurrentProcessingTime(): number
}

/** Base of window assigners, also of your own. One object serves all keys and subtasks, so it must remember nothing about records. */
export abstract class WindowAssigner<T = any, W extends Window = Window> {
  /** True if the end of windows is told by watermarks: only then records can be late. */
  abstract readonly isEventTime: boolean
  /** True if windows that overlap or touch become one (sessions); `W` must be TimeWindow then. */
  readonly isMerging: boolean = false

  /** The windows of a record. `timestamp` is its event time in epoch ms, NaN if it has none. The array is not changed afterwards. */
  abstract assignWindows(value: T, timestamp: number, context: WindowAssignerContext): readonly W[]

  /** The trigger of these windows when the job names none. */
  abstract getDefaultTrigger(): Trigger<any, any>

  toString(): string {
    return this.constructor.name
  }
}

/** Why a record without event time cannot be in an event-time window. */
export function missingTimestamp(where = 'an event-time window'): MillraceError {
  return new MillraceError('MILLRACE_MISSING_TIMESTAMP', `A record without a timestamp came to ${where}`)
}

/** Checks a length of time. @throws ConfigError */
export function requirePositive(name: string, what: string, ms: number): number {
  if (Number.isFinite(ms) && ms > 0) return ms
  throw new ConfigError('MILLRACE_INVALID_OPTION', `${name}: ${what} must be above 0 ms, not ${ms}`, {
    remedy: `Give ${name} a ${what} in milliseconds.`,
  })
}

/** Checks that windows are shifted by less than one step. @throws ConfigError */
export function requireOffset(name: string, offset: number, step: number): number {
  if (Math.abs(offset) < step) return offset
  throw new ConfigError(
    'MILLRACE_INVALID_OPTION',
    `${name}: the offset must be shorter than ${step} ms, not ${offset}`,
    { remedy: 'Windows repeat after one step: an offset within the step reaches every alignment.' },
  )
}
