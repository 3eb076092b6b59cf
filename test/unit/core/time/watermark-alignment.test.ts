import { describe, expect, test } from '@jest/globals'
import { MAX_WATERMARK, MIN_WATERMARK } from '../../../../src/core/element.ts'
import { type AlignedMember, WatermarkAlignment } from '../../../../src/core/time/watermark-alignment.ts'
import { WatermarkStrategy } from '../../../../src/core/time/watermarks.ts'

const settings = (group = 'g', maxDriftMs = 100, updateIntervalMs = 1_000) => ({
  group,
  maxDriftMs,
  updateIntervalMs,
})

function membersOf(alignment: WatermarkAlignment, ...names: string[]): AlignedMember[] {
  return names.map((name) => alignment.join(name, settings()))
}

describe('an alignment group', () => {
  test('lets each member go as far as the lowest watermark and the max drift', () => {
    const [a, b] = membersOf(new WatermarkAlignment(), 'a', 'b')
    b!.report(50, false, 0)
    a!.report(400, false, 0)
    expect([a!.limit, a!.heldBackBy()]).toEqual([150, ['b']])
  })

  test('is looked at once per update interval', () => {
    const [a, b] = membersOf(new WatermarkAlignment(), 'a', 'b')
    b!.report(50, false, 0)
    a!.report(400, false, 0)
    b!.report(350, false, 500)
    a!.report(400, false, 999)
    expect(a!.limit).toBe(150)
    a!.report(400, false, 1_000)
    expect(a!.limit).toBe(450)
  })

  test('waits for a member that has no watermark yet', () => {
    const [a] = membersOf(new WatermarkAlignment(), 'a', 'b')
    a!.report(400, false, 0)
    expect(a!.limit).toBe(MIN_WATERMARK + 100)
  })

  test('waits for no idle member, and for none that has left', () => {
    const [a, b, c] = membersOf(new WatermarkAlignment(), 'a', 'b', 'c')
    b!.report(10, true, 0)
    c!.report(20, false, 0)
    a!.report(400, false, 0)
    expect(a!.limit).toBe(120)
    c!.leave()
    a!.report(400, false, 1_000)
    expect(a!.limit).toBe(500)
    a!.report(400, true, 2_000)
    expect(a!.limit).toBe(MAX_WATERMARK)
  })

  test('has no business with another group', () => {
    const alignment = new WatermarkAlignment()
    const a = alignment.join('a', settings('one'))
    alignment.join('b', settings('two'))
    a.report(400, false, 0)
    expect(a.limit).toBe(500)
  })
})

test('a strategy carries its group, and refuses what makes no sense', () => {
  const strategy = WatermarkStrategy.forMonotonousTimestamps<number>().withWatermarkAlignment('g', 5_000)
  expect(strategy.alignment).toEqual({ group: 'g', maxDriftMs: 5_000, updateIntervalMs: 1_000 })
  expect(strategy.withIdleness(5).alignment?.group).toBe('g')
  expect(WatermarkStrategy.noWatermarks().alignment).toBeUndefined()
  expect(() => strategy.withWatermarkAlignment('', 1)).toThrow(/name of a group/)
  expect(() => strategy.withWatermarkAlignment('g', -1)).toThrow(/withWatermarkAlignment/)
  expect(() => strategy.withWatermarkAlignment('g', 1, 0)).toThrow(/withWatermarkAlignment/)
})
