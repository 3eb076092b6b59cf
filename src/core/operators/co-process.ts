/**
 * Functions of two inputs: CoProcessFunction, KeyedCoProcessFunction, and the plain pairs of map and flatMap.
 */

import type { RecordVector } from '../element.ts'
import type { Collector, CoProcessFunction, KeyedCoProcessFunction, RichFunction } from '../functions.ts'
import type { DueTimer } from '../state.ts'
import { collectResult, collectResults } from './collected-results.ts'
import { FunctionOperator, functionOperator } from './function-operator.ts'
import { KeyedOperator } from './keyed-operator.ts'
import type { TimeDomain } from './keyed-timers.ts'
import { CollectingContext, FiringContext, KeyedCollectingContext } from './process-context.ts'
import type { KeyOf, OperatorContext, OperatorFactory } from './stream-operator.ts'

/** One result for each record of either input. */
export interface CoMapFunction<IN1, IN2, OUT> extends RichFunction {
  map1(value: IN1): OUT
  map2(value: IN2): OUT
}

/** Any number of results for each record of either input: returned as an iterable, given to the collector, or both. */
export interface CoFlatMapFunction<IN1, IN2, OUT> extends RichFunction {
  flatMap1(value: IN1, out: Collector<OUT>): Iterable<OUT> | void | Promise<Iterable<OUT> | void>
  flatMap2(value: IN2, out: Collector<OUT>): Iterable<OUT> | void | Promise<Iterable<OUT> | void>
}

/** Calls `processElement1` or `processElement2` by input. */
export function coProcessOperator(fn: CoProcessFunction<any, any, any>): OperatorFactory {
  return functionOperator(fn, (copy) => new CoProcessOperator(copy))
}

/** The same with keyed state and timers, which both inputs share. */
export function keyedCoProcessOperator(
  fn: KeyedCoProcessFunction<any, any, any, any>,
  keyOf1: KeyOf,
  keyOf2: KeyOf,
): OperatorFactory {
  return functionOperator(fn, (copy) => new KeyedCoProcessOperator(copy, keyOf1, keyOf2))
}

/** Calls `map1` or `map2` by input. */
export function coMapOperator(fn: CoMapFunction<any, any, any>): OperatorFactory {
  return functionOperator(fn, (copy) => new CoMapOperator(copy))
}

/** Calls `flatMap1` or `flatMap2` by input. */
export function coFlatMapOperator(fn: CoFlatMapFunction<any, any, any>): OperatorFactory {
  return functionOperator(fn, (copy) => new CoFlatMapOperator(copy))
}

class CoProcessOperator extends FunctionOperator<CoProcessFunction<any, any, any>> {
  private processContext!: CollectingContext

  override setup(context: OperatorContext): void {
    super.setup(context)
    this.processContext = new CollectingContext(
      this.guard,
      this.collector,
      context.world.clock,
      () => this.watermark,
    )
  }
  override processVector(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.step1, 'processElement1')
  }
  processVector2(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.step2, 'processElement2')
  }
  private readonly step1 = (value: unknown): unknown =>
    this.fn.processElement1(value, this.processContext, this.collector)
  private readonly step2 = (value: unknown): unknown =>
    this.fn.processElement2(value, this.processContext, this.collector)
}

class KeyedCoProcessOperator extends KeyedOperator<KeyedCoProcessFunction<any, any, any, any>> {
  private elementContext!: KeyedCollectingContext
  private timerContext!: FiringContext

  constructor(fn: KeyedCoProcessFunction<any, any, any, any>, keyOf1: KeyOf, keyOf2: KeyOf) {
    super(fn, [keyOf1, keyOf2])
  }
  override setup(context: OperatorContext): void {
    super.setup(context)
    this.elementContext = new KeyedCollectingContext(this.contextParts())
    this.timerContext = new FiringContext(this.contextParts())
  }
  override processVector(vector: RecordVector): void | Promise<void> {
    return this.driveKeyed(vector, 0, this.step1, 'processElement1')
  }
  processVector2(vector: RecordVector): void | Promise<void> {
    return this.driveKeyed(vector, 1, this.step2, 'processElement2')
  }
  private readonly step1 = (value: unknown, index: number): unknown => {
    this.useKeyAt(index)
    return this.fn.processElement1(value, this.elementContext, this.collector)
  }
  private readonly step2 = (value: unknown, index: number): unknown => {
    this.useKeyAt(index)
    return this.fn.processElement2(value, this.elementContext, this.collector)
  }
  protected override onTimer(timer: DueTimer, domain: TimeDomain): unknown {
    return this.fn.onTimer(timer.time, this.timerContext.at(timer.time, domain), this.collector)
  }
}

class CoMapOperator extends FunctionOperator<CoMapFunction<any, any, any>> {
  override processVector(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.step1, 'map1')
  }
  processVector2(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.step2, 'map2')
  }
  private readonly step1 = (value: unknown): unknown => collectResult(this.fn.map1(value), this.collector)
  private readonly step2 = (value: unknown): unknown => collectResult(this.fn.map2(value), this.collector)
}

class CoFlatMapOperator extends FunctionOperator<CoFlatMapFunction<any, any, any>> {
  override processVector(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.step1, 'flatMap1')
  }
  processVector2(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.step2, 'flatMap2')
  }
  private readonly step1 = (value: unknown): unknown =>
    collectResults(this.fn.flatMap1(value, this.collector), this.collector, 'flatMap1')
  private readonly step2 = (value: unknown): unknown =>
    collectResults(this.fn.flatMap2(value, this.collector), this.collector, 'flatMap2')
}
