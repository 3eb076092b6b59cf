/**
 * Notices that records flow while event time stands still: windows then fill, nothing comes out, and nothing fails.
 *
 *   moving ── records, but no higher watermark for STALL_MS ──► stalled (told once) ── watermark ──► moving
 */

/** Standing still this long, with records, is worth a warning. */
export const STALL_MS = 60_000

/** One operator's event time. It is told the time, and asks no clock. */
export class WatermarkStall {
  /** When the watermark rose last, or the first record came; undefined before. */
  private since: number | undefined
  private records = 0
  private told = false

  /** The watermark rose at `now` (epoch ms). */
  onWatermark(now: number): void {
    this.since = now
    this.records = 0
    this.told = false
  }

  /** Records came at `now`. Answers how many came since the watermark rose, the first time that it has stood for STALL_MS. */
  onRecords(count: number, now: number): number | undefined {
    this.since ??= now
    this.records += count
    if (this.told || now - this.since < STALL_MS) return undefined
    this.told = true
    return this.records
  }
}
