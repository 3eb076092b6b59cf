/**
 * Broadcast state as functions see it: writable on the broadcast side, readable on the other, and only inside calls.
 */
import { GraphError } from '../../errors.ts'
import type {
  BroadcastContext,
  BroadcastOnTimerContext,
  KeyedBroadcastContext,
  ReadOnlyBroadcastContext,
  ReadOnlyBroadcastProcessContext,
} from '../functions.ts'
import type {
  BroadcastState,
  MapStateDescriptor,
  ReadOnlyBroadcastState,
  StateDescriptor,
  StateOf,
} from '../state.ts'
import type { InvocationGuard } from './invocation-guard.ts'
import type { KeyedStateVisits } from './keyed-state-visit.ts'
import type { DefaultOperatorStateStore } from './operator-state-store.ts'
import {
  CollectingContext,
  FiringContext,
  KeyedCollectingContext,
  type KeyedContextParts,
} from './process-context.ts'

/** The broadcast states that an operator declares. */
export type BroadcastDescriptors = readonly MapStateDescriptor<any, any>[]

type CollectingParts = Pick<KeyedContextParts, 'guard' | 'collector' | 'clock' | 'watermark'>

/** The declared broadcast states of one operator, as handles that work inside calls only. */
export class BroadcastStates {
  private readonly operatorName: string
  private readonly guard: InvocationGuard
  private readonly descriptors: BroadcastDescriptors
  private readonly handles = new Map<string, GuardedBroadcastState<any, any>>()

  constructor(operatorName: string, guard: InvocationGuard, descriptors: BroadcastDescriptors) {
    this.operatorName = operatorName
    this.guard = guard
    this.descriptors = descriptors
  }

  /** Takes all states out of the store, restored ones with their entries. */
  attach(store: DefaultOperatorStateStore): void {
    for (const descriptor of this.descriptors)
      this.handles.set(
        descriptor.name,
        new GuardedBroadcastState(store.getBroadcastState(descriptor), descriptor.name, this.guard),
      )
  }

  get(descriptor: MapStateDescriptor<any, any>): GuardedBroadcastState<any, any> {
    const handle = this.handles.get(descriptor.name)
    if (handle !== undefined) return handle
    throw new GraphError(
      'MILLRACE_INVALID_GRAPH',
      `Broadcast state '${descriptor.name}' of operator '${this.operatorName}' was not declared; declared are: ${
        this.descriptors.map(({ name }) => `'${name}'`).join(', ') || 'none'
      }`,
      {
        details: { operator: this.operatorName, state: descriptor.name },
        remedy: 'Name the descriptor in the call of broadcast(…) that made the broadcast stream.',
      },
    )
  }
}

class GuardedReadOnlyBroadcastState<K, V> implements ReadOnlyBroadcastState<K, V> {
  protected readonly inner: BroadcastState<K, V>
  private readonly name: string
  private readonly guard: InvocationGuard

  constructor(inner: BroadcastState<K, V>, name: string, guard: InvocationGuard) {
    this.inner = inner
    this.name = name
    this.guard = guard
  }
  get(key: K): V | undefined {
    this.check()
    return this.inner.get(key)
  }
  contains(key: K): boolean {
    this.check()
    return this.inner.contains(key)
  }
  entries(): IterableIterator<[K, V]> {
    this.check()
    return this.inner.entries()
  }
  protected check(): void {
    this.guard.requireOpen(`Broadcast state '${this.name}'`)
  }
}

class GuardedBroadcastState<K, V>
  extends GuardedReadOnlyBroadcastState<K, V>
  implements BroadcastState<K, V>
{
  /** The same state for the side that may not write. */
  readonly readOnly: ReadOnlyBroadcastState<K, V>

  constructor(inner: BroadcastState<K, V>, name: string, guard: InvocationGuard) {
    super(inner, name, guard)
    this.readOnly = new GuardedReadOnlyBroadcastState(inner, name, guard)
  }
  put(key: K, value: V): void {
    this.check()
    this.inner.put(key, value)
  }
  remove(key: K): void {
    this.check()
    this.inner.remove(key)
  }
  clear(): void {
    this.check()
    this.inner.clear()
  }
}

/** Context of the broadcast side. */
export class WritingContext extends CollectingContext implements BroadcastContext {
  private readonly states: BroadcastStates
  constructor(parts: CollectingParts, states: BroadcastStates) {
    super(parts.guard, parts.collector, parts.clock, parts.watermark)
    this.states = states
  }
  getBroadcastState<MK, MV>(descriptor: MapStateDescriptor<MK, MV>): BroadcastState<MK, MV> {
    return this.states.get(descriptor)
  }
}

/** Context of the broadcast side beside a keyed stream. */
export class KeyedWritingContext extends WritingContext implements KeyedBroadcastContext<any> {
  private readonly visits: KeyedStateVisits
  constructor(parts: CollectingParts, states: BroadcastStates, visits: KeyedStateVisits) {
    super(parts, states)
    this.visits = visits
  }
  applyToKeyedState<D extends StateDescriptor>(
    descriptor: D,
    f: (key: any, state: StateOf<D>) => void | Promise<void>,
  ): void | Promise<void> {
    return this.visits.apply(descriptor, f)
  }
}

/** Context of the other side. */
export class ReadingContext extends CollectingContext implements ReadOnlyBroadcastProcessContext {
  private readonly states: BroadcastStates
  constructor(parts: CollectingParts, states: BroadcastStates) {
    super(parts.guard, parts.collector, parts.clock, parts.watermark)
    this.states = states
  }
  getBroadcastState<MK, MV>(descriptor: MapStateDescriptor<MK, MV>): ReadOnlyBroadcastState<MK, MV> {
    return this.states.get(descriptor).readOnly
  }
}

/** Context of the other side when it is keyed. */
export class KeyedReadingContext extends KeyedCollectingContext implements ReadOnlyBroadcastContext<any> {
  private readonly states: BroadcastStates
  constructor(parts: KeyedContextParts, states: BroadcastStates) {
    super(parts)
    this.states = states
  }
  getBroadcastState<MK, MV>(descriptor: MapStateDescriptor<MK, MV>): ReadOnlyBroadcastState<MK, MV> {
    return this.states.get(descriptor).readOnly
  }
}

/** Timers may read broadcast state too, as in Flink. */
export class FiringReadingContext extends FiringContext implements BroadcastOnTimerContext<any> {
  private readonly states: BroadcastStates
  constructor(parts: KeyedContextParts, states: BroadcastStates) {
    super(parts)
    this.states = states
  }
  getBroadcastState<MK, MV>(descriptor: MapStateDescriptor<MK, MV>): ReadOnlyBroadcastState<MK, MV> {
    return this.states.get(descriptor).readOnly
  }
}
