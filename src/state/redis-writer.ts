/** Puts records into a part of a segment, in commands of bounded size, and keeps the counts that prove later that they are there. */
import type { ColdRecord } from './cold-store.ts'
import { batches, batchLimits, byGroup, type GroupItems, inWindow } from './redis-batches.ts'
import type { RedisConnection } from './redis-connection.ts'
import { isRedisUnavailable } from './redis-failure.ts'
import type { RedisGroup, RedisPart } from './redis-group.ts'
import type { RedisOwner } from './redis-owner.ts'
import { packedSize, RedisPack } from './redis-pack.ts'
import type { RecordSizes } from './redis-reader.ts'
import { needsZero } from './redis-value.ts'

const EMPTY = new Uint8Array()
/** Bytes of MessagePack around the records of one group. */
const GROUP_OVERHEAD = 15

/** Where records go: a part of a segment, whose number is the same in all key groups. */
export interface RedisPartName {
  readonly segment: number
  readonly number: number
}

/** Writes for one owner through one connection. */
export class RedisWriter {
  readonly #connection: RedisConnection
  readonly #owner: RedisOwner
  readonly #sizes: RecordSizes

  constructor(connection: RedisConnection, owner: RedisOwner, sizes: RecordSizes) {
    this.#connection = connection
    this.#owner = owner
    this.#sizes = sizes
  }

  /**
   * Resolves when all records are in the part. When it rejects, each command was done, was refused, or may still be done late: nothing more
   * may go into this part then. @throws MILLRACE_REDIS_*, MILLRACE_ATTEMPT_LOST
   */
  async write(
    groupOf: (keyGroup: number) => RedisGroup,
    name: RedisPartName,
    records: readonly ColdRecord[],
  ): Promise<void> {
    const groups = byGroup(records, ({ keyGroup }) => groupOf(keyGroup))
    await inWindow(batches(groups, batchLimits(this.#connection), sizeOf), (batch) =>
      this.#writeBatch(name, batch),
    )
  }

  async #writeBatch(
    name: RedisPartName,
    batch: readonly GroupItems<RedisGroup, ColdRecord>[],
  ): Promise<void> {
    const { attempt, id: owner } = this.#owner
    const targets = batch.map(({ group, items }) => ({
      group,
      part: group.part(attempt, name.segment, name.number),
      bytes: items.reduce((sum, record) => sum + sizeOf(record), 0),
    }))
    const keys = targets.flatMap(({ group, part }) => [
      group.keys.marker,
      group.keys.values(part.id),
      group.keys.timers(part.id),
    ])
    for (const { items } of batch) for (const record of items) this.#sizes.saw(sizeOf(record))
    targets.forEach(({ part }, i) => {
      part.sent++
      for (const { key } of batch[i]!.items) part.keys.add(key)
    })
    const counts = await this.#sent(targets, () =>
      this.#connection.run('write', keys, [owner, name.segment, targets[0]!.part.id, pack(batch)]),
    )
    targets.forEach(({ group, part, bytes }, i) => {
      const [writes, records, timers] = counts.slice(3 * i, 3 * i + 3) as [number, number, number]
      if (writes !== part.writes + 1 || records < part.records)
        throw this.#owner.forgotten(
          `segment ${part.id} of key group ${group.keys.keyGroup} had ${part.writes} writes and ${part.records} records, and after one more it has ${writes} and ${records} (Redis key '${group.keys.values(part.id)}')`,
        )
      part.writes = writes
      part.records = records
      part.timers = timers
      part.bytes += bytes
    })
  }

  /** A command that was refused whole was not done, so its writes do not count as sent. */
  async #sent(
    targets: readonly { readonly part: RedisPart }[],
    action: () => Promise<unknown>,
  ): Promise<number[]> {
    try {
      return (await this.#owner.guarded(undefined, action)) as number[]
    } catch (error) {
      if (!isRedisUnavailable(error)) for (const { part } of targets) part.sent--
      throw error
    }
  }
}

function sizeOf({ key, value, timers }: ColdRecord): number {
  return key.length + (value?.length ?? 0) + (timers?.length ?? 0)
}

function pack(batch: readonly GroupItems<RedisGroup, ColdRecord>[]): Buffer {
  let size = 5
  for (const { items } of batch) {
    size += GROUP_OVERHEAD
    for (const { key, value, timers } of items) {
      size += packedSize(key) + packedSize(value ?? EMPTY) + 1
      if (timers !== undefined) size += packedSize(timers) + 5
    }
  }
  const packed = new RedisPack(size)
  packed.array(batch.length)
  for (const { items } of batch) {
    let timed = 0
    packed.array(2)
    packed.array(2 * items.length)
    for (const { key, value, timers } of items) {
      packed.bytes(key)
      packed.bytes(value ?? EMPTY, value !== undefined && needsZero(value))
      if (timers !== undefined) timed++
    }
    packed.array(2 * timed)
    items.forEach(({ timers }, i) => {
      if (timers === undefined) return
      packed.int(i + 1)
      packed.bytes(timers)
    })
  }
  return packed.done()
}
