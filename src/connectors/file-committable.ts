/**
 * What checkpoints hold of a file sink, as stored: neither form ever changes within its number.
 *
 *   committable    a file that is whole and durable under its hidden name, and waits for its checkpoint
 *   open part      the beginning of a file that was being written at the barrier, durable up to its length
 */
import { isAbsolute, join, normalize, sep } from 'node:path'
import { MillraceError } from '../errors.ts'

/** Number of the stored forms. */
export const FILE_FORMAT = 1

/** What both forms say. Paths are relative to `base`, so that the sink's folder can lie elsewhere in another worker's view of a relative path. */
interface StoredPart {
  readonly format: typeof FILE_FORMAT
  /** The sink's path at the time of writing. */
  readonly base: string
  /** The hidden name. */
  readonly staged: string
  /** The name that readers see, once it is committed. */
  readonly path: string
  readonly crc32: number
  readonly records: number
  /** Who wrote it. */
  readonly attempt: number
  readonly subtask: number
}

/** A whole file that becomes visible with checkpoint `n`. */
export interface FileCommittable extends StoredPart {
  readonly size: number
  readonly n: number
}

/** A file that was open at the barrier: its first `length` bytes belong to the checkpoint. */
export interface OpenPart extends StoredPart {
  readonly length: number
}

/** Where a stored relative path leads. It is stored data: it must not lead out. */
export function pathBelow(base: string, path: string): string {
  const relative = normalize(path)
  if (isAbsolute(relative) || relative.split(sep)[0] === '..')
    throw lostFile(base, `is not where a checkpoint's file can be: '${path}'`)
  return join(base, relative)
}

/** @throws MillraceError MILLRACE_STATE_INCOMPATIBLE for a form that this version does not know */
export function checkFormat(part: { readonly format: unknown }): void {
  if (part.format === FILE_FORMAT) return
  throw new MillraceError(
    'MILLRACE_STATE_INCOMPATIBLE',
    `the checkpoint holds files of a file sink in form ${String(part.format)}; this version reads form ${FILE_FORMAT}`,
    { remedy: 'Start the job with the version of Millrace that took the checkpoint, or a newer one.' },
  )
}

/** Output that a completed checkpoint promised is not there as it was written. */
export function lostFile(
  path: string,
  why: string,
  details: Readonly<Record<string, unknown>> = {},
): MillraceError {
  return new MillraceError('MILLRACE_FILE_LOST', `'${path}' ${why}`, { details: { path, ...details } })
}

/** Many losses in one, so that one report names all. */
export function lostFiles(losses: readonly MillraceError[]): MillraceError {
  const [first, ...others] = losses
  if (first !== undefined && others.length === 0) return first
  return new MillraceError('MILLRACE_FILE_LOST', losses.map(({ message }) => message).join('; '), {
    details: { paths: losses.map(({ details }) => details['path']) },
  })
}
