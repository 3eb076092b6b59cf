/** Redis as a job uses it: one server or cluster for all operators of a worker, checked before anything is kept in it. */
import type { ExternalHandle } from '../checkpoint/checkpoint-storage.ts'
import type { Logger } from '../core/ports.ts'
import type { SealedState } from './cached-parts.ts'
import type { ColdOrigin } from './cold-store.ts'
import { RedisConnection } from './redis-connection.ts'
import { discardRedisState, redisRuns } from './redis-discard.ts'
import { readRedisHandle } from './redis-handle.ts'
import { type RedisDurability, RedisServerGuard } from './redis-server.ts'
import { RedisStore, type RedisStoreOptions } from './redis-store.ts'
import { parseRedisUrl } from './redis-url.ts'

/** `state.backend.redis.*`, and whose state it is. */
export interface RedisStateOptions extends RedisDurability {
  readonly url: string
  readonly timeoutMs: number
  /** PEM text of the authorities to trust. */
  readonly ca?: string
  readonly sentinelPassword?: string
  readonly job: string
  readonly logger: Logger
}

/** What differs from one store of a job to the next. */
export type RedisStateOfSubtask = Pick<RedisStoreOptions, 'run' | 'attempt' | 'operator' | 'range'>

/** A job's state in Redis. */
export class RedisState {
  readonly #connection: RedisConnection
  readonly #guard: RedisServerGuard
  readonly #options: RedisStateOptions

  private constructor(connection: RedisConnection, guard: RedisServerGuard, options: RedisStateOptions) {
    this.#connection = connection
    this.#guard = guard
    this.#options = options
  }

  /**
   * Connects, and refuses a server that would lose state; what could not be checked, or is weaker than a synced file, is logged.
   * @throws ConfigError for the URL; MILLRACE_MISSING_PACKAGE, MILLRACE_REDIS_REFUSED, MILLRACE_REDIS_UNAVAILABLE
   */
  static async open(options: RedisStateOptions): Promise<RedisState> {
    const { url, timeoutMs, ca, sentinelPassword, logger } = options
    const connection = await RedisConnection.open({
      target: parseRedisUrl(url),
      timeoutMs,
      ...(ca === undefined ? {} : { ca }),
      ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
      logger,
    })
    try {
      const guard = new RedisServerGuard(connection, options)
      for (const note of await guard.check()) logger.warn(note)
      return new RedisState(connection, guard, options)
    } catch (error) {
      await connection.close()
      throw error
    }
  }

  /** Opens the store of one operator subtask. @throws MILLRACE_ATTEMPT_LOST, StateLostError */
  storeOf(subtask: RedisStateOfSubtask): (origins: readonly ColdOrigin[]) => Promise<RedisStore> {
    const { job, logger } = this.#options
    return (origins) =>
      RedisStore.open({
        connection: this.#connection,
        guard: this.#guard,
        job,
        logger,
        origins,
        ...subtask,
      })
  }

  /** The server or cluster, without user and password. */
  get name(): string {
    return `Redis at ${this.#connection.name}`
  }

  /** The run of this job whose state a checkpoint names; undefined for state of another job, which that job removes. */
  runOf({ backend, state }: ExternalHandle): string | undefined {
    if (backend !== 'redis') return undefined
    const { job, run } = readRedisHandle((state as SealedState).sealed)
    return job === this.#options.job ? run : undefined
  }

  /** Runs of the job that keep something here. @throws MILLRACE_REDIS_* */
  async runs(): Promise<ReadonlySet<string>> {
    return new Set((await redisRuns(this.#connection, this.#options.job)).keys())
  }

  /** Removes the job's keys, or those of one run. Returns how many went. */
  discard(run?: string): Promise<number> {
    return discardRedisState(this.#connection, this.#options.job, run)
  }

  async close(): Promise<void> {
    await this.#connection.close()
  }
}
