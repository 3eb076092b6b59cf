/** Closes segments: late writes are refused from here on, the counts are compared, and what was written is made durable. */
import { COMMAND_ITEMS } from './redis-batches.ts'
import type { RedisConnection } from './redis-connection.ts'
import { handedOver } from './redis-failure.ts'
import type { RedisGroup, RedisPart } from './redis-group.ts'
import type { RedisOwner } from './redis-owner.ts'
import type { RedisServerGuard } from './redis-server.ts'

/** Parts in one command. */
const PARTS = COMMAND_ITEMS / 4

interface Closing {
  readonly group: RedisGroup
  readonly part: RedisPart
}

/** Seals for one owner. */
export class RedisSealer {
  readonly #connection: RedisConnection
  readonly #guard: RedisServerGuard
  readonly #owner: RedisOwner

  constructor(connection: RedisConnection, guard: RedisServerGuard, owner: RedisOwner) {
    this.#connection = connection
    this.#guard = guard
    this.#owner = owner
  }

  /**
   * Repeatable. `generation` is that of the connection for which the groups were compared last. Resolves when all parts up to `segment` are durable; those of earlier seals that failed, too.
   * @throws MILLRACE_REDIS_WRITES_LOST if the server does not hold what it acknowledged; MILLRACE_REDIS_NOT_DURABLE, MILLRACE_ATTEMPT_LOST;
   * MILLRACE_REDIS_UNAVAILABLE if another server may have taken over meanwhile
   */
  async seal(groups: Iterable<RedisGroup>, segment: number, generation: number): Promise<void> {
    const closing = [...groups].flatMap((group) =>
      group.parts
        .filter((part) => !part.durable && part.segment <= segment)
        .map((part): Closing => ({ group, part })),
    )
    if (closing.length === 0) return
    const size = this.#connection.cluster ? 1 : PARTS
    const commands = Array.from({ length: Math.ceil(closing.length / size) }, (_, i) =>
      closing.slice(i * size, (i + 1) * size),
    )
    await Promise.all(commands.map((command) => this.#close(command, segment)))
    await this.#guard.persist()
    // What was closed may be on another server than the one that was waited for.
    if (this.#connection.generation !== generation)
      throw handedOver(this.#connection.name, 'while it made a checkpoint durable')
    for (const { group, part } of closing) {
      part.durable = true
      // Nothing of it arrived, and nothing will: to a fold it would be a step that no checkpoint names.
      if (part.writes === 0) group.parts.splice(group.parts.indexOf(part), 1)
    }
  }

  async #close(closing: readonly Closing[], segment: number): Promise<void> {
    const keys = closing.flatMap(({ group, part }) => [
      group.keys.marker,
      group.keys.values(part.id),
      group.keys.timers(part.id),
    ])
    const counts = (await this.#owner.guarded(undefined, () =>
      this.#connection.runSeal('seal', keys, [
        this.#owner.id,
        segment,
        ...closing.map(({ part }) => part.id),
      ]),
    )) as number[]
    closing.forEach(({ group, part }, i) => {
      const [writes, records, timers] = counts.slice(3 * i, 3 * i + 3) as [number, number, number]
      const settled = part.sent === part.writes
      const short = settled
        ? writes !== part.writes || records !== part.records || timers !== part.timers
        : writes < part.writes || writes > part.sent || records < part.records
      if (short)
        throw this.#owner.forgotten(
          `segment ${part.id} of key group ${group.keys.keyGroup} had ${part.writes} writes, ${part.records} records and ${part.timers} timers, and has ${writes}, ${records} and ${timers} (Redis key '${group.keys.values(part.id)}')`,
        )
      part.sent = writes
      part.writes = writes
      part.records = records
      part.timers = timers
    })
  }
}
