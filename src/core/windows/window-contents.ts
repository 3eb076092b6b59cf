/**
 * What a window keeps of its records, in the current key and namespace of keyed state.
 *
 *   aggregate   one accumulator          reduce   one value
 *   list        all records              evicted  all records with their timestamps (an evictor may ask for any of them)
 *
 * What is kept and what is handed out never share a mutable part while the window may go on: functions further down may change the
 * records that they get.
 */
import { keepForeign, structuredCopy } from '../operators/structured-copy.ts'
import {
  type AggregateFunction,
  type KeyedStateBackend,
  type ListState,
  ListStateDescriptor,
  type ReduceFunction,
  type ValueState,
  ValueStateDescriptor,
} from '../state.ts'
import type { Evictor, EvictorContext, TimestampedValue } from './evictors.ts'
import type { Window } from './time-window.ts'

/** How records become contents. */
export type ContentsSpec =
  | { readonly kind: 'aggregate'; readonly fn: AggregateFunction<any, any, any> }
  | {
      readonly kind: 'reduce'
      readonly fn: ReduceFunction<any>
      /** Throws if the first record of a window cannot be reduced. */
      readonly checkFirst?: (first: unknown) => unknown
    }
  | { readonly kind: 'list' }

/** Contents of windows. The caller sets key and namespace before each call. */
export interface WindowContents {
  /** Adds a record. False only if the window certainly held something before. */
  add(value: unknown, timestamp: number): boolean
  /** What the window function gets; undefined if the window is empty. `last`: the contents are dropped after this firing. */
  elements(window: Window, last: boolean): readonly unknown[] | undefined
  /** The window function has run with what `elements` returned. */
  fired?(window: Window): void
  clear(): void
  /** Moves the contents of the namespaces `sources` into those of `target`. */
  merge(target: string, sources: readonly string[]): void
}

/** Name of the state that holds them. */
export const CONTENTS = 'window-contents'

/** The contents that a window operator keeps. */
export function createContents(
  spec: ContentsSpec,
  evictor: Evictor | undefined,
  state: KeyedStateBackend,
  context: EvictorContext,
): WindowContents {
  if (evictor !== undefined) return new EvictedContents(spec, evictor, state, context)
  switch (spec.kind) {
    case 'aggregate':
      return new AggregatedContents(spec.fn, state)
    case 'reduce':
      return new ReducedContents(spec.fn, spec.checkFirst, state)
    case 'list':
      return new ListContents(state)
  }
}

const copyOf = (value: unknown): unknown => structuredCopy(value, keepForeign)

/** One value, combined with each record. */
abstract class FoldedContents {
  protected readonly held: ValueState<any>
  private readonly state: KeyedStateBackend

  constructor(state: KeyedStateBackend) {
    this.state = state
    this.held = state.getState(new ValueStateDescriptor(CONTENTS))
  }

  protected abstract combine(a: unknown, b: unknown): unknown

  clear(): void {
    this.held.clear()
  }

  merge(target: string, sources: readonly string[]): void {
    const { state, held } = this
    for (const source of sources) {
      state.setCurrentNamespace(source)
      const moved = held.value()
      if (moved === null) continue
      held.clear()
      state.setCurrentNamespace(target)
      const value = held.value()
      held.update(value === null ? moved : this.combine(value, moved))
    }
  }
}

class AggregatedContents extends FoldedContents implements WindowContents {
  private readonly fn: AggregateFunction<any, any, any>

  constructor(fn: AggregateFunction<any, any, any>, state: KeyedStateBackend) {
    super(state)
    this.fn = fn
  }

  add(value: unknown): boolean {
    const { held, fn } = this
    const accumulator = held.value()
    if (accumulator === null) {
      held.update(fn.add(value, fn.createAccumulator()))
      return true
    }
    held.update(fn.add(value, accumulator))
    return false
  }

  elements(_window: Window, last: boolean): readonly unknown[] | undefined {
    const accumulator = this.held.value()
    if (accumulator === null) return undefined
    const result = this.fn.getResult(accumulator)
    return [last ? result : copyOf(result)]
  }

  protected override combine(a: unknown, b: unknown): unknown {
    return this.fn.merge!(a, b)
  }
}

class ReducedContents extends FoldedContents implements WindowContents {
  private readonly fn: ReduceFunction<any>
  private readonly checkFirst: ((first: unknown) => unknown) | undefined

  constructor(
    fn: ReduceFunction<any>,
    checkFirst: ((first: unknown) => unknown) | undefined,
    state: KeyedStateBackend,
  ) {
    super(state)
    this.fn = fn
    this.checkFirst = checkFirst
  }

  /** A record itself never becomes the state: the reduce function may change its first argument in place. */
  add(value: unknown): boolean {
    const { held, fn } = this
    const sofar = held.value()
    if (sofar === null) {
      this.checkFirst?.(value)
      held.update(copyOf(value))
      return true
    }
    const reduced = fn(sofar, value)
    held.update(reduced === value ? copyOf(value) : reduced)
    return false
  }

  elements(_window: Window, last: boolean): readonly unknown[] | undefined {
    const value = this.held.value()
    if (value === null) return undefined
    return [last ? value : copyOf(value)]
  }

  protected override combine(a: unknown, b: unknown): unknown {
    return this.fn(a, b)
  }
}

class ListContents implements WindowContents {
  private readonly state: KeyedStateBackend
  private readonly descriptor = new ListStateDescriptor<unknown>(CONTENTS)
  private readonly held: ListState<unknown>

  constructor(state: KeyedStateBackend) {
    this.state = state
    this.held = state.getListState(this.descriptor)
  }

  add(value: unknown): boolean {
    this.held.add(value)
    return true
  }

  elements(): readonly unknown[] | undefined {
    const values = this.held.get()
    return values.length === 0 ? undefined : values
  }

  clear(): void {
    this.held.clear()
  }

  merge(target: string, sources: readonly string[]): void {
    if (sources.length > 0) this.state.mergeNamespaces(this.descriptor, target, sources)
  }
}

class EvictedContents implements WindowContents {
  private readonly spec: ContentsSpec
  private readonly evictor: Evictor
  private readonly state: KeyedStateBackend
  private readonly context: EvictorContext
  private readonly descriptor = new ListStateDescriptor<TimestampedValue<unknown>>(CONTENTS)
  private readonly held: ListState<TimestampedValue<unknown>>
  /** What the window function sees, and how many elements the window held. */
  private seen: readonly TimestampedValue<unknown>[] = []
  private heldCount = 0

  constructor(spec: ContentsSpec, evictor: Evictor, state: KeyedStateBackend, context: EvictorContext) {
    this.spec = spec
    this.evictor = evictor
    this.state = state
    this.context = context
    this.held = state.getListState(this.descriptor)
  }

  add(value: unknown, timestamp: number): boolean {
    this.held.add({ value, timestamp })
    return true
  }

  elements(window: Window): readonly unknown[] | undefined {
    const all = this.held.get()
    if (all.length === 0) return undefined
    this.heldCount = all.length
    this.seen = this.evictor.evictBefore(all, window, this.context)
    return this.folded(this.seen.map(({ value }) => value))
  }

  fired(window: Window): void {
    const kept = this.evictor.evictAfter(this.seen, window, this.context)
    this.seen = []
    if (kept.length < this.heldCount) this.held.update(kept)
  }

  clear(): void {
    this.held.clear()
  }

  merge(target: string, sources: readonly string[]): void {
    if (sources.length > 0) this.state.mergeNamespaces(this.descriptor, target, sources)
  }

  /** Folds copies: the function may change a record or keep it in its result, and the window's own go into the next firing too. */
  private folded(values: readonly unknown[]): readonly unknown[] {
    const { spec } = this
    switch (spec.kind) {
      case 'list':
        return values
      case 'aggregate': {
        let accumulator: unknown = spec.fn.createAccumulator()
        for (const value of values) accumulator = spec.fn.add(copyOf(value), accumulator)
        return [spec.fn.getResult(accumulator)]
      }
      case 'reduce': {
        if (values.length === 0) return []
        spec.checkFirst?.(values[0])
        let reduced = copyOf(values[0])
        for (let i = 1; i < values.length; i++) reduced = spec.fn(reduced, copyOf(values[i]))
        return [reduced]
      }
    }
  }
}
