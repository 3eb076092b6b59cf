/**
 * How a task spends its time, as Flink counts it: idle (nothing to read), backpressured (a channel to the next task is full), busy (the rest,
 * also while an asynchronous function takes no more records).
 * Rates are milliseconds a second over the last whole interval, so that two readers do not disturb each other.
 */
import type { LoadRates } from '../core/job-info.ts'
import type { Clock } from '../core/ports.ts'

type Waiting = 'idle' | 'backpressured'

/** Names those of its receivers whose channels are full. */
export type FullReceivers = () => readonly string[]

/** Least time over which a rate is taken, in ms. */
const INTERVAL_MS = 1_000

export class TaskLoad {
  readonly #clock: Clock
  readonly #total = { idle: 0, backpressured: 0 }
  /** Since when it waits, for what. */
  #waiting: { readonly for: Waiting; readonly since: number } | undefined
  /** The edges that wait for room. */
  readonly #full = new Set<FullReceivers>()
  /** The totals at the start of the present interval, and of the one before. */
  #marks: { at: number; idle: number; backpressured: number }[]

  constructor(clock: Clock) {
    this.#clock = clock
    this.#marks = [{ at: clock.now(), idle: 0, backpressured: 0 }]
  }

  begin(waitingFor: Waiting): void {
    this.end()
    this.#waiting = { for: waitingFor, since: this.#clock.now() }
  }

  /** An edge waits for room, until the function that it gets is called. */
  beginRoom(full: FullReceivers): () => void {
    if (this.#full.size === 0) this.begin('backpressured')
    this.#full.add(full)
    return () => {
      this.#full.delete(full)
      if (this.#full.size === 0 && this.#waiting?.for === 'backpressured') this.end()
    }
  }

  /** Who has no room for what it sends. */
  get fullReceivers(): readonly string[] {
    return [...new Set([...this.#full].flatMap((names) => names()))]
  }

  end(): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    this.#total[waiting.for] += Math.max(0, this.#clock.now() - waiting.since)
    this.#waiting = undefined
  }

  /** For how long it has waited without a break, and for what; undefined while it works. */
  waiting(): { readonly for: Waiting; readonly ms: number } | undefined {
    const waiting = this.#waiting
    return waiting === undefined ? undefined : { for: waiting.for, ms: this.#clock.now() - waiting.since }
  }

  rates(): LoadRates {
    const now = this.#clock.now()
    const running = this.waiting()
    const total = { ...this.#total }
    if (running !== undefined) total[running.for] += running.ms
    const [older] = this.#marks as [{ at: number; idle: number; backpressured: number }]
    const newest = this.#marks.at(-1) as typeof older
    if (now - newest.at >= INTERVAL_MS) this.#marks = [newest, { at: now, ...total }]
    const since = now - older.at
    if (since <= 0) return { busy: 0, idle: 1_000, backpressured: 0 }
    const rate = (ms: number): number => Math.min(1_000, Math.round((ms / since) * 1_000))
    const idle = rate(total.idle - older.idle)
    const backpressured = Math.min(1_000 - idle, rate(total.backpressured - older.backpressured))
    return { busy: 1_000 - idle - backpressured, idle, backpressured }
  }
}
