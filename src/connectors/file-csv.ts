/** CSV as RFC 4180 has it. */
import { ConfigError } from '../errors.ts'
import type { FileEncoder, FileFormat } from './file-format.ts'
import { TextBuffer } from './file-text.ts'

/** A column: the name of a field, or a name and what stands in it. */
export type CsvColumn<T> =
  | (keyof T & string)
  | { readonly name: string; readonly value: (value: T) => unknown }

export interface CsvOptions<T> {
  /** In the order of the file. */
  readonly columns: readonly CsvColumn<T>[]
  /** A line with the names of the columns begins each file; true by default. */
  readonly header?: boolean
  /** One character; a comma by default. */
  readonly delimiter?: string
  /** `\r\n` by default, as the RFC has it. */
  readonly lineEnd?: '\r\n' | '\n'
}

/**
 * A line for each value. A field with the delimiter, a quote or a line break is quoted, quotes in it are doubled. Null and undefined are empty
 * fields, the empty text is `""`, dates are ISO 8601 in UTC, objects JSON.
 * @example fileFormats.csv<Order>({ columns: ['user', { name: 'euros', value: (order) => order.amount / 100 }] })
 */
export function csv<T>(options: CsvOptions<T>): FileFormat<T> {
  const { columns, header = true, delimiter = ',', lineEnd = '\r\n' } = options
  const invalid = (what: string): ConfigError =>
    new ConfigError('MILLRACE_INVALID_OPTION', `fileFormats.csv: ${what}`)
  if (!Array.isArray(columns) || columns.length === 0)
    throw invalid("columns is missing: name the fields, e.g. columns: ['user', 'amount']")
  if (typeof delimiter !== 'string' || delimiter.length !== 1 || /["\r\n]/.test(delimiter))
    throw invalid('delimiter must be one character, and neither a quote nor a line break')
  if (lineEnd !== '\r\n' && lineEnd !== '\n') throw invalid('lineEnd must be \\r\\n or \\n')
  const names = columns.map((column) => (typeof column === 'string' ? column : column.name))
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw invalid(`two columns are called '${twice}'`)
  const fields = columns.map((column) =>
    typeof column === 'string' ? (value: T): unknown => value[column as keyof T] : column.value,
  )
  const line = (values: readonly unknown[]): string =>
    `${values.map((value) => field(value, delimiter)).join(delimiter)}${lineEnd}`
  const first = header ? line(names) : ''
  return {
    name: 'csv',
    extension: '.csv',
    wholeFiles: false,
    compressible: true,
    createEncoder: () => new CsvEncoder(first, (value: T) => line(fields.map((of) => of(value)))),
  }
}

class CsvEncoder<T> implements FileEncoder<T> {
  readonly #text = new TextBuffer()
  readonly #line: (value: T) => string

  constructor(first: string, line: (value: T) => string) {
    this.#text.append(first)
    this.#line = line
  }

  get size(): number {
    return this.#text.length
  }

  add(value: T): void {
    this.#text.append(this.#line(value))
  }

  take(): Uint8Array {
    return this.#text.take()
  }

  finish(): Uint8Array {
    return this.#text.take()
  }
}

function field(value: unknown, delimiter: string): string {
  const text = textOf(value)
  if (text === undefined) return ''
  if (text !== '' && !text.includes(delimiter) && !/["\r\n]/.test(text)) return text
  return `"${text.replaceAll('"', '""')}"`
}

/** Undefined: nothing stands in the field. */
function textOf(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'string') return value
  if (typeof value !== 'object') return String(value)
  if (Object.prototype.toString.call(value) === '[object Date]') return (value as Date).toISOString()
  return JSON.stringify(value)
}
