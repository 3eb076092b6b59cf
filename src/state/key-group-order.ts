/** Puts what is to be written in the order of its key groups: a store writes each key group by itself, and few large writes cost the least. */
import type { KeyGroupRange } from '../core/state.ts'
import type { CachedRecord } from './cached-record.ts'

/** Items that are put in order count as one value in a slice. */
const ITEMS_PER_ENTRY = 16

/** Resolves with the items, sorted; `slice` is awaited now and then. Items that come to the list meanwhile are left out. */
export async function inKeyGroupOrder<T>(
  items: readonly T[],
  recordOf: (item: T) => CachedRecord,
  {
    range,
    entriesPerSlice,
    slice,
  }: {
    readonly range: KeyGroupRange
    readonly entriesPerSlice: number
    readonly slice: () => Promise<void>
  },
): Promise<T[]> {
  const groups = Array.from({ length: range.end - range.start + 1 }, (): T[] => [])
  const count = items.length
  for (let i = 0; i < count; i++) {
    const item = items[i]!
    groups[recordOf(item).keyGroup - range.start]!.push(item)
    if (i % (ITEMS_PER_ENTRY * entriesPerSlice) === 0 && i > 0) await slice()
  }
  return groups.flat()
}
