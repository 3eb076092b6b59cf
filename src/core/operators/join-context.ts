/** Functions of joins by time interval, and what they get. */
import { AbstractRichFunction, type Collector, type RichFunction } from '../functions.ts'
import type { OutputTag } from '../output-tag.ts'
import type { InvocationGuard } from './invocation-guard.ts'
import type { VectorCollector } from './vector-collector.ts'

/** What a join function may ask. Usable only inside the call it was given to. */
export interface ProcessJoinContext {
  /** Event time of the left record, epoch ms. */
  getLeftTimestamp(): number
  /** Event time of the right record, epoch ms. */
  getRightTimestamp(): number
  /** The later of the two: the time of the results. */
  getTimestamp(): number
  /** Emits to a side output. */
  output<X>(tag: OutputTag<X>, value: X): void
}

/**
 * Gets each pair of an interval join.
 * @example
 * class Paid extends ProcessJoinFunction<Order, Payment, string> {
 *   override processElement(order: Order, payment: Payment, context: this['Context'], out: Collector<string>) {
 *     out.collect(`${order.id} after ${context.getRightTimestamp() - context.getLeftTimestamp()} ms`)
 *   }
 * }
 */
export abstract class ProcessJoinFunction<LEFT, RIGHT, OUT> extends AbstractRichFunction {
  declare readonly Context: ProcessJoinContext
  abstract processElement(
    left: LEFT,
    right: RIGHT,
    context: ProcessJoinContext,
    out: Collector<OUT>,
  ): void | Promise<void>
}

/** What `process` of an interval join takes: a function, or an object with a life cycle. */
export type ProcessJoin<LEFT, RIGHT, OUT> =
  | ((left: LEFT, right: RIGHT, context: ProcessJoinContext, out: Collector<OUT>) => void | Promise<void>)
  | (RichFunction & {
      processElement(
        left: LEFT,
        right: RIGHT,
        context: ProcessJoinContext,
        out: Collector<OUT>,
      ): void | Promise<void>
    })

/** Any of them, as the operator runs it. */
export type AnyJoinFunction = ProcessJoin<any, any, any>

/** One object serves all calls of an operator: it is told the times before each. */
export class JoinContext implements ProcessJoinContext {
  private readonly guard: InvocationGuard
  private readonly collector: VectorCollector
  private left = 0
  private right = 0

  constructor(guard: InvocationGuard, collector: VectorCollector) {
    this.guard = guard
    this.collector = collector
  }

  /** Sets the times of the pair. */
  at(left: number, right: number): void {
    this.left = left
    this.right = right
  }

  getLeftTimestamp(): number {
    this.guard.requireOpen('The context')
    return this.left
  }
  getRightTimestamp(): number {
    this.guard.requireOpen('The context')
    return this.right
  }
  getTimestamp(): number {
    this.guard.requireOpen('The context')
    return Math.max(this.left, this.right)
  }
  output<X>(tag: OutputTag<X>, value: X): void {
    this.collector.collectSide(tag.id, value)
  }
}
