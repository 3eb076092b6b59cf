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
  /** Writes of each segment that is there. */
  readonly segments: ReadonlyMap<string, number>
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
  const segments = [...values].filter(([field]) => field.startsWith(SEGMENT_FIELD))
  return {
    owner: values.get('owner') ?? '',
    base: values.get('base') ?? '',
    folding: values.get('folding') ?? '',
    records: Number(values.get('records') ?? 0),
    timers: Number(values.get('timers') ?? 0),
    segments: new Map(segments.map(([field, writes]) => [field.slice(SEGMENT_FIELD.length), Number(writes)])),
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
    const writes = marker.segments.get(part.id) ?? 0
    expect(
      writes >= part.writes && writes <= part.sent,
      `segment ${part.id} should have had ${part.writes} writes and had ${writes}`,
      keys.marker,
    )
    // A write that is on its way may change the counts.
    if (part.sent !== part.writes) return
    const [records, timers] = found.parts[i]!
    expect(records === part.records, count(`segment ${part.id}`, part.records, records), keys.values(part.id))
    expect(
      timers === part.timers,
      count(`timers of segment ${part.id}`, part.timers, timers),
      keys.timers(part.id),
    )
  })
  return wrong
}

function count(what: string, expected: number, found: number): string {
  return `${what}: there should be ${expected}, there are ${found}`
}

/** Differences as the end of a sentence, with their keys; the first few. */
export function describeDifferences(wrong: readonly RedisDifference[]): string {
  const shown = wrong.slice(0, 3).map(({ what, key }) => `${what} (Redis key '${key}')`)
  return `${shown.join('; ')}${wrong.length > 3 ? `; and ${wrong.length - 3} more` : ''}`
}
