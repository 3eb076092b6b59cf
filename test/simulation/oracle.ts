/** Compares the output of a simulated job with what it must be. */
import type { Origin, SeenRecord } from '../../src/testing/simulation-units.ts'

interface Made {
  readonly from: Origin | readonly Origin[]
}

/** Text that is the same for equal values, whatever the order of their keys. */
function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined'
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const fields = value as Readonly<Record<string, unknown>>
  return `{${Object.keys(fields)
    .sort()
    .map((key) => `${key}:${canonical(fields[key])}`)
    .join(',')}}`
}

function counts(values: Iterable<string>): Map<string, number> {
  const result = new Map<string, number>()
  for (const value of values) result.set(value, (result.get(value) ?? 0) + 1)
  return result
}

/** Records that are missing, too many, or other than expected; order does not count. */
export function difference(topic: string, expected: readonly Made[], actual: readonly Made[]): string[] {
  const wanted = counts(expected.map(canonical))
  const found = counts(actual.map(canonical))
  const missing = [...wanted]
    .filter(([value, count]) => (found.get(value) ?? 0) < count)
    .map(([value]) => value)
  const surplus = [...found]
    .filter(([value, count]) => (wanted.get(value) ?? 0) < count)
    .map(([value]) => value)
  const say = (what: string, list: readonly string[]): string[] =>
    list.length === 0 ? [] : [`${topic}: ${list.length} records ${what}, e.g. ${list[0]}`]
  return [...say('are missing', missing), ...say('are too many', surplus)]
}

/** The same by origin alone. */
export function describeFirst(topic: string, expected: readonly Made[], actual: readonly Made[]): string[] {
  const origin = ({ from }: Made): Made => ({ from })
  return difference(topic, expected.map(origin), actual.map(origin))
}

/**
 * Running totals of each key: counts are 1, 2, 3, … in the order of the log, each sum is the one before plus the record's amount, and
 * records of one partition come in its order. What was healed was written again behind what came after it: then only the order of the
 * counts is judged.
 */
export function perKeyCounts(
  topic: string,
  healed: boolean,
  records: readonly SeenRecord[],
  amounts: ReadonlyMap<string, number>,
): string[] {
  const last = new Map<string, { count: number; sum: number; offsets: Map<string, number> }>()
  const inOrder = [...records].sort(
    (a, b) =>
      a.partition - b.partition ||
      (healed
        ? (a.value as { count: number }).count - (b.value as { count: number }).count
        : a.offset < b.offset
          ? -1
          : 1),
  )
  for (const { value } of inOrder) {
    const { key, count, sum, from } = value as { key: string; count: number; sum: number; from: Origin }
    const before = last.get(key) ?? { count: 0, sum: 0, offsets: new Map<string, number>() }
    const where = `${topic}: key ${key}`
    if (count !== before.count + 1) return [`${where}: count ${count} follows ${before.count}`]
    const amount = amounts.get(JSON.stringify(from)) ?? Number.NaN
    if (sum !== before.sum + amount)
      return [`${where}: sum ${sum} at count ${count}; ${before.sum} + ${amount} was expected`]
    const split = `${from.topic}/${from.partition}`
    const earlier = before.offsets.get(split) ?? -1
    if (from.offset <= earlier) return [`${where}: offset ${from.offset} of ${split} comes after ${earlier}`]
    before.offsets.set(split, from.offset)
    last.set(key, { count, sum, offsets: before.offsets })
  }
  return []
}
