/**
 * ProcessFunction and KeyedProcessFunction.
 */

import type { RecordVector } from '../element.ts'
import type { KeyedProcessFunction, ProcessFunction } from '../functions.ts'
import type { DueTimer } from '../state.ts'
import { FunctionOperator, functionOperator } from './function-operator.ts'
import { KeyedOperator } from './keyed-operator.ts'
import type { TimeDomain } from './keyed-timers.ts'
import { CollectingContext, FiringContext, KeyedCollectingContext } from './process-context.ts'
import type { KeyOf, OperatorContext, OperatorFactory } from './stream-operator.ts'

/** Calls `fn.processElement` for each record. */
export function processOperator(fn: ProcessFunction<any, any>): OperatorFactory {
  return functionOperator(fn, (copy) => new ProcessOperator(copy))
}

/** Calls `fn.processElement` for each record with keyed state and timers of its key, and `fn.onTimer` for timers that are due. */
export function keyedProcessOperator(fn: KeyedProcessFunction<any, any, any>, keyOf: KeyOf): OperatorFactory {
  return functionOperator(fn, (copy) => new KeyedProcessOperator(copy, keyOf))
}

class ProcessOperator extends FunctionOperator<ProcessFunction<any, any>> {
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
    return this.drive(vector, this.step, 'processElement')
  }

  private readonly step = (value: unknown): unknown =>
    this.fn.processElement(value, this.processContext, this.collector)
}

class KeyedProcessOperator extends KeyedOperator<KeyedProcessFunction<any, any, any>> {
  private elementContext!: KeyedCollectingContext
  private timerContext!: FiringContext

  constructor(fn: KeyedProcessFunction<any, any, any>, keyOf: KeyOf) {
    super(fn, [keyOf])
  }

  override setup(context: OperatorContext): void {
    super.setup(context)
    this.elementContext = new KeyedCollectingContext(this.contextParts())
    this.timerContext = new FiringContext(this.contextParts())
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    return this.driveKeyed(vector, 0, this.step, 'processElement')
  }

  private readonly step = (value: unknown, index: number): unknown => {
    this.useKeyAt(index)
    return this.fn.processElement(value, this.elementContext, this.collector)
  }

  protected override onTimer(timer: DueTimer, domain: TimeDomain): unknown {
    return this.fn.onTimer(timer.time, this.timerContext.at(timer.time, domain), this.collector)
  }
}
