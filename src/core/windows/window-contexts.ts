/**
 * The contexts of triggers, evictors, assigners and window functions. One object of each serves all calls of an operator: the operator sets
 * the window before a call.
 */
import { MillraceError } from '../../errors.ts'
import { MAX_WATERMARK } from '../element.ts'
import { GuardedStateStore } from '../operators/guarded-state.ts'
import type { KeyedTimers } from '../operators/keyed-timers.ts'
import type { KeyedContextParts } from '../operators/process-context.ts'
import type { OutputTag } from '../output-tag.ts'
import type { KeyedStateStore, StateDescriptor } from '../state.ts'
import type { EvictorContext } from './evictors.ts'
import type { Window } from './time-window.ts'
import type { OnMergeContext, TriggerContext } from './trigger.ts'
import type { WindowAssignerContext } from './window-assigner.ts'
import type { ProcessWindowContext } from './window-function.ts'
import { WindowStateStore } from './window-state.ts'

/** The two times, for whoever needs nothing else. */
export class WindowTimes implements WindowAssignerContext, EvictorContext {
  protected readonly parts: KeyedContextParts

  constructor(parts: KeyedContextParts) {
    this.parts = parts
  }

  getCurrentProcessingTime(): number {
    return this.parts.clock.now()
  }
  getCurrentWatermark(): number {
    return this.parts.watermark()
  }
}

/** Context of triggers: timers and state in the namespace of the window. */
export class WindowTriggerContext extends WindowTimes implements OnMergeContext {
  private readonly timers: KeyedTimers
  private readonly states: WindowStateStore
  /** Namespaces that were merged into the window. */
  private merged: readonly string[] = []

  constructor(parts: KeyedContextParts, timers: KeyedTimers) {
    super(parts)
    this.timers = timers
    this.states = new WindowStateStore(parts.state)
  }

  /** Sets the window, and the namespaces that were merged into it. */
  at(window: Window, merged: readonly string[] = []): this {
    this.states.namespace = window.namespace
    this.merged = merged
    return this
  }

  registerEventTimeTimer(time: number): void {
    this.timers.registerEventTimeTimer(this.states.namespace, time)
  }
  deleteEventTimeTimer(time: number): void {
    this.timers.deleteEventTimeTimer(this.states.namespace, time)
  }
  /** A clock never reaches the end of time. */
  registerProcessingTimeTimer(time: number): void {
    if (time < MAX_WATERMARK) this.timers.registerProcessingTimeTimer(this.states.namespace, time)
  }
  deleteProcessingTimeTimer(time: number): void {
    this.timers.deleteProcessingTimeTimer(this.states.namespace, time)
  }

  getPartitionedState(descriptor: StateDescriptor): any {
    return this.states.get(descriptor)
  }

  mergePartitionedState(descriptor: StateDescriptor): void {
    this.states.merge(descriptor, this.merged)
  }

  forEachMerged(action: (context: TriggerContext) => void): void {
    const { namespace } = this.states
    for (const merged of this.merged) {
      this.states.namespace = merged
      action(this)
    }
    this.states.namespace = namespace
  }
}

/** Context of process window functions. */
export class WindowFunctionContext implements ProcessWindowContext<any> {
  private readonly parts: KeyedContextParts
  /** Undefined for windows that merge. */
  private readonly states: WindowStateStore | undefined
  private readonly ofWindow: KeyedStateStore | undefined
  private readonly ofKey: KeyedStateStore
  private current: Window | undefined

  constructor(parts: KeyedContextParts, merging: boolean) {
    this.parts = parts
    this.states = merging ? undefined : new WindowStateStore(parts.state)
    this.ofWindow = this.states?.guarded(parts.guard)
    this.ofKey = new GuardedStateStore(parts.state, parts.guard)
  }

  /** Sets the window. */
  at(window: Window): this {
    this.current = window
    if (this.states !== undefined) this.states.namespace = window.namespace
    return this
  }

  window(): any {
    this.parts.guard.requireKey('The context')
    return this.current
  }
  currentProcessingTime(): number {
    return this.parts.clock.now()
  }
  currentWatermark(): number {
    return this.parts.watermark()
  }
  globalState(): KeyedStateStore {
    return this.ofKey
  }
  windowState(): KeyedStateStore {
    if (this.ofWindow !== undefined) return this.ofWindow
    throw new MillraceError(
      'MILLRACE_STATE_ACCESS',
      'Windows that merge have no state of their own: it could not be combined',
      { remedy: 'Use globalState(), or keep what is needed in the accumulator.' },
    )
  }
  output<X>(tag: OutputTag<X>, value: X): void {
    this.parts.collector.collectSide(tag.id, value)
  }
}
