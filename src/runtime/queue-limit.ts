/**
 * How many records may wait in the channels of one subtask: about as many as it works off in a second, so that a barrier behind them comes
 * through in about a second, however slow the subtask is. Flink calls it buffer debloating.
 */
import { CHANNEL_CAPACITY, type LocalChannel } from './channel.ts'

/** Until the first records are worked off nobody knows how slow that is. */
const FIRST_CAPACITY = 32
const GOAL_MS = 1_000

export class QueueLimit {
  readonly #channels: readonly LocalChannel[]
  /** Each vector counts for half of what is known. */
  #msPerRecord: number | undefined
  #capacity = FIRST_CAPACITY

  constructor(channels: readonly LocalChannel[]) {
    this.#channels = channels
    for (const channel of channels) channel.resize(FIRST_CAPACITY)
  }

  /** So many records took so many ms, with the wait for whoever they were handed to. */
  took(records: number, ms: number): void {
    const now = ms / records
    const msPerRecord = this.#msPerRecord === undefined ? now : (this.#msPerRecord + now) / 2
    this.#msPerRecord = msPerRecord
    const inTime = Math.floor(GOAL_MS / msPerRecord / this.#channels.length)
    const capacity = Math.max(1, Math.min(inTime, CHANNEL_CAPACITY))
    if (capacity === this.#capacity) return
    this.#capacity = capacity
    for (const channel of this.#channels) channel.resize(capacity)
  }
}
