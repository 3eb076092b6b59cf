/** The snapshots of one job that belong to a person: its savepoints, and the checkpoints that somebody started from. */
import { join, resolve } from 'node:path'
import type { BlobStore } from '../checkpoint/checkpoint-storage.ts'
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import { keptIn } from '../checkpoint/savepoint.ts'
import { METADATA_FILE } from './directory-storage.ts'
import { existsStored } from './durable-file.ts'
import { readKept } from './kept-file.ts'
import { finishSavepoint, SavepointFolder } from './savepoint-folder.ts'
import { openSnapshot } from './savepoint-source.ts'

export interface SavepointFoldersOptions {
  /** The job's name as `encodeJobName` gives it. */
  readonly job: string
  /** `state.checkpoints.dir`, where checkpoints go into a directory. */
  readonly root: string | undefined
  /** Bytes up to this many stay in a savepoint's metadata. */
  readonly memoryThreshold: number
}

export class SavepointFolders {
  readonly #options: SavepointFoldersOptions

  constructor(options: SavepointFoldersOptions) {
    this.#options = options
  }

  /** A new savepoint `savepoint-<job>-<id>` below `directory`. @throws MILLRACE_CHECKPOINT_STORAGE if it cannot be written */
  create(directory: string, id: string): Promise<SavepointFolder> {
    const { job, memoryThreshold } = this.#options
    return SavepointFolder.create({ directory: resolve(directory), job, id, memoryThreshold })
  }

  /**
   * Writes the metadata of a savepoint whose leader died between its commits and this. Of a job that went on it may be there already, or the
   * folder was moved since: then nothing is begun in its place. @throws MILLRACE_CHECKPOINT_STORAGE
   */
  async finish(checkpoint: CompletedCheckpoint): Promise<void> {
    const { savepoint } = checkpoint
    if (savepoint === undefined) return
    const { path, stop } = savepoint
    const isDue = async () => (await existsStored(path)) && !(await existsStored(join(path, METADATA_FILE)))
    if (stop === true || (await isDue())) await finishSavepoint(checkpoint, path)
  }

  /** @throws StateLostError if nothing can be restored from the path */
  async open(path: string): Promise<CompletedCheckpoint> {
    return (await openSnapshot(path)).checkpoint
  }

  /** The checkpoint, with files that whoever restores them must not delete. */
  keep(checkpoint: CompletedCheckpoint): CompletedCheckpoint {
    const { root } = this.#options
    return root === undefined ? checkpoint : keptIn(checkpoint, resolve(root))
  }
}

/** Storage that also reads files that belong to a person, and never deletes them. */
export function withFolders<S extends Pick<BlobStore, 'get' | 'discard'>>(
  storage: S,
  folders: SavepointFolders,
): S & { readonly folders: SavepointFolders } {
  return {
    ...storage,
    folders,
    get: (handle) => (handle.kind === 'kept' ? readKept(handle) : storage.get(handle)),
    discard: async (handle) => {
      if (handle.kind !== 'kept') await storage.discard(handle)
    },
  }
}
