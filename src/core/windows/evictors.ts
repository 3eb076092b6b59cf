/**
 * Evictors: which elements of a window the window function sees, and which stay for its next firing. With an evictor a window keeps all its
 * elements; reduce and aggregate functions run over them at each firing.
 */
import { ConfigError } from '../../errors.ts'
import type { Window } from './time-window.ts'
import type { DeltaFunction } from './triggers.ts'

/** An element of a window; the timestamp is NaN if the record has none. */
export interface TimestampedValue<T> {
  readonly value: T
  readonly timestamp: number
}

/** What an evictor may ask. */
export interface EvictorContext {
  /** Epoch ms of the clock. */
  getCurrentProcessingTime(): number
  /** The operator's watermark, epoch ms. */
  getCurrentWatermark(): number
}

/** Base of evictors, also of your own. Both methods return the elements to keep, in order. */
export abstract class Evictor<T = any, W extends Window = any> {
  /** Before the window function: it sees what is returned. */
  evictBefore(
    elements: readonly TimestampedValue<T>[],
    _window: W,
    _context: EvictorContext,
  ): readonly TimestampedValue<T>[] {
    return elements
  }

  /** After the window function: what is returned stays in the window. */
  evictAfter(
    elements: readonly TimestampedValue<T>[],
    _window: W,
    _context: EvictorContext,
  ): readonly TimestampedValue<T>[] {
    return elements
  }

  toString(): string {
    return this.constructor.name
  }
}

/** When a built-in evictor works. */
export interface EvictorOptions {
  /** True: after the window function. Default false: before it. */
  readonly doEvictAfter?: boolean
}

/** An evictor with one rule, applied before or after the window function. */
abstract class RuleEvictor<T> extends Evictor<T> {
  private readonly after: boolean

  constructor(options: EvictorOptions | undefined) {
    super()
    this.after = options?.doEvictAfter === true
  }

  protected abstract keep(elements: readonly TimestampedValue<T>[]): readonly TimestampedValue<T>[]

  override evictBefore(elements: readonly TimestampedValue<T>[]): readonly TimestampedValue<T>[] {
    return this.after ? elements : this.keep(elements)
  }
  override evictAfter(elements: readonly TimestampedValue<T>[]): readonly TimestampedValue<T>[] {
    return this.after ? this.keep(elements) : elements
  }
}

/** Keeps the last `count` elements. */
export class CountEvictor extends RuleEvictor<any> {
  private readonly count: number

  private constructor(count: number, options: EvictorOptions | undefined) {
    super(options)
    this.count = count
  }

  static of(count: number, options?: EvictorOptions): CountEvictor {
    if (Number.isInteger(count) && count >= 1) return new CountEvictor(count, options)
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `CountEvictor.of needs a whole number of elements, at least 1, not ${count}`,
      { remedy: 'Say how many elements stay.' },
    )
  }

  protected override keep(elements: readonly TimestampedValue<any>[]): readonly TimestampedValue<any>[] {
    return elements.length <= this.count ? elements : elements.slice(-this.count)
  }
}

/** Keeps the elements of the last `size` milliseconds before the newest one. */
export class TimeEvictor extends RuleEvictor<any> {
  private readonly size: number

  private constructor(size: number, options: EvictorOptions | undefined) {
    super(options)
    this.size = size
  }

  static of(size: number, options?: EvictorOptions): TimeEvictor {
    if (Number.isFinite(size) && size >= 0) return new TimeEvictor(size, options)
    throw new ConfigError('MILLRACE_INVALID_OPTION', `TimeEvictor.of needs a number of ms, not ${size}`, {
      remedy: 'Say how many milliseconds stay.',
    })
  }

  /** Elements without timestamps all stay. */
  protected override keep(elements: readonly TimestampedValue<any>[]): readonly TimestampedValue<any>[] {
    let newest = Number.NEGATIVE_INFINITY
    for (const { timestamp } of elements) if (timestamp > newest) newest = timestamp
    return elements.filter(({ timestamp }) => !(timestamp <= newest - this.size))
  }
}

/** Drops the elements that are `threshold` or more away from the last one. */
export class DeltaEvictor<T> extends RuleEvictor<T> {
  private readonly threshold: number
  private readonly delta: DeltaFunction<T>

  private constructor(threshold: number, delta: DeltaFunction<T>, options: EvictorOptions | undefined) {
    super(options)
    this.threshold = threshold
    this.delta = delta
  }

  static of<T>(threshold: number, delta: DeltaFunction<T>, options?: EvictorOptions): DeltaEvictor<T> {
    return new DeltaEvictor(threshold, delta, options)
  }

  protected override keep(elements: readonly TimestampedValue<T>[]): readonly TimestampedValue<T>[] {
    const last = elements.at(-1)
    if (last === undefined) return elements
    return elements.filter(({ value }) => !(this.delta(value, last.value) >= this.threshold))
  }
}
