/**
 * Notices that records flow while event time stands still: windows then fill, nothing comes out, and nothing fails.
 *
 *   moving ── records, but no higher watermark for STALL_MS ──► stalled (told once) ── watermark ──► moving
 */

/** Standing still this long, with records, is worth a warning. */
export const STALL_MS = 60_000

/** One operator's event time. It is told the time, and asks no clock. */
export class WatermarkStall {
  /** When the first record came since the watermark rose last; undefined before. */
  private since: number | undefined
  private records = 0
  private told = false

  /** The watermark rose. */
  onWatermark(): void {
    this.since = undefined
    this.records = 0
    this.told = false
  }

  /** Records came at `now` (epoch ms). Answers how many came since the watermark rose, once the first of them has waited for STALL_MS. */
  onRecords(count: number, now: number): number | undefined {
    this.since ??= now
    this.records += count
    return this.onTime(now)
  }

  /** The same when no more records come. */
  onTime(now: number): number | undefined {
    const due = this.dueAt
    if (due === undefined || now < due) return undefined
    this.told = true
    return this.records
  }

  /** When there will be something to tell unless the watermark rises before; undefined: not as things are. */
  get dueAt(): number | undefined {
    return this.told || this.since === undefined ? undefined : this.since + STALL_MS
  }
}
