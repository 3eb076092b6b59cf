/**
 * The timers of one simulated process: cut off when it is killed, held while it stands still.
 *
 *   Running ──pause──► Paused (due actions are held) ──resume──► Running (they run, in order)
 *      └──────────── cut ────────────► Dead: no action runs any more
 */
import type { TimerHandle, Timers } from '../core/ports.ts'

/** Timers of a process that can die or stand still. */
export class ProcessTimers implements Timers {
  readonly #timers: Timers
  /** Called before each action; the action does not run if it cuts the timers. */
  readonly #beforeAction: () => void
  readonly #held: (() => void)[] = []
  #dead = false
  #pauses = 0

  constructor(timers: Timers, beforeAction: () => void) {
    this.#timers = timers
    this.#beforeAction = beforeAction
  }

  get dead(): boolean {
    return this.#dead
  }

  schedule(delayMs: number, action: () => void, unref?: boolean): TimerHandle {
    if (this.#dead) return { cancel: () => undefined }
    let cancelled = false
    const run = (): void => {
      if (cancelled || this.#dead) return
      if (this.#pauses > 0) {
        this.#held.push(run)
        return
      }
      this.#beforeAction()
      if (!this.#dead) action()
    }
    const handle = this.#timers.schedule(delayMs, run, unref)
    return {
      cancel: () => {
        cancelled = true
        handle.cancel()
      },
    }
  }

  turn(): Promise<void> {
    return this.sleep(0)
  }

  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.schedule(delayMs, resolve)
    })
  }

  /** No action runs from now on. */
  cut(): void {
    this.#dead = true
    this.#held.length = 0
  }

  /** Due actions wait for as many calls of `resume`. */
  pause(): void {
    this.#pauses++
  }

  resume(): void {
    if (this.#pauses === 0) return
    this.#pauses--
    if (this.#pauses > 0) return
    this.#release(this.#held.splice(0))
  }

  /** One after another, each with its consequences: a process that wakes up finds its messages in order. */
  #release(held: (() => void)[]): void {
    const next = held.shift()
    if (next === undefined) return
    this.#timers.schedule(0, () => {
      next()
      this.#release(held)
    })
  }
}
