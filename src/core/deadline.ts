/** A wait that can be called off, so that nothing keeps the process alive for a time that nobody waits for any more. */
import type { Timers } from './ports.ts'

export interface Deadline {
  /** Resolves when the time is over; never after `cancel`. */
  readonly expired: Promise<void>
  cancel(): void
}

/** Starts a wait of `delayMs` milliseconds. */
export function deadline(timers: Timers, delayMs: number): Deadline {
  let cancel: () => void = () => undefined
  const expired = new Promise<void>((resolve) => {
    const handle = timers.schedule(delayMs, resolve)
    cancel = () => handle.cancel()
  })
  return { expired, cancel }
}
