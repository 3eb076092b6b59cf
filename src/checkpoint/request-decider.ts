/**
 * Decides when the next checkpoint may start (Flink's CheckpointRequestDecider): interval, min pause, max concurrent, requests by people.
 * A request that must wait is kept; periodic ones collapse into one.
 */
import type { CheckpointKind } from '../core/element.ts'

export interface CheckpointRequest {
  /** Names whoever waits for the answer; undefined for periodic ones. */
  readonly id: string | undefined
  readonly kind: CheckpointKind
  /** Sources stop after the barrier. */
  readonly thenStop: boolean
}

export type Decision =
  | { readonly type: 'trigger'; readonly request: CheckpointRequest }
  /** Ask again after so many ms. */
  | { readonly type: 'wait'; readonly delayMs: number }
  /** Nothing to do until something changes. */
  | { readonly type: 'none' }

export class CheckpointRequestDecider {
  readonly #minPauseMs: number
  readonly #maxConcurrent: number
  readonly #queue: CheckpointRequest[] = []
  #periodicDue = false
  #lastEnd = Number.NEGATIVE_INFINITY

  constructor(options: { minPauseMs: number; maxConcurrent: number }) {
    this.#minPauseMs = options.minPauseMs
    // A pause between two checkpoints only makes sense if they do not overlap.
    this.#maxConcurrent = options.minPauseMs > 0 ? 1 : options.maxConcurrent
  }

  periodic(): void {
    this.#periodicDue = true
  }

  request(request: CheckpointRequest): void {
    // A stop goes first: nothing that comes after it could be served.
    if (request.thenStop || request.kind === 'final') this.#queue.unshift(request)
    else this.#queue.push(request)
  }

  /** A checkpoint ended (completed or aborted) at `now`. */
  ended(now: number): void {
    this.#lastEnd = now
  }

  /** Requests that will never be served. */
  drain(): CheckpointRequest[] {
    this.#periodicDue = false
    return this.#queue.splice(0)
  }

  decide(now: number, inFlight: number): Decision {
    const first = this.#queue[0]
    // The end of the job and a stop do not wait for the pause.
    const urgent = first !== undefined && (first.thenStop || first.kind === 'final')
    if (first === undefined && !this.#periodicDue) return { type: 'none' }
    if (inFlight >= this.#maxConcurrent && !(urgent && inFlight < this.#maxConcurrent + 1))
      return { type: 'none' }
    // A clock that was set back must not make the pause longer.
    const pauseLeft = Math.min(this.#lastEnd + this.#minPauseMs - now, this.#minPauseMs)
    if (pauseLeft > 0 && !urgent) return { type: 'wait', delayMs: pauseLeft }
    if (first !== undefined) {
      this.#queue.shift()
      return { type: 'trigger', request: first }
    }
    this.#periodicDue = false
    return { type: 'trigger', request: { id: undefined, kind: 'checkpoint', thenStop: false } }
  }
}
