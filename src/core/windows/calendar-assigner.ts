/**
 * Windows of the calendar in a time zone: a day is from midnight to midnight there, so it may have 23 or 25 hours.
 *
 * The rules of zones come from the ICU data of the Node.js that runs the job. A window begins at the first moment of its first day: the
 * earlier one if the clock shows midnight twice, the end of the gap if it skips midnight.
 */
import { ConfigError } from '../../errors.ts'
import { TimeWindow } from './time-window.ts'
import type { Trigger } from './trigger.ts'
import { EventTimeTrigger } from './triggers.ts'
import { missingTimestamp, WindowAssigner } from './window-assigner.ts'

/** How long a calendar window is. */
export type CalendarUnit = 'day' | 'week' | 'month' | 'quarter' | 'year'
/** The day on which weeks begin. */
export type WeekDay = 'monday' | 'tuesday' | 'wednesday' | 'thursday' | 'friday' | 'saturday' | 'sunday'

/** Settings of calendar windows. */
export interface CalendarOptions {
  /** IANA name, e.g. 'Europe/Berlin'. */
  readonly zone: string
  /** For weeks. Default 'monday', as in ISO 8601. */
  readonly weekStart?: WeekDay
}

const DAY_MS = 86_400_000
const UNITS: readonly CalendarUnit[] = ['day', 'week', 'month', 'quarter', 'year']
/** In the order of the days from 1970-01-01 on. */
const DAYS_FROM_EPOCH: readonly WeekDay[] = [
  'thursday',
  'friday',
  'saturday',
  'sunday',
  'monday',
  'tuesday',
  'wednesday',
]
/** Windows that were made; more than this many are made anew. */
const CACHE_LIMIT = 64

/**
 * Calendar windows by event time.
 * @example orders.keyBy(o => o.shop).window(CalendarEventTimeWindows.of('day', { zone: 'Europe/Berlin' }))
 */
export class CalendarEventTimeWindows extends WindowAssigner<any, TimeWindow> {
  override readonly isEventTime = true
  private readonly unit: CalendarUnit
  private readonly zone: ZoneClock
  private readonly weekShift: number
  private recent: (readonly TimeWindow[])[] = []

  private constructor(unit: CalendarUnit, zone: ZoneClock, weekShift: number) {
    super()
    this.unit = unit
    this.zone = zone
    this.weekShift = weekShift
  }

  /** @throws ConfigError for a unit, zone or day that does not exist */
  static of(unit: CalendarUnit, options: CalendarOptions): CalendarEventTimeWindows {
    const { zone, weekStart = 'monday' } = options
    const weekShift = DAYS_FROM_EPOCH.indexOf(weekStart)
    if (!UNITS.includes(unit)) throw invalid(`the unit must be one of ${UNITS.join(', ')}, not '${unit}'`)
    if (weekShift < 0) throw invalid(`weeks cannot start on '${weekStart}'`)
    return new CalendarEventTimeWindows(unit, new ZoneClock(zone), weekShift)
  }

  override assignWindows(_value: unknown, timestamp: number): readonly TimeWindow[] {
    const { recent } = this
    for (let i = recent.length - 1; i >= 0; i--) {
      const window = recent[i]![0]!
      if (timestamp >= window.start && timestamp < window.end) return recent[i]!
    }
    if (Number.isNaN(timestamp)) throw missingTimestamp()
    const made = [this.windowAt(timestamp)]
    if (recent.length >= CACHE_LIMIT) this.recent = []
    this.recent.push(made)
    return made
  }

  override getDefaultTrigger(): Trigger {
    return EventTimeTrigger.create()
  }

  override toString(): string {
    return `CalendarEventTimeWindows(${this.unit}, ${this.zone.name})`
  }

  /** Where the clock goes back over midnight a date comes twice: the window is told by its bounds, not by the date that the clock shows. */
  private windowAt(time: number): TimeWindow {
    let first = this.firstDay(this.zone.local(time))
    while (this.zone.startOf(first) > time) first = this.firstDay(first - DAY_MS)
    let next = this.nextFirstDay(first)
    while (this.zone.startOf(next) <= time) {
      first = next
      next = this.nextFirstDay(first)
    }
    return new TimeWindow(this.zone.startOf(first), this.zone.startOf(next))
  }

  /** The first day of the unit that `local` lies in. Local times are written as the UTC time that shows the same clock. */
  private firstDay(local: number): number {
    const day = Math.floor(local / DAY_MS)
    if (this.unit === 'day') return day * DAY_MS
    if (this.unit === 'week') return (day - modulo(day - this.weekShift, 7)) * DAY_MS
    const date = new Date(local)
    const month = date.getUTCMonth()
    return firstOfMonth(date.getUTCFullYear(), month - (month % this.months))
  }

  private nextFirstDay(first: number): number {
    if (this.unit === 'day') return first + DAY_MS
    if (this.unit === 'week') return first + 7 * DAY_MS
    const date = new Date(first)
    return firstOfMonth(date.getUTCFullYear(), date.getUTCMonth() + this.months)
  }

  private get months(): number {
    return this.unit === 'month' ? 1 : this.unit === 'quarter' ? 3 : 12
  }
}

/** Not by Date.UTC, which takes the years 0 to 99 for those of the twentieth century. */
function firstOfMonth(year: number, month: number): number {
  return new Date(0).setUTCFullYear(year, month, 1)
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by
}

function invalid(what: string, cause?: unknown): ConfigError {
  return new ConfigError('MILLRACE_INVALID_OPTION', `CalendarEventTimeWindows.of: ${what}`, {
    cause,
    remedy: "Write for example CalendarEventTimeWindows.of('day', { zone: 'Europe/Berlin' }).",
  })
}

/** The clocks of one time zone. Local times are written as the UTC time (epoch ms) that shows the same date and clock. */
class ZoneClock {
  readonly name: string
  private readonly format: Intl.DateTimeFormat

  constructor(zone: string) {
    this.name = zone
    if (typeof zone !== 'string' || zone === '') throw invalid('it needs a time zone')
    try {
      this.format = new Intl.DateTimeFormat('en-US', {
        timeZone: zone,
        calendar: 'iso8601',
        hourCycle: 'h23',
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      })
    } catch (error) {
      throw invalid(`there is no time zone '${zone}'`, error)
    }
  }

  /** What clocks in the zone show at `time`. */
  local(time: number): number {
    const second = Math.floor(time / 1000) * 1000
    const shown: Record<string, string> = {}
    for (const { type, value } of this.format.formatToParts(second)) shown[type] = value
    const { year, month, day, hour, minute, second: seconds } = shown
    const date = new Date(0).setUTCFullYear(Number(year), Number(month) - 1, Number(day))
    return date + ((Number(hour) * 60 + Number(minute)) * 60 + Number(seconds)) * 1000 + (time - second)
  }

  /** The moment at which clocks show `local`: the first one if there are two, the end of the gap if there is none. */
  startOf(local: number): number {
    const before = this.offset(local - DAY_MS)
    const after = this.offset(local + DAY_MS)
    const early = local - Math.max(before, after)
    const late = local - Math.min(before, after)
    if (this.local(early) === local) return early
    if (this.local(late) === local) return late
    return this.firstAfter(local, early, late)
  }

  private offset(time: number): number {
    return this.local(time) - time
  }

  /** The first moment in (from, to] at which clocks show `local` or more; there is one change of the offset in between. */
  private firstAfter(local: number, from: number, to: number): number {
    let low = from
    let high = to
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (this.local(middle) >= local) high = middle
      else low = middle
    }
    return high
  }
}
