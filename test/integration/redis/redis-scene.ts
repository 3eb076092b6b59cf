/** A job's state in Redis as tests use it: stores of several attempts, records by name, and what is expected of them. */
import type { Logger } from '../../../src/core/ports.ts'
import type { ColdOrigin, ColdRecord, ColdStore } from '../../../src/state/cold-store.ts'
import { RedisState, type RedisStateOptions } from '../../../src/state/redis-state.ts'
import type { RedisStore } from '../../../src/state/redis-store.ts'
import { RedisProcess } from './redis-process.ts'

/** Key groups of the stores in here. */
export const GROUPS = 4
const TEXT = new TextEncoder()

/** Keeps what was warned of. */
export class WarningLog implements Logger {
  readonly warnings: string[] = []
  debug(): void {}
  info(): void {}
  warn(message: string): void {
    this.warnings.push(message)
  }
  error(message: string): void {
    this.warnings.push(message)
  }
  child(): Logger {
    return this
  }
}

/** Starts servers, opens connections and stores, and closes them all at the end. */
export class RedisScene {
  readonly log = new WarningLog()
  readonly #open: RedisState[] = []
  readonly #servers: RedisProcess[] = []

  /** A server of this test; safe unless told otherwise. */
  async server(...options: Parameters<typeof RedisProcess.start>): Promise<RedisProcess> {
    const server = await RedisProcess.start(...options)
    this.#servers.push(server)
    return server
  }

  /** A worker's connection. */
  async state(url: string, more: Partial<RedisStateOptions> = {}): Promise<RedisState> {
    const state = await RedisState.open({
      url,
      timeoutMs: 5_000,
      persistence: 'aof',
      replicas: 1,
      job: 'job',
      logger: this.log,
      ...more,
    })
    this.#open.push(state)
    return state
  }

  async close(): Promise<void> {
    for (const state of this.#open.splice(0)) await state.close()
    for (const server of this.#servers.splice(0)) await server.stop()
  }
}

/** The store of an attempt. */
export function storeOf(
  state: RedisState,
  attempt: number,
  origins: readonly unknown[] = [],
  more: { run?: string; operator?: string; range?: readonly [number, number] } = {},
): Promise<RedisStore> {
  const [start, end] = more.range ?? [0, GROUPS - 1]
  const open = state.storeOf({
    run: more.run ?? 'run-1',
    attempt,
    operator: more.operator ?? 'count',
    range: { start, end },
  })
  return open(
    // A handle goes through JSON on its way into a checkpoint and back.
    origins.map(
      (sealed): ColdOrigin => ({ range: [0, GROUPS - 1], sealed: JSON.parse(JSON.stringify(sealed)) }),
    ),
  )
}

/** The key group of a name; any function of it will do. */
export function groupOf(name: string): number {
  let hash = 7
  for (const char of name) hash = (hash * 31 + char.charCodeAt(0)) % 65_521
  return hash % GROUPS
}

/** A record; null = none. */
export function record(name: string, value: string | null, timers: string | null = null): ColdRecord {
  return {
    keyGroup: groupOf(name),
    key: TEXT.encode(name),
    value: value === null ? undefined : TEXT.encode(value),
    timers: timers === null ? undefined : TEXT.encode(timers),
  }
}

const textOf = (bytes: Uint8Array | undefined): string | null =>
  bytes === undefined ? null : Buffer.from(bytes).toString()

/** Values of names, in their order. */
export async function values(store: ColdStore, names: readonly string[]): Promise<(string | null)[]> {
  const found = await store.load(names.map((name) => record(name, null)))
  return found.map(textOf)
}

/** Everything that a store holds at a segment: name → [value, timers]. A record that comes twice is an error. */
export async function everything(
  store: ColdStore,
  segment: number,
): Promise<Record<string, readonly [string | null, string | null]>> {
  const found: Record<string, readonly [string | null, string | null]> = {}
  for (let keyGroup = 0; keyGroup < GROUPS; keyGroup++)
    for await (const page of store.scan(keyGroup, segment))
      for (const { key, value, timers } of page) {
        const name = textOf(key)!
        if (name in found) throw new Error(`${name} came twice`)
        found[name] = [textOf(value), textOf(timers)]
      }
  return found
}

/** Timers that a store holds: name → timers. */
export async function timersOf(store: ColdStore): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for await (const page of store.timers())
    for (const { key, timers } of page) found[textOf(key)!] = textOf(timers)!
  return found
}
