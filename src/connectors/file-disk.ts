/**
 * The file operations of the file sink. Whatever goes wrong is told with the path and the system's own code, as MILLRACE_FILE_STORAGE.
 */
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'
import { isMillraceError, MillraceError } from '../errors.ts'

/** Runs work on a file. @throws MillraceError MILLRACE_FILE_STORAGE naming the path and the system's code */
export async function onDisk<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    if (isMillraceError(cause)) throw cause
    throw new MillraceError(
      'MILLRACE_FILE_STORAGE',
      `the file sink failed at '${path}': ${systemCode(cause) ?? String(cause)}`,
      { cause, details: { path } },
    )
  }
}

/** Makes a folder and those above it; what was made is durable when this resolves. */
export function makeFolder(path: string): Promise<void> {
  return onDisk(path, async () => {
    const first = await mkdir(path, { recursive: true })
    if (first === undefined) return
    // A folder is durable once the one that names it is.
    for (let made = path; ; made = dirname(made)) {
      await syncFolder(dirname(made))
      if (made === first || made === dirname(made)) return
    }
  })
}

/** What was made, renamed or removed in the folder is durable when this resolves. */
export function syncFolder(path: string): Promise<void> {
  return onDisk(path, async () => {
    const folder = await open(path, 'r')
    try {
      await folder.sync()
    } finally {
      await folder.close()
    }
  })
}

/** Bytes of a file; undefined if there is none. */
export function sizeOf(path: string): Promise<number | undefined> {
  return onDisk(path, () =>
    stat(path).then(
      ({ size }) => size,
      (error: unknown) => absent(error),
    ),
  )
}

/** Names in a folder; none if it does not exist. */
export function namesIn(path: string): Promise<string[]> {
  return onDisk(path, async () => (await readdir(path).catch(absent)) ?? [])
}

/** Deletes a file, if it is there. */
export function removeFile(path: string): Promise<void> {
  return onDisk(path, () => unlink(path).catch(absent))
}

/** Moves a file within its file system, in one step. False if it is not there. */
export function moveFile(from: string, to: string): Promise<boolean> {
  return onDisk(from, () =>
    rename(from, to).then(
      () => true,
      (error: unknown) => {
        absent(error)
        return false
      },
    ),
  )
}

/** Begins a file that must not exist yet. */
export function createFile(path: string): Promise<FileHandle> {
  return onDisk(path, () => open(path, 'wx'))
}

/** CRC-32 of the first `length` bytes; undefined if the file is not there or shorter. */
export function checksumOf(path: string, length: number): Promise<number | undefined> {
  return onDisk(path, async () => {
    let read = 0
    let checksum = 0
    try {
      if (length > 0)
        for await (const chunk of createReadStream(path, { end: length - 1 })) {
          checksum = crc32(chunk as Buffer, checksum)
          read += (chunk as Buffer).length
        }
    } catch (error) {
      return absent(error)
    }
    return read === length ? checksum : undefined
  })
}

/** Makes a durable file of the first `length` bytes of another one. Their CRC-32 is checked while they are copied; false: they are others. */
export function copyStart(
  from: string,
  to: string,
  expected: { readonly length: number; readonly crc32: number },
): Promise<boolean> {
  return onDisk(to, async () => {
    const file = await open(to, 'w')
    let checksum = 0
    let copied = 0
    try {
      if (expected.length > 0)
        for await (const chunk of createReadStream(from, { end: expected.length - 1 })) {
          await file.appendFile(chunk as Buffer)
          checksum = crc32(chunk as Buffer, checksum)
          copied += (chunk as Buffer).length
        }
      await file.sync()
    } finally {
      await file.close()
    }
    if (copied === expected.length && checksum === expected.crc32) return true
    await removeFile(to)
    return false
  })
}

function systemCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

/** The answer for what is not there. @throws every other error */
function absent(error: unknown): undefined {
  const code = systemCode(error)
  if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error
}
