/**
 * What a store knows of one key group in Redis: its base and the segments above it, with the counts that prove that nothing is missing.
 *
 * A segment of the port is one or more *parts* here. After a write whose fate is unknown (no answer, a broken connection) nothing more goes
 * into that part: the server may still do the write late, and in a newer part it can only lie below what replaced it.
 */
import { murmur3 } from '../core/murmur3.ts'
import type { RedisGroupKeys } from './redis-keys.ts'

/** Number of segments that were there before the attempt wrote anything: restored, or copied from another run. */
export const RESTORED_SEGMENT = 0

/** Records of one key group that were written into one segment. */
export interface RedisPart {
  /** `<attempt>.<segment>.<number of the part>`. */
  readonly id: string
  /** Number of the segment, in this attempt. */
  readonly segment: number
  /** Number of the part within the segment. */
  readonly number: number
  /** Writes that were sent, and those whose answer came; while they differ, counts may be behind. */
  sent: number
  writes: number
  records: number
  timers: number
  /** About how much was written. */
  bytes: number
  /** As durable as the store promises. */
  durable: boolean
  /** What may be in it. */
  readonly keys: WrittenKeys
}

/** Hashes of the keys that were written into a part, so that others need not be looked for in it. */
export class WrittenKeys {
  #hashes: Set<number> | undefined

  /** `known`: false if others may have written, too; then every key may be in it. */
  constructor(known: boolean) {
    this.#hashes = known ? new Set() : undefined
  }

  add(key: Uint8Array): void {
    this.#hashes?.add(murmur3(key))
    if ((this.#hashes?.size ?? 0) > KNOWN_KEYS) this.#hashes = undefined
  }

  /** False if none of the keys with these hashes was written. */
  mayHave(hashes: readonly number[]): boolean {
    const known = this.#hashes
    return known === undefined || hashes.some((hash) => known.has(hash))
  }
}

/** What the base holds: everything up to and with segment `id`; '' = nothing yet. */
export interface RedisBase {
  readonly id: string
  readonly records: number
  readonly timers: number
}

/** One hash to read from, with the key of its timers. */
export interface RedisHash {
  readonly values: string
  readonly timers: string
  /** Records that it must hold; undefined = it is being changed, and its marker counts them. */
  readonly records: number | undefined
  /** Timers likewise. */
  readonly timerCount: number | undefined
}

/** A part with more keys than this is read whatever is looked for: what is known of keys must not take the room of state. */
const KNOWN_KEYS = 2_048

export const EMPTY_BASE: RedisBase = { id: '', records: 0, timers: 0 }

/** A key group as its owner knows it. */
export class RedisGroup {
  readonly keys: RedisGroupKeys
  base: RedisBase
  /** Id of the part that is on its way into the base; '' = none. */
  folding: string
  /** Oldest first; the one that is being folded is the first. */
  readonly parts: RedisPart[]

  constructor(keys: RedisGroupKeys, base: RedisBase, folding: string, parts: readonly RedisPart[]) {
    this.keys = keys
    this.base = base
    this.folding = folding
    this.parts = [...parts]
  }

  /** The part of this number; made in its place if it is not there. */
  part(attempt: number, segment: number, number: number): RedisPart {
    let at = this.parts.length
    for (; at > 0; at--) {
      const other = this.parts[at - 1]!
      // A restored part has the number of an import, too, and is another one.
      const mine = other.id === partId(attempt, segment, number)
      if (mine) return other
      if (other.segment < segment || (other.segment === segment && other.number < number)) break
    }
    const part: RedisPart = {
      id: partId(attempt, segment, number),
      segment,
      number,
      sent: 0,
      writes: 0,
      records: 0,
      timers: 0,
      bytes: 0,
      durable: false,
      keys: new WrittenKeys(segment !== RESTORED_SEGMENT),
    }
    this.parts.splice(at, 0, part)
    return part
  }

  /** What to read, newest first, the base last: of segments up to `upTo`, those that may have one of the keys with the hashes `wanted`. */
  hashes(upTo = Number.POSITIVE_INFINITY, wanted?: readonly number[]): RedisHash[] {
    const { keys, folding, base } = this
    const hashes: RedisHash[] = this.parts
      .filter(
        (part) =>
          part.segment <= upTo &&
          (part.records > 0 || part.sent !== part.writes) &&
          (wanted === undefined || part.keys.mayHave(wanted)),
      )
      .map((part) => {
        // One that is being folded may be gone.
        const known = part.sent === part.writes && part.id !== folding
        return {
          values: keys.values(part.id),
          timers: keys.timers(part.id),
          records: known ? part.records : undefined,
          timerCount: known ? part.timers : undefined,
        }
      })
      .reverse()
    if (base.records > 0 || base.timers > 0 || folding !== '')
      hashes.push({
        values: keys.base,
        timers: keys.baseTimers,
        records: folding === '' ? base.records : undefined,
        timerCount: folding === '' ? base.timers : undefined,
      })
    return hashes
  }
}

/** The id of a part, as it stands in keys and handles. */
export function partId(attempt: number, segment: number, number: number): string {
  return `${attempt}.${segment}.${number}`
}
