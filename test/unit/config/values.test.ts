import { describe, expect, test } from '@jest/globals'
import { formatDuration, formatSize, parseDuration, parseSize } from '../../../src/config/values.ts'

describe('durations', () => {
  test.each([
    ['500 ms', 500],
    ['500ms', 500],
    ['10 min', 600_000],
    ['10 m', 600_000],
    ['2 hours', 7_200_000],
    ['1 D', 86_400_000],
    [' 3 s ', 3_000],
    ['42', 42],
    ['0', 0],
  ])('%j is %d ms', (text, milliseconds) => {
    expect(parseDuration(text)).toBe(milliseconds)
  })

  test.each(['', 'abc', '1.5 s', '-1 s', '1 kb', 's', '1 s 5 ms', '99999999999999999 d'])(
    '%j is none',
    (text) => {
      expect(parseDuration(text)).toBeUndefined()
    },
  )

  test.each([
    [0, '0 ms'],
    [1, '1 ms'],
    [1_500, '1500 ms'],
    [90_000, '90 s'],
    [600_000, '10 min'],
    [86_400_000, '1 d'],
  ])('%d ms is written %j and reads back', (milliseconds, text) => {
    expect(formatDuration(milliseconds)).toBe(text)
    expect(parseDuration(text)).toBe(milliseconds)
  })
})

describe('sizes', () => {
  test.each([
    ['1kb', 1_024],
    ['64 mb', 64 * 1_048_576],
    ['64m', 64 * 1_048_576],
    ['2 GB', 2 * 1_073_741_824],
    ['100 bytes', 100],
    ['7', 7],
  ])('%j is %d bytes', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes)
  })

  test.each(['1 min', '1.5 mb', '-1', 'kb'])('%j is none', (text) => {
    expect(parseSize(text)).toBeUndefined()
  })

  test('a size is written in its largest whole unit', () => {
    expect([0, 1_023, 1_024, 1_048_577, 1_048_576].map(formatSize)).toEqual([
      '0 bytes',
      '1023 bytes',
      '1 kb',
      '1048577 bytes',
      '1 mb',
    ])
  })
})
