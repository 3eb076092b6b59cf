/**
 * Interval join: each record of the left input meets the records of the right input whose time is in [left + lower, left + upper], as Flink's.
 *
 *   record ─► late (its time is below the watermark)? ──yes──► side output of its input, or counted
 *                │ no
 *                ▼
 *             kept in its own buffer ─► joined with what is in the other buffer ─► function, with the later of the two times
 *
 *   a kept record goes when the watermark says that nothing can meet it any more:
 *     left at left + max(upper, 0)       right at right + max(-lower, 0)
 *
 * Records of one key and input lie in buckets of the length of the interval, each a list in a namespace of its own: a record finds its
 * partners in three buckets at the most, adding one costs nothing, and one timer removes a bucket.
 */
import type { RecordVector } from '../element.ts'
import type { Counter } from '../ports.ts'
import { type DueTimer, type ListState, ListStateDescriptor } from '../state.ts'
import { missingTimestamp } from '../windows/window-assigner.ts'
import { isThenable } from './continuation.ts'
import { flushIfFull } from './flush-in-call.ts'
import { functionOperator } from './function-operator.ts'
import { type AnyJoinFunction, JoinContext } from './join-context.ts'
import { KeyedOperator } from './keyed-operator.ts'
import { StallWarning } from './stall-warning.ts'
import type { KeyOf, OperatorContext, OperatorFactory } from './stream-operator.ts'

/** What is joined with what. Times in ms, relative to the left record's. */
export interface IntervalJoinSpec {
  readonly lower: number
  readonly upper: number
  readonly lowerExclusive: boolean
  readonly upperExclusive: boolean
  /** Ids of side outputs for late records; undefined = they are counted. */
  readonly leftLateTag: string | undefined
  readonly rightLateTag: string | undefined
}

/** The least and the greatest distance at which records meet. Times are whole milliseconds, so a bound that is left out ends one earlier, as in Flink. */
export function inclusiveBounds({ lower, upper, lowerExclusive, upperExclusive }: IntervalJoinSpec): {
  readonly from: number
  readonly to: number
} {
  return {
    from: lowerExclusive ? Math.floor(lower) + 1 : lower,
    to: upperExclusive ? Math.ceil(upper) - 1 : upper,
  }
}

/** Joins two keyed inputs. */
export function intervalJoinOperator(
  fn: AnyJoinFunction,
  spec: IntervalJoinSpec,
  keyOf: readonly [KeyOf, KeyOf],
): OperatorFactory {
  return functionOperator(fn, (copy) => new IntervalJoinOperator(copy, spec, keyOf))
}

interface Kept {
  readonly value: unknown
  readonly timestamp: number
}

/** What differs between the two inputs. */
interface Side {
  /** Keeps the buckets of the two inputs apart in timers. */
  readonly mark: 'l' | 'r'
  readonly lateTag: string | undefined
  /** A record is kept until the watermark has reached its time and this. */
  readonly keptFor: number
  /** Partners of a record are between its time and these. */
  readonly from: number
  readonly to: number
  kept: ListState<Kept>
}

class IntervalJoinOperator extends KeyedOperator<AnyJoinFunction> {
  private readonly left: Side
  private readonly right: Side
  private readonly bucketMs: number
  private joinContext!: JoinContext
  private lateRecords!: Counter
  private stall!: StallWarning

  constructor(fn: AnyJoinFunction, spec: IntervalJoinSpec, keyOf: readonly [KeyOf, KeyOf]) {
    super(fn, keyOf)
    const { from, to } = inclusiveBounds(spec)
    // By the bounds as they are declared: state is found again by its bucket.
    this.bucketMs = Math.max(1, spec.upper - spec.lower)
    const kept = undefined as unknown as ListState<Kept>
    this.left = {
      mark: 'l',
      lateTag: spec.leftLateTag,
      keptFor: Math.max(to, 0),
      from,
      to,
      kept,
    }
    this.right = {
      mark: 'r',
      lateTag: spec.rightLateTag,
      keptFor: Math.max(-from, 0),
      from: -to,
      to: -from,
      kept,
    }
  }

  override setup(context: OperatorContext): void {
    super.setup(context)
    this.joinContext = new JoinContext(this.guard, this.collector)
    this.lateRecords = context.world.metrics.counter('late_records_dropped')
    this.stall = new StallWarning(context, 'Joins')
  }

  override open(): void | Promise<void> {
    this.left.kept = this.state.getListState(new ListStateDescriptor<Kept>('left-records'))
    this.right.kept = this.state.getListState(new ListStateDescriptor<Kept>('right-records'))
    return super.open()
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    this.stall.onRecords(vector.values.length)
    return this.driveKeyed(vector, 0, this.leftStep, 'processElement')
  }

  processVector2(vector: RecordVector): void | Promise<void> {
    this.stall.onRecords(vector.values.length)
    return this.driveKeyed(vector, 1, this.rightStep, 'processElement')
  }

  override close(): void | Promise<void> {
    this.stall.close()
    return super.close()
  }

  override processWatermark(timestamp: number): void | Promise<void> {
    this.stall.onWatermark()
    return super.processWatermark(timestamp)
  }

  private readonly leftStep = (value: unknown, index: number): void | Promise<void> => {
    this.useKeyAt(index)
    return this.join(value, this.left, this.right)
  }

  private readonly rightStep = (value: unknown, index: number): void | Promise<void> => {
    this.useKeyAt(index)
    return this.join(value, this.right, this.left)
  }

  private join(value: unknown, own: Side, other: Side): void | Promise<void> {
    const { timestamp } = this.collector
    if (Number.isNaN(timestamp)) throw missingTimestamp('an interval join')
    if (timestamp < this.watermark) {
      if (own.lateTag === undefined) this.lateRecords.inc()
      else this.collector.collectSide(own.lateTag, value)
      return
    }
    this.keep(value, timestamp, own)
    const partners = this.partnersOf(timestamp, own, other)
    return this.meet({ value, timestamp }, partners, own === this.left)
  }

  private keep(value: unknown, timestamp: number, side: Side): void {
    const bucket = Math.floor(timestamp / this.bucketMs)
    this.state.setCurrentNamespace(bucket)
    side.kept.add({ value, timestamp })
    // When the last millisecond of the bucket goes, all of it does.
    const end = (bucket + 1) * this.bucketMs - 1 + side.keptFor
    this.timers.registerEventTimeTimer(`${side.mark}${bucket}`, end)
  }

  /** Records of `other` that meet one of `own`, bucket by bucket in order of time. Those that Flink has removed already are left out. */
  private partnersOf(timestamp: number, own: Side, other: Side): Kept[] {
    const from = timestamp + own.from
    const to = timestamp + own.to
    const partners: Kept[] = []
    const last = Math.floor(to / this.bucketMs)
    for (let bucket = Math.floor(from / this.bucketMs); bucket <= last; bucket++) {
      this.state.setCurrentNamespace(bucket)
      for (const kept of other.kept.get()) {
        const at = kept.timestamp
        if (at < from || at > to) continue
        if (at + other.keptFor > this.watermark) partners.push(kept)
      }
    }
    return partners
  }

  /** Runs the function for each pair; results are emitted meanwhile if there are many. */
  private meet(record: Kept, partners: readonly Kept[], isLeft: boolean): void | Promise<void> {
    this.state.setCurrentNamespace('')
    for (let i = 0; i < partners.length; i++) {
      const wait = this.meetOne(record, partners[i]!, isLeft)
      if (wait !== undefined) return this.meetOn(wait, record, partners, i + 1, isLeft)
    }
  }

  private async meetOn(
    first: PromiseLike<unknown>,
    record: Kept,
    partners: readonly Kept[],
    from: number,
    isLeft: boolean,
  ): Promise<void> {
    await first
    for (let i = from; i < partners.length; i++) await this.meetOne(record, partners[i]!, isLeft)
  }

  private meetOne(record: Kept, partner: Kept, isLeft: boolean): PromiseLike<unknown> | undefined {
    const { fn, collector, joinContext } = this
    const left = isLeft ? record : partner
    const right = isLeft ? partner : record
    const time = Math.max(left.timestamp, right.timestamp)
    collector.timestamp = collector.sideTimestamp = time
    joinContext.at(left.timestamp, right.timestamp)
    const result =
      typeof fn === 'function'
        ? fn(left.value, right.value, joinContext, collector)
        : fn.processElement(left.value, right.value, joinContext, collector)
    if (isThenable(result)) return result
    return flushIfFull(collector)
  }

  protected override onTimer({ namespace }: DueTimer): void {
    const text = String(namespace)
    const side = text.startsWith(this.left.mark) ? this.left : this.right
    this.state.setCurrentNamespace(Number(text.slice(1)))
    side.kept.clear()
  }
}
