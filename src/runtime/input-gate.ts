/**
 * All channels that one subtask reads. Gives the next element in turn; blocked channels keep theirs.
 */
import type { KeptElement } from '../checkpoint/in-flight.ts'
import type { CheckpointBarrier, StreamElement } from '../core/element.ts'
import type { LocalChannel } from './channel.ts'

/** One channel and where it comes from. */
export interface GateChannel {
  readonly channel: LocalChannel
  /** Input of the head operator: 0 or 1. */
  readonly input: number
  /** Upstream subtask, for messages. */
  readonly from: string
  /** Its name in checkpoints that keep what is in flight. */
  readonly place?: { readonly edge: string; readonly from: number } | undefined
  /** Splits that hold its watermark back, if it comes from a source in this process. */
  readonly heldBackBy?: () => readonly string[]
}

export class InputGate {
  readonly channels: readonly GateChannel[]
  readonly #blocked: boolean[]
  #next = 0
  /** Elements that were in flight when the restored checkpoint was taken. All of them come before anything new. */
  readonly #restored: { readonly index: number; readonly element: KeptElement }[] = []
  onData: (() => void) | undefined
  /** A barrier that may overtake has arrived on some channel. */
  onBarrier: ((barrier: CheckpointBarrier) => void) | undefined

  constructor(channels: readonly GateChannel[]) {
    this.channels = channels
    this.#blocked = channels.map(() => false)
    for (const { channel } of channels) {
      channel.onData = () => this.onData?.()
      channel.onBarrier = (barrier) => this.onBarrier?.(barrier)
    }
  }

  /** Index of the channel that has an element to take, or -1. Fair: the search starts after the last one taken. */
  ready(): number {
    const first = this.#restored[0]
    if (first !== undefined) return first.index
    const n = this.channels.length
    for (let i = 0; i < n; i++) {
      const index = (this.#next + i) % n
      if (!this.#blocked[index] && !(this.channels[index] as GateChannel).channel.empty) return index
    }
    return -1
  }

  /** True if what `take` gives next is a vector of records. */
  hasRecords(index: number): boolean {
    const next = this.#restored[0]?.element ?? (this.channels[index] as GateChannel).channel.peek()
    return next?.kind === 'records'
  }

  take(index: number): StreamElement {
    const restored = this.#restored.shift()
    if (restored !== undefined) return restored.element
    this.#next = (index + 1) % this.channels.length
    return (this.channels[index] as GateChannel).channel.take() as StreamElement
  }

  /** Before the first element is taken. */
  restore(index: number, element: KeptElement): void {
    this.#restored.push({ index, element })
  }

  /** Restored elements that were not taken yet. */
  get restored(): readonly { readonly index: number; readonly element: KeptElement }[] {
    return this.#restored
  }

  block(index: number): void {
    this.#blocked[index] = true
  }

  /** True while a blocked channel holds records. */
  get blocksRecords(): boolean {
    return this.channels.some(({ channel }, index) => this.#blocked[index] === true && channel.records > 0)
  }

  resumeAll(): void {
    this.#blocked.fill(false)
  }

  close(): void {
    for (const { channel } of this.channels) channel.close()
  }
}
