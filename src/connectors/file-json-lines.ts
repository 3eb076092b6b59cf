/** JSON lines: one JSON text a line, or whatever text a serde makes of a value. */
import type { Serde } from '../core/connector.ts'
import { ConfigError, SerializationError } from '../errors.ts'
import type { FileEncoder, FileFormat } from './file-format.ts'
import { TextBuffer } from './file-text.ts'

export interface JsonLinesOptions<T> {
  /** Makes the text of a line; JSON by default. Serdes that need a schema registry are refused. */
  readonly value?: Serde<T>
}

const NEWLINE = 10

/**
 * A line for each value.
 * @example fileSink<Order>({ path: 'out/orders', format: fileFormats.jsonLines() })
 */
export function jsonLines<T>(options: JsonLinesOptions<T> = {}): FileFormat<T> {
  const { value: serde } = options
  if (serde?.prepareSerialize !== undefined)
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `fileFormats.jsonLines: the serde ${serde.name} needs a schema registry, which lines of a file cannot name`,
    )
  return {
    name: serde === undefined ? 'jsonLines' : `jsonLines of ${serde.name}`,
    extension: '.jsonl',
    wholeFiles: false,
    compressible: true,
    ...(serde?.open === undefined ? {} : { open: () => serde.open?.({}) }),
    createEncoder: () => new LineEncoder(serde === undefined ? jsonText : serdeLine(serde)),
  }
}

/** Appends `line` of each value, and a newline. */
class LineEncoder<T> implements FileEncoder<T> {
  readonly #text = new TextBuffer()
  readonly #line: (value: T) => string | Uint8Array

  constructor(line: (value: T) => string | Uint8Array) {
    this.#line = line
  }

  get size(): number {
    return this.#text.length
  }

  add(value: T): void {
    const line = this.#line(value)
    if (typeof line === 'string') this.#text.append(`${line}\n`)
    else {
      this.#text.appendBytes(line)
      this.#text.append('\n')
    }
  }

  take(): Uint8Array {
    return this.#text.take()
  }

  finish(): Uint8Array {
    return this.#text.take()
  }
}

function jsonText(value: unknown): string {
  const text = JSON.stringify(value)
  if (text === undefined) throw new TypeError(`a value of type ${typeof value} has no JSON form`)
  return text
}

function serdeLine<T>(serde: Serde<T>): (value: T) => string | Uint8Array {
  return (value) => {
    const line = serde.toText === undefined ? serde.serialize(value) : serde.toText(value)
    if (line === null || line === undefined)
      throw new SerializationError(
        'MILLRACE_SERIALIZATION',
        `the serde ${serde.name} returned ${line}: a line has no form for it`,
      )
    if (typeof line === 'string' ? line.includes('\n') : line.includes(NEWLINE))
      throw new SerializationError(
        'MILLRACE_SERIALIZATION',
        `the serde ${serde.name} made a text with a line break in it: a reader would take it for two lines`,
      )
    return line
  }
}
