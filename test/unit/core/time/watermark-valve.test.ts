import { describe, expect, test } from '@jest/globals'
import { MAX_WATERMARK } from '../../../../src/core/element.ts'
import { WatermarkValve } from '../../../../src/core/time/watermarks.ts'

describe('the valve', () => {
  test('passes on the minimum of its channels, when it rises', () => {
    const valve = new WatermarkValve(2)
    expect(valve.onWatermark(0, 10)).toBeUndefined()
    expect(valve.onWatermark(1, 5)).toEqual({ watermark: 5 })
    expect(valve.onWatermark(1, 4)).toBeUndefined()
    expect(valve.onWatermark(1, 20)).toEqual({ watermark: 10 })
    expect(valve.holdingBack()).toEqual([0])
  })

  test('an idle channel holds nothing back, and its watermarks are dropped', () => {
    const valve = new WatermarkValve(2)
    valve.onWatermark(0, 10)
    expect(valve.onStatus(1, true)).toEqual({ watermark: 10 })
    expect(valve.onWatermark(1, 3)).toBeUndefined()
    expect(valve.onWatermark(0, 12)).toEqual({ watermark: 12 })
  })

  test('when the last channel turns idle the highest watermark goes first, then the status', () => {
    const valve = new WatermarkValve(2)
    valve.onWatermark(0, 10)
    valve.onWatermark(1, 20)
    expect(valve.onStatus(1, true)).toBeUndefined()
    expect(valve.onStatus(0, true)).toEqual({ watermark: 20, idle: true })
    expect(valve.idle).toBe(true)
    expect(valve.onStatus(0, false)).toEqual({ idle: false })
  })

  test('a channel that comes back behind the output holds nothing back until it has caught up', () => {
    const valve = new WatermarkValve(2)
    valve.onStatus(1, true)
    valve.onWatermark(0, 100)
    expect(valve.onStatus(1, false)).toBeUndefined()
    expect(valve.onWatermark(1, 50)).toBeUndefined()
    expect(valve.onWatermark(0, 200)).toEqual({ watermark: 200 })
    expect(valve.onWatermark(1, 200)).toBeUndefined()
    expect(valve.onWatermark(0, 300)).toBeUndefined()
    expect(valve.onWatermark(1, 250)).toEqual({ watermark: 250 })
  })

  test('an ended channel no longer counts, and the last watermark goes on when all have ended', () => {
    const valve = new WatermarkValve(2)
    valve.onWatermark(0, 10)
    expect(valve.onEnd(1)).toEqual({ watermark: 10 })
    expect(valve.onWatermark(0, MAX_WATERMARK)).toEqual({ watermark: MAX_WATERMARK })
    expect(valve.onEnd(0)).toBeUndefined()
  })

  test('a channel that ends while the others are idle makes the gate idle, not finished', () => {
    const valve = new WatermarkValve(2)
    valve.onWatermark(0, 30)
    valve.onWatermark(1, 10)
    valve.onStatus(0, true)
    expect(valve.onEnd(1)).toEqual({ watermark: 30, idle: true })
    expect(valve.onEnd(0)).toEqual({ idle: false, watermark: MAX_WATERMARK })
  })

  test('a single channel passes everything through', () => {
    const valve = new WatermarkValve(1)
    expect(valve.onWatermark(0, 1)).toEqual({ watermark: 1 })
    expect(valve.onStatus(0, true)).toEqual({ idle: true })
    expect(valve.onStatus(0, true)).toBeUndefined()
    expect(valve.onStatus(0, false)).toEqual({ idle: false })
    expect(valve.onWatermark(0, MAX_WATERMARK)).toEqual({ watermark: MAX_WATERMARK })
  })
})
