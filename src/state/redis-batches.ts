/**
 * Cuts work into commands that are neither many nor long: a command holds Redis up for as long as it runs, and each one costs both sides
 * some microseconds. On a cluster a command stays within one key group, elsewhere it spans many.
 */

/** Items of one key group. */
export interface GroupItems<G, T> {
  readonly group: G
  readonly items: T[]
}

/** What one command may hold. */
export interface BatchLimits {
  readonly items: number
  readonly bytes: number
  readonly groups: number
}

/** Most records in a command, and about how many bytes: well below a millisecond of the server's time. */
export const COMMAND_ITEMS = 512
export const COMMAND_BYTES = 256 * 1024
const COMMAND_GROUPS = 128
/** Commands on their way at a time. */
const WINDOW = 8

/** Limits of one command. */
export function batchLimits(connection: { readonly cluster: boolean }, items = COMMAND_ITEMS): BatchLimits {
  return { items, bytes: COMMAND_BYTES, groups: connection.cluster ? 1 : COMMAND_GROUPS }
}

/** Items by group, in the order in which groups first come. */
export function byGroup<G, T>(items: readonly T[], groupOf: (item: T) => G): GroupItems<G, T>[] {
  const groups = new Map<G, T[]>()
  for (const item of items) {
    const group = groupOf(item)
    const others = groups.get(group)
    if (others === undefined) groups.set(group, [item])
    else others.push(item)
  }
  return [...groups].map(([group, members]) => ({ group, items: members }))
}

/** Commands for the items, in order. An item above the limit of bytes goes by itself. */
export function* batches<G, T>(
  groups: readonly GroupItems<G, T>[],
  limits: BatchLimits,
  sizeOf: (item: T) => number,
): Generator<GroupItems<G, T>[]> {
  let batch: GroupItems<G, T>[] = []
  let [count, bytes] = [0, 0]
  for (const { group, items } of groups) {
    let current: GroupItems<G, T> | undefined
    for (const item of items) {
      const size = sizeOf(item)
      const full =
        count === limits.items ||
        (count > 0 && bytes + size > limits.bytes) ||
        (current === undefined && batch.length === limits.groups)
      if (full) {
        yield batch
        batch = []
        ;[count, bytes] = [0, 0]
        current = undefined
      }
      if (current === undefined) {
        current = { group, items: [] }
        batch.push(current)
      }
      current.items.push(item)
      count++
      bytes += size
    }
  }
  if (batch.length > 0) yield batch
}

/** Handles all jobs, a few at a time, and each one to its end; then throws the first failure, if there was one. */
export async function inWindow<T>(
  jobs: Iterable<T>,
  handle: (job: T) => Promise<void>,
  window = WINDOW,
): Promise<void> {
  const failures: unknown[] = []
  const iterator = jobs[Symbol.iterator]()
  const lane = async () => {
    while (failures.length === 0) {
      const next = iterator.next()
      if (next.done === true) return
      try {
        await handle(next.value)
      } catch (error) {
        failures.push(error)
      }
    }
  }
  await Promise.all(Array.from({ length: window }, lane))
  if (failures.length > 0) throw failures[0]
}
