/**
 * Windows: what groups the records of a key. A window's namespace is its name in keyed state and in timers; it says all about the window,
 * so that state of a checkpoint stays readable when the job's windows get another size.
 *
 *   TimeWindow    'start/end', e.g. '1700000000000/1700000010000'
 *   GlobalWindow  'global'
 */
import { MillraceError } from '../../errors.ts'
import { MAX_WATERMARK, NO_TIMESTAMP } from '../element.ts'
import type { Namespace } from '../state.ts'

/** The records with `start` ≤ time < `end` (epoch ms). Immutable. */
export class TimeWindow {
  /** First millisecond that belongs to the window. */
  readonly start: number
  /** First millisecond that does not. */
  readonly end: number
  /** @internal */
  readonly namespace: string

  constructor(start: number, end: number) {
    this.start = start
    this.end = end
    this.namespace = `${start}/${end}`
  }

  /** The last millisecond of the window; results of the window have this timestamp. */
  maxTimestamp(): number {
    return this.end - 1
  }

  /** True if the windows overlap or touch: sessions that end where the other starts are one session, as in Flink. */
  intersects(other: TimeWindow): boolean {
    return this.start <= other.end && this.end >= other.start
  }

  /** The smallest window that holds both. */
  cover(other: TimeWindow): TimeWindow {
    return new TimeWindow(Math.min(this.start, other.start), Math.max(this.end, other.end))
  }

  /** @internal Timestamp of the window's results. */
  get resultTimestamp(): number {
    return this.end - 1
  }

  toString(): string {
    return `TimeWindow(${this.start}, ${this.end})`
  }
}

/** The one window of all records of a key. It never ends by itself, so its results have no timestamp. */
export class GlobalWindow {
  static readonly #only = new GlobalWindow()
  /** @internal */
  readonly namespace = 'global'

  private constructor() {}

  static get(): GlobalWindow {
    return GlobalWindow.#only
  }

  /** The end of event time. */
  maxTimestamp(): number {
    return MAX_WATERMARK
  }

  /** @internal Timestamp of the window's results. */
  get resultTimestamp(): number {
    return NO_TIMESTAMP
  }

  toString(): string {
    return 'GlobalWindow'
  }
}

/** Any window. */
export type Window = TimeWindow | GlobalWindow

/** The window of a namespace that a timer or a stored window set names. */
export function windowOf(namespace: Namespace): Window {
  const forAll = GlobalWindow.get()
  if (namespace === forAll.namespace) return forAll
  const [start, end, ...more] = typeof namespace === 'string' ? namespace.split('/').map(Number) : []
  if (start === undefined || end === undefined || more.length > 0 || Number.isNaN(start + end))
    throw new MillraceError('MILLRACE_INTERNAL', `'${namespace}' is not the namespace of a window`)
  return new TimeWindow(start, end)
}
