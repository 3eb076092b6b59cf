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
import { type AggregatedField, combineField, fieldOf, keepBest } from './field-aggregate.ts'
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

/** Adds up `field`; the other fields are those of the key's first record. */
export function sumOperator(field: AggregatedField, keyOf: KeyOf): OperatorFactory {
  const add = combineField(field, (a, b) => (a as number) + (b as number), 'number')
  return () => new ReduceOperator(add, keyOf, 'sum', (first) => fieldOf(first, field, 'number'))
}

/** Keeps the smallest `field`; the other fields are those of the key's first record. */
export function minOperator(field: AggregatedField, keyOf: KeyOf): OperatorFactory {
  const min = combineField(field, smaller, 'ordered')
  return () => new ReduceOperator(min, keyOf, 'min', (first) => fieldOf(first, field, 'ordered'))
}

/** Keeps the largest `field`; the other fields are those of the key's first record. */
export function maxOperator(field: AggregatedField, keyOf: KeyOf): OperatorFactory {
  const max = combineField(field, larger, 'ordered')
  return () => new ReduceOperator(max, keyOf, 'max', (first) => fieldOf(first, field, 'ordered'))
}

/** By `<`, which orders strings and dates too. The first of equals. */
function smaller(kept: any, candidate: any): unknown {
  if (candidate < kept) return candidate
  return kept
}

function larger(kept: any, candidate: any): unknown {
  if (candidate > kept) return candidate
  return kept
}

/** Keeps the record with the smallest `field`; of equals the first. */
export function minByOperator(field: AggregatedField, keyOf: KeyOf): OperatorFactory {
  const best = keepBest(field, (candidate, kept) => candidate < kept)
  return () => new ReduceOperator(best, keyOf, 'minBy', (first) => fieldOf(first, field, 'ordered'))
}

/** Keeps the record with the largest `field`; of equals the first. */
export function maxByOperator(field: AggregatedField, keyOf: KeyOf): OperatorFactory {
  const best = keepBest(field, (candidate, kept) => candidate > kept)
  return () => new ReduceOperator(best, keyOf, 'maxBy', (first) => fieldOf(first, field, 'ordered'))
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
