/** Real Redis servers for tests: started, killed, paused and started again, each with a folder of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { freePort } from '../../../scripts/lib/kafka-broker.ts'

/** Settings as in redis.conf. */
export type RedisSettings = Readonly<Record<string, string>>

const COMMON: RedisSettings = {
  save: '""',
  bind: '127.0.0.1',
  'maxmemory-policy': 'noeviction',
  'enable-debug-command': 'yes',
}
/** Nothing that was acknowledged is lost, and the oldest supported server can promise it. */
export const SAFE: RedisSettings = { appendonly: 'yes', appendfsync: 'always' }

/** Waits until `check` holds; a failure names what was waited for. */
export async function until(what: string, check: () => Promise<boolean>, timeoutMs = 30_000): Promise<void> {
  const end = Date.now() + timeoutMs
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`waited ${timeoutMs} ms until ${what}`)
    await sleep(20)
  }
}

/** One redis-server process that keeps its port and its folder over restarts. */
export class RedisProcess {
  readonly port: number
  readonly folder: string
  readonly #mode: readonly string[]
  #process: ChildProcess | undefined

  private constructor(port: number, folder: string, mode: readonly string[]) {
    this.port = port
    this.folder = folder
    this.#mode = mode
  }

  static async start(settings: RedisSettings = SAFE, mode: readonly string[] = []): Promise<RedisProcess> {
    const port = await freePort()
    const folder = await mkdtemp(join(tmpdir(), 'millrace-redis-'))
    const common = mode.includes('--sentinel') ? {} : COMMON
    const lines = Object.entries({ ...common, ...settings, port: String(port), dir: folder })
    await writeFile(join(folder, 'redis.conf'), `${lines.map((line) => line.join(' ')).join('\n')}\n`)
    const server = new RedisProcess(port, folder, mode)
    await server.restart()
    return server
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Starts it again after `kill`; resolves when it answers, whatever it answers. */
  async restart(more: RedisSettings = {}): Promise<void> {
    const config = join(this.folder, 'redis.conf')
    for (const [key, value] of Object.entries(more)) await appendFile(config, `${key} ${value}\n`)
    this.#process = spawn('redis-server', [config, ...this.#mode], { stdio: 'ignore' })
    await until(`redis-server answers on port ${this.port}`, async () => {
      const answer = await this.ask('PING').catch((error: Error) => error.message)
      return /PONG|LOADING|NOAUTH|MASTERDOWN/.test(String(answer))
    })
  }

  /** Asks it something over a connection of its own. */
  async ask(command: string, ...args: readonly (string | number)[]): Promise<unknown> {
    const client = new Redis({
      port: this.port,
      host: '127.0.0.1',
      lazyConnect: true,
      retryStrategy: () => null,
      enableReadyCheck: false,
      maxRetriesPerRequest: 0,
    })
    client.on('error', () => {})
    try {
      await client.connect()
      return await client.call(command, ...args)
    } finally {
      client.disconnect()
    }
  }

  async keys(pattern = '*'): Promise<string[]> {
    return ((await this.ask('KEYS', pattern)) as string[]).toSorted()
  }

  signal(signal: NodeJS.Signals): void {
    this.#process?.kill(signal)
  }

  async kill(): Promise<void> {
    const process = this.#process
    if (process === undefined || process.exitCode !== null || process.signalCode !== null) return
    const exit = once(process, 'exit')
    process.kill('SIGKILL')
    await exit
  }

  /** Ends it and removes its folder. */
  async stop(): Promise<void> {
    await this.kill()
    await rm(this.folder, { recursive: true, force: true })
  }
}
