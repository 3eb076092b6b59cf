/** Rows of the cold store as the cache makes them of images, and the keys that it finds among them. */
import type { Key, KeyGroupRange } from '../core/state.ts'
import { type CacheCodec, rowVisitor } from './cached-codec.ts'
import { CachedRecord } from './cached-record.ts'
import type { ColdRecord, ColdStore } from './cold-store.ts'
import type { RestoredState } from './heap-registry.ts'
import type { ImageVisitor } from './key-group-image.ts'

/** Puts the records of one key group's image into `rows`. `check` throws for a key of another group. */
export function coldRowVisitor(
  codec: CacheCodec,
  states: readonly RestoredState[],
  keyGroup: number,
  rows: ColdRecord[],
  check: (key: Key, keyGroup: number) => void,
): ImageVisitor {
  return rowVisitor(
    states,
    (key, part) => {
      check(key, keyGroup)
      const record = new CachedRecord(key, part, 0)
      record.keyGroup = keyGroup
      return record
    },
    (record, { state, change }, namespace, slot) =>
      record.spaceForWrite(namespace).set(state.number, change === undefined ? slot : change(slot)),
    (record, timers) => rows.push(codec.coldRecord(record, codec.restoredRowOf(record, timers))),
  )
}

/** Keys with state in the store, without those that `isHere`. What the cache writes meanwhile may be missing. */
export async function coldKeys(
  store: ColdStore,
  { start, end }: KeyGroupRange,
  segment: number,
  codec: CacheCodec,
  isHere: (key: Key) => boolean,
): Promise<Key[]> {
  const keys: Key[] = []
  for (let keyGroup = start; keyGroup <= end; keyGroup++)
    for await (const page of store.scan(keyGroup, segment))
      for (const row of page) {
        if (row.value === undefined) continue
        const { key, part } = codec.nameOf(row.key)
        if (part === undefined && !isHere(key)) keys.push(key)
      }
  return keys
}
