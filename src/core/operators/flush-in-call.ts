/** Results of one call that makes more of them than a vector holds go on before the call is over. */
import { EmitFailure } from './user-error.ts'
import type { VectorCollector } from './vector-collector.ts'

/** Emits what is collected if it is a full vector; a promise: wait for it before the next result. Its errors are not the function's own. */
export function flushIfFull(collector: VectorCollector): Promise<void> | undefined {
  if (!collector.full) return undefined
  let wait: void | Promise<void>
  try {
    wait = collector.flush()
  } catch (error) {
    throw new EmitFailure(error)
  }
  return wait === undefined ? undefined : waitFor(wait, collector)
}

async function waitFor(wait: Promise<void>, collector: VectorCollector): Promise<void> {
  collector.waiting = true
  try {
    await wait
  } catch (error) {
    throw new EmitFailure(error)
  } finally {
    collector.waiting = false
  }
}
