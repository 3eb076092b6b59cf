/**
 * SIGTERM and SIGINT: the first stops all jobs of this process in order, the second ends the process at once (exit code 130).
 */
import type { Logger } from '../core/ports.ts'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const
const stops = new Set<() => void>()
let received = false

/** Calls `stop` at the first signal. Returns what undoes it. */
export function onStopSignal(stop: () => void, logger: Logger): () => void {
  const entry = (): void => {
    logger.info('stopping in order; a second signal ends the process at once')
    stop()
  }
  if (stops.size === 0) for (const signal of SIGNALS) process.on(signal, handle)
  stops.add(entry)
  return () => {
    stops.delete(entry)
    if (stops.size === 0) for (const signal of SIGNALS) process.off(signal, handle)
  }
}

function handle(): void {
  if (received) process.exit(130)
  received = true
  for (const stop of stops) stop()
}
