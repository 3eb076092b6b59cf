/** Buckets: folders below the path of a file sink, chosen by record. */
import { ConfigError, MillraceError } from '../errors.ts'

/** What a bucket function may go by besides the value. */
export interface BucketContext {
  /** Event time of the record, epoch ms; undefined if it has none. */
  readonly timestamp: number | undefined
  /** Processing time, epoch ms. */
  readonly now: number
}

/** Chooses the folder of a record: a relative path such as `2026-01-31/eu`, or '' for the sink's path itself. */
export type BucketFunction<T> = (value: T, context: BucketContext) => string

export interface DateTimeBucketOptions<T> {
  /** `yyyy`, `MM`, `dd`, `HH`, `mm` stand for numbers, `/` for a folder in a folder; other letters are refused. `yyyy-MM-dd--HH` by default. */
  readonly pattern?: string
  /** IANA zone whose clocks and calendar count; UTC by default. */
  readonly zone?: string
  /** Epoch ms of a record; its event time by default, or processing time if it has none. */
  readonly time?: (value: T, context: BucketContext) => number
}

const TOKENS = /yyyy|MM|dd|HH|mm/g
const MINUTE_MS = 60_000
/** Minutes whose bucket is kept at hand. */
const KNOWN_MINUTES = 1_000
const LONGEST_SEGMENT = 255

/**
 * A folder for each hour, day or the like.
 * @example fileSink({ path, format, bucket: dateTimeBucket({ pattern: 'yyyy/MM/dd', zone: 'Europe/Berlin' }) })
 */
export function dateTimeBucket<T>(options: DateTimeBucketOptions<T> = {}): BucketFunction<T> {
  const { pattern = 'yyyy-MM-dd--HH', zone = 'UTC', time } = options
  const invalid = (what: string, cause?: unknown): ConfigError =>
    new ConfigError('MILLRACE_INVALID_OPTION', `dateTimeBucket: ${what}`, { cause })
  const unknown = /[a-zA-Z]+/.exec(pattern.replaceAll(TOKENS, ''))
  if (unknown !== null)
    throw invalid(`'${unknown[0]}' in pattern '${pattern}' means nothing: use yyyy, MM, dd, HH and mm`)
  checkBucket(pattern.replaceAll(TOKENS, '0'))
  let format: Intl.DateTimeFormat
  try {
    format = new Intl.DateTimeFormat('en-US-u-nu-latn', {
      timeZone: zone,
      calendar: 'iso8601',
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
    })
  } catch (error) {
    throw invalid(`there is no time zone '${zone}'`, error)
  }
  // No zone's clocks change within a minute of today's times, and the smallest part of a pattern is a minute.
  const known = new Map<number, string>()
  return (value, context) => {
    const at = time === undefined ? (context.timestamp ?? context.now) : time(value, context)
    const minute = Math.floor(at / MINUTE_MS)
    let bucket = known.get(minute)
    if (bucket === undefined) {
      bucket = written(format, pattern, minute * MINUTE_MS)
      if (known.size >= KNOWN_MINUTES) known.clear()
      known.set(minute, bucket)
    }
    return bucket
  }
}

function written(format: Intl.DateTimeFormat, pattern: string, at: number): string {
  const parts = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]))
  const { year = '', month = '', day = '', hour = '', minute = '' } = parts
  const shown: Readonly<Record<string, string>> = {
    yyyy: year.padStart(4, '0'),
    MM: month.padStart(2, '0'),
    dd: day.padStart(2, '0'),
    HH: hour.padStart(2, '0'),
    mm: minute.padStart(2, '0'),
  }
  return pattern.replaceAll(TOKENS, (token) => shown[token] as string)
}

/**
 * @throws MillraceError for what is no relative path below the sink's folder. Names that begin with a dot are hidden, which output must not
 * be, and the sink's own hidden folder is among them.
 */
export function checkBucket(bucket: unknown): asserts bucket is string {
  if (bucket === '') return
  const isName = (name: string): boolean =>
    name !== '' && !name.startsWith('.') && !/[\0\\]/.test(name) && Buffer.byteLength(name) <= LONGEST_SEGMENT
  if (typeof bucket === 'string' && bucket.split('/').every(isName)) return
  throw new MillraceError(
    'MILLRACE_INVALID_OPTION',
    `${typeof bucket === 'string' ? `'${bucket}'` : `a value of type ${typeof bucket}`} is no bucket of a file sink`,
    { remedy: "Return a relative path such as '2026-01-31/eu' whose parts do not begin with a dot, or ''." },
  )
}
