/**
 * All channels that one subtask reads. Gives the next element in turn; blocked channels keep theirs.
 */
import type { StreamElement } from '../core/element.ts'
import type { LocalChannel } from './channel.ts'

/** One channel and where it comes from. */
export interface GateChannel {
  readonly channel: LocalChannel
  /** Input of the head operator: 0 or 1. */
  readonly input: number
  /** Upstream subtask, for messages. */
  readonly from: string
  /** Splits that hold its watermark back, if it comes from a source in this process. */
  readonly heldBackBy?: () => readonly string[]
}

export class InputGate {
  readonly channels: readonly GateChannel[]
  readonly #blocked: boolean[]
  #next = 0
  onData: (() => void) | undefined

  constructor(channels: readonly GateChannel[]) {
    this.channels = channels
    this.#blocked = channels.map(() => false)
    for (const { channel } of channels) channel.onData = () => this.onData?.()
  }

  /** Index of the channel that has an element to take, or -1. Fair: the search starts after the last one taken. */
  ready(): number {
    const n = this.channels.length
    for (let i = 0; i < n; i++) {
      const index = (this.#next + i) % n
      if (!this.#blocked[index] && !(this.channels[index] as GateChannel).channel.empty) return index
    }
    return -1
  }

  take(index: number): StreamElement {
    this.#next = (index + 1) % this.channels.length
    return (this.channels[index] as GateChannel).channel.take() as StreamElement
  }

  block(index: number): void {
    this.#blocked[index] = true
  }

  resumeAll(): void {
    this.#blocked.fill(false)
  }

  close(): void {
    for (const { channel } of this.channels) channel.close()
  }
}
