/**
 * Where files are while nobody may see them: `<path>/.millrace/<job>.<uid>-<hash>/<attempt>-<subtask>-<name>`. It is below the sink's own folder,
 * so that a file becomes visible by a rename within one file system; each sink of each job has a folder of its own in it, so that nobody
 * removes what belongs to another; and no two attempts write under one name, so that a process which was given up cannot change what its
 * successor stored (protocol §1.2).
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'

/** Folder of all sinks' hidden files, below the path of a sink. */
export const STAGING_FOLDER = '.millrace'

const READABLE_LENGTH = 40
const HASH_LENGTH = 12
const STAGED_NAME = /^(\d+)-(\d+)-(.+)$/

/** Who writes a hidden file. */
export interface StagedBy {
  readonly attempt: number
  readonly subtask: number
}

/** The hidden folder of one sink, relative to its path. */
export function stagingFolder(jobName: string, uid: string): string {
  // Readable parts alone could be the same for two jobs.
  const hash = createHash('sha256')
    .update(JSON.stringify([jobName, uid]))
    .digest('hex')
    .slice(0, HASH_LENGTH)
  return join(STAGING_FOLDER, `${readable(jobName)}.${readable(uid)}-${hash}`)
}

/** The hidden name of a file. `part` is the name that readers will see, without its folder; it is unique in all attempts and subtasks. */
export function stagedName({ attempt, subtask }: StagedBy, part: string): string {
  return `${attempt}-${subtask}-${part}`
}

/** What a hidden name says; undefined for a name that no sink gives. */
export function parseStagedName(name: string): (StagedBy & { readonly part: string }) | undefined {
  const [, attempt, subtask, part] = STAGED_NAME.exec(name) ?? []
  return part === undefined ? undefined : { attempt: Number(attempt), subtask: Number(subtask), part }
}

function readable(name: string): string {
  return name.replace(/[^\w-]+/g, '_').slice(0, READABLE_LENGTH)
}
