/**
 * Taking key groups over, and what it means when Redis refuses: somebody else owns them, or the server forgot something.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from '../core/ports.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import type { RedisConnection } from './redis-connection.ts'
import { scriptRefusal } from './redis-failure.ts'
import { RedisGroup } from './redis-group.ts'
import { EMPTY_GROUP, type NamedGroup } from './redis-handle.ts'
import { describeDifferences, differences, inspectGroup, type RedisMarker } from './redis-inspection.ts'
import { RedisGroupKeys, type RedisKeySpace } from './redis-keys.ts'
import { repeating } from './redis-repeat.ts'

/** Below the number of every segment, those that were there before included. */
const BELOW_ALL_SEGMENTS = -1
/** Segments that one command removes at the most. */
const DROP_SEGMENTS = 50

/** One attempt as Redis knows it. */
export class RedisOwner {
  readonly attempt: number
  /** What stands in the markers. */
  readonly id: string
  readonly space: RedisKeySpace
  readonly #connection: RedisConnection
  readonly #logger: Logger

  constructor(connection: RedisConnection, space: RedisKeySpace, attempt: number, logger: Logger) {
    this.#connection = connection
    this.#logger = logger
    this.space = space
    this.attempt = attempt
    this.id = `${attempt}:${randomUUID()}`
  }

  /**
   * Makes this attempt the owner of a key group, proves that the group holds what the checkpoint names, and removes what dead attempts left.
   * `named` undefined: the checkpoint has no state in Redis at all (another backend kept it); then nothing that is there is needed.
   * @throws MILLRACE_ATTEMPT_LOST if a newer attempt owns it; StateLostError if something is missing
   */
  async takeOver(keyGroup: number, origin: NamedGroup | undefined): Promise<RedisGroup> {
    const keys = new RedisGroupKeys(this.space, keyGroup)
    const named = origin ?? EMPTY_GROUP
    const expected = named.base.id !== '' || named.parts.length > 0
    await this.guarded(keyGroup, () =>
      repeating(this.#connection, () =>
        this.#connection.run(
          'claim',
          [keys.marker],
          [this.attempt, this.id, expected ? '1' : '0', BELOW_ALL_SEGMENTS],
        ),
      ),
    )
    if (origin === undefined) {
      const { marker } = await repeating(this.#connection, () => inspectGroup(this.#connection, keys, []))
      if (marker !== undefined) await this.#drop(keys, [...marker.segments.keys()], marker.base !== '')
    }
    const { group, marker } = await this.verified(keys, named)
    const kept = new Set(group.parts.map(({ id }) => id))
    await this.#drop(
      keys,
      [...marker.segments.keys()].filter((id) => !kept.has(id)),
      false,
    )
    return group
  }

  /**
   * The group as it stands now, if it still holds what the checkpoint names: the base may have moved on within the checkpoint's own
   * segments, not beyond them. @throws StateLostError naming the key group and the Redis keys
   */
  async verified(
    keys: RedisGroupKeys,
    named: NamedGroup,
  ): Promise<{ readonly group: RedisGroup; readonly marker: RedisMarker }> {
    const found = await repeating(this.#connection, () => inspectGroup(this.#connection, keys, named.parts))
    const { marker } = found
    if (marker === undefined)
      throw this.#lost(keys.keyGroup, `the marker is not there (Redis key '${keys.marker}')`, [keys.marker])
    const folded = named.parts.findIndex(({ id }) => id === marker.base) + 1
    const base = folded > 0 ? { id: marker.base, records: marker.records, timers: marker.timers } : named.base
    const parts = named.parts.slice(folded)
    // A segment that was partly folded when an attempt died: reading looks into both, and folding goes on.
    const folding = parts[0] !== undefined && marker.folding === parts[0].id ? marker.folding : ''
    const group = new RedisGroup(keys, base, folding, parts)
    const wrong = differences(group, { ...found, parts: found.parts.slice(folded) })
    if (wrong.length > 0)
      throw this.#lost(
        keys.keyGroup,
        describeDifferences(wrong),
        wrong.map(({ key }) => key),
      )
    return { group, marker }
  }

  /** Runs what a script may refuse, and says in coded errors why it did. */
  async guarded<T>(keyGroup: number | undefined, action: () => Promise<T>): Promise<T> {
    try {
      return await action()
    } catch (error) {
      const refusal = scriptRefusal(error)
      if (refusal === undefined) throw error
      const { reason, words } = refusal
      const where = `${keyGroup === undefined ? '' : `key group ${keyGroup} of `}operator '${this.space.operator}'`
      const details = { keyGroup, operator: this.space.operator, key: words.at(-1) }
      if (reason === 'OWNER' && this.#isNewer(words[0]!)) throw this.#ousted(words[0]!, words.at(-1)!, error)
      if (reason === 'FORMAT')
        throw new MillraceError(
          'MILLRACE_STATE_INCOMPATIBLE',
          `The state of ${where} in Redis has format ${words[0]}, which this release does not know (Redis key '${words.at(-1)}')`,
          {
            cause: error,
            details,
            remedy: 'Run the job with the release that wrote the state, or a newer one.',
          },
        )
      const [held, expected, key] = words
      const short = `${held} records where ${expected} were written (Redis key '${key}')`
      if (reason === 'SHORT')
        throw this.#lost(keyGroup, `a segment was about to be folded, and there are ${short}`, [key!])
      if (reason === 'CHANGED') throw this.forgotten(`there are ${short}`, error)
      throw this.forgotten(`${reason.toLowerCase()}: ${words.join(' ')}`, error)
    }
  }

  /** @throws MILLRACE_ATTEMPT_LOST if another attempt owns the group; MILLRACE_REDIS_WRITES_LOST if the server forgot that this one does */
  checkOwner(keys: RedisGroupKeys, marker: RedisMarker): void {
    if (marker.owner === this.id) return
    if (this.#isNewer(marker.owner)) throw this.#ousted(marker.owner, keys.marker)
    throw this.forgotten(`its owner is '${marker.owner}' again (Redis key '${keys.marker}')`)
  }

  /** Of the same attempt only one store owns a group: the other one is ousted, too. */
  #isNewer(owner: string): boolean {
    return Number.parseInt(owner, 10) >= this.attempt
  }

  #ousted(owner: string, key: string, cause?: unknown): MillraceError {
    return new MillraceError(
      'MILLRACE_ATTEMPT_LOST',
      `attempt ${this.attempt} does not own the state of operator '${this.space.operator}': attempt ${Number.parseInt(owner, 10)} does (Redis key '${key}')`,
      { ...(cause === undefined ? {} : { cause }), details: { operator: this.space.operator, key } },
    )
  }

  /** The server does not hold any more what it acknowledged to this attempt. What checkpoints need is proved by the next restore. */
  forgotten(what: string, cause?: unknown): MillraceError {
    return new MillraceError(
      'MILLRACE_REDIS_WRITES_LOST',
      `Redis at ${this.#connection.name} forgot writes of operator '${this.space.operator}' since its last checkpoint: ${what}`,
      { ...(cause === undefined ? {} : { cause }), details: { operator: this.space.operator } },
    )
  }

  /** State that a checkpoint names is gone. */
  lost(keyGroup: number, what: string, keys: readonly string[]): StateLostError {
    return this.#lost(keyGroup, what, keys)
  }

  async #drop(keys: RedisGroupKeys, segments: readonly string[], withBase: boolean): Promise<void> {
    if (segments.length === 0 && !withBase) return
    for (let at = 0; at === 0 || at < segments.length; at += DROP_SEGMENTS) {
      const some = segments.slice(at, at + DROP_SEGMENTS)
      const hashes = some.flatMap((id) => [keys.values(id), keys.timers(id)])
      await this.guarded(keys.keyGroup, () =>
        repeating(this.#connection, () =>
          this.#connection.run(
            'drop',
            [keys.marker, keys.base, keys.baseTimers, ...hashes],
            [this.id, withBase ? '1' : '0', ...some],
          ),
        ),
      )
    }
    this.#logger.debug('removed state in Redis that no checkpoint names', {
      operator: this.space.operator,
      keyGroup: keys.keyGroup,
      segments,
      base: withBase,
    })
  }

  #lost(keyGroup: number | undefined, what: string, keys: readonly string[]): StateLostError {
    const { job, run, operator } = this.space
    return new StateLostError(
      'MILLRACE_STATE_LOST',
      `Key group ${keyGroup} of operator '${operator}' is not as the checkpoint says: ${what}`,
      { details: { job, run, operator, keyGroup, keys } },
    )
  }
}
