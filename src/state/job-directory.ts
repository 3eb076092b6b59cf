/** All checkpoints of one job in a shared directory (`state.backend: filesystem`): every run's can be read, one attempt writes. */
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import { DirectoryCheckpointStorage, type DirectoryStorageOptions } from './directory-storage.ts'

/** What an attempt writes. Names are unique by (run, attempt, n), so a zombie's files and ours never meet. */
export interface DirectoryAttempt {
  blobs(n: number): BlobStore
  /** For people, and to start a job from; the checkpoint topic decides what is complete. */
  writeMetadata(n: number, bytes: Uint8Array): Promise<void>
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
      writeMetadata: async (n, bytes) => {
        // Left by an attempt that died on this n; the commit point that was written says which one is true.
        await storage.discardMetadata(n)
        await storage.writeMetadata(n, bytes)
      },
    }
  }
}
