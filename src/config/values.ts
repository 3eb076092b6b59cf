/** Durations and sizes as Flink writes them: `500 ms`, `10 min`, `1kb`, `64 mb`; a plain number is milliseconds or bytes. */

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Unit names by their size; the first name is the one that is written out. */
const DURATION_UNITS: readonly (readonly [number, readonly string[]])[] = [
  [DAY, ['d', 'day', 'days']],
  [HOUR, ['h', 'hour', 'hours']],
  [MINUTE, ['min', 'm', 'minute', 'minutes']],
  [SECOND, ['s', 'sec', 'secs', 'second', 'seconds']],
  [1, ['ms', 'milli', 'millis', 'millisecond', 'milliseconds']],
]

const KIB = 1024

const SIZE_UNITS: readonly (readonly [number, readonly string[]])[] = [
  [KIB ** 4, ['tb', 't', 'tebibytes']],
  [KIB ** 3, ['gb', 'g', 'gibibytes']],
  [KIB ** 2, ['mb', 'm', 'mebibytes']],
  [KIB, ['kb', 'k', 'kibibytes']],
  [1, ['bytes', 'b']],
]

type Units = typeof DURATION_UNITS

function parse(text: string, units: Units): number | undefined {
  const match = /^\s*(\d+)\s*([a-z]*)\s*$/i.exec(text)
  if (match === null) return undefined
  const unit = match[2]!.toLowerCase()
  const factor = unit === '' ? 1 : units.find(([, names]) => names.includes(unit))?.[0]
  if (factor === undefined) return undefined
  const value = Number(match[1]) * factor
  return Number.isSafeInteger(value) ? value : undefined
}

function format(value: number, units: Units): string {
  const [factor, names] = units.find(([size]) => value !== 0 && value % size === 0) ?? units.at(-1)!
  return `${value / factor} ${names[0]}`
}

/** Milliseconds of a duration; undefined if the text is none. Fractions are refused, as in Flink. */
export function parseDuration(text: string): number | undefined {
  return parse(text, DURATION_UNITS)
}

/** Bytes of a size (1 kb = 1024 bytes, as in Flink); undefined if the text is none. */
export function parseSize(text: string): number | undefined {
  return parse(text, SIZE_UNITS)
}

/** A duration in its largest whole unit; `parseDuration` reads it back. */
export function formatDuration(milliseconds: number): string {
  return format(milliseconds, DURATION_UNITS)
}

/** A size in its largest whole unit; `parseSize` reads it back. */
export function formatSize(bytes: number): string {
  return format(bytes, SIZE_UNITS)
}
