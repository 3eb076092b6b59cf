/** Finds and removes all that a job, or one of its runs, keeps in Redis. */
import type { RedisConnection } from './redis-connection.ts'
import { redisKeyPattern, runOfRedisKey } from './redis-keys.ts'

/** How far SCAN looks in one command. */
const SCAN_COUNT = 1_000

/**
 * Removes the keys of a job: for one that ended and whose checkpoints are not kept. With `run`, of that run only. An attempt that is still
 * alive finds its markers gone, and ends. Returns how many keys went. @throws MILLRACE_REDIS_*
 */
export async function discardRedisState(
  connection: RedisConnection,
  job: string,
  run?: string,
): Promise<number> {
  let removed = 0
  await eachPage(connection, redisKeyPattern(job, run), async (keys, unlink) => {
    removed += await unlink(keys)
  })
  return removed
}

/** The runs of a job that keep something in Redis, with the number of their keys. */
export async function redisRuns(connection: RedisConnection, job: string): Promise<Map<string, number>> {
  const runs = new Map<string, Set<string>>()
  await eachPage(connection, redisKeyPattern(job), async (keys) => {
    for (const key of keys) {
      const run = runOfRedisKey(key)
      if (run === undefined) continue
      // SCAN may name a key twice.
      const known = runs.get(run) ?? new Set()
      runs.set(run, known.add(key))
    }
  })
  return new Map([...runs].map(([run, keys]) => [run, keys.size]))
}

async function eachPage(
  connection: RedisConnection,
  pattern: string,
  handle: (keys: string[], unlink: (keys: string[]) => Promise<number>) => Promise<void>,
): Promise<void> {
  await connection.onPrimaries(async (node) => {
    // On a cluster a command must stay within one slot, and the hash tag is what decides it.
    const unlink = async (keys: string[]) => {
      const byTag = Map.groupBy(keys, (key) => key.slice(0, key.indexOf('}')))
      const counts = await Promise.all([...byTag.values()].map((some) => node.call('UNLINK', ...some)))
      return counts.reduce<number>((sum, count) => sum + Number(count), 0)
    }
    let cursor = '0'
    do {
      const [next, keys] = (await node.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', SCAN_COUNT)) as [
        string,
        string[],
      ]
      cursor = next
      if (keys.length > 0) await handle(keys, unlink)
    } while (cursor !== '0')
  })
}
