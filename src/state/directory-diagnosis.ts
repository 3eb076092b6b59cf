/** Whether a folder can take checkpoints or savepoints. */
import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { access, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { type Diagnosis, fix, ok } from '../core/diagnosis.ts'

/** With less room than this a checkpoint may not fit. */
const LEAST_FREE_BYTES = 1 << 30

/** Writes a file there and removes it; a folder that does not exist yet is only judged by the one that it would be made in. */
export async function diagnoseDirectory(option: string, path: string): Promise<Diagnosis> {
  const check = `${option} ${path}`
  const folder = await nearestFolder(resolve(path))
  const exists = folder === resolve(path)
  try {
    await access(folder, constants.W_OK | constants.X_OK)
    if (exists) {
      const probe = join(folder, `.doctor-${randomUUID()}`)
      await writeFile(probe, 'written by millrace doctor')
      await rm(probe)
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return fix(
      check,
      `cannot write to ${folder} (${code ?? String(error)})`,
      `Let the user of this process write there, on every worker, or set ${option} to another folder.`,
    )
  }
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (free < LEAST_FREE_BYTES)
    return fix(check, `only ${megabytes(free)} MB are free`, 'Make room, or use another disk.')
  return ok(check, `${exists ? 'writable' : `can be made in ${folder}`}, ${megabytes(free)} MB free`)
}

async function nearestFolder(path: string): Promise<string> {
  for (let folder = path; ; folder = dirname(folder)) {
    try {
      // Of a file in its place, writing into it says so.
      await stat(folder)
      return folder
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || folder === dirname(folder)) throw error
    }
  }
}

const megabytes = (bytes: number): number => Math.floor(bytes / (1 << 20))
