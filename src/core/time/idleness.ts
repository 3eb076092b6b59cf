/**
 * When something counts as idle, told by ticks of the clock rather than by a clock: records only leave a mark, the next tick dates it.
 */

/** Idleness of one split or subtask. Without a time-out it never turns idle. */
export class IdlenessTracker {
  idle = false
  private readonly timeoutMs: number | undefined
  private active = true
  private lastActiveAt = 0

  constructor(timeoutMs: number | undefined) {
    this.timeoutMs = timeoutMs
  }

  /** Records came: active at once. */
  onRecords(): void {
    this.active = true
    this.idle = false
  }

  /** The clock says `now`; silence is counted from the tick after the last records. */
  onTick(now: number): void {
    if (this.active) this.lastActiveAt = now
    else if (this.timeoutMs !== undefined && now - this.lastActiveAt >= this.timeoutMs) this.idle = true
    this.active = false
  }

  /** `ms` went by in which no records could be taken (backpressure): they don't count as silence. */
  exclude(ms: number): void {
    this.lastActiveAt += ms
  }
}
