/** The log: lines for people on a terminal, JSON (pino) for programs; always to stderr, since stdout belongs to the job's output. */
import { stripVTControlCharacters, styleText } from 'node:util'
import { errorChain, formatError } from '../core/error-report.ts'
import type { Clock, LogFields, Logger } from '../core/ports.ts'
import { findSource } from './source-places.ts'
import type { TextStream } from './status-line.ts'

/** Levels from the least to the most important. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const

/** How important a line is. */
export type LogLevel = (typeof LOG_LEVELS)[number]

/** How a log is set up. */
export interface LoggingOptions {
  /** Least important lines to log. */
  readonly level: LogLevel
  /** `auto` = pretty if the stream is a terminal, JSON otherwise. */
  readonly format: 'auto' | 'pretty' | 'json'
  readonly stream: TextStream
  readonly clock: Clock
}

/** Opens the log. pino is loaded only for JSON: a job on a terminal starts faster without it. */
export async function openLog(options: LoggingOptions): Promise<Logger> {
  const pretty = options.format === 'pretty' || (options.format === 'auto' && options.stream.isTTY === true)
  return pretty ? new TerminalLogger(options, {}) : openJsonLog(options)
}

const COLOR = { debug: 'gray', info: 'green', warn: 'yellow', error: 'red' } as const

/** `18:09:18 WARN  message  key=value`, and below it the report of an error among the fields. */
class TerminalLogger implements Logger {
  readonly #options: LoggingOptions
  readonly #fields: LogFields

  constructor(options: LoggingOptions, fields: LogFields) {
    this.#options = options
    this.#fields = fields
  }

  debug(message: string, fields?: LogFields): void {
    this.#line('debug', message, fields)
  }

  info(message: string, fields?: LogFields): void {
    this.#line('info', message, fields)
  }

  warn(message: string, fields?: LogFields): void {
    this.#line('warn', message, fields)
  }

  error(message: string, fields?: LogFields): void {
    this.#line('error', message, fields)
  }

  child(fields: LogFields): Logger {
    return new TerminalLogger(this.#options, { ...this.#fields, ...fields })
  }

  #line(level: LogLevel, message: string, fields: LogFields = {}): void {
    const { level: least, stream, clock } = this.#options
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(least)) return
    const paint = (color: 'gray' | 'green' | 'yellow' | 'red', text: string): string =>
      stream.isTTY === true && usesColor() ? styleText(color, text, { validateStream: false }) : text
    const plain: string[] = []
    const reports: string[] = []
    for (const [key, value] of Object.entries({ ...this.#fields, ...fields }))
      if (isErrorLike(value)) reports.push(formatError(value, findSource))
      else if (value !== undefined) plain.push(`${key}=${fieldText(value)}`)
    const head = `${paint('gray', timeOfDay(clock.now()))} ${paint(COLOR[level], level.toUpperCase().padEnd(5))} ${message}`
    const tail = plain.length === 0 ? '' : `  ${paint('gray', plain.join(' '))}`
    const below = reports.map((report) => `\n  ${report.replaceAll('\n', '\n  ')}`).join('')
    stream.write(`${head}${tail}${below}\n`)
  }
}

/** https://no-color.org, and terminals that know no colours. */
function usesColor(): boolean {
  return !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'
}

function timeOfDay(now: number): string {
  const time = new Date(now)
  return [time.getHours(), time.getMinutes(), time.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':')
}

/** A value of a field on one line; text from outside may carry control characters that would steer the terminal. */
function fieldText(value: unknown): string {
  if (typeof value === 'string') {
    const safe = stripVTControlCharacters(value)
    return /[\s"]/.test(safe) || safe === '' ? JSON.stringify(safe) : safe
  }
  return typeof value === 'object' ? jsonText(value) : String(value)
}

/** JSON of any value: bigints become texts, since a JSON number would lose their last digits in most readers; errors are named. */
function jsonText(value: unknown): string {
  return (
    JSON.stringify(value, (_key, part) =>
      typeof part === 'bigint' ? String(part) : isErrorLike(part) ? `${part.name}: ${part.message}` : part,
    ) ?? String(value)
  )
}

/** What makes an error one for the log. Errors of another realm or thread are no `Error` of this one, and their fields are not enumerable. */
type ErrorLike = { readonly name: string; readonly message: string; readonly stack: string }

function isErrorLike(value: unknown): value is ErrorLike {
  if (typeof value !== 'object' || value === null) return false
  const { name, message, stack } = value as Partial<ErrorLike>
  return typeof name === 'string' && typeof message === 'string' && typeof stack === 'string'
}

/** An error as JSON: the chain of causes with codes, remedies and the user's own stack lines; the whole stack of the outermost. */
function errorFields(error: ErrorLike): Record<string, unknown> {
  const [outermost, ...causes] = errorChain(error, findSource)
  return { ...outermost, stack: error.stack, ...(causes.length === 0 ? {} : { causes }) }
}

/** Lists and plain objects in a field are looked into this deep; what is below is left to the JSON writer. */
const MAX_FIELD_DEPTH = 4

/** A field's value as JSON can hold it, wherever in it an error or a bigint lies. */
function jsonValue(value: unknown, depth = MAX_FIELD_DEPTH): unknown {
  if (typeof value === 'bigint') return String(value)
  if (typeof value !== 'object' || value === null) return value
  if (isErrorLike(value)) return errorFields(value)
  if (depth === 0 || 'toJSON' in value) return value
  if (Array.isArray(value)) return value.map((item) => jsonValue(item, depth - 1))
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, jsonValue(part, depth - 1)]))
}

/** Fields as pino takes them. */
function jsonFields(fields: LogFields): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, jsonValue(value)]))
}

async function openJsonLog({ level, stream, clock }: LoggingOptions): Promise<Logger> {
  const { pino } = await import('pino')
  const root = pino(
    {
      level,
      messageKey: 'message',
      base: { pid: process.pid },
      // Errors under any key are plain already; pino would take those under `err` apart again.
      serializers: { err: (value) => value },
      timestamp: () => `,"time":"${new Date(clock.now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    // Written at once: the last line before a crash is the one that is needed.
    { write: (line) => void stream.write(line) },
  )
  const wrap = (log: typeof root): Logger => ({
    debug: (message, fields) => log.debug(jsonFields(fields ?? {}), message),
    info: (message, fields) => log.info(jsonFields(fields ?? {}), message),
    warn: (message, fields) => log.warn(jsonFields(fields ?? {}), message),
    error: (message, fields) => log.error(jsonFields(fields ?? {}), message),
    child: (fields) => wrap(log.child(jsonFields(fields))),
  })
  return wrap(root)
}
