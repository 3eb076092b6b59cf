/**
 * Running aggregates of a keyed stream: reduce, sum, min, max, minBy, maxBy. Each record updates the aggregate of its key, and the new
 * aggregate is emitted.
 *
 * What is kept and what is emitted never share a mutable part: operators further down may change the records that they get.
 */

import type { RecordVector } from '../element.ts'
import type { RichFunction } from '../functions.ts'
import { type ReduceFunction, type ValueState, ValueStateDescriptor } from '../state.ts'
import { andThen, isThenable } from './continuation.ts'
import { type AggregatedField, type FieldAggregateKind, fieldAggregate } from './field-aggregate.ts'
import { functionOperator } from './function-operator.ts'
import { KeyedOperator } from './keyed-operator.ts'
import type { KeyOf, OperatorFactory } from './stream-operator.ts'
import { keepForeign, structuredCopy } from './structured-copy.ts'

/** A reduce function, or an object with a life cycle around one. */
export type ReduceFunctionOrObject<T> = ReduceFunction<T> | (RichFunction & { reduce(a: T, b: T): T })

/** Combines each record with the key's aggregate so far; the first record of a key is its first aggregate. */
export function reduceOperator<T>(fn: ReduceFunctionOrObject<T>, keyOf: KeyOf): OperatorFactory {
  return functionOperator(fn, (copy) => new ReduceOperator(copy, keyOf, 'reduce'))
}

/** Running aggregate of one kind over `field`. */
export function fieldAggregateOperator(
  kind: FieldAggregateKind,
  field: AggregatedField,
  keyOf: KeyOf,
): OperatorFactory {
  const { reduce, checkFirst } = fieldAggregate(kind, field)
  return () => new ReduceOperator(reduce, keyOf, kind, checkFirst)
}

class ReduceOperator extends KeyedOperator<ReduceFunctionOrObject<any>> {
  private readonly reduce: (a: any, b: any) => any
  private readonly method: string
  /** Throws if the first record of a key cannot be an aggregate. */
  private readonly checkFirst: ((first: unknown) => unknown) | undefined
  private aggregate!: ValueState<any>

  constructor(
    fn: ReduceFunctionOrObject<any>,
    keyOf: KeyOf,
    method: string,
    checkFirst?: (first: unknown) => unknown,
  ) {
    super(fn, [keyOf])
    this.reduce = typeof fn === 'function' ? fn : (a, b) => fn.reduce(a, b)
    this.method = method
    this.checkFirst = checkFirst
  }

  override open(): void | Promise<void> {
    return andThen(super.open(), () => {
      this.aggregate = this.state.getState(new ValueStateDescriptor('aggregate'))
    })
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    return this.driveKeyed(vector, 0, this.step, this.method)
  }

  private readonly step = (value: unknown, index: number): unknown => {
    this.useKeyAt(index)
    const sofar = this.aggregate.value()
    if (sofar === null) {
      this.checkFirst?.(value)
      return this.keep(value)
    }
    const result = this.reduce(sofar, value)
    return isThenable(result)
      ? Promise.resolve(result).then((settled) => this.keep(settled))
      : this.keep(result)
  }

  /**
   * State gets the copy, the output gets the aggregate itself: that may be an input record, or the object that state held so far and a
   * reduce function changed in place; neither is state any more.
   */
  private keep(aggregate: unknown): void {
    this.aggregate.update(structuredCopy(aggregate, keepForeign))
    this.collector.add(aggregate, this.collector.timestamp)
  }
}
