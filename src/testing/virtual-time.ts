/**
 * Time that only moves when told to: the clock and the timers of a simulation.
 *
 *   schedule(ms) ──► heap ordered by (time, order) ──► fire the first ──► drain all microtasks ──► next
 *
 * Draining: Node runs every microtask, and those that they enqueue, before it goes on to the next callback, be it of the queue of
 * `process.nextTick` or of the event loop. So after one such callback nothing is left that could run without a timer. Counting
 * `await Promise.resolve()` would only be a guess. This does not hold for real IO (sockets, files, asynchronous zlib): a simulation must
 * not use any. A turn of the event loop costs several times as much as a tick, but only there does Node report rejections that nobody
 * handled; so there is one every `turnEvery` timers.
 */
import type { Clock, Random, TimerHandle, Timers } from '../core/ports.ts'

/** Why `runUntil` returned. */
export type RunOutcome = 'reached' | 'idle' | 'time-limit' | 'firing-limit'

/** Bounds of one `runUntil`. */
export interface RunLimits {
  /** Virtual milliseconds at the most. */
  readonly maxMs?: number
  /** Fired timers at the most. */
  readonly maxFirings?: number
}

interface Entry {
  readonly at: number
  readonly order: number
  readonly sequence: number
  readonly action: () => void
  readonly unref: boolean
  cancelled: boolean
}

/** True if `a` fires before `b`. */
function before(a: Entry, b: Entry): boolean {
  if (a.at !== b.at) return a.at < b.at
  return a.order !== b.order ? a.order < b.order : a.sequence < b.sequence
}

/** Binary heap of entries, the earliest first. */
class EntryHeap {
  readonly #entries: Entry[] = []

  peek(): Entry | undefined {
    return this.#entries[0]
  }

  push(entry: Entry): void {
    const entries = this.#entries
    let i = entries.push(entry) - 1
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!before(entry, entries[parent]!)) break
      entries[i] = entries[parent]!
      i = parent
    }
    entries[i] = entry
  }

  pop(): void {
    const entries = this.#entries
    const last = entries.pop()
    if (last === undefined || entries.length === 0) return
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= entries.length) break
      if (child + 1 < entries.length && before(entries[child + 1]!, entries[child]!)) child++
      if (!before(entries[child]!, last)) break
      entries[i] = entries[child]!
      i = child
    }
    entries[i] = last
  }
}

/** Resolves after every microtask has run, and after a turn of the event loop. */
function turnEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Resolves after every microtask has run. Must be called from a microtask, as whatever comes behind an `await` is. */
function drainMicrotasks(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}

/**
 * Virtual clock and timers. One driver at a time moves it: `advance`, `runUntil` or `startAutoAdvance`.
 * Timers due at one instant fire in the order they were scheduled, or, with `random`, in an order drawn from it: real schedulers promise
 * none, and a simulation should find code that relies on one.
 */
export class VirtualTime implements Clock, Timers {
  readonly #heap = new EntryHeap()
  readonly #random: Random | undefined
  readonly #turnEvery: number
  #now: number
  #sequence = 0
  #live = 0
  #liveRef = 0
  #fired = 0
  #driving = false
  #wake: (() => void) | undefined

  /** `turnEvery`: timers that fire between two turns of the event loop (1 = a turn after each). What fires, and when, does not depend on it. */
  constructor(
    options: { readonly startMs?: number; readonly random?: Random; readonly turnEvery?: number } = {},
  ) {
    this.#now = options.startMs ?? Date.UTC(2026, 0, 1)
    this.#random = options.random
    this.#turnEvery = options.turnEvery ?? 1
  }

  now(): number {
    return this.#now
  }

  /** Timers that will fire. */
  get pending(): number {
    return this.#live
  }

  /** Timers that have fired since the start. */
  get fired(): number {
    return this.#fired
  }

  schedule(delayMs: number, action: () => void, unref = false): TimerHandle {
    const entry: Entry = {
      at: this.#now + Math.max(0, delayMs),
      order: this.#random === undefined ? 0 : this.#random.next(),
      sequence: this.#sequence++,
      action,
      unref,
      cancelled: false,
    }
    this.#heap.push(entry)
    this.#live++
    if (!unref) this.#liveRef++
    this.#wake?.()
    return { cancel: () => this.#cancel(entry) }
  }

  turn(): Promise<void> {
    return this.sleep(0)
  }

  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.schedule(delayMs, resolve)
    })
  }

  /** Fires all that falls due within `ms` milliseconds, also what is scheduled on the way, and leaves the clock `ms` later. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    await this.#drive(async () => {
      await turnEventLoop()
      for (let next = this.#next(); next !== undefined && next.at <= end; next = this.#next())
        await this.#fire(next)
    })
    this.#now = end
  }

  /**
   * Fires timers until `condition` holds (checked after each), or, for 'idle', until no timer is left but unref'd ones.
   * A condition that can't come true any more because no timer at all is left ends with 'idle'.
   */
  async runUntil(condition: (() => boolean) | 'idle', limits: RunLimits = {}): Promise<RunOutcome> {
    const endAt = this.#now + (limits.maxMs ?? Number.POSITIVE_INFINITY)
    const lastFiring = this.#fired + (limits.maxFirings ?? Number.POSITIVE_INFINITY)
    return this.#drive(async () => {
      await turnEventLoop()
      for (;;) {
        if (condition !== 'idle' && condition()) return 'reached'
        const next = this.#next()
        if (next === undefined || (condition === 'idle' && this.#liveRef === 0)) return 'idle'
        if (next.at > endAt) {
          this.#now = endAt
          return 'time-limit'
        }
        if (this.#fired >= lastFiring) return 'firing-limit'
        await this.#fire(next)
      }
    })
  }

  /** Runs until `promise` is settled and gives its result. @throws its rejection, or an Error when the limits end first. */
  async settle<T>(promise: Promise<T>, limits: RunLimits = {}): Promise<T> {
    let settled = false
    const note = (): void => {
      settled = true
    }
    promise.then(note, note)
    const outcome = await this.runUntil(() => settled, limits)
    if (outcome !== 'reached')
      throw new Error(`The promise was not settled: ${outcome} at virtual time ${this.#now}.`)
    return promise
  }

  /**
   * Moves time by itself, as fast as it goes, until the returned function is called (it resolves when the driver has stopped).
   * For tests that await calls without a driver of their own.
   */
  startAutoAdvance(): () => Promise<void> {
    let running = true
    const done = this.#drive(async () => {
      while (running) {
        await turnEventLoop()
        const next = this.#next()
        if (next !== undefined) await this.#fire(next)
        else if (running) await new Promise<void>((resolve) => (this.#wake = resolve))
        this.#wake = undefined
      }
    })
    return () => {
      running = false
      this.#wake?.()
      return done
    }
  }

  async #drive<T>(run: () => Promise<T>): Promise<T> {
    if (this.#driving) throw new Error('Virtual time is being moved already: one driver at a time.')
    this.#driving = true
    try {
      return await run()
    } finally {
      this.#driving = false
    }
  }

  #next(): Entry | undefined {
    let entry = this.#heap.peek()
    while (entry?.cancelled) {
      this.#heap.pop()
      entry = this.#heap.peek()
    }
    return entry
  }

  #fire(entry: Entry): Promise<void> {
    this.#heap.pop()
    this.#now = Math.max(this.#now, entry.at)
    this.#fired++
    this.#forget(entry)
    entry.action()
    return this.#fired % this.#turnEvery === 0 ? turnEventLoop() : drainMicrotasks()
  }

  #cancel(entry: Entry): void {
    if (!entry.cancelled) this.#forget(entry)
  }

  /** The entry fired or was cancelled: it counts no more. */
  #forget(entry: Entry): void {
    entry.cancelled = true
    this.#live--
    if (!entry.unref) this.#liveRef--
  }
}
