/** Asking again while Redis restarts, loads, or hands over to a replica. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisConnection } from './redis-connection.ts'
import { isRedisUnavailable } from './redis-failure.ts'

const FIRST_PAUSE_MS = 10
const LONGEST_PAUSE_MS = 250

/**
 * Does `action` until it succeeds, fails for a reason that waiting does not mend, the connection was closed, or its time-out is over. The action must be
 * repeatable: a try that failed may have been done, and may still be done later.
 */
export async function repeating<T>(
  connection: Pick<RedisConnection, 'timeoutMs' | 'closed'>,
  action: () => Promise<T>,
): Promise<T> {
  const end = performance.now() + connection.timeoutMs
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      return await action()
    } catch (error) {
      if (!isRedisUnavailable(error) || connection.closed || performance.now() + pause >= end) throw error
      await sleep(pause)
    }
  }
}
