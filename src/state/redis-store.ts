/**
 * Keyed state in Redis: a cold store (cold-store.ts) whose base and segments are hashes of a Redis server or cluster, shared by all workers,
 * so that a checkpoint is a list of names and counts, and a key group moves to another worker without being copied.
 *
 *   write ──▶ part of segment s ──seal(s)──▶ closed, counted, durable ──fold(s)──▶ base
 *
 * Who may write is decided in Redis: each key group has a marker with its owner, and every script that changes something compares it first
 * (protocol §7). After a connection was made anew everything that was acknowledged is compared before anything else is done: another server
 * may answer now, and may lag behind.
 */
import type { Logger } from '../core/ports.ts'
import type { KeyGroupRange } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import type { ColdKey, ColdOrigin, ColdRecord, ColdStore, ColdTimers } from './cold-store.ts'
import { inWindow } from './redis-batches.ts'
import type { RedisConnection } from './redis-connection.ts'
import { handedOver, isRedisUnavailable } from './redis-failure.ts'
import { RedisFolder } from './redis-folder.ts'
import { RESTORED_SEGMENT, type RedisGroup, type RedisPart } from './redis-group.ts'
import { EMPTY_GROUP, groupsOfOrigins, type NamedGroup, redisHandle } from './redis-handle.ts'
import { describeDifferences, differences, inspectGroup, isWhole } from './redis-inspection.ts'
import { RedisGroupKeys } from './redis-keys.ts'
import { RedisOwner } from './redis-owner.ts'
import { HashGone, RecordSizes, RedisReader } from './redis-reader.ts'
import { repeating } from './redis-repeat.ts'
import { RedisSealer } from './redis-sealer.ts'
import type { RedisServerGuard } from './redis-server.ts'
import { type RedisPartName, RedisWriter } from './redis-writer.ts'

/** Key groups that are taken over or compared at a time. */
const GROUPS_AT_A_TIME = 64
const COPIES_AT_A_TIME = 4

/** One operator subtask in one attempt. */
export interface RedisStoreOptions {
  /** Stays open when the store is closed. */
  readonly connection: RedisConnection
  readonly guard: RedisServerGuard
  readonly job: string
  readonly run: string
  readonly attempt: number
  /** The operator's uid. */
  readonly operator: string
  readonly range: KeyGroupRange
  /** The state to begin with, of this run or of another one; none: the operator begins without state. */
  readonly origins: readonly ColdOrigin[]
  readonly logger: Logger
}

/** A cold store in Redis. */
export class RedisStore implements ColdStore {
  readonly #connection: RedisConnection
  readonly #owner: RedisOwner
  readonly #groups: ReadonlyMap<number, RedisGroup>
  readonly #reader: RedisReader
  readonly #writer: RedisWriter
  readonly #sealer: RedisSealer
  readonly #folder: RedisFolder
  readonly #sizes = new RecordSizes()
  /** Number of the part that takes the writes of a segment; 0 if it is not in here. */
  readonly #partNumbers = new Map<number, number>()
  /** Writes of a segment are made one after another. */
  readonly #writing = new Map<number, Promise<void>>()
  #sealed = RESTORED_SEGMENT
  #verified: number
  #verifying: Promise<void> | undefined
  #folds: Promise<void> = Promise.resolve()
  #scans = 0
  #scansDone: (() => void)[] = []
  #pieces = 0
  #piecesDone: (() => void)[] = []
  #closed = false

  private constructor(
    options: RedisStoreOptions,
    owner: RedisOwner,
    groups: Map<number, RedisGroup>,
    generation: number,
  ) {
    this.#connection = options.connection
    this.#verified = generation
    this.#owner = owner
    this.#groups = groups
    this.#reader = new RedisReader(options.connection, this.#sizes)
    this.#writer = new RedisWriter(options.connection, owner, this.#sizes)
    this.#sealer = new RedisSealer(options.connection, options.guard, owner)
    this.#folder = new RedisFolder(options.connection, owner, this.#sizes)
  }

  /**
   * Takes over all key groups of the range, proves that they hold what the checkpoint names, and copies what another run left.
   * @throws MILLRACE_ATTEMPT_LOST if a newer attempt owns them; StateLostError naming key group and Redis keys if something is missing
   */
  static async open(options: RedisStoreOptions): Promise<RedisStore> {
    const { connection, job, run, operator, range } = options
    const space = { job, run, operator }
    const { generation } = connection
    const owner = new RedisOwner(connection, space, options.attempt, options.logger)
    const { own, foreign } = groupsOfOrigins(space, range, options.origins)
    const groups = new Map<number, RedisGroup>()
    const numbers = Array.from({ length: range.end - range.start + 1 }, (_, i) => range.start + i)
    await inWindow(
      numbers,
      async (keyGroup) => {
        const named = options.origins.length === 0 ? undefined : (own.get(keyGroup) ?? EMPTY_GROUP)
        groups.set(keyGroup, await owner.takeOver(keyGroup, named))
      },
      GROUPS_AT_A_TIME,
    )
    const store = new RedisStore(options, owner, groups, generation)
    await inWindow(
      foreign,
      ({ space: other, keyGroup, named }) =>
        store.#copy(
          new RedisOwner(connection, other, options.attempt, options.logger),
          new RedisGroupKeys(other, keyGroup),
          named,
        ),
      COPIES_AT_A_TIME,
    )
    return store
  }

  async load(keys: readonly ColdKey[]): Promise<(Uint8Array | undefined)[]> {
    if (keys.length === 0) return []
    const wanted = keys.map(({ keyGroup, key }) => ({ group: this.#group(keyGroup), key }))
    let gone: string | undefined
    return repeating(this.#connection, async () => {
      await this.#upToDate()
      const generation = this.#connection.dataGeneration
      try {
        const values = await this.#reader.values(wanted)
        // A question that waited for a connection was answered by whoever is there now, who may lag and hold older values.
        if (this.#connection.dataGeneration !== generation)
          throw handedOver(this.#connection.name, 'while state was being loaded')
        return values
      } catch (error) {
        if (!(error instanceof HashGone)) throw error
        // A fold may have taken it away between the question and the answer; then it is not asked for again.
        if (gone !== error.key) {
          gone = error.key
          throw new MillraceError('MILLRACE_REDIS_UNAVAILABLE', error.message, { cause: error })
        }
        throw await this.#goneError(error)
      }
    })
  }

  async write(segment: number, records: readonly ColdRecord[]): Promise<void> {
    if (segment <= this.#sealed)
      throw new MillraceError('MILLRACE_INTERNAL', `Segment ${segment} was sealed and is written to`)
    const before = this.#writing.get(segment) ?? Promise.resolve()
    const write = () => this.#write(segment, records)
    const written = before.then(write, write)
    this.#writing.set(segment, written)
    const forget = () => {
      if (this.#writing.get(segment) === written) this.#writing.delete(segment)
    }
    written.then(forget, forget)
    return written
  }

  async seal(segment: number, _checkpointId: number): Promise<unknown> {
    this.#sealed = Math.max(this.#sealed, segment)
    await repeating(this.#connection, async () => {
      await this.#upToDate()
      await this.#sealer.seal(this.#groups.values(), segment, this.#verified)
    })
    for (const number of this.#partNumbers.keys()) if (number <= segment) this.#partNumbers.delete(number)
    return redisHandle(this.#owner.space, this.#groups.values(), segment)
  }

  fold(segment: number): Promise<void> {
    const fold = () => this.#fold(segment)
    const folded = this.#folds.then(fold, fold)
    this.#folds = folded
    return folded
  }

  timers(): AsyncIterable<readonly ColdTimers[]> {
    return this.#scan((generation) => this.#timers(generation))
  }

  scan(keyGroup: number, segment: number): AsyncIterable<readonly ColdRecord[]> {
    const group = this.#group(keyGroup)
    return this.#scan((generation) => this.#reader.records(group, group.hashes(segment), generation))
  }

  get bytes(): number {
    let bytes = 0
    for (const { base, parts } of this.#groups.values()) {
      bytes += base.records * this.#sizes.mean
      for (const part of parts) bytes += part.bytes
    }
    return Math.round(bytes)
  }

  /** A fold ends with the part that it is at; the connection stays open. */
  async close(): Promise<void> {
    this.#closed = true
    // Whoever asked for the fold has heard how it ended.
    await this.#folds.catch(() => undefined)
  }

  #group(keyGroup: number): RedisGroup {
    const group = this.#groups.get(keyGroup)
    if (group === undefined)
      throw new MillraceError('MILLRACE_INTERNAL', `Key group ${keyGroup} is not of this subtask`)
    return group
  }

  async #write(segment: number, records: readonly ColdRecord[]): Promise<void> {
    await repeating(this.#connection, async () => {
      await this.#upToDate()
      const name: RedisPartName = { segment, number: this.#partNumbers.get(segment) ?? 0 }
      try {
        await this.#writer.write((keyGroup) => this.#group(keyGroup), name, records)
      } catch (error) {
        if (isRedisUnavailable(error)) this.#partNumbers.set(segment, name.number + 1)
        throw error
      }
    })
  }

  async #fold(segment: number): Promise<void> {
    await this.#upToDate()
    await this.#folder.fold(this.#groups.values(), segment, (part) => this.#piece(part))
  }

  /** Folds one part, while no scan is on its way. False = the store is closed. */
  async #piece(part: () => Promise<void>): Promise<boolean> {
    while (this.#scans > 0) await new Promise<void>((resolve) => this.#scansDone.push(resolve))
    if (this.#closed) return false
    this.#pieces++
    try {
      await part()
      return true
    } finally {
      this.#pieces--
      if (this.#pieces === 0) for (const resolve of this.#piecesDone.splice(0)) resolve()
    }
  }

  async *#timers(generation: number): AsyncIterable<readonly ColdTimers[]> {
    for (const group of this.#groups.values()) yield* this.#reader.timers(group, generation)
  }

  /** Reads hashes through; `pages` gets the data generation of the connection that the groups were compared for. */
  async *#scan<T>(pages: (generation: number) => AsyncIterable<T>): AsyncIterable<T> {
    const end = await this.#beginScan()
    try {
      await this.#upToDate()
      yield* pages(this.#connection.dataGeneration)
    } catch (error) {
      throw error instanceof HashGone ? await this.#goneError(error) : error
    } finally {
      end()
    }
  }

  /** A scan goes from hash to hash, so that none may become part of another meanwhile: folds wait for it, and it waits for the one that runs. */
  async #beginScan(): Promise<() => void> {
    this.#scans++
    while (this.#pieces > 0) await new Promise<void>((resolve) => this.#piecesDone.push(resolve))
    return () => {
      this.#scans--
      if (this.#scans === 0) for (const resolve of this.#scansDone.splice(0)) resolve()
    }
  }

  /** What another run left goes into a segment of its own, before all others. Reading it again and again changes nothing there. */
  async #copy(from: RedisOwner, keys: RedisGroupKeys, named: NamedGroup): Promise<void> {
    const generation = this.#connection.dataGeneration
    const { group } = await from.verified(keys, named)
    try {
      for await (const records of this.#reader.records(group, group.hashes(), generation))
        await this.#write(RESTORED_SEGMENT, records)
    } catch (error) {
      throw error instanceof HashGone ? from.lost(keys.keyGroup, error.message, [error.key]) : error
    }
  }

  /** After a connection was made anew: does the server that answers now hold all that was acknowledged? @throws MILLRACE_REDIS_WRITES_LOST */
  async #upToDate(): Promise<void> {
    while (this.#connection.generation !== this.#verified) {
      this.#verifying ??= this.#verify(this.#connection.generation).finally(() => {
        this.#verifying = undefined
      })
      await this.#verifying
    }
  }

  async #verify(generation: number): Promise<void> {
    await inWindow(
      this.#groups.values(),
      async (group) => {
        const before = group.base.id
        const parts = [...group.parts]
        const found = await inspectGroup(this.#connection, group.keys, parts)
        // A fold that ended meanwhile compared the group itself.
        if (group.base.id !== before || parts.some((part, i) => group.parts[i] !== part)) return
        if (found.marker !== undefined) this.#owner.checkOwner(group.keys, found.marker)
        const wrong = differences(group, found)
        if (wrong.length > 0) throw this.#owner.forgotten(describeDifferences(wrong))
      },
      GROUPS_AT_A_TIME,
    )
    this.#verified = generation
  }

  /** Why a hash that was written is not there: somebody else owns the group and removed it, or it was lost. */
  async #goneError(error: HashGone): Promise<unknown> {
    const isOf = (keys: RedisGroupKeys, { id }: RedisPart) =>
      error.key === keys.values(id) || error.key === keys.timers(id)
    const found = [...this.#groups.values()].find(
      ({ keys, parts }) =>
        error.key === keys.base || error.key === keys.baseTimers || parts.some((part) => isOf(keys, part)),
    )
    if (found === undefined) return this.#owner.forgotten(error.message, error)
    const { keys } = found
    const parts = [...found.parts]
    const inspected = await inspectGroup(this.#connection, keys, parts)
    if (inspected.marker !== undefined) this.#owner.checkOwner(keys, inspected.marker)
    const folded = parts.some((part, i) => part !== found.parts[i])
    if (folded || isWhole(found, error.key, inspected))
      return new MillraceError('MILLRACE_REDIS_UNAVAILABLE', `${error.message}, and then it did`, {
        cause: error,
      })
    const ofCheckpoint = parts.every((part) => !isOf(keys, part) || part.segment === RESTORED_SEGMENT)
    return ofCheckpoint
      ? this.#owner.lost(keys.keyGroup, error.message, [error.key])
      : this.#owner.forgotten(error.message, error)
  }
}
