/** A connection that fails where a test wants it to: before a command leaves, or after it was done and its answer is lost. */
import type { Logger } from '../../../src/core/ports.ts'
import { MillraceError } from '../../../src/errors.ts'
import { type RedisArgument, RedisConnection } from '../../../src/state/redis-connection.ts'
import type { RedisScript } from '../../../src/state/redis-scripts.ts'
import { RedisServerGuard } from '../../../src/state/redis-server.ts'
import { RedisStore } from '../../../src/state/redis-store.ts'
import { parseRedisUrl } from '../../../src/state/redis-url.ts'
import { GROUPS } from './redis-scene.ts'

/** What becomes of a command. */
export type Fate = 'done' | 'lost before' | 'lost after' | 'unanswered' | 'handed over'

/** Thrown where the process would have died. */
export class Crash extends Error {}

/** Opens a connection whose commands have the fate that `fateOf` says. `generation` grows by hand, too. */
export async function faultyConnection(
  url: string,
  logger: Logger,
  fateOf: (script: RedisScript) => Fate | Promise<Fate>,
): Promise<RedisConnection> {
  const real = await RedisConnection.open({ target: parseRedisUrl(url), timeoutMs: 1_000, logger })
  let handedOver = 0
  const faulty =
    (
      run: (script: RedisScript, keys: readonly string[], args: readonly RedisArgument[]) => Promise<unknown>,
    ) =>
    async (script: RedisScript, keys: readonly string[], args: readonly RedisArgument[]) => {
      const fate = await fateOf(script)
      if (fate === 'lost before') throw new Crash(`before ${script}`)
      const answer = await run(script, keys, args)
      if (fate === 'lost after') throw new Crash(`after ${script}`)
      // Done, and the caller cannot know it: it asks again.
      if (fate === 'unanswered')
        throw new MillraceError('MILLRACE_REDIS_UNAVAILABLE', `no answer to ${script}`)
      // From here on another server may answer.
      if (fate === 'handed over') handedOver++
      return answer
    }
  const { name, timeoutMs, cluster } = real
  return {
    name,
    timeoutMs,
    cluster,
    get generation() {
      return real.generation + handedOver
    },
    get dataGeneration() {
      return real.dataGeneration + handedOver
    },
    run: faulty((...call) => real.run(...call)),
    runSeal: faulty((...call) => real.runSeal(...call)),
    onPrimaries: (action: Parameters<RedisConnection['onPrimaries']>[0]) => real.onPrimaries(action),
    close: () => real.close(),
  } as unknown as RedisConnection
}

/** A store over such a connection. */
export function storeOver(
  connection: RedisConnection,
  logger: Logger,
  attempt: number,
  origins: readonly unknown[] = [],
): Promise<RedisStore> {
  return RedisStore.open({
    connection,
    guard: new RedisServerGuard(connection, { persistence: 'any', replicas: 0 }),
    job: 'job',
    run: 'run-1',
    attempt,
    operator: 'count',
    range: { start: 0, end: GROUPS - 1 },
    origins: origins.map((sealed) => ({
      range: [0, GROUPS - 1],
      sealed: JSON.parse(JSON.stringify(sealed)),
    })),
    logger,
  })
}
