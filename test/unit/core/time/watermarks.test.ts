import { describe, expect, test } from '@jest/globals'
import { WatermarkStrategy } from '../../../../src/core/time/watermarks.ts'

function watermarksOf(strategy: WatermarkStrategy<number>, ...timestamps: number[]): number[] {
  const emitted: number[] = []
  const output = {
    emitWatermark: (timestamp: number) => void emitted.push(timestamp),
    markIdle() {},
    markActive() {},
  }
  const generator = strategy.createGenerator()
  for (const timestamp of timestamps) {
    generator.onEvent(timestamp, timestamp, output)
    generator.onPeriodicEmit(output)
  }
  return emitted
}

describe('WatermarkStrategy', () => {
  test('bounded out-of-orderness stays the bound and one millisecond behind the newest record', () => {
    expect(watermarksOf(WatermarkStrategy.forBoundedOutOfOrderness(100), 1_000, 900, 1_200)).toEqual([
      899, 899, 1_099,
    ])
  })

  test('monotonous timestamps stay one millisecond behind: a window ends with the record at its end', () => {
    expect(watermarksOf(WatermarkStrategy.forMonotonousTimestamps(), 60_000)).toEqual([59_999])
  })

  test('nothing is emitted before the first record, nor for records without a timestamp', () => {
    expect(watermarksOf(WatermarkStrategy.forMonotonousTimestamps(), Number.NaN)).toEqual([])
    expect(watermarksOf(WatermarkStrategy.forMonotonousTimestamps(), 5, Number.NaN)).toEqual([4, 4])
  })

  test('no watermarks means none', () => {
    expect(watermarksOf(WatermarkStrategy.noWatermarks(), 1, 2)).toEqual([])
  })

  test('the fast path of a whole vector gives what single records give', () => {
    const strategy = WatermarkStrategy.forBoundedOutOfOrderness<number>(3)
    const generator = strategy.createGenerator()
    const emitted: number[] = []
    generator.onVector!([5, Number.NaN, 9, 7])
    generator.onPeriodicEmit({
      emitWatermark: (timestamp) => void emitted.push(timestamp),
      markIdle() {},
      markActive() {},
    })
    expect(emitted).toEqual([watermarksOf(strategy, 5, Number.NaN, 9, 7).at(-1)])
  })

  test('each generator has a state of its own', () => {
    const strategy = WatermarkStrategy.forMonotonousTimestamps<number>()
    watermarksOf(strategy, 1_000)
    expect(watermarksOf(strategy, 5)).toEqual([4])
  })

  test('settings make new strategies and leave the old one alone', () => {
    const plain = WatermarkStrategy.forMonotonousTimestamps<number>()
    const assign = (value: number) => value
    const full = plain.withTimestampAssigner(assign).withIdleness(500)
    expect([full.timestampAssigner, full.idleTimeoutMs]).toEqual([assign, 500])
    expect([plain.timestampAssigner, plain.idleTimeoutMs]).toEqual([undefined, undefined])
  })

  test.each([
    ['forBoundedOutOfOrderness', () => WatermarkStrategy.forBoundedOutOfOrderness(-1)],
    ['forBoundedOutOfOrderness', () => WatermarkStrategy.forBoundedOutOfOrderness(Number.NaN)],
    ['withIdleness', () => WatermarkStrategy.noWatermarks().withIdleness(0)],
  ])('%s refuses what is no duration', (name, make) => {
    expect(make).toThrow(
      expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION', message: expect.stringContaining(name) }),
    )
  })
})
