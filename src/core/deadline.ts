/** A wait that can be called off, so that nothing keeps the process alive for a time that nobody waits for any more. */
import type { Timers } from './ports.ts'

export interface Deadline {
  /** Resolves when the time is over; never after `cancel`. */
  readonly expired: Promise<void>
  cancel(): void
}

/** Starts a wait of `delayMs` milliseconds. `unref`: the process may end while it runs. */
export function deadline(timers: Timers, delayMs: number, unref = false): Deadline {
  let cancel: () => void = () => undefined
  const expired = new Promise<void>((resolve) => {
    const handle = timers.schedule(delayMs, resolve, unref)
    cancel = () => handle.cancel()
  })
  return { expired, cancel }
}
