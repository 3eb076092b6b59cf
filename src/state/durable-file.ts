/**
 * Files that appear whole or not at all: written under a temporary name, synced, renamed, and the folder synced. Whatever goes wrong is told
 * with the path and the system's own code, as MILLRACE_CHECKPOINT_STORAGE; what should be there and is not, as MILLRACE_STATE_LOST.
 */
import {
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rmdir,
  stat,
  unlink,
} from 'node:fs/promises'
import { dirname, isAbsolute, join, normalize, sep } from 'node:path'
import { crc32 } from '@node-rs/crc32'
import { MillraceError, StateLostError } from '../errors.ts'

/** Ending of a file that is being written. One that is left over belongs to nobody. */
export const TEMPORARY_ENDING = '.tmp'

/** Largest file that can be read again in one piece. */
export const MAX_FILE_BYTES = 2 ** 31 - 1

const SAFE_NAME = /^[a-zA-Z0-9._-]+$/

/** What a handle says about the bytes of a file. */
export interface StoredBytes {
  readonly size: number
  readonly crc32: number
}

/**
 * Writes a file, making its folder. `writer` is unique among those who may write it at the same time.
 * @throws MillraceError MILLRACE_CHECKPOINT_STORAGE naming the path; then the file is not there
 */
export async function writeDurably(path: string, bytes: Uint8Array, writer: string): Promise<void> {
  if (bytes.length > MAX_FILE_BYTES)
    throw new MillraceError(
      'MILLRACE_CHECKPOINT_STORAGE',
      `'${path}' would have ${bytes.length} bytes; a file of more than ${MAX_FILE_BYTES} could not be read again`,
      {
        details: { path },
        remedy:
          'Raise pipeline.max-parallelism, or spread the keys: the state of one key group is in one file.',
      },
    )
  const folder = dirname(path)
  const temporary = `${path}.${writer}${TEMPORARY_ENDING}`
  await storing(path, async () => {
    await mkdir(folder, { recursive: true })
    try {
      await withFile(await open(temporary, 'w'), async (file) => {
        await file.writeFile(bytes)
        await file.sync()
      })
      await rename(temporary, path)
    } catch (error) {
      await unlink(temporary).catch(ignoreMissing)
      throw error
    }
    // The rename itself is durable only once the directory is.
    await withFile(await open(folder, 'r'), (directory) => directory.sync())
  })
}

/**
 * The bytes of a file that stored state names.
 * @throws StateLostError if it is missing, or not what was written
 */
export async function readVerified(path: string, expected: StoredBytes): Promise<Uint8Array> {
  const bytes = await readStored(path)
  if (bytes.length !== expected.size)
    throw lostFile(path, `has ${bytes.length} bytes, the checkpoint names ${expected.size}`)
  if (crc32(bytes) !== expected.crc32)
    throw lostFile(path, 'is damaged: its checksum is not that of the checkpoint')
  return bytes
}

/** A whole file. @throws StateLostError if there is none */
export async function readStored(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path)
  } catch (cause) {
    const code = codeOf(cause)
    if (code === 'ENOENT' || code === 'ENOTDIR')
      throw new StateLostError('MILLRACE_STATE_LOST', `'${path}' does not exist`, {
        cause,
        details: { path },
      })
    return storing(path, () => Promise.reject(cause))
  }
}

/** Deletes a file, if it is there, and the folders below `root` that this left empty. */
export async function removeStored(path: string, root: string): Promise<void> {
  await storing(path, async () => {
    await unlink(path).catch(ignoreMissing)
    for (let folder = dirname(path); folder.length > normalize(root).length; folder = dirname(folder))
      if (!(await removeIfEmpty(folder))) return
  })
}

/** Makes a folder and proves that files can be written into it. @throws MillraceError MILLRACE_CHECKPOINT_STORAGE */
export async function proveWritable(folder: string, writer: string): Promise<void> {
  const probe = join(folder, `.probe-${writer}`)
  await storing(folder, async () => {
    await mkdir(folder, { recursive: true })
    await (await open(probe, 'w')).close()
    await unlink(probe)
  })
}

/** True if something lies at the path. */
export async function existsStored(path: string): Promise<boolean> {
  return storing(path, async () => {
    try {
      await stat(path)
      return true
    } catch (error) {
      ignoreMissing(error)
      return false
    }
  })
}

/** Names in a folder; none if it does not exist. */
export async function namesIn(folder: string): Promise<string[]> {
  return storing(folder, async () => {
    try {
      return await readdir(folder)
    } catch (error) {
      ignoreMissing(error)
      return []
    }
  })
}

/** Deletes a folder if nothing is in it. True if it is gone now. */
export async function removeIfEmpty(folder: string): Promise<boolean> {
  try {
    await rmdir(folder)
    return true
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return true
    if (code === 'ENOTEMPTY' || code === 'EEXIST') return false
    throw error
  }
}

/** A stored relative path below `root`. It is stored data: it must not lead out. @throws StateLostError */
export function pathBelow(root: string, path: string): string {
  const relative = normalize(path)
  if (isAbsolute(relative) || relative.split(sep)[0] === '..')
    throw lostFile(root, `is not where the handle leads: '${path}'`)
  return join(root, relative)
}

/** @throws MillraceError MILLRACE_INTERNAL for a name that could mean another folder */
export function checkFileName(name: string): void {
  if (SAFE_NAME.test(name) && name !== '.' && name !== '..') return
  throw new MillraceError('MILLRACE_INTERNAL', `'${name}' cannot be part of a file name`)
}

/** State that a file should hold and does not. */
export function lostFile(path: string, why: string): StateLostError {
  return new StateLostError('MILLRACE_STATE_LOST', `'${path}' ${why}`, { details: { path } })
}

/** Runs work on stored files; what goes wrong is told with the path and the system's own code. */
export async function storing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw new MillraceError(
      'MILLRACE_CHECKPOINT_STORAGE',
      `Checkpoint storage failed at '${path}': ${codeOf(cause) ?? String(cause)}`,
      { cause, details: { path } },
    )
  }
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

function ignoreMissing(error: unknown): void {
  if (codeOf(error) !== 'ENOENT') throw error
}

async function withFile<T>(file: FileHandle, use: (file: FileHandle) => Promise<T>): Promise<T> {
  try {
    return await use(file)
  } finally {
    await file.close()
  }
}
