/**
 * What a checkpoint holds of keyed state in Redis: no state, but what finds and proves it. Format 1, JSON:
 *
 *   { format, job, run, operator,
 *     groups: [[key group, [base id, records, timers], [[segment id, writes, records, timers, bytes], … oldest first]], …] }
 *
 * Groups that have never held anything are left out.
 */
import type { KeyGroupRange } from '../core/state.ts'
import { StateLostError } from '../errors.ts'
import type { ColdOrigin } from './cold-store.ts'
import {
  EMPTY_BASE,
  RESTORED_SEGMENT,
  type RedisBase,
  type RedisGroup,
  type RedisPart,
  WrittenKeys,
} from './redis-group.ts'
import type { RedisKeySpace } from './redis-keys.ts'

type PartEntry = readonly [id: string, writes: number, records: number, timers: number, bytes: number]
type BaseEntry = readonly [id: string, records: number, timers: number]
type GroupEntry = readonly [keyGroup: number, base: BaseEntry, parts: readonly PartEntry[]]

/** The handle of one subtask's state. JSON-safe. */
export interface RedisHandle extends RedisKeySpace {
  readonly format: 1
  readonly groups: readonly GroupEntry[]
}

/** A key group as a checkpoint names it. */
export interface NamedGroup {
  readonly base: RedisBase
  readonly parts: readonly RedisPart[]
}

/** The handle of the state at `segment`. */
export function redisHandle(
  space: RedisKeySpace,
  groups: Iterable<RedisGroup>,
  segment: number,
): RedisHandle {
  const entries: GroupEntry[] = []
  for (const { keys, base, parts } of groups) {
    const named = parts.filter((part) => part.segment <= segment && part.writes > 0)
    if (base.id === '' && named.length === 0) continue
    entries.push([
      keys.keyGroup,
      [base.id, base.records, base.timers],
      named.map(({ id, writes, records, timers, bytes }) => [id, writes, records, timers, bytes]),
    ])
  }
  const { job, run, operator } = space
  return { format: 1, job, run, operator, groups: entries }
}

/** A handle that was read from a checkpoint. @throws StateLostError if it is none that this release knows */
export function readRedisHandle(state: unknown): RedisHandle {
  if (!isHandle(state))
    throw new StateLostError(
      'MILLRACE_STATE_LOST',
      'The checkpoint names state in Redis in a form that is not known',
      {
        details: { state },
      },
    )
  return state
}

/** A key group that no checkpoint names. */
export const EMPTY_GROUP: NamedGroup = { base: EMPTY_BASE, parts: [] }

/** What origins hold of a range: key groups of this run, and key groups that another one (or another job) left. */
export function groupsOfOrigins(
  space: RedisKeySpace,
  range: KeyGroupRange,
  origins: readonly ColdOrigin[],
): {
  readonly own: ReadonlyMap<number, NamedGroup>
  readonly foreign: readonly {
    readonly space: RedisKeySpace
    readonly keyGroup: number
    readonly named: NamedGroup
  }[]
} {
  const own = new Map<number, NamedGroup>()
  const foreign: { space: RedisKeySpace; keyGroup: number; named: NamedGroup }[] = []
  for (const { range: wanted, sealed } of origins) {
    const handle = readRedisHandle(sealed)
    const isOwn = handle.job === space.job && handle.run === space.run && handle.operator === space.operator
    const first = Math.max(wanted[0], range.start)
    const last = Math.min(wanted[1], range.end)
    for (const entry of handle.groups) {
      const keyGroup = entry[0]
      if (keyGroup < first || keyGroup > last) continue
      if (isOwn) own.set(keyGroup, namedGroup(entry))
      else foreign.push({ space: handle, keyGroup, named: namedGroup(entry) })
    }
  }
  return { own, foreign }
}

/** The group as the handle names it. */
function namedGroup([, base, parts]: GroupEntry): NamedGroup {
  const [id, records, timers] = base
  return {
    base: { id, records, timers },
    parts: parts.map(([part, writes, count, timed, bytes], number) => ({
      id: part,
      segment: RESTORED_SEGMENT,
      number: number - parts.length,
      sent: writes,
      writes,
      records: count,
      timers: timed,
      bytes,
      durable: true,
      keys: new WrittenKeys(false),
    })),
  }
}

const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0

function isEntry(value: unknown, counts: number): boolean {
  return (
    Array.isArray(value) &&
    value.length === counts + 1 &&
    typeof value[0] === 'string' &&
    value.slice(1).every(isCount)
  )
}

function isGroup(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    isCount(value[0]) &&
    isEntry(value[1], 2) &&
    Array.isArray(value[2]) &&
    value[2].every((part) => isEntry(part, 4))
  )
}

function isHandle(state: unknown): state is RedisHandle {
  if (typeof state !== 'object' || state === null) return false
  const { format, job, run, operator, groups } = state as Partial<Record<keyof RedisHandle, unknown>>
  return (
    format === 1 &&
    [job, run, operator].every((name) => typeof name === 'string') &&
    Array.isArray(groups) &&
    groups.every(isGroup)
  )
}
