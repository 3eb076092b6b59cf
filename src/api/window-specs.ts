/** What each method of a windowed stream adds to the graph; and the settings that come before it. */
import type { KeySelector, RichFunction } from '../core/functions.ts'
import { type FieldAggregateKind, fieldAggregate } from '../core/operators/field-aggregate.ts'
import { CO_GROUP, JOIN } from '../core/operators/join-calls.ts'
import type { OutputTag } from '../core/output-tag.ts'
import type { AggregateFunction, Key, ReduceFunction } from '../core/state.ts'
import type { WindowOperatorSpec } from '../core/windows/base-window-operator.ts'
import type { Evictor } from '../core/windows/evictors.ts'
import { joinedWindowOperator } from '../core/windows/joined-windows.ts'
import type { Trigger } from '../core/windows/trigger.ts'
import type { WindowAssigner } from '../core/windows/window-assigner.ts'
import { type AnyWindowFunction, WINDOW_CALLS, type WindowCall } from '../core/windows/window-function.ts'
import { windowOperator } from '../core/windows/window-operator.ts'
import { GraphError } from '../errors.ts'
import type { OperatorSpec } from './graph-builder.ts'
import { checkCallable, checkMethods } from './operator-specs.ts'
import { checkNumber } from './settings.ts'

/** A reduce function, or an object around one. */
export type WindowReduce<T> = ReduceFunction<T> | { reduce(a: T, b: T): T }

/** The windows of a stream: what is set before the method that says what is made of them. */
export class WindowSettings {
  private readonly assigner: WindowAssigner<any, any>
  private readonly keyOf: KeySelector<any, Key>
  private readonly keyed: boolean
  private trigger: Trigger<any, any>
  private evictor: Evictor<any, any> | undefined
  private lateness = 0
  private lateTag: string | undefined

  /** @throws GraphError if `assigner` is none. `keyed`: functions of these windows get the key. */
  constructor(assigner: WindowAssigner<any, any>, keyOf: KeySelector<any, Key>, keyed: boolean) {
    checkMethods('window', assigner, ['assignWindows', 'getDefaultTrigger'])
    this.assigner = assigner
    this.keyOf = keyOf
    this.keyed = keyed
    this.trigger = assigner.getDefaultTrigger()
  }

  setTrigger(trigger: Trigger<any, any>): void {
    checkMethods('trigger', trigger, ['onElement', 'onEventTime', 'onProcessingTime', 'clear'])
    if (this.assigner.isMerging && !trigger.canMerge())
      throw new GraphError(
        'MILLRACE_INVALID_GRAPH',
        `trigger(): ${trigger} does not work with ${this.assigner}, whose windows merge: its canMerge() is false`,
      )
    this.trigger = trigger
  }

  setEvictor(evictor: Evictor<any, any>): void {
    checkMethods('evictor', evictor, ['evictBefore', 'evictAfter'])
    this.evictor = evictor
  }

  setAllowedLateness(ms: number): void {
    checkNumber('allowed lateness', ms, { whole: false, min: 0, max: Number.MAX_SAFE_INTEGER })
    this.lateness = ms
  }

  setLateTag(tag: OutputTag<any>): void {
    this.lateTag = tag.id
  }

  aggregate(f: AggregateFunction<any, any, any>, fn: unknown): OperatorSpec {
    checkMethods('aggregate', f, ['createAccumulator', 'add', 'getResult'])
    checkNoLifeCycle('aggregate', f)
    if (this.assigner.isMerging && f.merge === undefined)
      throw new GraphError(
        'MILLRACE_INVALID_GRAPH',
        `aggregate(): ${this.assigner} merges windows, so the aggregate function needs merge(a, b)`,
      )
    return this.spec('aggregate', { kind: 'aggregate', fn: f }, fn, 'process')
  }

  reduce(f: WindowReduce<any>, fn: unknown): OperatorSpec {
    checkCallable('reduce', f, ['reduce'])
    checkNoLifeCycle('reduce', f)
    const reduce: ReduceFunction<any> = typeof f === 'function' ? f : (a, b) => f.reduce(a, b)
    return this.spec('reduce', { kind: 'reduce', fn: reduce }, fn, 'process')
  }

  fieldAggregate(kind: FieldAggregateKind, field: string | number | undefined): OperatorSpec {
    const { reduce, checkFirst } = fieldAggregate(kind, field)
    return this.spec(kind, { kind: 'reduce', fn: reduce, checkFirst }, undefined, 'process')
  }

  process(fn: unknown): OperatorSpec {
    checkCallable('process', fn, ['process'])
    return this.spec('process', { kind: 'list' }, fn, 'process')
  }

  apply(fn: unknown): OperatorSpec {
    checkCallable('apply', fn, ['apply'])
    return this.spec('apply', { kind: 'list' }, fn, 'apply')
  }

  /** Windows of two inputs; `keyOf` are the keys of their records, this builder's key selector that of tagged ones. */
  joined(
    kind: 'join' | 'coGroup',
    fn: unknown,
    keyOf: readonly [KeySelector<any, Key>, KeySelector<any, Key>],
  ): OperatorSpec {
    checkCallable('apply', fn, [kind])
    const spec = this.operatorSpec('apply', { kind: 'list' }, fn, kind === 'join' ? JOIN : CO_GROUP)
    return {
      operatorKind: kind === 'join' ? 'window-join' : 'window-co-group',
      name: `${kind}(${this.assigner})`,
      factory: joinedWindowOperator(spec, keyOf),
      keyOf,
      stateful: true,
    }
  }

  private spec(
    method: string,
    contents: WindowOperatorSpec['contents'],
    fn: unknown,
    kind: 'process' | 'apply',
  ): OperatorSpec {
    if (fn !== undefined) checkCallable(method, fn, [kind])
    const call = WINDOW_CALLS[this.keyed ? kind : (`${kind}All` as const)]
    const spec = this.operatorSpec(method, contents, fn, call)
    return {
      operatorKind: 'window',
      name: `${method}(${this.assigner})`,
      factory: windowOperator(spec, this.keyOf),
      keyOf: [this.keyOf],
      stateful: true,
    }
  }

  private operatorSpec(
    method: string,
    contents: WindowOperatorSpec['contents'],
    fn: unknown,
    call: WindowCall,
  ): WindowOperatorSpec {
    return {
      assigner: this.assigner,
      trigger: this.trigger,
      evictor: this.evictor,
      allowedLateness: this.lateness,
      lateTag: this.lateTag,
      contents,
      fn: fn as AnyWindowFunction | undefined,
      call,
      method,
    }
  }
}

/** Functions of the state have no life cycle: they run wherever state is combined. */
function checkNoLifeCycle(method: string, f: object): void {
  const { open, close, initializeState, snapshotState } = f as RichFunction
  if ([open, close, initializeState, snapshotState].every((hook) => hook === undefined)) return
  throw new GraphError(
    'MILLRACE_INVALID_GRAPH',
    `${method}(): a function that combines the contents of windows cannot have open(), close() or state of its own; ` +
      'give a process window function as the second argument for that',
  )
}
