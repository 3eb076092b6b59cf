/** Everything that lies in a job's folder below `state.checkpoints.dir`, as what may be orphaned. */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type CheckpointFacts, orphansAmong, type StoredBlob } from '../checkpoint/orphans.ts'
import { METADATA_FILE } from './directory-storage.ts'
import { namesIn, removeStored, storing, TEMPORARY_ENDING } from './durable-file.ts'

const FOLDER = /^chk-(\d+)$/
/** `<name>-<attempt>`; while a file is being written, `<its name>.<attempt>.tmp` (metadata have no attempt in their own name). */
const WRITTEN = /-(\d+)$/
const BEING_WRITTEN = new RegExp(`\\.(\\d+)\\${TEMPORARY_ENDING}$`)

/** The files of all runs, with paths as handles name them. `now` in epoch ms. @throws MILLRACE_CHECKPOINT_STORAGE */
export async function listJobFiles(root: string, job: string, now: number): Promise<StoredBlob[]> {
  const found: StoredBlob[] = []
  for (const run of await namesIn(join(root, job)))
    for (const folder of await foldersIn(join(root, job, run))) {
      const n = Number((FOLDER.exec(folder) as RegExpExecArray)[1])
      for (const file of await namesIn(join(root, job, run, folder))) {
        const name = [job, run, folder, file].join('/')
        const seen = await sizeAndTime(join(root, name))
        // Removed since it was listed: the job does that all the time.
        if (seen === undefined) continue
        found.push({
          name,
          bytes: seen.size,
          ageMs: now - seen.mtimeMs,
          attempt: writerOf(file),
          ...(file === METADATA_FILE ? { metadataOf: { run, n } } : {}),
        })
      }
    }
  return found
}

/** Those of the files that nobody needs; `facts` were read after the files were listed. */
export function orphanFiles(
  files: readonly StoredBlob[],
  facts: CheckpointFacts,
  minAgeMs: number,
): StoredBlob[] {
  return orphansAmong(files, facts, minAgeMs)
}

/** Removes files, and the folders that this leaves empty. What is gone already is fine. @throws MILLRACE_CHECKPOINT_STORAGE */
export async function removeJobFiles(root: string, orphans: readonly StoredBlob[]): Promise<void> {
  for (const { name } of orphans) await removeStored(join(root, name), root)
}

async function foldersIn(run: string): Promise<string[]> {
  try {
    return (await namesIn(run)).filter((name) => FOLDER.test(name))
  } catch (error) {
    // A file of somebody else lies among the runs.
    if ((error as { cause?: { code?: unknown } }).cause?.code === 'ENOTDIR') return []
    throw error
  }
}

function writerOf(file: string): number | undefined {
  const attempt = (BEING_WRITTEN.exec(file) ?? WRITTEN.exec(file))?.[1]
  return attempt === undefined ? undefined : Number(attempt)
}

function sizeAndTime(path: string): Promise<{ readonly size: number; readonly mtimeMs: number } | undefined> {
  return storing(path, async () => {
    try {
      return await stat(path)
    } catch (error) {
      if ((error as { code?: unknown }).code === 'ENOENT') return undefined
      throw error
    }
  })
}
