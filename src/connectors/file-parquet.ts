/**
 * Parquet, by the package hyparquet-writer. Values are collected to row groups; a file ends with each checkpoint, because it cannot be read
 * without its end.
 */
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { ConfigError, MillraceError, SerializationError } from '../errors.ts'
import type { FileEncoder, FileFormat } from './file-format.ts'
import {
  elementOf,
  PARQUET_TYPES,
  type ParquetType,
  type SchemaElement,
  storedValue,
} from './file-parquet-types.ts'

/** A column: its type, or its type and more. */
export type ParquetColumn<T> =
  | ParquetType
  | {
      readonly type: ParquetType
      /** Null and undefined are allowed. */
      readonly optional?: boolean
      /** What stands in the column; the field of its name by default. */
      readonly value?: (value: T) => unknown
    }

export interface ParquetOptions<T> {
  /** Columns by name, in the order of the file. */
  readonly schema: Readonly<Record<string, ParquetColumn<T>>>
  /** Of the pages; snappy by default. */
  readonly compression?: 'none' | 'snappy' | 'gzip' | 'zstd'
  /** Values that are written together, and are in memory until then; 20,000 by default. */
  readonly rowGroupRows?: number
}

/** The parts of hyparquet-writer that are used here; it is optional, so its own types may not be there. */
interface ByteWriter {
  /** Of the next byte in the buffer; may be set back when the bytes were taken out. */
  index: number
  getBytes(): Uint8Array
}
interface ParquetWriter {
  write(data: {
    readonly columnData: readonly { readonly name: string; readonly data: readonly unknown[] }[]
    readonly rowGroupSize: number
  }): unknown
  finish(): unknown
}
interface ParquetPackage {
  readonly ByteWriter: new () => ByteWriter
  readonly ParquetWriter: new (options: {
    readonly writer: ByteWriter
    readonly schema: readonly SchemaElement[]
    readonly codec: string
    readonly compressors: Readonly<Record<string, (bytes: Uint8Array) => Uint8Array>>
    readonly createdBy: string
  }) => ParquetWriter
}

const PACKAGE = 'hyparquet-writer'
const DEFAULT_ROWS = 20_000
const CODECS = { none: 'UNCOMPRESSED', snappy: 'SNAPPY', gzip: 'GZIP', zstd: 'ZSTD' } as const
const COMPRESSORS = { GZIP: gzipSync, ZSTD: zstdCompressSync }
/** What a value of a column takes, more or less, until the first row group tells better. */
const GUESSED_BYTES = 8

interface Column<T> {
  readonly name: string
  readonly type: ParquetType
  readonly optional: boolean
  readonly valueOf: (value: T) => unknown
}

/**
 * Parquet files. Needs the package `hyparquet-writer`.
 * @example
 * fileFormats.parquet<Order>({ schema: { user: 'string', amount: 'double', at: { type: 'timestamp', value: (o) => o.time } } })
 */
export function parquet<T>(options: ParquetOptions<T>): FileFormat<T> {
  const { schema, compression = 'snappy', rowGroupRows = DEFAULT_ROWS } = options
  const invalid = (what: string): ConfigError =>
    new ConfigError('MILLRACE_INVALID_OPTION', `fileFormats.parquet: ${what}`)
  const columns = Object.entries(schema ?? {}).map(([name, column]): Column<T> => {
    const { type, optional = false, value } = typeof column === 'string' ? { type: column } : column
    if (!PARQUET_TYPES.includes(type))
      throw invalid(`column '${name}' has type '${String(type)}'; types are ${PARQUET_TYPES.join(', ')}`)
    return { name, type, optional, valueOf: value ?? ((row) => (row as Record<string, unknown>)[name]) }
  })
  if (columns.length === 0)
    throw invalid("schema is missing: name the columns, e.g. schema: { user: 'string' }")
  if (!Object.hasOwn(CODECS, compression))
    throw invalid(`compression '${String(compression)}' is none of ${Object.keys(CODECS).join(', ')}`)
  if (!Number.isInteger(rowGroupRows) || rowGroupRows < 1)
    throw invalid(`rowGroupRows ${String(rowGroupRows)} must be a whole number above 0`)
  let loaded: ParquetPackage | undefined
  return {
    name: 'parquet',
    extension: '.parquet',
    wholeFiles: true,
    compressible: false,
    open: async () => {
      loaded ??= await load()
    },
    createEncoder: () => {
      if (loaded === undefined)
        throw new MillraceError('MILLRACE_INTERNAL', 'a Parquet file was begun before its package was loaded')
      return new ParquetEncoder(loaded, columns, CODECS[compression], rowGroupRows)
    },
  }
}

class ParquetEncoder<T> implements FileEncoder<T> {
  readonly #columns: readonly Column<T>[]
  readonly #rowGroupRows: number
  readonly #bytes: ByteWriter
  readonly #file: ParquetWriter
  /** Values of the row group that is being collected, by column. */
  #data: unknown[][]
  #rowBytes: number
  #written = 0
  #rows = 0

  constructor(
    { ByteWriter, ParquetWriter }: ParquetPackage,
    columns: readonly Column<T>[],
    codec: string,
    rowGroupRows: number,
  ) {
    this.#columns = columns
    this.#rowGroupRows = rowGroupRows
    this.#bytes = new ByteWriter()
    this.#file = new ParquetWriter({
      writer: this.#bytes,
      schema: [{ name: 'root', num_children: columns.length }, ...columns.map(elementOf)],
      codec,
      compressors: COMPRESSORS,
      createdBy: 'millrace',
    })
    this.#data = columns.map(() => [])
    this.#rowBytes = columns.length * GUESSED_BYTES
  }

  get size(): number {
    return this.#bytes.index + this.#collected * this.#rowBytes
  }

  add(value: T): void {
    const stored = this.#columns.map((column) => {
      const given = column.valueOf(value)
      try {
        return storedValue(column.type, column.optional, given)
      } catch (cause) {
        throw new SerializationError(
          'MILLRACE_SERIALIZATION',
          `column '${column.name}': ${(cause as Error).message}`,
          { cause },
        )
      }
    })
    for (const [i, each] of stored.entries()) this.#data[i]?.push(each)
    if (this.#collected >= this.#rowGroupRows) this.#writeGroup()
  }

  take(): Uint8Array {
    const { index } = this.#bytes
    const taken = this.#bytes.getBytes()
    this.#bytes.index = 0
    this.#written += index
    return taken
  }

  finish(): Uint8Array {
    if (this.#collected > 0) this.#writeGroup()
    this.#file.finish()
    return this.take()
  }

  get #collected(): number {
    return this.#data[0]?.length ?? 0
  }

  #writeGroup(): void {
    const rows = this.#collected
    this.#file.write({
      columnData: this.#columns.map(({ name }, i) => ({ name, data: this.#data[i] ?? [] })),
      rowGroupSize: rows,
    })
    this.#rows += rows
    this.#data = this.#columns.map(() => [])
    this.#rowBytes = (this.#written + this.#bytes.index) / this.#rows
  }
}

/** @throws MILLRACE_MISSING_PACKAGE */
async function load(): Promise<ParquetPackage> {
  try {
    return (await import('hyparquet-writer')) as unknown as ParquetPackage
  } catch (cause) {
    throw new MillraceError(
      'MILLRACE_MISSING_PACKAGE',
      `Parquet files need the package '${PACKAGE}', which is not installed`,
      { cause, remedy: `Run: npm install ${PACKAGE}` },
    )
  }
}
