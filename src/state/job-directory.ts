/** All checkpoints of one job in a shared directory (`state.backend: filesystem`): every run's can be read, one attempt writes. */
import { join } from 'node:path'
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import { encodeJobName } from '../core/job-name.ts'
import {
  DirectoryCheckpointStorage,
  type DirectoryStorageOptions,
  METADATA_FILE,
} from './directory-storage.ts'
import { existsStored, namesIn } from './durable-file.ts'
import { encodeMetadata } from './savepoint-metadata.ts'
import { openSnapshot, type StoredSnapshot } from './savepoint-source.ts'

/** Longest name of a job's folder. */
const FOLDER_NAME_BYTES = 100

/** Name of the job's folder below `state.checkpoints.dir`. */
export function jobFolder(jobName: string): string {
  return encodeJobName(jobName, FOLDER_NAME_BYTES)
}

/** The checkpoints of all runs of a job that lie in a directory whole. @throws StateLostError for damaged metadata */
export async function jobSnapshots(root: string, jobName: string): Promise<StoredSnapshot[]> {
  const found: StoredSnapshot[] = []
  const job = join(root, jobFolder(jobName))
  for (const run of await namesIn(job))
    for (const name of await namesIn(join(job, run)))
      if (await existsStored(join(job, run, name, METADATA_FILE)))
        found.push(await openSnapshot(join(job, run, name)))
  return found
}

/** What an attempt writes. Names are unique by (run, attempt, n), so a zombie's files and ours never meet. */
export interface DirectoryAttempt {
  blobs(n: number): BlobStore
  /** For people, and to start a job from; the checkpoint topic decides what is complete. */
  writeMetadata(checkpoint: CompletedCheckpoint): Promise<void>
}

export class JobDirectory {
  readonly #options: Omit<DirectoryStorageOptions, 'run' | 'writer'>
  /** A handle names its own run, so any storage of the root reads it. */
  readonly #any: DirectoryCheckpointStorage

  constructor(options: Omit<DirectoryStorageOptions, 'run' | 'writer'>) {
    this.#options = options
    this.#any = this.#storage('any', 'reader')
  }

  #storage(run: string, writer: string): DirectoryCheckpointStorage {
    return new DirectoryCheckpointStorage({ ...this.#options, run, writer })
  }

  get(handle: StateHandle): Promise<Uint8Array> {
    return this.#any.read(handle)
  }

  discard(handle: StateHandle): Promise<void> {
    return this.#any.discard(handle)
  }

  discardMetadata(run: string, n: number): Promise<void> {
    return this.#storage(run, 'reader').discardMetadata(n)
  }

  /** Proves that the directory can be written. @throws MILLRACE_CHECKPOINT_STORAGE naming the path. */
  async begin(run: string, attempt: number): Promise<DirectoryAttempt> {
    const storage = this.#storage(run, String(attempt))
    await storage.prepare()
    return {
      blobs: (n) => storage.blobStore(n),
      writeMetadata: async (checkpoint) => {
        // Left by an attempt that died on this n; the commit point that was written says which one is true.
        await storage.discardMetadata(checkpoint.n)
        await storage.writeMetadata(checkpoint.n, encodeMetadata('checkpoint', checkpoint))
      },
    }
  }
}
