/**
 * assignTimestampsAndWatermarks: event time for a stream that has none, or another one from here on.
 */
import { MAX_WATERMARK, MIN_WATERMARK, type RecordVector, recordVector } from '../element.ts'
import { IdlenessTracker } from '../time/idleness.ts'
import { assignTimestamps } from '../time/source-watermarker.ts'
import {
  WATERMARK_INTERVAL_MS,
  type WatermarkGenerator,
  type WatermarkOutput,
} from '../time/watermark-generators.ts'
import type { WatermarkStrategy } from '../time/watermarks.ts'
import { andThen, inOrder } from './continuation.ts'
import { AbstractOperator } from './operator-base.ts'
import type { OperatorFactory } from './stream-operator.ts'
import { userError } from './user-error.ts'

/** Stamps records and makes watermarks by `strategy`; watermarks and idleness from upstream end here, save the last watermark. */
export function timestampsAndWatermarksOperator(strategy: WatermarkStrategy<any>): OperatorFactory {
  return () => new TimestampsAndWatermarksOperator(strategy)
}

/** What the generator said right after record `after - 1` of the vector. */
interface Punctuation {
  readonly after: number
  readonly timestamp: number
  readonly idle: boolean
}

class TimestampsAndWatermarksOperator extends AbstractOperator implements WatermarkOutput {
  private readonly strategy: WatermarkStrategy<any>
  private readonly generator: WatermarkGenerator<any>
  private readonly idleness: IdlenessTracker
  /** Highest watermark that the generator made. */
  private generated = MIN_WATERMARK
  /** The generator says that the stream is idle. */
  private markedIdle = false
  private emittedIdle = false
  private tickedAt = 0

  constructor(strategy: WatermarkStrategy<any>) {
    super()
    this.strategy = strategy
    this.generator = strategy.createGenerator()
    this.idleness = new IdlenessTracker(strategy.idleTimeoutMs)
  }

  open(): void {
    this.tickedAt = this.context.world.clock.now()
    this.requestTick()
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    const assign = this.strategy.timestampAssigner
    const stamped = assign === undefined ? vector : assignTimestamps(vector, assign, this.info)
    this.idleness.onRecords()
    return andThen(this.emitStatus(this.markedIdle), () => this.emitStamped(stamped))
  }

  private emitStamped(vector: RecordVector): void | Promise<void> {
    if (this.generator.onVector !== undefined) {
      this.generator.onVector(vector.timestamps)
      return this.output.emit(vector)
    }
    const punctuations = this.punctuate(vector)
    return punctuations.length === 0 ? this.output.emit(vector) : this.emitPunctuated(vector, punctuations)
  }

  /** Shows each record to the generator; notes where it said something new. */
  private punctuate({ values, timestamps }: RecordVector): Punctuation[] {
    const punctuations: Punctuation[] = []
    let i = 0
    try {
      for (; i < values.length; i++) {
        const { generated, markedIdle } = this
        this.generator.onEvent(values[i], timestamps[i]!, this)
        if (this.generated > generated || this.markedIdle !== markedIdle)
          punctuations.push({ after: i + 1, timestamp: this.generated, idle: this.markedIdle })
      }
    } catch (error) {
      throw userError(error, this.info, 'The watermark generator', values[i])
    }
    return punctuations
  }

  /** The records up to each punctuation, then the watermark and the status, then the rest. */
  private emitPunctuated(
    { values, timestamps }: RecordVector,
    punctuations: readonly Punctuation[],
  ): void | Promise<void> {
    const emitSlice = (from: number, to: number) =>
      from < to
        ? this.output.emit(recordVector(values.slice(from, to), timestamps.slice(from, to)))
        : undefined
    const pieces = inOrder(punctuations.length, (i) =>
      andThen(emitSlice(i === 0 ? 0 : punctuations[i - 1]!.after, punctuations[i]!.after), () =>
        this.emitState(punctuations[i]!.timestamp, punctuations[i]!.idle),
      ),
    )
    return andThen(pieces, () => emitSlice(punctuations.at(-1)!.after, values.length))
  }

  /** Watermarks from upstream speak of another event time; only the end of input is the same. */
  override processWatermark(timestamp: number): void | Promise<void> {
    if (timestamp !== MAX_WATERMARK || this.watermark === MAX_WATERMARK) return
    this.idleness.onRecords()
    this.markedIdle = false
    return this.emitState(MAX_WATERMARK, false)
  }

  override processStatus(): void {}

  onProcessingTime(_time: number): void | Promise<void> {
    try {
      this.generator.onPeriodicEmit(this)
    } catch (error) {
      throw userError(error, this.info, 'The watermark generator')
    }
    this.tickIdleness(this.context.world.clock.now())
    this.requestTick()
    return this.emitState(this.generated, this.markedIdle || this.idleness.idle)
  }

  /** Time in which records waited, or the task's loop was held by a call so that this tick is late, is no silence. */
  private tickIdleness(now: number): void {
    const elapsed = now - this.tickedAt
    this.tickedAt = now
    const late = Math.max(0, elapsed - WATERMARK_INTERVAL_MS)
    this.idleness.exclude(this.context.inputWaiting?.() === true ? elapsed : late)
    this.idleness.onTick(now)
  }

  /** Called by the generator. */
  emitWatermark(timestamp: number): void {
    this.markedIdle = false
    if (timestamp > this.generated) this.generated = timestamp
  }

  /** Called by the generator. */
  markIdle(): void {
    this.markedIdle = true
  }

  /** Called by the generator. */
  markActive(): void {
    this.markedIdle = false
  }

  private requestTick(): void {
    this.context.requestProcessingTime(this.context.world.clock.now() + WATERMARK_INTERVAL_MS)
  }

  private emitRaised(timestamp: number): void | Promise<void> {
    if (timestamp <= this.watermark) return
    this.watermark = timestamp
    return this.output.emitWatermark(timestamp)
  }

  /** Active comes before the watermark, which is dropped behind idle; idle comes after what was said last. */
  private emitState(timestamp: number, idle: boolean): void | Promise<void> {
    const active = idle ? undefined : this.emitStatus(false)
    return andThen(
      andThen(active, () => this.emitRaised(timestamp)),
      () => this.emitStatus(idle),
    )
  }

  private emitStatus(idle: boolean): void | Promise<void> {
    if (idle === this.emittedIdle) return
    this.emittedIdle = idle
    return this.output.emitStatus({ kind: 'watermark-status', idle })
  }
}
