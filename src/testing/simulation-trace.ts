/**
 * What happened in a simulation, line by line: as a hash always, as text when somebody wants to read it. Two runs of one seed have the
 * same hash, or something in them does not follow from the seed.
 */

import type { Clock, LogFields, Logger } from '../core/ports.ts'
import { isMillraceError } from '../errors.ts'

/** Collects the lines of one run. */
export class SimulationTrace {
  readonly #clock: Clock
  readonly #startedAt: number
  readonly #sink: ((line: string) => void) | undefined
  #hash = 0x811c9dc5
  #lines = 0

  constructor(clock: Clock, sink: ((line: string) => void) | undefined) {
    this.#clock = clock
    this.#startedAt = clock.now()
    this.#sink = sink
  }

  /** Hash of all lines so far, with their number. */
  get hash(): string {
    return `${(this.#hash >>> 0).toString(16).padStart(8, '0')}-${this.#lines}`
  }

  /** Notes a line under the present time. `detail` is for readers only: it is not part of the hash, and not made unless read. */
  note(who: string, what: string, detail?: () => string): void {
    const ms = this.#clock.now() - this.#startedAt
    this.#lines++
    let hash = Math.imul(this.#hash ^ ms, 0x01000193)
    for (let i = 0; i < who.length; i++) hash = Math.imul(hash ^ who.charCodeAt(i), 0x01000193)
    for (let i = 0; i < what.length; i++) hash = Math.imul(hash ^ what.charCodeAt(i), 0x01000193)
    this.#hash = hash
    this.#sink?.(
      `${String(ms).padStart(7)} ${who.padEnd(9)} ${what}${detail === undefined ? '' : ` ${detail()}`}`,
    )
  }

  /** A logger whose lines go here. */
  logger(who: string): Logger {
    const log =
      (level: string) =>
      (message: string, fields?: LogFields): void =>
        this.note(
          who,
          `${level}: ${message}`,
          fields === undefined ? undefined : () => describeFields(fields),
        )
    const logger: Logger = {
      debug: log('debug'),
      info: log('info'),
      warn: log('WARN'),
      error: log('ERROR'),
      child: () => logger,
    }
    return logger
  }
}

function describeFields(fields: LogFields): string {
  return Object.entries(fields)
    .map(([key, value]) => `${key}=${describe(value)}`)
    .join(' ')
}

function describe(value: unknown): string {
  if (!(value instanceof Error)) return String(value)
  const cause = value.cause === undefined ? '' : ` ← ${describe(value.cause)}`
  return `${value.name}: ${value.message}${cause}`
}

/** An error with its code and causes; the stack of one that is no MillraceError. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = isMillraceError(error) ? ` [${error.code}]` : ''
  const own = `${error.message}${code}`
  if (error.cause !== undefined) return `${own} ← ${describeError(error.cause)}`
  return isMillraceError(error) ? own : `${own} ${error.stack?.split('\n').slice(1, 4).join(' ') ?? ''}`
}

/** What a call was made with, for readers of a trace. */
export function describeArgs(args: readonly unknown[]): string {
  const text = JSON.stringify(args, (_key, value: unknown) => {
    if (typeof value === 'bigint') return Number(value)
    if (typeof value === 'object' && value !== null && 'type' in value && value.type === 'Buffer')
      return 'bytes'
    return value
  })
  return text.length > 300 ? `${text.slice(0, 300)}…` : text
}
