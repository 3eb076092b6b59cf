/**
 * Key → key group → subtask. A key group is the smallest piece of keyed state that moves at a rescale; its number is a function of the
 * key's canonical bytes and the max parallelism alone, so it is the same in every worker and every release.
 */
import { MillraceError } from '../../errors.ts'
import { INT32_TAG, STRING_TAG, withEncodedKey } from '../key-encoding.ts'
import { murmur3, murmur3OfTaggedAscii, murmur3OfTaggedInt32 } from '../murmur3.ts'
import type { Key, KeyGroupRange } from '../state.ts'

/** Highest max parallelism, as in Flink. */
export const UPPER_BOUND_MAX_PARALLELISM = 32_768

const hashBytes = (bytes: Uint8Array, length: number): number => murmur3(bytes, length) & 0x7fffffff

/**
 * MurmurHash3 of the key's canonical bytes, cut to 31 bits. ASCII strings and 32-bit integers are hashed without making the bytes;
 * the answer is the same.
 * @throws MillraceError MILLRACE_INVALID_KEY
 */
export function hashOfKey(key: Key, operatorName?: string): number {
  if (typeof key === 'string') {
    const hash = murmur3OfTaggedAscii(STRING_TAG, key)
    if (hash >= 0) return hash
  } else if (typeof key === 'number' && (key | 0) === key) return murmur3OfTaggedInt32(INT32_TAG, key)
  return withEncodedKey(key, operatorName, hashBytes)
}

/** The key group of a key, in [0, maxParallelism). @throws MillraceError MILLRACE_INVALID_KEY */
export function keyGroupOf(key: Key, maxParallelism: number, operatorName?: string): number {
  return hashOfKey(key, operatorName) % maxParallelism
}

/** The subtask that owns a key group (Flink's formula: groups of a subtask are neighbours, ranges differ by one at the most). */
export function subtaskOfKeyGroup(keyGroup: number, maxParallelism: number, parallelism: number): number {
  return Math.floor((keyGroup * parallelism) / maxParallelism)
}

/** The subtask that owns a key. */
export function subtaskOfKey(key: Key, maxParallelism: number, parallelism: number): number {
  return subtaskOfKeyGroup(keyGroupOf(key, maxParallelism), maxParallelism, parallelism)
}

/**
 * The key groups of a subtask. The ranges of all subtasks cover [0, maxParallelism) without overlap, and none is empty.
 * @throws MillraceError MILLRACE_INVALID_GRAPH if parallelism exceeds max parallelism: some subtask would own nothing
 */
export function keyGroupRangeOf(subtask: number, maxParallelism: number, parallelism: number): KeyGroupRange {
  if (parallelism < 1 || parallelism > maxParallelism || maxParallelism > UPPER_BOUND_MAX_PARALLELISM)
    throw new MillraceError(
      'MILLRACE_INVALID_GRAPH',
      `Parallelism ${parallelism} with max parallelism ${maxParallelism}: need 1 ≤ parallelism ≤ max parallelism ≤ ${UPPER_BOUND_MAX_PARALLELISM}`,
    )
  return {
    start: Math.ceil((subtask * maxParallelism) / parallelism),
    end: Math.ceil(((subtask + 1) * maxParallelism) / parallelism) - 1,
  }
}

/** True if the key group lies in the range. */
export function rangeContains(range: KeyGroupRange, keyGroup: number): boolean {
  return keyGroup >= range.start && keyGroup <= range.end
}

/** The subtasks of the new parallelism that take over parts of an old range, with their parts, in order. */
export function splitRange(
  range: KeyGroupRange,
  maxParallelism: number,
  newParallelism: number,
): { readonly subtask: number; readonly range: KeyGroupRange }[] {
  const parts = []
  const last = subtaskOfKeyGroup(range.end, maxParallelism, newParallelism)
  for (
    let subtask = subtaskOfKeyGroup(range.start, maxParallelism, newParallelism);
    subtask <= last;
    subtask++
  ) {
    const owned = keyGroupRangeOf(subtask, maxParallelism, newParallelism)
    parts.push({
      subtask,
      range: { start: Math.max(owned.start, range.start), end: Math.min(owned.end, range.end) },
    })
  }
  return parts
}
