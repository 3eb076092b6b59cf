import { describe, expect, test } from '@jest/globals'
import { type BucketContext, dateTimeBucket } from '../../../src/connectors/file-buckets.ts'

const at = (iso: string, now = iso): BucketContext => ({ timestamp: Date.parse(iso), now: Date.parse(now) })

describe('a bucket by date and time', () => {
  test('is the hour in UTC unless something else is asked for', () => {
    expect(dateTimeBucket()('x', at('2026-03-29T01:59:59.999Z'))).toBe('2026-03-29--01')
  })

  test('goes by event time, and by the clock for a record that has none', () => {
    const bucket = dateTimeBucket({ pattern: 'yyyy/MM' })
    expect(bucket('x', at('2025-12-31T23:00:00Z', '2026-01-01T00:00:00Z'))).toBe('2025/12')
    expect(bucket('x', { timestamp: undefined, now: Date.UTC(2026, 0) })).toBe('2026/01')
  })

  test('goes by a time of the record if it is told which', () => {
    const bucket = dateTimeBucket<{ at: number }>({ pattern: 'yyyy-MM-dd', time: (value) => value.at })
    expect(bucket({ at: Date.UTC(2001, 1, 3) }, at('2026-01-01T00:00:00Z'))).toBe('2001-02-03')
  })

  test('changes with the clocks of its zone', () => {
    const bucket = dateTimeBucket({ pattern: 'dd-HH:mm', zone: 'Europe/Berlin' })
    expect(bucket('x', at('2026-03-29T00:59:59Z'))).toBe('29-01:59')
    expect(bucket('x', at('2026-03-29T01:00:00Z'))).toBe('29-03:00')
    expect(bucket('x', at('2026-10-25T00:59:00Z'))).toBe('25-02:59')
    expect(bucket('x', at('2026-10-25T01:00:00Z'))).toBe('25-02:00')
    expect(
      dateTimeBucket({ pattern: 'HH:mm', zone: 'Asia/Kathmandu' })('x', at('2026-01-01T00:00:00Z')),
    ).toBe('05:45')
  })

  test('of midnight has the hour 00', () => {
    expect(dateTimeBucket({ pattern: 'dd--HH' })('x', at('2026-01-02T00:00:00Z'))).toBe('02--00')
  })

  test('is the same for many minutes as for each of them', () => {
    const bucket = dateTimeBucket({ pattern: 'yyyy-MM-dd--HH' })
    for (let hour = 0; hour < 3_000; hour++) {
      const time = new Date(Date.UTC(2026, 0, 1, hour))
      expect(bucket('x', at(time.toISOString()))).toBe(
        `${time.toISOString().slice(0, 10)}--${time.toISOString().slice(11, 13)}`,
      )
    }
  })

  test.each([
    [{ pattern: 'YYYY-MM' }, "'YYYY' in pattern"],
    [{ pattern: '/yyyy' }, 'no bucket'],
    [{ pattern: '.yyyy' }, 'no bucket'],
    [{ zone: 'Europe/Nowhere' }, "no time zone 'Europe/Nowhere'"],
  ])('refuses %j', (options, why) => {
    expect(() => dateTimeBucket(options)).toThrow(why)
  })
})
