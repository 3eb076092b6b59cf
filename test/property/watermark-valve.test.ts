import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { MAX_WATERMARK, MIN_WATERMARK } from '../../src/core/element.ts'
import { WatermarkValve } from '../../src/core/time/watermarks.ts'

type Event =
  | { readonly kind: 'watermark'; readonly channel: number; readonly timestamp: number }
  | { readonly kind: 'status'; readonly channel: number; readonly idle: boolean }
  | { readonly kind: 'end'; readonly channel: number }

const scene = fc.integer({ min: 1, max: 4 }).chain((channels) =>
  fc.record({
    channels: fc.constant(channels),
    events: fc.array(
      fc.oneof(
        {
          weight: 6,
          arbitrary: fc.record({
            kind: fc.constant('watermark' as const),
            channel: fc.nat(channels - 1),
            timestamp: fc.nat(20),
          }),
        },
        {
          weight: 4,
          arbitrary: fc.record({
            kind: fc.constant('status' as const),
            channel: fc.nat(channels - 1),
            idle: fc.boolean(),
          }),
        },
        {
          weight: 1,
          arbitrary: fc.record({ kind: fc.constant('end' as const), channel: fc.nat(channels - 1) }),
        },
      ),
      { maxLength: 60 },
    ),
  }),
)

/**
 * The rules written out naively: after each event, everything is worked out again from what each channel last said.
 * A channel is behind if it was idle since the output passed it and has not reached the output since.
 */
class NaiveValve {
  readonly said: { watermark: number; idle: boolean; behind: boolean; ended: boolean }[]
  output = MIN_WATERMARK
  idle = false

  constructor(channels: number) {
    this.said = Array.from({ length: channels }, () => ({
      watermark: MIN_WATERMARK,
      idle: false,
      behind: false,
      ended: false,
    }))
  }

  apply(event: Event): void {
    const channel = this.said[event.channel]!
    if (channel.ended) return
    const held = channel.watermark === this.output
    if (event.kind === 'watermark') {
      if (channel.idle) return
      channel.watermark = Math.max(channel.watermark, event.timestamp)
    } else if (event.kind === 'status') {
      if (channel.idle === event.idle) return
      channel.idle = event.idle
    } else channel.ended = true
    const live = this.said.filter((one) => !one.ended)
    if (live.length === 0) {
      this.idle = false
      this.output = MAX_WATERMARK
      return
    }
    if (live.every((one) => one.idle)) {
      // Only the moment at which the last one turns idle (or leaves the idle ones alone) raises the output.
      const flushes = !this.idle && (held || event.kind === 'end')
      if (flushes) this.output = Math.max(this.output, ...live.map((one) => one.watermark))
      this.idle = true
    } else {
      this.idle = false
      const counting = live.filter((one) => !one.idle && !(one.behind && one.watermark < this.output))
      const quiet = event.kind === 'status' && !(event.idle && held)
      if (!quiet && counting.length > 0)
        this.output = Math.max(this.output, Math.min(...counting.map((one) => one.watermark)))
    }
    for (const one of live) one.behind = one.idle || (one.behind && one.watermark < this.output)
  }
}

function feed(valve: WatermarkValve, event: Event) {
  if (event.kind === 'watermark') return valve.onWatermark(event.channel, event.timestamp)
  return event.kind === 'status' ? valve.onStatus(event.channel, event.idle) : valve.onEnd(event.channel)
}

describe('watermark valve', () => {
  test('agrees with the rules written out naively', () => {
    fc.assert(
      fc.property(scene, ({ channels, events }) => {
        const valve = new WatermarkValve(channels)
        const naive = new NaiveValve(channels)
        for (const event of events) {
          feed(valve, event)
          naive.apply(event)
          expect({ watermark: valve.watermark, idle: valve.idle }).toEqual({
            watermark: naive.output,
            idle: naive.idle,
          })
        }
      }),
      { numRuns: 3_000 },
    )
  })

  test('what it passes on only rises, alternates its status, and adds up to what it says it is', () => {
    fc.assert(
      fc.property(scene, ({ channels, events }) => {
        const valve = new WatermarkValve(channels)
        let watermark = MIN_WATERMARK
        let idle = false
        for (const event of events) {
          const output = feed(valve, event)
          if (output?.idle !== undefined) {
            expect(output.idle).toBe(!idle)
            idle = output.idle
          }
          if (output?.watermark !== undefined) {
            expect(output.watermark).toBeGreaterThan(watermark)
            watermark = output.watermark
          }
          expect([valve.watermark, valve.idle]).toEqual([watermark, idle])
        }
      }),
    )
  })

  test('without idle channels it is the minimum over channels that have not ended', () => {
    fc.assert(
      fc.property(scene, ({ channels, events }) => {
        const valve = new WatermarkValve(channels)
        const highest = new Array<number>(channels).fill(MIN_WATERMARK)
        for (const event of events) {
          if (event.kind === 'status') continue
          feed(valve, event)
          const before = highest[event.channel]!
          highest[event.channel] = event.kind === 'end' ? MAX_WATERMARK : Math.max(before, event.timestamp)
          expect(valve.watermark).toBe(Math.min(...highest))
        }
      }),
    )
  })
})
