/**
 * Reads records of key groups: single keys by the newest hash that has them, or whole groups page by page. Folds may go on meanwhile: a
 * segment goes only after all of it is in the base, and the base is read last.
 */
import { murmur3 } from '../core/murmur3.ts'
import type { ColdRecord, ColdTimers } from './cold-store.ts'
import { batches, batchLimits, byGroup, COMMAND_BYTES, COMMAND_ITEMS, inWindow } from './redis-batches.ts'
import type { RedisConnection } from './redis-connection.ts'
import { handedOver, scriptRefusal } from './redis-failure.ts'
import type { RedisGroup, RedisHash } from './redis-group.ts'
import { packedSize, RedisPack } from './redis-pack.ts'
import { repeating } from './redis-repeat.ts'
import { decodeValue } from './redis-value.ts'

const SCAN_ITEMS = 256
const WHILE_SCANNING = 'while its state was being read through'
/** In place of a number of records. */
const AS_THE_MARKER_SAYS = -1
const LEAST_ITEMS = 8
/** Share of a new size in the mean. */
const LEARNING = 0.05

/** Mean bytes of a record, from what was seen lately; it bounds commands whose bytes are not known before. */
export class RecordSizes {
  mean = 100

  saw(bytes: number): void {
    this.mean += (bytes - this.mean) * LEARNING
  }

  /** How many records may be asked for at once. */
  limit(most: number): number {
    return Math.max(LEAST_ITEMS, Math.min(most, Math.floor(COMMAND_BYTES / Math.max(1, this.mean))))
  }
}

/** A key that is looked for, and where its answer goes. */
interface Wanted {
  readonly key: Uint8Array
  readonly group: RedisGroup
  readonly position: number
}

/** A hash that is not there, or does not hold what it should. */
export class HashGone extends Error {
  readonly key: string

  /** The words of the script that refused. */
  constructor([held, expected, key]: readonly string[]) {
    super(
      held === '0'
        ? `the Redis key '${key}' is not there`
        : `the Redis key '${key}' holds ${held} records and should hold ${expected}`,
    )
    this.key = key!
  }
}

/** Reads key groups through one connection. */
export class RedisReader {
  readonly #connection: RedisConnection
  readonly sizes: RecordSizes

  constructor(connection: RedisConnection, sizes: RecordSizes) {
    this.#connection = connection
    this.sizes = sizes
  }

  /** Values of keys, undefined = none. @throws HashGone */
  async values(
    keys: readonly { readonly group: RedisGroup; readonly key: Uint8Array }[],
  ): Promise<(Uint8Array | undefined)[]> {
    const answers = new Array<Uint8Array | undefined>(keys.length).fill(undefined)
    const wanted = keys.map(({ group, key }, position): Wanted => ({ group, key, position }))
    const limits = batchLimits(this.#connection, this.sizes.limit(COMMAND_ITEMS))
    const groups = byGroup(wanted, ({ group }) => group)
    await inWindow(
      batches(groups, limits, ({ key }) => key.length),
      async (batch) => {
        const hashes = batch.map(({ group, items }) =>
          group.hashes(
            Number.POSITIVE_INFINITY,
            items.map(({ key }) => murmur3(key)),
          ),
        )
        const order = batch.flatMap(({ items }) => items)
        const names = batch.flatMap(({ group }, i) => {
          const list = hashes[i]!
          return [...(isCounted(list) ? [] : [group.keys.marker]), ...list.map(({ values }) => values)]
        })
        const answer = await this.#load(names, packWanted(batch, hashes))
        order.forEach(({ position }, i) => {
          const bytes = answer[i]
          if (bytes === null || bytes === undefined) return
          this.sizes.saw(bytes.length)
          answers[position] = decodeValue(bytes)
        })
      },
    )
    return answers
  }

  /**
   * All records of a group as it is in these hashes, newest hash first; tombstones left out. `generation` is the data generation of the
   * connection for which the group was compared last: another server may lag, and what it lacks would be missing without a word.
   * @throws HashGone; MILLRACE_REDIS_UNAVAILABLE if another server may have answered
   */
  async *records(
    group: RedisGroup,
    hashes: readonly RedisHash[],
    generation: number,
  ): AsyncGenerator<ColdRecord[]> {
    const { keyGroup } = group.keys
    for (const [i, hash] of hashes.entries())
      for await (const page of this.#pages(group, hash, hashes.slice(0, i), 'records', generation)) {
        const records: ColdRecord[] = []
        for (let at = 0; at < page.length; at += 3) {
          const [key, stored, timers] = [page[at]!, page[at + 1]!, page[at + 2] ?? undefined]
          this.sizes.saw(key.length + stored.length + (timers?.length ?? 0))
          const value = decodeValue(stored)
          if (value !== undefined || timers !== undefined) records.push({ keyGroup, key, value, timers })
        }
        if (records.length > 0) yield records
      }
  }

  /** Timers of all keys of a group that have some. @throws as `records` */
  async *timers(group: RedisGroup, generation: number): AsyncGenerator<ColdTimers[]> {
    const { keyGroup } = group.keys
    const hashes = group.hashes()
    for (const [i, hash] of hashes.entries()) {
      if (hash.timerCount === 0) continue
      for await (const page of this.#pages(group, hash, hashes.slice(0, i), 'timers', generation)) {
        const found: ColdTimers[] = []
        for (let at = 0; at < page.length; at += 2)
          found.push({ keyGroup, key: page[at]!, timers: page[at + 1]! })
        if (found.length > 0) yield found
      }
    }
  }

  async *#pages(
    group: RedisGroup,
    hash: RedisHash,
    newer: readonly RedisHash[],
    mode: 'records' | 'timers',
    generation: number,
  ): AsyncGenerator<(Buffer | null)[] & { [n: number]: Buffer }> {
    const { values, timers } = hash
    const keys = [group.keys.marker, values, timers, ...newer.map((each) => each.values)]
    const counts = [hash.records, hash.timerCount, ...newer.map(({ records }) => records)]
    const expected = counts.map((count) => count ?? AS_THE_MARKER_SAYS)
    let position: string | Buffer = '0'
    do {
      const from: string | Buffer = position
      const [next, ...page] = (await this.#guarded(() =>
        repeating(this.#connection, () =>
          this.#connection.run('scan', keys, [from, this.sizes.limit(SCAN_ITEMS), mode, ...expected]),
        ),
      )) as Buffer[]
      if (this.#connection.dataGeneration !== generation)
        throw handedOver(this.#connection.name, WHILE_SCANNING)
      position = next!
      yield page
    } while (String(position) !== '0')
  }

  async #load(keys: readonly string[], packed: Buffer): Promise<(Buffer | null)[]> {
    return (await this.#guarded(() => this.#connection.run('load', keys, [packed]))) as (Buffer | null)[]
  }

  async #guarded<T>(action: () => Promise<T>): Promise<T> {
    try {
      return await action()
    } catch (error) {
      const refusal = scriptRefusal(error)
      if (refusal?.reason === 'GONE') throw new HashGone(refusal.words)
      if (refusal?.reason === 'RESTARTED') throw handedOver(this.#connection.name, WHILE_SCANNING, error)
      throw error
    }
  }
}

/** True if it is known of all hashes how many records they must hold. */
function isCounted(hashes: readonly RedisHash[]): boolean {
  return hashes.every(({ records }) => records !== undefined)
}

function packWanted(
  batch: readonly { readonly items: readonly Wanted[] }[],
  hashes: readonly (readonly RedisHash[])[],
): Buffer {
  let size = 5
  batch.forEach(({ items }, i) => {
    size += 20 + 5 * hashes[i]!.length
    for (const { key } of items) size += packedSize(key)
  })
  const pack = new RedisPack(size)
  pack.array(batch.length)
  batch.forEach(({ items }, i) => {
    const list = hashes[i]!
    pack.array(4)
    pack.int(list.length)
    pack.array(list.length)
    for (const { records } of list) pack.int(records ?? AS_THE_MARKER_SAYS)
    pack.array(items.length)
    for (const { key } of items) pack.bytes(key)
    pack.int(isCounted(list) ? 0 : 1)
  })
  return pack.done()
}
