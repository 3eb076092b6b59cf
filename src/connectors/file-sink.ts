/**
 * `fileSink`: files in a folder, exactly once. A file is written under a hidden name and gets its own when a checkpoint that holds it is complete.
 */
import type { CommitterContext, SinkWriterContext, TwoPhaseCommittingSink } from '../core/connector.ts'
import { ConfigError } from '../errors.ts'
import type { BucketFunction } from './file-buckets.ts'
import type { FileCommittable } from './file-committable.ts'
import { FileCommitter } from './file-committer.ts'
import { csv } from './file-csv.ts'
import type { FileFormat } from './file-format.ts'
import { jsonLines } from './file-json-lines.ts'
import { parquet } from './file-parquet.ts'
import { FileWriter, type FileWriterOptions } from './file-writer.ts'

/** When a file is finished. A file that is finished becomes visible with the next checkpoint. */
export interface RollingPolicy {
  /** Bytes after which a file is finished, more or less; 128 MiB by default. */
  readonly maxBytes?: number
  /** Milliseconds that a file may take values; a minute by default. */
  readonly maxAgeMs?: number
  /** Milliseconds without a value; a minute by default. */
  readonly inactivityMs?: number
}

export interface FileSinkOptions<T> {
  /** The folder; it is made if it does not exist. Every worker must see the same one, and it must be one file system. */
  readonly path: string
  readonly format: FileFormat<T>
  readonly rolling?: RollingPolicy
  /** Chooses a folder below `path` for each record; none by default. */
  readonly bucket?: BucketFunction<T>
  /** Begins the names of files; `part` by default. */
  readonly prefix?: string
  /** Ends the names of files; by default what the format and the compression call for, e.g. `.csv.gz`. */
  readonly suffix?: string
  /** For text formats; none by default. */
  readonly compression?: 'none' | 'gzip'
  /** Files that a subtask has open at a time; beyond, the one that was not written to for the longest time is finished. 256 by default. */
  readonly maxOpenFiles?: number
  /**
   * What to do when output of a completed checkpoint is neither under its hidden name nor under its own, or damaged: `fail` by default. With
   * `accept` it is logged and passed over, which is needed where readers take files away as soon as they see them.
   */
  readonly onLostFile?: 'fail' | 'accept'
}

const MEBIBYTE = 1024 * 1024
const DEFAULT_MAX_BYTES = 128 * MEBIBYTE
const DEFAULT_AGE_MS = 60_000
const DEFAULT_OPEN_FILES = 256
const NAME_PART = /^[\w.-]{0,60}$/

/** Formats for `fileSink`. */
export const fileFormats = { jsonLines, csv, parquet } as const

/** A file sink; make one with `fileSink`. */
export class FileSink<T> implements TwoPhaseCommittingSink<T, FileCommittable> {
  readonly kind = 'file'
  readonly twoPhase = true
  readonly options: FileSinkOptions<T>
  declare readonly __type?: (value: T) => void
  readonly #settings: FileWriterOptions<T>

  constructor(options: FileSinkOptions<T>) {
    this.options = options
    this.#settings = checkedSettings(options)
  }

  describe(): Readonly<Record<string, unknown>> {
    const { path, format } = this.#settings
    return { path, format: format.name }
  }

  createWriter(context: SinkWriterContext): FileWriter<T> {
    return new FileWriter(this.#settings, context)
  }

  createCommitter(context: CommitterContext): FileCommitter {
    return new FileCommitter(context, this.#settings.acceptLostFiles)
  }
}

/**
 * Writes files, exactly once: with checkpoints each record is in one visible file, whatever dies and whenever.
 * @example
 * fileSink<Order>({ path: 'out/orders', format: fileFormats.jsonLines(), bucket: dateTimeBucket({ pattern: 'yyyy-MM-dd' }) })
 */
export function fileSink<T>(options: FileSinkOptions<T>): FileSink<T> {
  return new FileSink(options)
}

function checkedSettings<T>(options: FileSinkOptions<T>): FileWriterOptions<T> {
  const {
    path,
    format,
    rolling = {},
    bucket,
    prefix = 'part',
    compression = 'none',
    onLostFile = 'fail',
  } = options
  const invalid = (what: string): ConfigError =>
    new ConfigError('MILLRACE_INVALID_OPTION', `fileSink: ${what}`, {
      remedy: 'docs/guide/file-sink.md lists the options.',
    })
  if (typeof path !== 'string' || path === '') throw invalid('path is missing: the folder to write to')
  if (typeof format?.createEncoder !== 'function')
    throw invalid('format is missing: fileFormats.jsonLines(), for example')
  if (compression !== 'none' && compression !== 'gzip')
    throw invalid(`compression '${String(compression)}' is neither none nor gzip`)
  if (compression === 'gzip' && !format.compressible)
    throw invalid(`${format.name} files are not compressed as a whole; set the format's own compression`)
  if (bucket !== undefined && typeof bucket !== 'function')
    throw invalid('bucket must be a function of the value')
  if (onLostFile !== 'fail' && onLostFile !== 'accept')
    throw invalid(`onLostFile '${String(onLostFile)}' is neither fail nor accept`)
  const suffix = options.suffix ?? `${format.extension}${compression === 'gzip' ? '.gz' : ''}`
  if (prefix === '' || prefix.startsWith('.') || !NAME_PART.test(prefix) || !NAME_PART.test(suffix))
    throw invalid(
      `prefix '${prefix}' and suffix '${suffix}' must be up to 60 letters, digits, '.', '_' and '-'; a prefix does not begin with a dot`,
    )
  const atLeastOne = (name: string, value: number): number => {
    if (typeof value === 'number' && value >= 1) return value
    throw invalid(`${name} ${String(value)} must be a number of 1 or more`)
  }
  return {
    path,
    format,
    maxBytes: atLeastOne('rolling.maxBytes', rolling.maxBytes ?? DEFAULT_MAX_BYTES),
    maxAgeMs: atLeastOne('rolling.maxAgeMs', rolling.maxAgeMs ?? DEFAULT_AGE_MS),
    inactivityMs: atLeastOne('rolling.inactivityMs', rolling.inactivityMs ?? DEFAULT_AGE_MS),
    maxOpenFiles: atLeastOne('maxOpenFiles', options.maxOpenFiles ?? DEFAULT_OPEN_FILES),
    bucket,
    prefix,
    suffix,
    gzip: compression === 'gzip',
    acceptLostFiles: onLostFile === 'accept',
  }
}
