/** Where a job's snapshots go: the checkpoint topic, a directory, or the heap. */
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { StateCodec } from './subtask-checkpointer.ts'

/** Reads and removes what any attempt of the job stored. */
export type StateReader = Pick<BlobStore, 'get' | 'discard'>

/** Storage of one attempt: names are unique by (run, attempt, n). */
export interface AttemptStorage {
  blobs(n: number): BlobStore
  /** Writes the checkpoint's own metadata beside its files, before the commit point. */
  writeMetadata?(n: number, bytes: Uint8Array): Promise<void>
}

export interface StateStorage extends StateReader {
  readonly codec: StateCodec
  /** Checks that it can be written. @throws MILLRACE_CHECKPOINT_STORAGE naming the place. */
  begin(run: string, attempt: number): Promise<AttemptStorage>
  /** Removes the metadata of a discarded checkpoint, when its files are gone. */
  discardMetadata?(run: string, n: number): Promise<void>
}

/** Storage over one blob store without metadata of its own: the checkpoint topic, or the heap. */
export function plainStorage(store: BlobStore, codec: StateCodec): StateStorage {
  return {
    codec,
    get: (handle) => store.get(handle),
    discard: (handle) => store.discard(handle),
    begin: async (run, attempt) => ({
      blobs: (n): BlobStore => ({
        put: (name: string, bytes: Uint8Array): Promise<StateHandle> =>
          store.put(`${run}/${attempt}/${n}/${name}`, bytes),
        get: (handle) => store.get(handle),
        discard: (handle) => store.discard(handle),
      }),
    }),
  }
}
