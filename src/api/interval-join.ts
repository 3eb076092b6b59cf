/** Interval join of two keyed streams: what is said before the function. */

import type { KeySelector } from '../core/functions.ts'
import {
  type IntervalJoinSpec,
  inclusiveBounds,
  intervalJoinOperator,
} from '../core/operators/interval-join.ts'
import type { ProcessJoin } from '../core/operators/join-context.ts'
import type { OutputTag } from '../core/output-tag.ts'
import type { Key } from '../core/state.ts'
import { GraphError } from '../errors.ts'
import type { OpenStream, StreamOf, StreamPair } from './open-stream.ts'
import { checkCallable } from './operator-specs.ts'
import { checkNumber } from './settings.ts'

type Keys = readonly [KeySelector<any, Key>, KeySelector<any, Key>]

/** Two keyed streams whose records meet when their times are close. */
export class IntervalJoin<T1, T2, S extends OpenStream> {
  readonly #pair: StreamPair<S>
  readonly #keys: Keys

  /** @internal */
  constructor(pair: StreamPair<S>, keys: Keys) {
    this.#pair = pair
    this.#keys = keys
  }

  /**
   * A record of the first stream meets those of the second one whose time is from `lower` to `upper` ms after its own, both included.
   * Negative: before it.
   * @example orders.keyBy(o => o.id).intervalJoin(payments.keyBy(p => p.order)).between(0, 3_600_000)
   */
  between(lower: number, upper: number): IntervalJoined<T1, T2, S> {
    for (const [name, ms] of Object.entries({ lower, upper }))
      checkNumber(`intervalJoin().between: the ${name} bound`, ms, {
        min: Number.MIN_SAFE_INTEGER,
        max: Number.MAX_SAFE_INTEGER,
      })
    if (lower > upper)
      throw new GraphError(
        'MILLRACE_INVALID_GRAPH',
        `intervalJoin().between(${lower}, ${upper}): the lower bound is above the upper one, so nothing would ever meet`,
      )
    return new IntervalJoined(this.#pair, this.#keys, lower, upper)
  }
}

/** An interval join with its bounds. Each setter returns the same builder. */
export class IntervalJoined<T1, T2, S extends OpenStream> {
  readonly #pair: StreamPair<S>
  readonly #keys: Keys
  #spec: IntervalJoinSpec

  /** @internal */
  constructor(pair: StreamPair<S>, keys: Keys, lower: number, upper: number) {
    this.#pair = pair
    this.#keys = keys
    this.#spec = {
      lower,
      upper,
      lowerExclusive: false,
      upperExclusive: false,
      leftLateTag: undefined,
      rightLateTag: undefined,
    }
  }

  /** A record exactly at the lower bound does not meet. */
  lowerBoundExclusive(): this {
    this.#spec = { ...this.#spec, lowerExclusive: true }
    return this
  }
  /** A record exactly at the upper bound does not meet. */
  upperBoundExclusive(): this {
    this.#spec = { ...this.#spec, upperExclusive: true }
    return this
  }
  /** Late records of the first stream go to this side output of the result; otherwise they are dropped and counted (`late_records_dropped`). */
  sideOutputLeftLateData(tag: OutputTag<T1>): this {
    this.#spec = { ...this.#spec, leftLateTag: tag.id }
    return this
  }
  /** Late records of the second stream go to this side output of the result; otherwise they are dropped and counted. */
  sideOutputRightLateData(tag: OutputTag<T2>): this {
    this.#spec = { ...this.#spec, rightLateTag: tag.id }
    return this
  }

  /** Gets each pair. Results have the later of the two times. Event time only. */
  process<R>(f: ProcessJoin<T1, T2, R>): StreamOf<S, R> {
    checkCallable('process', f, ['processElement'])
    const { lower, upper } = this.#spec
    const { from, to } = inclusiveBounds(this.#spec)
    if (from > to)
      throw new GraphError(
        'MILLRACE_INVALID_GRAPH',
        `intervalJoin().between(${lower}, ${upper}) without its bounds is empty, so nothing would ever meet`,
      )
    return this.#pair.add<R>(
      {
        operatorKind: 'interval-join',
        name: `intervalJoin(${lower}, ${upper})`,
        factory: intervalJoinOperator(f, this.#spec, this.#keys),
        keyOf: this.#keys,
        stateful: true,
      },
      this.#keys,
    )
  }
}
