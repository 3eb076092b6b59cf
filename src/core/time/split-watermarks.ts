/**
 * The watermark of a source subtask: the minimum over its splits, because records of different splits arrive in any order.
 *
 *   split:  active ⇄ idle (silent for the time-out, or its generator says so)     active, idle ─► finished (never counts again)
 *
 * Only active splits count. The combined watermark never falls: a split that comes back from idleness behind it gets late records, it
 * doesn't take anything back.
 */
import { MIN_WATERMARK } from '../element.ts'
import { IdlenessTracker } from './idleness.ts'
import type { WatermarkGenerator, WatermarkOutput } from './watermark-generators.ts'

/** What a source subtask says downstream. */
export interface SourceWatermark {
  readonly watermark: number
  readonly idle: boolean
}

class SplitState<T> implements WatermarkOutput {
  readonly generator: WatermarkGenerator<T>
  readonly idleness: IdlenessTracker
  watermark = MIN_WATERMARK
  /** Grows with whatever the generator says that is new. */
  said = 0
  private markedIdle = false

  constructor(generator: WatermarkGenerator<T>, idleTimeoutMs: number | undefined) {
    this.generator = generator
    this.idleness = new IdlenessTracker(idleTimeoutMs)
  }

  get idle(): boolean {
    return this.markedIdle || this.idleness.idle
  }

  emitWatermark(timestamp: number): void {
    this.mark(false)
    if (!(timestamp > this.watermark)) return
    this.watermark = timestamp
    this.said++
  }

  markIdle(): void {
    this.mark(true)
  }

  markActive(): void {
    this.mark(false)
  }

  private mark(idle: boolean): void {
    if (idle === this.markedIdle) return
    this.markedIdle = idle
    this.said++
  }
}

/** Watermarks of the splits of one subtask. A subtask without a live split is idle: it has nothing to hold others back with. */
export class SplitWatermarks<T> {
  private readonly createGenerator: () => WatermarkGenerator<T>
  private readonly idleTimeoutMs: number | undefined
  private readonly splits = new Map<string, SplitState<T>>()
  private combined = MIN_WATERMARK
  /** Splits that are not read on purpose. */
  private paused: ReadonlySet<string> = new Set()
  private tickedAt: number | undefined

  constructor(createGenerator: () => WatermarkGenerator<T>, idleTimeoutMs: number | undefined) {
    this.createGenerator = createGenerator
    this.idleTimeoutMs = idleTimeoutMs
  }

  /** Nothing happens if the split is known. */
  add(splitId: string): void {
    if (!this.splits.has(splitId))
      this.splits.set(splitId, new SplitState(this.createGenerator(), this.idleTimeoutMs))
  }

  /** The split has no more records. */
  finish(splitId: string): void {
    this.splits.delete(splitId)
  }

  /**
   * Records of a split that was added, from index `from` on. Answers the index after the first record on which the generator said something
   * new: what comes after it must be shown later, when that was sent. All are shown if nothing is said.
   */
  onRecords(splitId: string, values: readonly T[], timestamps: readonly number[], from: number): number {
    const split = this.splits.get(splitId)
    if (split === undefined || values.length === 0) return values.length
    split.idleness.onRecords()
    const { generator } = split
    if (generator.onVector !== undefined) {
      generator.onVector(timestamps)
      return values.length
    }
    const { said } = split
    let i = from
    while (i < values.length && split.said === said) {
      generator.onEvent(values[i]!, timestamps[i]!, split)
      i++
    }
    return i
  }

  /** Lets generators emit, and finds splits that turned idle. */
  onPeriodic(now: number): void {
    for (const split of this.splits.values()) split.generator.onPeriodicEmit(split)
    // Before splits turn idle: what they last said still counts.
    this.advance()
    for (const [id, split] of this.splits) {
      if (this.paused.has(id)) split.idleness.exclude(now - (this.tickedAt ?? now))
      split.idleness.onTick(now)
    }
    this.tickedAt = now
  }

  /** Splits whose own watermark is above `limit`. */
  above(limit: number): string[] {
    const found: string[] = []
    for (const [id, split] of this.splits) if (split.watermark > limit) found.push(id)
    return found
  }

  /** These splits are not read from now on, and no others: their silence is no idleness. */
  pause(splitIds: ReadonlySet<string>): void {
    this.paused = splitIds
  }

  /** The split's own watermark; MIN_WATERMARK before its first, and for a split that finished. */
  watermarkOf(splitId: string): number {
    return this.splits.get(splitId)?.watermark ?? MIN_WATERMARK
  }

  /** `ms` of backpressure are not silence. */
  excludeFromIdleness(ms: number): void {
    for (const split of this.splits.values()) split.idleness.exclude(ms)
  }

  /** The combined watermark, and whether there is no active split. */
  current(): SourceWatermark {
    const idle = !this.advance()
    return { watermark: this.combined, idle }
  }

  /** Raises the combined watermark to the minimum over active splits; false if there is none. */
  private advance(): boolean {
    let minimum = Number.POSITIVE_INFINITY
    for (const split of this.splits.values())
      if (!split.idle && split.watermark < minimum) minimum = split.watermark
    if (minimum === Number.POSITIVE_INFINITY) return false
    if (minimum > this.combined) this.combined = minimum
    return true
  }

  /** Active splits that hold the watermark back, for people who wait for a window. */
  holdingBack(): string[] {
    const found: string[] = []
    for (const [id, split] of this.splits) if (!split.idle && split.watermark <= this.combined) found.push(id)
    return found
  }
}
