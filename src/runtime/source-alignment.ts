/**
 * Makes one source subtask obey its alignment group: splits that are ahead are not read. A reader that cannot leave out single splits is
 * stopped whole, when its slowest split is ahead.
 */
import type { SourceReader, SourceSplit } from '../core/connector.ts'
import { MIN_WATERMARK } from '../core/element.ts'
import type { World } from '../core/ports.ts'
import type { AlignedMember } from '../core/time/watermark-alignment.ts'
import { STALL_MS } from '../core/time/watermark-stall.ts'
import type { SourceWatermarker } from '../core/time/watermarks.ts'

export class SourceAlignment {
  readonly #member: AlignedMember
  readonly #watermarker: SourceWatermarker
  readonly #reader: SourceReader<unknown, SourceSplit>
  readonly #world: World
  #paused: ReadonlySet<string> = new Set()
  #wholeReader = false
  #waitingSince: number | undefined
  #told = false

  constructor(
    member: AlignedMember,
    watermarker: SourceWatermarker,
    reader: SourceReader<unknown, SourceSplit>,
    world: World,
  ) {
    this.#member = member
    this.#watermarker = watermarker
    this.#reader = reader
    this.#world = world
    world.metrics.gauge('alignment_paused', () => (this.#waitingSince === undefined ? 0 : 1))
    world.metrics.gauge('alignment_drift_ms', () => this.#drift())
  }

  /** True while the whole reader must not be polled. */
  get pausesReader(): boolean {
    return this.#wholeReader
  }

  /** Tells the group, and pauses or resumes what is ahead or not any more. Called once per watermark interval. */
  update(watermark: number, idle: boolean, now: number): void {
    const member = this.#member
    member.report(watermark, idle, now)
    const ahead = this.#watermarker.splitsAbove(member.limit)
    if (this.#reader.pauseOrResumeSplits === undefined) this.#wholeReader = !idle && watermark > member.limit
    else this.#pause(ahead)
    this.#warn(this.#wholeReader || this.#paused.size > 0, now)
  }

  leave(): void {
    this.#member.leave()
  }

  /** Whom it waits for; undefined if it does not. */
  describe(): string | undefined {
    if (this.#waitingSince === undefined) return undefined
    const { group } = this.#member.settings
    const what = this.#wholeReader ? 'the source is' : `${[...this.#paused].join(', ')} of the source are`
    return `${what} ahead of alignment group '${group}', which is held back by ${this.#member.heldBackBy().join(', ')}`
  }

  #pause(ahead: readonly string[]): void {
    const next = new Set(ahead)
    const pause = ahead.filter((id) => !this.#paused.has(id))
    const resume = [...this.#paused].filter((id) => !next.has(id))
    if (pause.length === 0 && resume.length === 0) return
    this.#paused = next
    this.#watermarker.splitsPaused(next)
    this.#reader.pauseOrResumeSplits!(pause, resume)
  }

  #warn(waits: boolean, now: number): void {
    if (!waits) {
      this.#waitingSince = undefined
      this.#told = false
      return
    }
    this.#waitingSince ??= now
    if (this.#told || now - this.#waitingSince < STALL_MS) return
    this.#told = true
    this.#world.logger.warn(
      `${this.#member.name} has waited for ${STALL_MS / 1000} s: ${this.describe()}. ` +
        'A source without records holds its group back unless its watermark strategy has withIdleness(ms)',
      { group: this.#member.settings.group, heldBackBy: this.#member.heldBackBy() },
    )
  }

  /** How far it is ahead of the lowest; 0 while that has no watermark yet. */
  #drift(): number {
    const { watermark, limit, settings } = this.#member
    const lowest = limit - settings.maxDriftMs
    return lowest <= MIN_WATERMARK ? 0 : Math.max(0, watermark - lowest)
  }
}
