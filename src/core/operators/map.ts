/**
 * map, filter and flatMap. With synchronous functions a vector is one tight loop and one emitted vector; a filter that lets every record
 * pass hands its input on untouched. Only when a function returns a promise does the rest of the vector go on asynchronously, in order,
 * one record at a time.
 */

import { type RecordVector, recordVector } from '../element.ts'
import type { Collector, FilterFunction, FlatMapFunction, MapFunction } from '../functions.ts'
import { collectResult, collectResults } from './collected-results.ts'
import { isThenable } from './continuation.ts'
import { FunctionOperator, functionOperator } from './function-operator.ts'
import { OPEN } from './invocation-guard.ts'
import type { OperatorFactory } from './stream-operator.ts'

/** One result for each record; a returned promise is awaited. */
export function mapOperator<T, R>(f: MapFunction<T, R>): OperatorFactory {
  return functionOperator(f, (fn) => new MapOperator(fn))
}

/** Keeps the records for which `f` says true. */
export function filterOperator<T>(f: FilterFunction<T>): OperatorFactory {
  return functionOperator(f, (fn) => new FilterOperator(fn))
}

/** Any number of results for each record: an iterable that is returned, calls of the collector, or both. */
export function flatMapOperator<T, R>(f: FlatMapFunction<T, R>): OperatorFactory {
  return functionOperator(f, (fn) => new FlatMapOperator(fn))
}

class MapOperator extends FunctionOperator<MapFunction<any, any>> {
  private readonly map: (value: any) => any

  constructor(fn: MapFunction<any, any>) {
    super(fn)
    this.map = typeof fn === 'function' ? fn : (value) => fn.map(value)
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    const { values, timestamps } = vector
    const count = values.length
    const map = this.map
    const results = new Array<unknown>(count)
    let i = 0
    try {
      for (; i < count; i++) {
        const result = map(values[i])
        if (isThenable(result)) return this.goOn(vector, results, i, result)
        results[i] = result
      }
    } catch (error) {
      throw this.failure(error, 'map', values[i])
    }
    return this.output.emit(recordVector(results, timestamps))
  }

  /** Record `i` gave a promise. */
  private goOn(
    vector: RecordVector,
    results: readonly unknown[],
    i: number,
    promise: PromiseLike<unknown>,
  ): Promise<void> {
    for (let k = 0; k < i; k++) this.collector.add(results[k], vector.timestamps[k]!)
    this.collector.timestamp = vector.timestamps[i]!
    return this.driveOn(
      vector,
      this.step,
      i + 1,
      'map',
      OPEN,
      collectResult(promise, this.collector) ?? undefined,
    )
  }

  private readonly step = (value: unknown): unknown => collectResult(this.map(value), this.collector)
}

class FilterOperator extends FunctionOperator<FilterFunction<any>> {
  private readonly test: (value: any) => unknown

  constructor(fn: FilterFunction<any>) {
    super(fn)
    this.test = typeof fn === 'function' ? fn : (value) => fn.filter(value)
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    const { values, timestamps } = vector
    const count = values.length
    const test = this.test
    let i = 0
    let passed: unknown
    let kept: unknown[]
    let keptTimestamps: number[]
    try {
      // Records up to the first that does not pass need no copying if all of them do.
      for (; i < count; i++) {
        passed = test(values[i])
        if (passed !== true) {
          if (isThenable(passed))
            return this.goOn(vector, values.slice(0, i), timestamps.slice(0, i), i, passed)
          if (!passed) break
        }
      }
      if (i === count) return this.output.emit(vector)
      kept = values.slice(0, i)
      keptTimestamps = timestamps.slice(0, i)
      for (i++; i < count; i++) {
        const value = values[i]
        passed = test(value)
        if (passed !== true) {
          if (isThenable(passed)) return this.goOn(vector, kept, keptTimestamps, i, passed)
          if (!passed) continue
        }
        kept.push(value)
        keptTimestamps.push(timestamps[i]!)
      }
    } catch (error) {
      throw this.failure(error, 'filter', values[i])
    }
    if (kept.length > 0) return this.output.emit(recordVector(kept, keptTimestamps))
  }

  /** Record `i` gave a promise; `kept` passed before it. */
  private goOn(
    vector: RecordVector,
    kept: readonly unknown[],
    keptTimestamps: readonly number[],
    i: number,
    promise: PromiseLike<unknown>,
  ): Promise<void> {
    for (let k = 0; k < kept.length; k++) this.collector.add(kept[k], keptTimestamps[k]!)
    this.collector.timestamp = vector.timestamps[i]!
    return this.driveOn(vector, this.step, i + 1, 'filter', OPEN, this.keepIf(promise, vector.values[i]))
  }

  private keepIf(promise: PromiseLike<unknown>, value: unknown): PromiseLike<void> {
    return Promise.resolve(promise).then((passed) => {
      if (passed) this.collector.add(value, this.collector.timestamp)
    })
  }

  private readonly step = (value: unknown): unknown => {
    const passed = this.test(value)
    if (isThenable(passed)) return this.keepIf(passed, value)
    if (passed) this.collector.add(value, this.collector.timestamp)
  }
}

class FlatMapOperator extends FunctionOperator<FlatMapFunction<any, any>> {
  private readonly flatMap: (value: any, out: Collector<any>) => unknown

  constructor(fn: FlatMapFunction<any, any>) {
    super(fn)
    this.flatMap = typeof fn === 'function' ? fn : (value, out) => fn.flatMap(value, out)
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.step, 'flatMap')
  }

  private readonly step = (value: unknown): unknown =>
    collectResults(this.flatMap(value, this.collector), this.collector, 'flatMap')
}
