import { describe, expect, test } from '@jest/globals'
import {
  CalendarEventTimeWindows,
  type CalendarOptions,
  type CalendarUnit,
} from '../../../../src/core/windows/calendar-assigner.ts'

const HOUR = 3_600_000

/** The window of a moment as two ISO texts in UTC. */
function windowAt(unit: CalendarUnit, options: CalendarOptions, moment: string): string[] {
  const [window] = CalendarEventTimeWindows.of(unit, options).assignWindows(undefined, Date.parse(moment))
  return [window!.start, window!.end].map((time) => new Date(time).toISOString().replace('.000Z', 'Z'))
}

describe('days', () => {
  test('are from midnight to midnight in the zone', () => {
    expect(windowAt('day', { zone: 'Europe/Berlin' }, '2024-01-15T23:30:00Z')).toEqual([
      '2024-01-15T23:00:00Z',
      '2024-01-16T23:00:00Z',
    ])
    expect(windowAt('day', { zone: 'Asia/Kolkata' }, '2024-01-15T18:29:59.999Z')).toEqual([
      '2024-01-14T18:30:00Z',
      '2024-01-15T18:30:00Z',
    ])
    expect(windowAt('day', { zone: 'UTC' }, '2024-02-29T00:00:00Z')).toEqual([
      '2024-02-29T00:00:00Z',
      '2024-03-01T00:00:00Z',
    ])
  })

  test('have 23 hours when clocks go forward and 25 when they go back', () => {
    const [start, end] = windowAt('day', { zone: 'Europe/Berlin' }, '2024-03-31T12:00:00Z').map(Date.parse)
    expect(end! - start!).toBe(23 * HOUR)
    const [start2, end2] = windowAt('day', { zone: 'Europe/Berlin' }, '2024-10-27T12:00:00Z').map(Date.parse)
    expect(end2! - start2!).toBe(25 * HOUR)
  })

  test('begin at the end of the gap where clocks skip midnight', () => {
    // Brazil, 2018: at 00:00 clocks went to 01:00.
    expect(windowAt('day', { zone: 'America/Sao_Paulo' }, '2018-11-04T12:00:00Z')).toEqual([
      '2018-11-04T03:00:00Z',
      '2018-11-05T02:00:00Z',
    ])
  })

  test('begin once where clocks go back over midnight', () => {
    // Newfoundland, 2010: one minute after midnight clocks went back to 23:01 of the day before.
    const zone = 'America/St_Johns'
    const day = ['2010-11-07T02:30:00Z', '2010-11-08T03:30:00Z']
    for (const moment of ['2010-11-07T02:30:30Z', '2010-11-07T02:45:00Z', '2010-11-07T12:00:00Z'])
      expect(windowAt('day', { zone }, moment)).toEqual(day)
    expect(windowAt('day', { zone }, '2010-11-07T02:29:59Z')[1]).toBe(day[0])
  })

  test('that a zone skipped are in no window', () => {
    // Samoa crossed the date line and had no 30 December 2011.
    expect(windowAt('day', { zone: 'Pacific/Apia' }, '2011-12-30T09:59:59Z')).toEqual([
      '2011-12-29T10:00:00Z',
      '2011-12-30T10:00:00Z',
    ])
    expect(windowAt('day', { zone: 'Pacific/Apia' }, '2011-12-30T10:00:00Z')).toEqual([
      '2011-12-30T10:00:00Z',
      '2011-12-31T10:00:00Z',
    ])
  })
})

describe('longer units', () => {
  const zone = 'Europe/Berlin'
  test.each<[CalendarUnit, CalendarOptions, string, string[]]>([
    ['week', { zone }, '2024-03-31T12:00:00Z', ['2024-03-24T23:00:00Z', '2024-03-31T22:00:00Z']],
    [
      'week',
      { zone, weekStart: 'sunday' },
      '2024-03-31T12:00:00Z',
      ['2024-03-30T23:00:00Z', '2024-04-06T22:00:00Z'],
    ],
    ['month', { zone }, '2024-02-29T22:59:59Z', ['2024-01-31T23:00:00Z', '2024-02-29T23:00:00Z']],
    ['month', { zone }, '2024-12-31T23:00:00Z', ['2024-12-31T23:00:00Z', '2025-01-31T23:00:00Z']],
    ['quarter', { zone }, '2024-05-05T00:00:00Z', ['2024-03-31T22:00:00Z', '2024-06-30T22:00:00Z']],
    ['year', { zone }, '2024-05-05T00:00:00Z', ['2023-12-31T23:00:00Z', '2024-12-31T23:00:00Z']],
    ['week', { zone: 'UTC' }, '1969-12-31T00:00:00Z', ['1969-12-29T00:00:00Z', '1970-01-05T00:00:00Z']],
  ])('%s of %j at %s', (unit, options, moment, bounds) => {
    expect(windowAt(unit, options, moment)).toEqual(bounds)
  })
})

test('windows follow each other without gaps, in zones with all kinds of changes', () => {
  const zones = ['Australia/Lord_Howe', 'Africa/Casablanca', 'America/Sao_Paulo']
  for (const zone of zones)
    for (const unit of ['day', 'week', 'month'] as const) {
      const windows = CalendarEventTimeWindows.of(unit, { zone })
      let time = Date.UTC(2016, 0, 1)
      const until = Date.UTC(2016, unit === 'day' ? 12 : 36, 1)
      for (let [window] = windows.assignWindows(undefined, time); time < until; time = window!.end) {
        const before = window!
        ;[window] = windows.assignWindows(undefined, before.end)
        expect(window!.start).toBe(before.end)
        expect(windows.assignWindows(undefined, window!.end - 1)).toEqual([window])
      }
    }
})

test.each<[string, () => unknown, RegExp]>([
  ['a zone', () => CalendarEventTimeWindows.of('day', { zone: 'Europe/Atlantis' }), /Europe\/Atlantis/],
  ['a unit', () => CalendarEventTimeWindows.of('fortnight' as 'week', { zone: 'UTC' }), /fortnight/],
  [
    'a day of the week',
    () => CalendarEventTimeWindows.of('week', { zone: 'UTC', weekStart: 'someday' as 'monday' }),
    /someday/,
  ],
])('%s that does not exist is refused', (_what, make, message) => {
  expect(make).toThrow(message)
  expect(make).toThrow(expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }))
})

test('a record without a timestamp is refused', () => {
  const windows = CalendarEventTimeWindows.of('day', { zone: 'UTC' })
  expect(() => windows.assignWindows(undefined, Number.NaN)).toThrow(/without a timestamp/)
})
