/** What each method of a stream adds to the graph: kind, name, operator, and whether it keeps state. */
import {
  AbstractRichFunction,
  type CoProcessFunction,
  type FilterFunction,
  type FlatMapFunction,
  KeyedBroadcastProcessFunction,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  type KeySelector,
  type MapFunction,
  type ProcessFunction,
  type RichFunction,
} from '../core/functions.ts'
import type { Partitioner } from '../core/graph/stream-graph.ts'
import {
  type BroadcastProcessFunctionLike,
  broadcastProcessOperator,
  keyedBroadcastProcessOperator,
} from '../core/operators/broadcast.ts'
import {
  type CoFlatMapFunction,
  type CoMapFunction,
  coFlatMapOperator,
  coMapOperator,
  coProcessOperator,
  keyedCoProcessOperator,
} from '../core/operators/co-process.ts'
import type { FieldAggregateKind } from '../core/operators/field-aggregate.ts'
import { filterOperator, flatMapOperator, mapOperator } from '../core/operators/map.ts'
import { keyedProcessOperator, processOperator } from '../core/operators/process.ts'
import {
  fieldAggregateOperator,
  type ReduceFunctionOrObject,
  reduceOperator,
} from '../core/operators/reduce.ts'
import type { OperatorFactory } from '../core/operators/stream-operator.ts'
import { timestampsAndWatermarksOperator } from '../core/operators/timestamps.ts'
import type { Key, MapStateDescriptor } from '../core/state.ts'
import type { WatermarkStrategy } from '../core/time/watermarks.ts'
import { GraphError } from '../errors.ts'
import type { OperatorSpec } from './graph-builder.ts'

/** Next subtask of the same index; a rebalance where the two ends have different parallelism. */
export const IMPLIED_FORWARD: Partitioner = { kind: 'forward', implied: true }

/** One value in, one out. */
export function map(f: MapFunction<any, any>): OperatorSpec {
  checkCallable('map', f, ['map'])
  return plain('map', f, mapOperator(f))
}

/** Keeps values for which the function is true. */
export function filter(f: FilterFunction<any>): OperatorSpec {
  checkCallable('filter', f, ['filter'])
  return plain('filter', f, filterOperator(f))
}

/** One value in, any number out. */
export function flatMap(f: FlatMapFunction<any, any>): OperatorSpec {
  checkCallable('flatMap', f, ['flatMap'])
  return plain('flat-map', f, flatMapOperator(f))
}

/** @throws GraphError for a function that needs a key. */
export function process(f: ProcessFunction<any, any>): OperatorSpec {
  checkMethods('process', f, ['processElement'])
  checkNeedsNoKey(f, KeyedProcessFunction)
  return plain('process', f, processOperator(f))
}

/** With state and timers for each key; also for a function that asks for neither. */
export function keyedProcess(
  f: KeyedProcessFunction<any, any, any> | ProcessFunction<any, any>,
  keyOf: KeySelector<any, Key>,
): OperatorSpec {
  checkMethods('process', f, ['processElement'])
  // A ProcessFunction has no onTimer, but cannot register a timer either.
  return keyed('keyed-process', keyedProcessOperator(f as KeyedProcessFunction<any, any, any>, keyOf), [
    keyOf,
  ])
}

/** Running combination of the values of each key. */
export function reduce(f: ReduceFunctionOrObject<any>, keyOf: KeySelector<any, Key>): OperatorSpec {
  checkCallable('reduce', f, ['reduce'])
  return keyed('reduce', reduceOperator(f, keyOf), [keyOf])
}

/** Running aggregate of a field; no field = the values themselves. */
export function aggregate(
  kind: FieldAggregateKind,
  field: string | number | undefined,
  keyOf: KeySelector<any, Key>,
): OperatorSpec {
  return {
    ...keyed(kind, fieldAggregateOperator(kind, field, keyOf), [keyOf]),
    name: field === undefined ? kind : `${kind}(${field})`,
  }
}

/** Timestamps and watermarks in the middle of a stream. */
export function timestampsAndWatermarks(strategy: WatermarkStrategy<any>): OperatorSpec {
  return {
    ...plain('timestamps-and-watermarks', undefined, timestampsAndWatermarksOperator(strategy)),
    name: 'timestamps/watermarks',
  }
}

/** Two functions, or one object for both inputs. */
export function coMap(
  first: CoMapFunction<any, any, any> | ((value: any) => unknown),
  second: ((value: any) => unknown) | undefined,
): OperatorSpec {
  if (typeof first !== 'function') {
    checkMethods('map', first, ['map1', 'map2'])
    return plain('co-map', first, coMapOperator(first))
  }
  checkCallable('map', first, [])
  checkCallable('map', second, [])
  return plain('co-map', undefined, coMapOperator({ map1: first, map2: second as (value: any) => unknown }))
}

/** One object for both inputs. */
export function coFlatMap(f: CoFlatMapFunction<any, any, any>): OperatorSpec {
  checkMethods('flatMap', f, ['flatMap1', 'flatMap2'])
  return plain('co-flat-map', f, coFlatMapOperator(f))
}

/** Two inputs. @throws GraphError for a function that needs a key. */
export function coProcess(f: CoProcessFunction<any, any, any>): OperatorSpec {
  checkMethods('process', f, ['processElement1', 'processElement2'])
  checkNeedsNoKey(f, KeyedCoProcessFunction)
  return plain('co-process', f, coProcessOperator(f))
}

/** Two inputs that share state and timers of a key. */
export function keyedCoProcess(
  f: KeyedCoProcessFunction<any, any, any, any> | CoProcessFunction<any, any, any>,
  keyOf: readonly [KeySelector<any, Key>, KeySelector<any, Key>],
): OperatorSpec {
  checkMethods('process', f, ['processElement1', 'processElement2'])
  return keyed(
    'keyed-co-process',
    keyedCoProcessOperator(f as KeyedCoProcessFunction<any, any, any, any>, ...keyOf),
    keyOf,
  )
}

/** A stream without keys beside a broadcast one. @throws GraphError for a function that needs a key. */
export function broadcastProcess(
  f: BroadcastProcessFunctionLike<any, any, any>,
  descriptors: readonly MapStateDescriptor<any, any>[],
): OperatorSpec {
  checkMethods('process', f, ['processElement', 'processBroadcastElement'])
  checkNeedsNoKey(f, KeyedBroadcastProcessFunction)
  return { ...plain('broadcast-process', f, broadcastProcessOperator(f, descriptors)), stateful: true }
}

/** A keyed stream beside a broadcast one. */
export function keyedBroadcastProcess(
  f: KeyedBroadcastProcessFunction<any, any, any, any> | BroadcastProcessFunctionLike<any, any, any>,
  descriptors: readonly MapStateDescriptor<any, any>[],
  keyOf: KeySelector<any, Key>,
): OperatorSpec {
  checkMethods('process', f, ['processElement', 'processBroadcastElement'])
  const factory = keyedBroadcastProcessOperator(
    f as KeyedBroadcastProcessFunction<any, any, any, any>,
    keyOf,
    descriptors,
  )
  return keyed('keyed-broadcast-process', factory, [keyOf, undefined])
}

function plain(operatorKind: string, f: unknown, factory: OperatorFactory): OperatorSpec {
  return { operatorKind, name: operatorKind, factory, keyOf: undefined, stateful: keepsOperatorState(f) }
}

function keyed(
  operatorKind: string,
  factory: OperatorFactory,
  keyOf: readonly (KeySelector<any, Key> | undefined)[],
): OperatorSpec {
  return { operatorKind, name: operatorKind, factory, keyOf, stateful: true }
}

/** True for function objects with snapshot hooks of their own. */
function keepsOperatorState(f: unknown): boolean {
  if (typeof f !== 'object' || f === null) return false
  const base: RichFunction = AbstractRichFunction.prototype
  const { initializeState, snapshotState } = f as RichFunction
  return (
    (initializeState !== undefined && initializeState !== base.initializeState) ||
    (snapshotState !== undefined && snapshotState !== base.snapshotState)
  )
}

function titleOf(f: unknown): string {
  if (typeof f === 'object' && f !== null) return f.constructor?.name ?? 'the object'
  return typeof f === 'function' ? `function ${f.name}` : String(f)
}

/** The compiler accepts a keyed function where one without keys is asked for, so it is refused here. */
function checkNeedsNoKey(f: object, keyedFunction: abstract new () => object): void {
  if (f instanceof keyedFunction)
    throw new GraphError(
      'MILLRACE_INVALID_GRAPH',
      `process(): ${titleOf(f)} is a ${keyedFunction.name} and needs keys; call keyBy() before process()`,
    )
}

/** A function, or an object with `methods`. @throws GraphError when the job is built, not with the first record. */
export function checkCallable(method: string, f: unknown, methods: readonly string[]): void {
  if (typeof f === 'function' && !isClass(f)) return
  if (typeof f === 'function')
    throw new GraphError(
      'MILLRACE_INVALID_GRAPH',
      `${method}() was given the class ${f.name}; give it an object: new ${f.name}()`,
    )
  if (methods.length > 0) checkMethods(method, f, methods)
  else throw new GraphError('MILLRACE_INVALID_GRAPH', `${method}() needs a function, not ${titleOf(f)}`)
}

/** An object with `methods`. @throws GraphError */
export function checkMethods(method: string, f: unknown, methods: readonly string[]): void {
  if (typeof f === 'function' && isClass(f)) checkCallable(method, f, methods)
  for (const name of methods)
    if (typeof (f as Record<string, unknown> | null | undefined)?.[name] !== 'function')
      throw new GraphError('MILLRACE_INVALID_GRAPH', `${method}(): ${titleOf(f)} has no method ${name}()`)
}

function isClass(f: object): boolean {
  return /^class\b/.test(Function.prototype.toString.call(f))
}
