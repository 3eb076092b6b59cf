/**
 * What the Redis server must be like to hold state: nothing is evicted, and what was acknowledged survives. Checked before a job starts,
 * and again when a connection was made anew: another server may have taken over.
 */
import { MillraceError } from '../errors.ts'
import type { RedisConnection, RedisNode } from './redis-connection.ts'

/** `state.backend.redis.persistence`: how safe a write is when it counts as stored. */
export type RedisPersistence =
  /** On the disk of the server. */
  | 'aof'
  /** In the memory of so many replicas. */
  | 'replicas'
  /** Both. */
  | 'aof-and-replicas'
  /** Whatever the server does. */
  | 'any'

/** What is asked of the server. */
export interface RedisDurability {
  readonly persistence: RedisPersistence
  /** Replicas to wait for, with `replicas` and `aof-and-replicas`. */
  readonly replicas: number
}

/** Oldest server whose scripts can say what they do (#!lua flags). */
const OLDEST = [7, 0]
const POLICY = 'maxmemory-policy'
/** Waiting ends before the command's own time-out does. */
const PART_OF_TIMEOUT = 0.8
const PERSISTENCE_KEY = 'state.backend.redis.persistence'

/** Makes writes durable and proves that the server can. */
export class RedisServerGuard {
  readonly #connection: RedisConnection
  readonly #durability: RedisDurability
  #checked = -1
  #waitsForDisk = false

  constructor(connection: RedisConnection, durability: RedisDurability) {
    this.#connection = connection
    this.#durability = durability
  }

  /**
   * Checks every server that takes writes. Returns sentences for the log: what could not be checked, and what a crash may cost.
   * @throws MILLRACE_REDIS_REFUSED naming the setting, its value and what to set
   */
  async check(): Promise<readonly string[]> {
    const generation = this.#connection.generation
    const found = await this.#connection.onPrimaries((node) => this.#checkNode(node))
    this.#waitsForDisk = this.#onDisk && found.some(({ waits }) => waits)
    this.#checked = generation
    const notes = found.flatMap((node) => node.notes)
    if (this.#durability.persistence === 'aof' && this.#connection.handsOver)
      notes.push(
        `Redis at ${this.#connection.name} may lose completed checkpoints in a failover (${PERSISTENCE_KEY} aof): a checkpoint waits for the disk of the primary, and a replica that lags may take over; with ${PERSISTENCE_KEY} aof-and-replicas it waits for state.backend.redis.replicas replicas, too`,
      )
    return [...new Set(notes)]
  }

  /**
   * Resolves when everything that was acknowledged before, on whichever connection, is as durable as asked. The seal before it went through
   * the same connection and came after all writes, so what the server waits for includes them. A server that took over since has nothing to
   * wait for and answers at once: the caller must see to it that `connection.generation` is the one before the seal.
   * @throws MILLRACE_REDIS_NOT_DURABLE
   */
  async persist(): Promise<void> {
    if (this.#checked !== this.#connection.generation) await this.check()
    const wait = Math.floor(this.#connection.timeoutMs * PART_OF_TIMEOUT)
    const { persistence, replicas } = this.#durability
    if (this.#waitsForDisk)
      await this.#connection.onPrimaries(async (node) => {
        const [local] = (await node.call('WAITAOF', 1, 0, wait)) as number[]
        if (local !== 1) throw notDurable(`${node.name} did not sync its append-only file in ${wait} ms`)
      })
    if (persistence === 'replicas' || persistence === 'aof-and-replicas')
      await this.#connection.onPrimaries(async (node) => {
        const reached = (await node.call('WAIT', replicas, wait)) as number
        if (reached < replicas)
          throw notDurable(`${reached} of ${replicas} replicas of ${node.name} had the writes in ${wait} ms`)
      })
  }

  get #onDisk(): boolean {
    return this.#durability.persistence === 'aof' || this.#durability.persistence === 'aof-and-replicas'
  }

  async #checkNode(node: RedisNode): Promise<{ readonly notes: string[]; readonly waits: boolean }> {
    const info = fieldsOf(String(await node.call('INFO')))
    const version = info.get('redis_version') ?? ''
    const notes: string[] = []
    if (isOlder(version, OLDEST))
      throw refused(`${node.name} is Redis ${version}; 7.0 is the oldest that works`)
    const settings = await settingsOf(node)
    const policy = settings?.get(POLICY) ?? info.get('maxmemory_policy')
    if (policy === undefined)
      notes.push(
        `could not check ${POLICY} of Redis at ${node.name}: it must be noeviction, or state may vanish`,
      )
    else if (policy !== 'noeviction')
      throw refused(
        `${node.name} has ${POLICY} ${policy}, so it may evict state; set it to noeviction (CONFIG SET ${POLICY} noeviction, and in redis.conf)`,
      )
    const aof = info.get('aof_enabled') === '1'
    const fsync = settings?.get('appendfsync')
    const hasWait = !isOlder(version, [7, 2])
    if (this.#onDisk) {
      if (!aof)
        throw refused(
          `${node.name} keeps no append-only file, so a restart loses state; set appendonly yes, or allow weaker persistence with ${PERSISTENCE_KEY}`,
        )
      if (!hasWait && fsync === undefined)
        notes.push(
          `could not check appendfsync of Redis at ${node.name}: with less than always a power cut may lose state`,
        )
      else if (!hasWait && fsync !== 'always')
        throw refused(
          `${node.name} is Redis ${version} with appendfsync ${fsync}, which acknowledges before it syncs; set appendfsync always, use Redis 7.2 or newer, or allow weaker persistence with ${PERSISTENCE_KEY}`,
        )
    } else notes.push(this.#weakness(node.name, aof, fsync, info))
    return { notes, waits: hasWait }
  }

  #weakness(
    name: string,
    aof: boolean,
    fsync: string | undefined,
    info: ReadonlyMap<string, string>,
  ): string {
    const { persistence, replicas } = this.#durability
    const waits =
      persistence === 'replicas'
        ? `a checkpoint waits for ${replicas} ${replicas === 1 ? 'replica' : 'replicas'}`
        : 'a checkpoint waits for nothing'
    const disk = aof
      ? `the append-only file is synced ${fsync ?? 'at a pace that could not be checked'}`
      : `there is no append-only file, and the last RDB save was ${info.get('rdb_last_bgsave_status') === 'ok' ? 'ok' : 'not ok'}`
    return `Redis at ${name} may lose completed checkpoints in a crash (${PERSISTENCE_KEY} ${persistence}): ${waits}; ${disk}`
  }
}

/** CONFIG GET, undefined where the user may not ask. */
async function settingsOf(node: RedisNode): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    const pairs = (await node.call('CONFIG', 'GET', POLICY, 'appendfsync')) as unknown[]
    const settings = new Map<string, string>()
    for (let i = 0; i + 1 < pairs.length; i += 2) settings.set(String(pairs[i]), String(pairs[i + 1]))
    return settings
  } catch (error) {
    if (error instanceof MillraceError && error.code === 'MILLRACE_REDIS_REFUSED') return undefined
    throw error
  }
}

function fieldsOf(info: string): Map<string, string> {
  const lines = info.split('\r\n').filter((line) => line.includes(':'))
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
}

function isOlder(version: string, than: readonly number[]): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major < than[0]! || (major === than[0] && minor < than[1]!)
}

const refused = (what: string) => new MillraceError('MILLRACE_REDIS_REFUSED', `Redis at ${what}`)
const notDurable = (what: string) => new MillraceError('MILLRACE_REDIS_NOT_DURABLE', `Redis at ${what}`)
