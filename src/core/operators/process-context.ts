/**
 * The contexts of process functions. One object of each kind serves all calls of an operator: it reads what the operator set before the
 * call, and refuses to work outside of one.
 */
import type { KeyedContext, KeyedTimerService, OnTimerContext, ProcessContext } from '../functions.ts'
import type { OutputTag } from '../output-tag.ts'
import type { Clock } from '../ports.ts'
import type { KeyedStateBackend, TimerService } from '../state.ts'
import type { InvocationGuard } from './invocation-guard.ts'
import type { TimeDomain } from './keyed-timers.ts'
import type { VectorCollector } from './vector-collector.ts'

/** Context of functions without keys. */
export class CollectingContext implements ProcessContext {
  protected readonly guard: InvocationGuard
  protected readonly collector: VectorCollector
  private readonly clock: Clock
  private readonly watermark: () => number

  constructor(guard: InvocationGuard, collector: VectorCollector, clock: Clock, watermark: () => number) {
    this.guard = guard
    this.collector = collector
    this.clock = clock
    this.watermark = watermark
  }

  timestamp(): number | null {
    this.guard.requireOpen('The context')
    const { sideTimestamp } = this.collector
    return Number.isNaN(sideTimestamp) ? null : sideTimestamp
  }

  currentProcessingTime(): number {
    return this.clock.now()
  }

  currentWatermark(): number {
    return this.watermark()
  }

  output<X>(tag: OutputTag<X>, value: X): void {
    this.collector.collectSide(tag.id, value)
  }
}

/** What a keyed context is made of. */
export interface KeyedContextParts {
  readonly guard: InvocationGuard
  readonly collector: VectorCollector
  readonly clock: Clock
  readonly watermark: () => number
  readonly state: KeyedStateBackend
  readonly timers: TimerService
}

/** Context of keyed functions: the key, and its timers. */
export class KeyedCollectingContext extends CollectingContext implements KeyedContext<any> {
  private readonly state: KeyedStateBackend
  private readonly keyedTimers: FunctionTimers

  constructor(parts: KeyedContextParts) {
    super(parts.guard, parts.collector, parts.clock, parts.watermark)
    this.state = parts.state
    this.keyedTimers = new FunctionTimers(parts)
  }

  getCurrentKey(): any {
    this.guard.requireKey('The current key')
    return this.state.getCurrentKey()
  }

  timerService(): KeyedTimerService {
    return this.keyedTimers
  }
}

/** Context of `onTimer`. */
export class FiringContext extends KeyedCollectingContext implements OnTimerContext<any> {
  private time = 0
  private domain: TimeDomain = 'EVENT_TIME'

  /** Sets the timer that fires. */
  at(time: number, domain: TimeDomain): this {
    this.time = time
    this.domain = domain
    return this
  }

  /** The timer's time, in both domains. */
  override timestamp(): number {
    this.guard.requireKey('The context')
    return this.time
  }

  timeDomain(): TimeDomain {
    this.guard.requireKey('The context')
    return this.domain
  }
}

/** Timers of the current key, in the namespace of plain state. */
class FunctionTimers implements KeyedTimerService {
  private readonly parts: KeyedContextParts

  constructor(parts: KeyedContextParts) {
    this.parts = parts
  }

  currentProcessingTime(): number {
    return this.parts.clock.now()
  }
  currentWatermark(): number {
    return this.parts.watermark()
  }
  registerEventTimeTimer(time: number): void {
    this.timers.registerEventTimeTimer('', this.checked(time))
  }
  registerProcessingTimeTimer(time: number): void {
    this.timers.registerProcessingTimeTimer('', this.checked(time))
  }
  deleteEventTimeTimer(time: number): void {
    this.timers.deleteEventTimeTimer('', this.checked(time))
  }
  deleteProcessingTimeTimer(time: number): void {
    this.timers.deleteProcessingTimeTimer('', this.checked(time))
  }

  private get timers(): TimerService {
    this.parts.guard.requireKey('The timer service')
    return this.parts.timers
  }

  private checked(time: number): number {
    if (typeof time === 'number' && !Number.isNaN(time)) return time
    throw new TypeError(`A timer needs a time in epoch milliseconds, not ${String(time)}`)
  }
}
