/**
 * Keeps what is in a gate's channels before barrier n, for an unaligned checkpoint.
 *
 *   Capturing ──barrier n, or the end, on every channel──▶ Complete
 *       └────────────── cancel ─────────────────────────▶ Cancelled
 *
 * What is queued at the freeze is encoded then and there; a channel whose barrier has not come yet is recorded on until it comes. The elements
 * themselves stay where they are and are processed after the freeze: they are in the checkpoint and before it at once, which is the point.
 */
import type { InFlightWriter, KeptElement } from '../checkpoint/in-flight.ts'
import type { StreamElement } from '../core/element.ts'
import type { LocalChannel } from './channel.ts'

/** A channel, and its name in the checkpoint. */
export interface CapturedChannel {
  readonly channel: LocalChannel
  readonly edge: string
  readonly from: number
}

export class InFlightCapture {
  readonly n: number
  readonly #writer: InFlightWriter
  readonly #recording = new Set<LocalChannel>()
  readonly #done = Promise.withResolvers<Uint8Array | undefined>()
  #failure: { readonly error: unknown } | undefined

  constructor(n: number, writer: InFlightWriter) {
    this.n = n
    this.#writer = writer
    // Whoever waits for it sees the failure; nobody may be waiting any more.
    this.#done.promise.catch(() => undefined)
  }

  /** Bytes of everything that was in flight, undefined if there was nothing. Rejects if a value cannot be kept. */
  get bytes(): Promise<Uint8Array | undefined> {
    return this.#done.promise
  }

  /** Elements that a restored subtask has not read yet come before all channels. */
  keep(edge: string, from: number, element: KeptElement): void {
    this.#add(edge, from, element)
  }

  /** At the freeze: `channels` are those that have not given barrier n. */
  start(channels: readonly CapturedChannel[]): void {
    for (const { channel, edge, from } of channels) {
      if (this.#takeQueued(channel, edge, from)) continue
      this.#recording.add(channel)
      channel.recorder = (element) => {
        if (!this.#take(element, edge, from)) return
        channel.recorder = undefined
        this.#recording.delete(channel)
        this.#completeIfDone()
      }
    }
    this.#completeIfDone()
  }

  cancel(): void {
    for (const channel of this.#recording) channel.recorder = undefined
    this.#recording.clear()
    this.#done.reject(new Error(`checkpoint ${this.n} was aborted`))
  }

  /** True if barrier n, or the end, is in the queue already. */
  #takeQueued(channel: LocalChannel, edge: string, from: number): boolean {
    for (const element of channel.queued()) if (this.#take(element, edge, from)) return true
    return false
  }

  /** True when the channel has given all that belongs to the checkpoint. */
  #take(element: StreamElement, edge: string, from: number): boolean {
    switch (element.kind) {
      case 'records':
      case 'watermark':
      case 'watermark-status':
        this.#add(edge, from, element)
        return false
      case 'barrier':
        return element.n >= this.n
      case 'end-of-channel':
        return true
      default:
        return false
    }
  }

  #add(edge: string, from: number, element: KeptElement): void {
    if (this.#failure !== undefined) return
    try {
      this.#writer.add({ edge, from, element })
    } catch (error) {
      this.#failure = { error }
    }
  }

  #completeIfDone(): void {
    if (this.#recording.size > 0) return
    if (this.#failure !== undefined) this.#done.reject(this.#failure.error)
    else this.#done.resolve(this.#writer.finish())
  }
}
