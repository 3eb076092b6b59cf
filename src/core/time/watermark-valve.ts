/**
 * Combines the watermarks of an input gate's channels (Flink's StatusWatermarkValve).
 *
 *             idle                           watermark ≥ output, or active again and not behind
 *   aligned ────────► idle ── active ─► catching up ────────────────────────────────────────────► aligned
 *
 * The output is the minimum over aligned channels. A channel that comes back from idleness behind the output is catching up: it does not
 * count until it has reached the output, and so holds nothing back. When all channels are idle the output first rises to the highest
 * watermark seen, then turns idle itself. A channel that ended, or sent the last watermark, no longer holds anything back.
 */
import { MAX_WATERMARK, MIN_WATERMARK } from '../element.ts'

/**
 * What the gate passes on; undefined = nothing. The order is fixed: `idle: false` first, then the watermark, then `idle: true`.
 */
export type ValveOutput = { readonly watermark?: number; readonly idle?: boolean } | undefined

interface ChannelState {
  watermark: number
  idle: boolean
  aligned: boolean
}

/** The valve of one gate with `channels` channels. Watermarks that it passes on only rise. */
export class WatermarkValve {
  private readonly channels: readonly ChannelState[]
  private output = MIN_WATERMARK
  private outputIdle = false

  constructor(channels: number) {
    this.channels = Array.from({ length: channels }, () => ({
      watermark: MIN_WATERMARK,
      idle: false,
      aligned: true,
    }))
  }

  /** The last watermark passed on. */
  get watermark(): number {
    return this.output
  }

  /** True if all channels are idle. */
  get idle(): boolean {
    return this.outputIdle
  }

  /** The last watermark of one channel. */
  channelWatermark(index: number): number {
    return this.channels[index]!.watermark
  }

  /** A watermark arrived. One from an idle channel is dropped, save the last. */
  onWatermark(index: number, timestamp: number): ValveOutput {
    const channel = this.channels[index]!
    if (timestamp === MAX_WATERMARK) return this.onEnd(index)
    if (channel.idle || timestamp <= channel.watermark) return undefined
    channel.watermark = timestamp
    if (!channel.aligned && timestamp >= this.output) channel.aligned = true
    return this.raised(this.minimum())
  }

  /** A channel turned idle or active. */
  onStatus(index: number, idle: boolean): ValveOutput {
    const channel = this.channels[index]!
    if (channel.idle === idle || channel.watermark === MAX_WATERMARK) return undefined
    channel.idle = idle
    return idle ? this.turnedIdle(channel) : this.turnedActive(channel)
  }

  /** A channel ended: it counts as one that has seen everything. */
  onEnd(index: number): ValveOutput {
    const channel = this.channels[index]!
    if (channel.watermark === MAX_WATERMARK) return undefined
    channel.watermark = MAX_WATERMARK
    channel.idle = false
    channel.aligned = true
    return this.afterEnd()
  }

  /** Indexes of the channels that hold the watermark back. */
  holdingBack(): number[] {
    return this.channels.flatMap((channel, index) =>
      !channel.idle && channel.aligned && channel.watermark <= this.output ? [index] : [],
    )
  }

  private turnedIdle(channel: ChannelState): ValveOutput {
    const wasHolding = channel.watermark === this.output
    channel.aligned = false
    if (!this.allLiveIdle()) return wasHolding ? this.raised(this.minimum()) : undefined
    this.outputIdle = true
    return { ...(wasHolding ? this.raised(this.highestLive()) : undefined), idle: true }
  }

  private turnedActive(channel: ChannelState): ValveOutput {
    if (channel.watermark >= this.output) channel.aligned = true
    if (!this.outputIdle) return undefined
    this.outputIdle = false
    return { idle: false }
  }

  /** The last watermark is passed on when all channels have sent it; idle ones that remain make the gate idle. */
  private afterEnd(): ValveOutput {
    if (this.channels.every(({ watermark }) => watermark === MAX_WATERMARK)) {
      const wasIdle = this.outputIdle
      this.outputIdle = false
      return { ...(wasIdle ? { idle: false } : undefined), ...this.raised(MAX_WATERMARK) }
    }
    if (!this.allLiveIdle()) return this.raised(this.minimum())
    if (this.outputIdle) return undefined
    this.outputIdle = true
    return { ...this.raised(this.highestLive()), idle: true }
  }

  /** True if every channel that has not ended is idle. */
  private allLiveIdle(): boolean {
    return this.channels.every(({ idle, watermark }) => idle || watermark === MAX_WATERMARK)
  }

  private highestLive(): number {
    let highest = MIN_WATERMARK
    for (const { watermark } of this.channels)
      if (watermark !== MAX_WATERMARK && watermark > highest) highest = watermark
    return highest
  }

  /** Minimum over aligned channels that have not ended; MIN if there is none (all are catching up). */
  private minimum(): number {
    let minimum = MAX_WATERMARK
    let found = false
    for (const { aligned, watermark } of this.channels) {
      if (!aligned || watermark === MAX_WATERMARK) continue
      found = true
      if (watermark < minimum) minimum = watermark
    }
    return found ? minimum : MIN_WATERMARK
  }

  private raised(candidate: number): ValveOutput {
    if (candidate <= this.output) return undefined
    this.output = candidate
    return { watermark: candidate }
  }
}
