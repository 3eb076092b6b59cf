/**
 * A stream connected with a broadcast one: every subtask gets all broadcast records and keeps them in broadcast state, which the other
 * side may only read. The state is operator state, so it must follow from the broadcast records alone: subtasks hold the same.
 */
import type { RecordVector } from '../element.ts'
import type {
  BroadcastContext,
  Collector,
  KeyedBroadcastProcessFunction,
  ReadOnlyBroadcastProcessContext,
  RichFunction,
} from '../functions.ts'
import type { DueTimer } from '../state.ts'
import {
  type BroadcastDescriptors,
  BroadcastStates,
  FiringReadingContext,
  KeyedReadingContext,
  KeyedWritingContext,
  ReadingContext,
  WritingContext,
} from './broadcast-context.ts'
import { isThenable } from './continuation.ts'
import { FunctionOperator, functionOperator } from './function-operator.ts'
import { KeyedOperator } from './keyed-operator.ts'
import { KeyedStateVisits } from './keyed-state-visit.ts'
import type { TimeDomain } from './keyed-timers.ts'
import type { KeyOf, OperatorContext, OperatorFactory, OperatorRestore } from './stream-operator.ts'

/** A stream without keys connected with a broadcast one. */
export interface BroadcastProcessFunctionLike<IN, B, OUT> extends RichFunction {
  processElement(
    value: IN,
    context: ReadOnlyBroadcastProcessContext,
    out: Collector<OUT>,
  ): void | Promise<void>
  processBroadcastElement(value: B, context: BroadcastContext, out: Collector<OUT>): void | Promise<void>
}

/** Input 0 is keyed, input 1 is the broadcast one. `descriptors` declare the broadcast states. */
export function keyedBroadcastProcessOperator(
  fn: KeyedBroadcastProcessFunction<any, any, any, any>,
  keyOf: KeyOf,
  descriptors: BroadcastDescriptors,
): OperatorFactory {
  return functionOperator(fn, (copy) => new KeyedBroadcastProcessOperator(copy, keyOf, descriptors))
}

/** Input 0 has no keys, input 1 is the broadcast one. */
export function broadcastProcessOperator(
  fn: BroadcastProcessFunctionLike<any, any, any>,
  descriptors: BroadcastDescriptors,
): OperatorFactory {
  return functionOperator(fn, (copy) => new BroadcastProcessOperator(copy, descriptors))
}

class KeyedBroadcastProcessOperator extends KeyedOperator<KeyedBroadcastProcessFunction<any, any, any, any>> {
  private readonly descriptors: BroadcastDescriptors
  private states!: BroadcastStates
  private readingContext!: KeyedReadingContext
  private writingContext!: KeyedWritingContext
  private visits!: KeyedStateVisits
  private timerContext!: FiringReadingContext

  constructor(
    fn: KeyedBroadcastProcessFunction<any, any, any, any>,
    keyOf: KeyOf,
    descriptors: BroadcastDescriptors,
  ) {
    super(fn, [keyOf])
    this.descriptors = descriptors
  }

  override setup(context: OperatorContext): void {
    super.setup(context)
    const parts = this.contextParts()
    this.states = new BroadcastStates(context.info.operatorName, this.guard, this.descriptors)
    this.readingContext = new KeyedReadingContext(parts, this.states)
    this.visits = new KeyedStateVisits(context.info.operatorName, this.state, this.guard, context.vectorSize)
    this.writingContext = new KeyedWritingContext(parts, this.states, this.visits)
    this.timerContext = new FiringReadingContext(parts, this.states)
  }

  override initializeState(restored: OperatorRestore | undefined): void | Promise<void> {
    const wait = super.initializeState(restored)
    this.states.attach(this.operatorState)
    return wait
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    return this.driveKeyed(vector, 0, this.step, 'processElement')
  }

  processVector2(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.broadcastStep, 'processBroadcastElement')
  }

  private readonly step = (value: unknown, index: number): unknown => {
    this.useKeyAt(index)
    return this.fn.processElement(value, this.readingContext, this.collector)
  }

  /** What goes on over keyed state belongs to the call, whether the function waits for it or not. */
  private readonly broadcastStep = (value: unknown): unknown => {
    const { visits } = this
    const result = this.fn.processBroadcastElement(value, this.writingContext, this.collector)
    return isThenable(result) ? result.then(() => visits.running) : visits.running
  }

  protected override onTimer(timer: DueTimer, domain: TimeDomain): unknown {
    return this.fn.onTimer(timer.time, this.timerContext.at(timer.time, domain), this.collector)
  }
}

class BroadcastProcessOperator extends FunctionOperator<BroadcastProcessFunctionLike<any, any, any>> {
  private readonly descriptors: BroadcastDescriptors
  private states!: BroadcastStates
  private readingContext!: ReadingContext
  private writingContext!: WritingContext

  constructor(fn: BroadcastProcessFunctionLike<any, any, any>, descriptors: BroadcastDescriptors) {
    super(fn)
    this.descriptors = descriptors
  }

  override setup(context: OperatorContext): void {
    super.setup(context)
    const { guard, collector } = this
    const parts = { guard, collector, clock: context.world.clock, watermark: () => this.watermark }
    this.states = new BroadcastStates(context.info.operatorName, guard, this.descriptors)
    this.readingContext = new ReadingContext(parts, this.states)
    this.writingContext = new WritingContext(parts, this.states)
  }

  override initializeState(restored: OperatorRestore | undefined): void | Promise<void> {
    const wait = super.initializeState(restored)
    this.states.attach(this.operatorState)
    return wait
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.step, 'processElement')
  }

  processVector2(vector: RecordVector): void | Promise<void> {
    return this.drive(vector, this.broadcastStep, 'processBroadcastElement')
  }

  private readonly step = (value: unknown): unknown =>
    this.fn.processElement(value, this.readingContext, this.collector)

  private readonly broadcastStep = (value: unknown): unknown =>
    this.fn.processBroadcastElement(value, this.writingContext, this.collector)
}
