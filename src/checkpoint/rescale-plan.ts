/**
 * Who gets which state when an operator comes back at another parallelism: key groups by range, operator state by its redistribution.
 */
import { keyGroupRangeOf, rangeContains } from '../core/graph/key-groups.ts'
import type {
  OperatorStateEntry,
  OperatorStateSnapshot,
  Redistribution,
} from '../core/operators/stream-operator.ts'
import type { KeyGroupRange } from '../core/state.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import type { ImagesHandle, KeyedStateHandle } from './checkpoint-storage.ts'

/**
 * The handles that each new subtask must read, cut down to its key groups. Subtasks without state get an empty list.
 * @throws StateLostError if two handles hold one key group, or one lies beyond the max parallelism: the checkpoint contradicts itself
 */
export function redistributeKeyGroups(
  handles: readonly KeyedStateHandle[],
  maxParallelism: number,
  newParallelism: number,
): KeyedStateHandle[][] {
  const seen = new Set<number>()
  for (const keyGroup of handles.flatMap(keyGroupsOf)) {
    if (seen.has(keyGroup)) throw contradiction(`two subtasks hold key group ${keyGroup}`)
    if (!(keyGroup >= 0 && keyGroup < maxParallelism))
      throw contradiction(`it holds key group ${keyGroup}, the max parallelism is ${maxParallelism}`)
    seen.add(keyGroup)
  }
  return Array.from({ length: newParallelism }, (_, subtask) => {
    const range = keyGroupRangeOf(subtask, maxParallelism, newParallelism)
    return handles.flatMap((handle) => cutDown(handle, range) ?? [])
  })
}

/** Key groups that a handle holds, each once. */
function keyGroupsOf(keyed: KeyedStateHandle): number[] {
  if (keyed.kind === 'external') {
    const [first, last] = keyed.range
    return Array.from({ length: last - first + 1 }, (_, i) => first + i)
  }
  if (keyed.kind === undefined) return keyed.keyGroups.map(([keyGroup]) => keyGroup)
  return [...new Set(keyed.layers.flatMap((layer) => layer.keyGroups.map(([keyGroup]) => keyGroup)))]
}

/** The part of a handle that lies in the range; undefined if none does. */
function cutDown(keyed: KeyedStateHandle, range: KeyGroupRange): KeyedStateHandle | undefined {
  if (keyed.kind === 'external') {
    const first = Math.max(keyed.range[0], range.start)
    const last = Math.min(keyed.range[1], range.end)
    return first > last ? undefined : { ...keyed, range: [first, last] }
  }
  if (keyed.kind === undefined) return cutImages(keyed, range)
  const layers = keyed.layers.flatMap((layer) => cutImages(layer, range) ?? [])
  return layers.length === 0 ? undefined : { ...keyed, layers }
}

function cutImages({ handle, keyGroups }: ImagesHandle, range: KeyGroupRange): ImagesHandle | undefined {
  const owned = keyGroups.filter(([keyGroup]) => rangeContains(range, keyGroup))
  return owned.length === 0 ? undefined : { handle, keyGroups: owned }
}

function contradiction(why: string): StateLostError {
  return new StateLostError('MILLRACE_STATE_LOST', `The checkpoint contradicts itself: ${why}`)
}

/**
 * The operator state of each new subtask, given that of all old ones in the order of their index.
 * - split: at the same parallelism everyone keeps its own; otherwise all items in order are cut into runs of equal length (±1)
 * - union: everyone gets all items in order
 * - broadcast: all copies are equal; new subtask i takes that of old subtask i mod the old parallelism
 * @throws MillraceError MILLRACE_STATE_INCOMPATIBLE if old subtasks disagree on how a state is redistributed
 */
export function redistributeOperatorState(
  old: readonly OperatorStateSnapshot[],
  newParallelism: number,
): OperatorStateSnapshot[] {
  const result: Record<string, OperatorStateEntry>[] = Array.from({ length: newParallelism }, () => ({}))
  const names = new Set(old.flatMap((snapshot) => Object.keys(snapshot)))
  for (const name of names) {
    const redistribution = redistributionOf(name, old)
    // A copy that a subtask never had must not win over those that exist.
    const holders =
      redistribution === 'broadcast' ? old.filter((snapshot) => snapshot[name] !== undefined) : old
    const lists = holders.map((snapshot) => snapshot[name]?.items ?? [])
    result.forEach((entries, subtask) => {
      entries[name] = { redistribution, items: share(redistribution, lists, subtask, newParallelism) }
    })
  }
  return result
}

function redistributionOf(name: string, old: readonly OperatorStateSnapshot[]): Redistribution {
  const kinds = new Set(old.flatMap((snapshot) => (snapshot[name] ? [snapshot[name].redistribution] : [])))
  const [kind, other] = [...kinds]
  if (other !== undefined)
    throw new MillraceError(
      'MILLRACE_STATE_INCOMPATIBLE',
      `Operator state '${name}' is ${kind} state in one subtask of the checkpoint and ${other} state in another`,
    )
  return kind!
}

function share(
  redistribution: Redistribution,
  lists: readonly (readonly unknown[])[],
  subtask: number,
  newParallelism: number,
): readonly unknown[] {
  if (redistribution === 'broadcast') return lists[subtask % lists.length] ?? []
  const all = lists.flat()
  if (redistribution === 'union') return all
  if (lists.length === newParallelism) return lists[subtask] ?? []
  const from = Math.floor((subtask * all.length) / newParallelism)
  return all.slice(from, Math.floor(((subtask + 1) * all.length) / newParallelism))
}
