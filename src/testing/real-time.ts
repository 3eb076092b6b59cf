/**
 * The real clock and real timers behind the ports, for tests that use a simulated cluster without virtual time.
 */
import type { Clock, TimerHandle, Timers } from '../core/ports.ts'

/** Real time. `schedule` with `unref` does not keep the process alive. */
export class RealTime implements Clock, Timers {
  now(): number {
    return Date.now()
  }

  schedule(delayMs: number, action: () => void, unref = false): TimerHandle {
    const timer = setTimeout(action, Math.max(0, delayMs))
    if (unref) timer.unref()
    return { cancel: () => clearTimeout(timer) }
  }

  turn(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve))
  }

  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.schedule(delayMs, resolve)
    })
  }
}
