/**
 * Compares what Redis holds of a key group with what a checkpoint or a running attempt knows. Found: keys that are gone, hashes with more
 * or fewer records than there must be, a marker that is older or newer than it must be. Not found: a value that somebody changed in place.
 */
import type { RedisConnection } from './redis-connection.ts'
import type { RedisGroup, RedisPart } from './redis-group.ts'
import type { RedisGroupKeys } from './redis-keys.ts'

/** A key group in numbers, as it is in Redis. */
export interface RedisInspection {
  /** Undefined = there is no marker. */
  readonly marker: RedisMarker | undefined
  readonly baseRecords: number
  readonly baseTimers: number
  /** For each part that was asked for: its records and its timers. */
  readonly parts: readonly (readonly [records: number, timers: number])[]
}

/** The marker of a key group. */
export interface RedisMarker {
  readonly owner: string
  readonly base: string
  readonly folding: string
  readonly records: number
  readonly timers: number
  /** The segments that are there, by id. */
  readonly segments: ReadonlyMap<string, RedisCounts>
}

/** What the marker counts of a segment. */
export interface RedisCounts {
  readonly writes: number
  /** Undefined for what was written before markers counted it. */
  readonly records: number | undefined
  readonly timers: number | undefined
}

/** Something that is not as it must be, and the key where it shows. */
export interface RedisDifference {
  readonly what: string
  readonly key: string
}

const SEGMENT_FIELD = 'segment:'

/** Looks at a key group and at some of its parts. @throws MILLRACE_REDIS_UNAVAILABLE and its like */
export async function inspectGroup(
  connection: RedisConnection,
  keys: RedisGroupKeys,
  parts: readonly RedisPart[],
): Promise<RedisInspection> {
  const hashes = parts.flatMap(({ id }) => [keys.values(id), keys.timers(id)])
  const [fields, baseRecords, baseTimers, ...counts] = (await connection.run(
    'inspect',
    [keys.marker, keys.base, keys.baseTimers, ...hashes],
    [],
  )) as [Buffer[], number, number, ...number[]]
  return {
    marker: fields.length === 0 ? undefined : markerOf(fields),
    baseRecords,
    baseTimers,
    parts: parts.map((_, i) => [counts[2 * i]!, counts[2 * i + 1]!]),
  }
}

function markerOf(fields: readonly Buffer[]): RedisMarker {
  const values = new Map<string, string>()
  for (let i = 0; i < fields.length; i += 2) values.set(String(fields[i]), String(fields[i + 1]))
  const numberOf = (field: string) => {
    const value = values.get(field)
    return value === undefined ? undefined : Number(value)
  }
  const segments = [...values.keys()]
    .filter((field) => field.startsWith(SEGMENT_FIELD))
    .map((field) => field.slice(SEGMENT_FIELD.length))
  return {
    owner: values.get('owner') ?? '',
    base: values.get('base') ?? '',
    folding: values.get('folding') ?? '',
    records: Number(values.get('records') ?? 0),
    timers: Number(values.get('timers') ?? 0),
    segments: new Map(
      segments.map((id) => [
        id,
        {
          writes: numberOf(SEGMENT_FIELD + id)!,
          records: numberOf(`records:${id}`),
          timers: numberOf(`timers:${id}`),
        },
      ]),
    ),
  }
}

/** What is wrong with a key group whose parts were all inspected. Writes and folds may be on their way. */
export function differences(group: RedisGroup, found: RedisInspection): RedisDifference[] {
  const { keys, base, folding } = group
  const { marker } = found
  if (marker === undefined) return [{ what: 'the marker is not there', key: keys.marker }]
  const wrong: RedisDifference[] = []
  const expect = (right: boolean, what: string, key: string) => {
    if (!right) wrong.push({ what, key })
  }
  expect(
    marker.base === base.id || (folding !== '' && marker.base === folding),
    `the base should hold segment '${base.id}' and holds '${marker.base}'`,
    keys.marker,
  )
  expect(
    marker.folding === '' || marker.folding === folding,
    `segment '${marker.folding}' is partly in the base, which nobody asked for`,
    keys.marker,
  )
  if (folding === '') {
    expect(marker.records === base.records, count('base', base.records, marker.records), keys.marker)
    expect(
      marker.timers === base.timers,
      count('timers of the base', base.timers, marker.timers),
      keys.marker,
    )
  }
  expect(found.baseRecords === marker.records, count('base', marker.records, found.baseRecords), keys.base)
  expect(
    found.baseTimers === marker.timers,
    count('timers of the base', marker.timers, found.baseTimers),
    keys.baseTimers,
  )
  group.parts.forEach((part, i) => {
    if (part.id === folding && marker.base === folding) return
    const counted = marker.segments.get(part.id)
    const writes = counted?.writes ?? 0
    expect(
      writes >= part.writes && writes <= part.sent,
      `segment ${part.id} should have had ${part.writes} writes and had ${writes}`,
      keys.marker,
    )
    const [records, timers] = found.parts[i]!
    // A write that is on its way may change what this attempt knows, not that marker and segment agree.
    const settled = part.sent === part.writes
    for (const right of [counted, settled ? part : undefined]) {
      if (right?.records === undefined || right.timers === undefined) continue
      expect(
        records === right.records,
        count(`segment ${part.id}`, right.records, records),
        keys.values(part.id),
      )
      expect(
        timers === right.timers,
        count(`timers of segment ${part.id}`, right.timers, timers),
        keys.timers(part.id),
      )
    }
  })
  return wrong
}

/** True if a hash of the base or of a part holds as much as marker and attempt say: whoever found it different was overtaken. */
export function isWhole(group: RedisGroup, key: string, found: RedisInspection): boolean {
  const { marker } = found
  if (marker === undefined) return false
  const { keys, base, folding } = group
  const kind = key.endsWith('-timers') ? 'timers' : 'records'
  if (key === keys.base || key === keys.baseTimers) {
    const held = kind === 'records' ? found.baseRecords : found.baseTimers
    return held === marker[kind] && (folding !== '' || held === base[kind])
  }
  return group.parts.every((part, i) => {
    if (keys.values(part.id) !== key && keys.timers(part.id) !== key) return true
    const held = found.parts[i]?.[kind === 'records' ? 0 : 1]
    if (held !== (marker.segments.get(part.id)?.[kind] ?? held)) return false
    return part.sent !== part.writes || part.id === folding || held === part[kind]
  })
}

function count(what: string, expected: number, found: number): string {
  return `${what}: there should be ${expected}, there are ${found}`
}

/** Differences as the end of a sentence, with their keys; the first few. */
export function describeDifferences(wrong: readonly RedisDifference[]): string {
  const shown = wrong.slice(0, 3).map(({ what, key }) => `${what} (Redis key '${key}')`)
  return `${shown.join('; ')}${wrong.length > 3 ? `; and ${wrong.length - 3} more` : ''}`
}
