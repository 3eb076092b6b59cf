/**
 * Makes segments part of the bases of their key groups, oldest first, in small pieces on the server (redis-scripts/fold-5.lua). A fold that
 * was cut short goes on with the next one, of this attempt or of a later one.
 */
import { COMMAND_ITEMS, inWindow } from './redis-batches.ts'
import type { RedisConnection } from './redis-connection.ts'
import type { RedisGroup, RedisPart } from './redis-group.ts'
import type { RedisOwner } from './redis-owner.ts'
import type { RecordSizes } from './redis-reader.ts'
import { repeating } from './redis-repeat.ts'

/** Key groups that are folded at a time: enough to keep the server busy, few enough to let reads in between. */
const GROUPS_AT_A_TIME = 4
/** A hash whose table has not grown yet may answer with some times as many records as were asked for. */
const PIECE = COMMAND_ITEMS / 4

/** Folds for one owner. */
export class RedisFolder {
  readonly #connection: RedisConnection
  readonly #owner: RedisOwner
  readonly #sizes: RecordSizes

  constructor(connection: RedisConnection, owner: RedisOwner, sizes: RecordSizes) {
    this.#connection = connection
    this.#owner = owner
    this.#sizes = sizes
  }

  /**
   * Folds every part up to `segment` that is durable. `during` runs the folding of one when it may, or answers false to end.
   * @throws MILLRACE_REDIS_*, MILLRACE_ATTEMPT_LOST; StateLostError if a segment is short
   */
  async fold(
    groups: Iterable<RedisGroup>,
    segment: number,
    during: (fold: () => Promise<void>) => Promise<boolean>,
  ): Promise<void> {
    await inWindow(
      groups,
      async (group) => {
        for (;;) {
          const part = group.parts[0]
          if (part === undefined || part.segment > segment || !part.durable) return
          if (!(await during(() => this.#foldPart(group, part)))) return
        }
      },
      GROUPS_AT_A_TIME,
    )
  }

  async #foldPart(group: RedisGroup, part: RedisPart): Promise<void> {
    const { keys, base } = group
    const names = [keys.marker, keys.values(part.id), keys.timers(part.id), keys.base, keys.baseTimers]
    // Set before the first piece leaves: from then on what is read looks into the base, too.
    group.folding = part.id
    let position: string | Buffer = '0'
    for (;;) {
      const from: string | Buffer = position
      const [next, records, timers] = (await this.#owner.guarded(keys.keyGroup, () =>
        repeating(this.#connection, () =>
          this.#connection.run('fold', names, [
            this.#owner.id,
            part.id,
            base.id,
            from,
            this.#sizes.limit(PIECE),
            part.records,
            part.timers,
          ]),
        ),
      )) as [Buffer, number, number]
      position = next
      if (String(next) !== '0') continue
      group.base = { id: part.id, records, timers }
      group.parts.shift()
      group.folding = ''
      return
    }
  }
}
