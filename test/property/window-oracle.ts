/**
 * What windows must do, written as plainly as possible: every record is kept, and windows are found by trying all of them.
 */

/** A record of a key at an event time. */
export interface Arrival {
  readonly key: string
  readonly time: number
  /** Unique, so that results tell which records were in a window. */
  readonly id: number
}

/** One firing: key, bounds, ids in order of arrival. */
export type Firing = string

interface Pane {
  readonly key: string
  start: number
  end: number
  ids: number[]
  /** It fires when the watermark reaches its end. */
  waits: boolean
}

/** Which windows a time lies in, found by trying every start. */
export function windowsByTrial(
  time: number,
  { size, slide, offset }: { size: number; slide: number; offset: number },
): { start: number; end: number }[] {
  const found: { start: number; end: number }[] = []
  for (let start = time; start > time - size; start--)
    if ((((start - offset) % slide) + slide) % slide === 0) found.push({ start, end: start + size })
  return found
}

/** Event-time windows with an allowed lateness, fired by their end. Sessions if `gap` is given. */
export class EventTimeOracle {
  readonly fired: Firing[] = []
  readonly late: number[] = []
  private readonly lateness: number
  private readonly windowsOf: (time: number) => { start: number; end: number }[]
  private readonly merges: boolean
  private panes: Pane[] = []
  private watermark = Number.NEGATIVE_INFINITY

  constructor(
    windowsOf: (time: number) => { start: number; end: number }[],
    lateness: number,
    merges: boolean,
  ) {
    this.windowsOf = windowsOf
    this.lateness = lateness
    this.merges = merges
  }

  get open(): number {
    return this.panes.length
  }

  record({ key, time, id }: Arrival): void {
    let taken = false
    for (const { start, end } of this.windowsOf(time)) {
      const pane = this.merges ? this.session(key, start, end) : this.pane(key, start, end)
      if (pane.end - 1 + this.lateness <= this.watermark) continue
      taken = true
      if (!this.panes.includes(pane)) this.panes.push(pane)
      pane.ids.push(id)
      pane.waits = pane.end - 1 > this.watermark
      if (!pane.waits) this.fire(pane)
    }
    if (!taken && time + this.lateness <= this.watermark) this.late.push(id)
  }

  advance(watermark: number): void {
    this.watermark = Math.max(watermark, this.watermark)
    for (const pane of this.panes.toSorted((a, b) => a.end - b.end))
      if (pane.waits && pane.end - 1 <= this.watermark) {
        pane.waits = false
        this.fire(pane)
      }
    this.panes = this.panes.filter(({ end }) => end - 1 + this.lateness > this.watermark)
  }

  /** After a restore watermarks start anew; open windows are as they were. */
  restore(): void {
    this.watermark = Number.NEGATIVE_INFINITY
  }

  private pane(key: string, start: number, end: number): Pane {
    const known = this.panes.find((pane) => pane.key === key && pane.start === start && pane.end === end)
    return known ?? { key, start, end, ids: [], waits: true }
  }

  /** The session that a record's own window makes with all that it touches. */
  private session(key: string, start: number, end: number): Pane {
    const touched = this.panes.filter((pane) => pane.key === key && pane.start <= end && pane.end >= start)
    this.panes = this.panes.filter((pane) => !touched.includes(pane))
    const pane: Pane = {
      key,
      start: Math.min(start, ...touched.map((each) => each.start)),
      end: Math.max(end, ...touched.map((each) => each.end)),
      ids: touched.flatMap((each) => each.ids),
      waits: true,
    }
    return pane
  }

  private fire({ key, start, end, ids }: Pane): void {
    this.fired.push(`${key} ${start}-${end}: ${ids.toSorted((a, b) => a - b).join(' ')}`)
  }
}

/** Windows of the clock: one that is over fires once. */
export class ClockOracle {
  readonly fired: Firing[] = []
  private readonly windowsOf: (time: number) => { start: number; end: number }[]
  private readonly merges: boolean
  private panes: Omit<Pane, 'waits'>[] = []
  private now = 0

  constructor(windowsOf: (time: number) => { start: number; end: number }[], merges: boolean) {
    this.windowsOf = windowsOf
    this.merges = merges
  }

  record(key: string, id: number): void {
    for (const { start, end } of this.windowsOf(this.now)) {
      const joined = this.panes.filter((pane) =>
        pane.key === key && this.merges ? pane.end >= start : pane.key === key && pane.start === start,
      )
      this.panes = this.panes.filter((pane) => !joined.includes(pane))
      this.panes.push({
        key,
        start: Math.min(start, ...joined.map((pane) => pane.start)),
        end,
        ids: [...joined.flatMap((pane) => pane.ids), id],
      })
    }
  }

  /** The clock shows `now`: a record of that moment comes after what ended before it. */
  tick(now: number): void {
    this.now = now
    for (const { key, start, end, ids } of this.panes.toSorted((a, b) => a.end - b.end))
      if (end <= now) this.fired.push(`${key} ${start}-${end}: ${ids.join(' ')}`)
    this.panes = this.panes.filter(({ end }) => end > now)
  }
}
