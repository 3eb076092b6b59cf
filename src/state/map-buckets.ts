/**
 * The index of one async map: which entries it has. A hash table that grows and shrinks a bucket at a time (linear hashing): each bucket is
 * a record of its own, so a new entry of a large map rewrites one bucket of about fifty keys.
 *
 *   record of the key ── MapHeader { buckets: 5, count }      buckets 0–4; a hash takes its lowest three bits if that bucket is there,
 *   records of buckets ─ MapBucket { keys }                   otherwise its lowest two
 *   records of entries ─ the value
 *
 * The next split is of bucket `n - 2^⌊log2 n⌋` into itself and n; the next merge takes that back.
 */
import { hashOfKey } from '../core/graph/key-groups.ts'
import type { MapKey } from './map-part.ts'

/** With more keys a bucket, on average, one is split. */
export const BUCKET_FULL = 64
/** With fewer, two are merged. */
export const BUCKET_SPARSE = 16

/** What the record of a key holds of its async map; there is none when the map has no entries. */
export class MapHeader {
  buckets = 1
  /** Keys in all buckets. */
  count = 0
  /** The bucket that is looked through next for entries that have expired. */
  cursor = 0

  /** The bucket that a key belongs to. */
  bucketOf(key: MapKey): number {
    const hash = hashOfKey(key)
    const half = 1 << floorLog2(this.buckets)
    const wide = hash & (2 * half - 1)
    return wide < this.buckets ? wide : hash & (half - 1)
  }

  get isFull(): boolean {
    return this.count > this.buckets * BUCKET_FULL
  }

  /** Splits after which it is not full any more. */
  get splitsDue(): number {
    return Math.ceil(this.count / BUCKET_FULL) - this.buckets
  }

  get isSparse(): boolean {
    return this.buckets > 1 && this.count < this.buckets * BUCKET_SPARSE
  }
}

/** The bucket that bucket `n` was split from. */
export function splitFrom(n: number): number {
  return n - (1 << floorLog2(n))
}

function floorLog2(n: number): number {
  return 31 - Math.clz32(n)
}

/** Keys of entries. */
export class MapBucket {
  readonly keys: Set<MapKey>

  constructor(keys: Iterable<MapKey> = []) {
    this.keys = new Set(keys)
  }
}
