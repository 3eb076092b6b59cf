/**
 * Connections to Redis: the only place that loads ioredis. Two of them, because waiting until a write is durable (WAITAOF, WAIT) holds up
 * everything behind it on its connection: one carries reads and writes, the other one seals.
 *
 * A command is sent once. When its connection breaks or its time is over the caller learns it, and decides: the command may have been done,
 * or may still be done late.
 */
import type { Cluster, Redis, RedisOptions } from 'ioredis'
import type { Logger } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { redisFailure } from './redis-failure.ts'
import { type RedisScript, redisScripts } from './redis-scripts.ts'
import type { RedisTarget } from './redis-url.ts'

const PACKAGE = 'ioredis'
const SILENCE_GRACE_MS = 1_000
const HANG_UP_MS = 300
const KEEP_ALIVE_MS = 5_000
const LONGEST_RECONNECT_DELAY_MS = 500
const FIRST_RECONNECT_DELAY_MS = 20

/** How to reach Redis. */
export interface RedisConnectionOptions {
  readonly target: RedisTarget
  /** A command that is not answered in this time fails; what is repeated is repeated within this time. */
  readonly timeoutMs: number
  /** PEM text of the authorities to trust. */
  readonly ca?: string
  /** What Sentinel itself asks for, if anything. */
  readonly sentinelPassword?: string
  readonly logger: Logger
}

/** What is asked of a connection; keys first, as scripts take them. */
export type RedisArgument = string | number | Buffer

/** One server that takes writes. */
export interface RedisNode {
  readonly name: string
  call(command: string, ...args: readonly RedisArgument[]): Promise<unknown>
}

interface RunsScripts {
  [method: string]: (...args: RedisArgument[]) => Promise<unknown>
}

type Client = Redis | Cluster

/** Open connections to one Redis server, or to all of a cluster. */
export class RedisConnection {
  /** For people: the address, without secrets. */
  readonly name: string
  readonly timeoutMs: number
  /** Keys of one command must lie in one slot. */
  readonly cluster: boolean
  /** Sentinel or the cluster may put a replica in the place of a server. */
  readonly handsOver: boolean
  readonly #data: Client
  readonly #seals: Client
  readonly #logger: Logger
  #generation = 0
  #dataGeneration = 0
  #closed = false
  /** Ends the wait of each command that has no answer yet. */
  readonly #unanswered = new Set<() => void>()

  private constructor(data: Client, seals: Client, options: RedisConnectionOptions) {
    this.name = options.target.name
    this.timeoutMs = options.timeoutMs
    this.cluster = options.target.kind === 'cluster'
    this.handsOver = options.target.kind !== 'single'
    this.#data = data
    this.#seals = seals
    this.#logger = options.logger
  }

  /** @throws MILLRACE_MISSING_PACKAGE; MILLRACE_REDIS_UNAVAILABLE or MILLRACE_REDIS_REFUSED if it cannot be reached */
  static async open(options: RedisConnectionOptions): Promise<RedisConnection> {
    const connect = await clientOf(options)
    const [data, seals] = [connect(), connect()]
    const connection = new RedisConnection(data, seals, options)
    try {
      await Promise.all([connection.#connect(data), connection.#connect(seals)])
    } catch (error) {
      await connection.close()
      throw error
    }
    connection.#watch(data)
    connection.#watch(seals)
    return connection
  }

  /** Grows whenever a connection was made anew: the server behind it may be another one, and may have forgotten something. */
  get generation(): number {
    return this.#generation
  }

  /** The same of the connection of reads and writes alone: what `run` answered comes from one server as long as this stays. */
  get dataGeneration(): number {
    return this.#dataGeneration
  }

  /** Runs a script. @throws MILLRACE_REDIS_*; refusals of scripts as they are (`scriptRefusal`) */
  run(script: RedisScript, keys: readonly string[], args: readonly RedisArgument[]): Promise<unknown> {
    return this.#run(this.#data, script, keys, args)
  }

  /** The same on the connection on which `onPrimaries` waits. */
  runSeal(script: RedisScript, keys: readonly string[], args: readonly RedisArgument[]): Promise<unknown> {
    return this.#run(this.#seals, script, keys, args)
  }

  /** Does something on each server that takes writes; on the connections that seals go through. */
  onPrimaries<T>(action: (node: RedisNode) => Promise<T>): Promise<T[]> {
    const client = this.#seals
    const nodes = 'nodes' in client ? client.nodes('master') : [client]
    return Promise.all(
      nodes.map((node) => {
        const { host, port } = node.options
        return action({
          name: 'nodes' in client ? `${host}:${port}` : this.name,
          call: (command, ...args) =>
            this.#answered(node.call(command, ...args), `answer ${command.toUpperCase()}`),
        })
      }),
    )
  }

  /** Nobody waits for an answer any more. */
  get closed(): boolean {
    return this.#closed
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const closed of this.#unanswered) closed()
    for (const client of [this.#data, this.#seals]) {
      for (const node of 'nodes' in client ? client.nodes() : [client]) forgetSilence(node)
      client.disconnect()
    }
  }

  #run(client: Client, script: RedisScript, keys: readonly string[], args: readonly RedisArgument[]) {
    const method = (client as unknown as RunsScripts)[`${methodOf(script)}Buffer`]!
    return this.#answered(
      method.call(client, keys.length, ...(keys as RedisArgument[]), ...args),
      `run the script ${script}`,
    )
  }

  /** The answer, or a coded error after the time-out; what comes later is ignored. */
  async #answered<T>(answer: Promise<T>, doing: string): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    let closed: () => void = () => undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer in ${this.timeoutMs} ms`)), this.timeoutMs)
      closed = () => reject(new Error('the connection is closed'))
    })
    if (this.#closed) closed()
    this.#unanswered.add(closed)
    try {
      return await Promise.race([answer, late])
    } catch (error) {
      throw redisFailure(error, this.name, doing)
    } finally {
      clearTimeout(timer)
      this.#unanswered.delete(closed)
    }
  }

  async #connect(client: Client): Promise<void> {
    // connect() often says no more than that the connection was closed; the reason comes as an event.
    let reason: unknown
    const note = (error: unknown) => {
      reason = error
    }
    // Stays: a client without a listener prints its errors.
    client.on('error', note)
    this.#hearAllErrors(client)
    try {
      await this.#answered(
        client.connect().catch((error: unknown) => {
          throw reason ?? error
        }),
        'be reached',
      )
    } catch (error) {
      throw reason === undefined ? error : redisFailure(reason, this.name, 'be reached')
    }
  }

  /** ioredis hears the first error of a socket only; another one, as TLS has them, would end the process. */
  #hearAllErrors(client: Client): void {
    if ('nodes' in client) {
      client.on('+node', (node: Redis) => this.#hearAllErrors(node))
      return
    }
    client.on('error', () =>
      client.stream?.on('error', (error) =>
        this.#logger.debug(`Redis at ${this.name}: a later error of a closed connection`, { error }),
      ),
    )
  }

  #watch(client: Client): void {
    let down = false
    const changed = () => {
      this.#generation++
      if (client === this.#data) this.#dataGeneration++
      if (down) this.#logger.info(`connected to Redis at ${this.name} again`)
      down = false
    }
    client.on('ready', changed)
    client.on('-node', changed)
    client.on('+node', changed)
    if ('nodes' in client) {
      let primaries = primariesOf(client)
      // A replica that is known already takes over without a word.
      client.on('refresh', () => {
        const now = primariesOf(client)
        if (now !== primaries) changed()
        primaries = now
      })
    }
    client.on('error', (error: unknown) => {
      if (down || this.#closed) return
      down = true
      const failure = redisFailure(error, this.name, 'be reached') as Error
      this.#logger.warn(`${failure.message}; trying again`)
    })
  }
}

function primariesOf(cluster: Cluster): string {
  return cluster
    .nodes('master')
    .map(({ options: { host, port } }) => `${host}:${port}`)
    .toSorted()
    .join()
}

/** The client's timer for a server that says nothing outlives the connection, and would keep the process alive for as long. */
function forgetSilence(client: Redis): void {
  clearTimeout((client as unknown as { readonly socketTimeoutTimer?: NodeJS.Timeout }).socketTimeoutTimer)
}

const methodOf = (script: RedisScript): string => `millrace_${script}`

/** Makes clients that are not connected yet. */
async function clientOf(options: RedisConnectionOptions): Promise<() => Client> {
  const { target, timeoutMs } = options
  const { Redis, Cluster } = await loadPackage()
  const common: RedisOptions = {
    lazyConnect: true,
    keepAlive: KEEP_ALIVE_MS,
    connectTimeout: timeoutMs,
    // A server that hangs does not hang up either.
    disconnectTimeout: HANG_UP_MS,
    // The caller's own time-out speaks first, and says which command it was.
    socketTimeout: timeoutMs + SILENCE_GRACE_MS,
    maxLoadingRetryTime: LONGEST_RECONNECT_DELAY_MS,
    // A command whose connection broke is the caller's: sent again it might be done twice, or out of order.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: (times) => Math.min(FIRST_RECONNECT_DELAY_MS * 2 ** times, LONGEST_RECONNECT_DELAY_MS),
    reconnectOnError: (error) => error.message.includes('READONLY'),
    connectionName: 'millrace',
    disableClientInfo: true,
    ...(target.username === undefined ? {} : { username: target.username }),
    ...(target.password === undefined ? {} : { password: target.password }),
    ...(target.tls ? { tls: options.ca === undefined ? {} : { ca: options.ca } } : {}),
  }
  const scripts = Object.fromEntries([...redisScripts()].map(([name, lua]) => [methodOf(name), { lua }]))
  if (target.kind === 'cluster')
    return () =>
      new Cluster([...target.addresses], {
        lazyConnect: true,
        scripts,
        redisOptions: common,
        slotsRefreshTimeout: timeoutMs,
        clusterRetryStrategy: (times) =>
          Math.min(FIRST_RECONNECT_DELAY_MS * 2 ** times, LONGEST_RECONNECT_DELAY_MS),
      })
  const single: RedisOptions = { ...common, scripts, db: target.db }
  if (target.kind === 'sentinel')
    return () =>
      new Redis({
        ...single,
        sentinels: [...target.addresses],
        name: target.primary!,
        ...(options.sentinelPassword === undefined ? {} : { sentinelPassword: options.sentinelPassword }),
        ...(target.tls ? { enableTLSForSentinelMode: true, sentinelTLS: common.tls! } : {}),
        sentinelRetryStrategy: (times) =>
          Math.min(FIRST_RECONNECT_DELAY_MS * 2 ** times, LONGEST_RECONNECT_DELAY_MS),
      })
  return () => new Redis({ ...single, ...target.addresses[0]! })
}

async function loadPackage(): Promise<Pick<typeof import('ioredis'), 'Redis' | 'Cluster'>> {
  try {
    return await import('ioredis')
  } catch (cause) {
    throw new MillraceError(
      'MILLRACE_MISSING_PACKAGE',
      `the optional package '${PACKAGE}' is needed for state.backend redis and cannot be loaded`,
      { cause, details: { package: PACKAGE }, remedy: `Install it: npm install ${PACKAGE}` },
    )
  }
}
