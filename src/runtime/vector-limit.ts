/**
 * How many records a source takes at a time. A barrier waits for the vector in hand, so behind a slow function or sink, or a channel without
 * room, vectors must be small: 256 records of 20 ms each would hold every checkpoint up for five seconds.
 *
 *   took more than TOLERATED_MS ──► as many as would have taken GOAL_MS      took less than GOAL_MS ──► twice as many, up to the maximum
 */

/** Nothing is known yet: a few fast vectors lead to the maximum. */
const FIRST_SIZE = 16
const GOAL_MS = 100
const TOLERATED_MS = 250

export class VectorLimit {
  readonly #max: number
  #size: number

  constructor(max: number) {
    this.#max = max
    this.#size = Math.min(FIRST_SIZE, max)
  }

  /** Records that may be taken now; at least 1. */
  get size(): number {
    return this.#size
  }

  /** So many records took so many ms, with the wait for whoever they were handed to. */
  took(records: number, ms: number): void {
    if (ms > TOLERATED_MS)
      this.#size = Math.max(1, Math.min(this.#size, Math.floor((records * GOAL_MS) / ms)))
    else if (ms < GOAL_MS && this.#size < this.#max) this.#size = Math.min(this.#max, this.#size * 2)
  }
}
