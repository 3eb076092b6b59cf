/** Where a job's snapshots go: the checkpoint topic, a directory, or the heap. */
import type { BlobStore, ExternalHandle, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { StateCodec } from './subtask-checkpointer.ts'

/** Reads and removes what any attempt of the job stored. */
export type StateReader = Pick<BlobStore, 'get' | 'discard'>

/** Storage of one attempt: names are unique by (run, attempt, n). */
export interface AttemptStorage {
  blobs(n: number): BlobStore
  /** Writes the checkpoint's own metadata beside its files, after the commit point. */
  writeMetadata?(checkpoint: CompletedCheckpoint): Promise<void>
}

/** One savepoint that is being written. */
export interface SavepointTarget {
  /** Its folder, absolute. */
  readonly path: string
  readonly blobs: BlobStore
  /** A commit point that names it may be written from now on: nothing of it is deleted any more. */
  seal(): void
  /** That commit point never happened. */
  unseal(): void
  /** Makes it a savepoint: the output of the checkpoint is committed. */
  finish(checkpoint: CompletedCheckpoint): Promise<void>
  /** Deletes what was written, unless a checkpoint may name it. */
  abandon(): Promise<void>
}

/** Savepoints and retained checkpoints: snapshots that belong to a person. */
export interface SnapshotFolders {
  /** A new savepoint below `directory`. @throws MILLRACE_CHECKPOINT_STORAGE if it cannot be written */
  create(directory: string, id: string): Promise<SavepointTarget>
  /** Writes the metadata of a savepoint whose leader died between its commits and this. Repeatable. */
  finish(checkpoint: CompletedCheckpoint): Promise<void>
  /** What a path names, with files that are never deleted. @throws StateLostError if there is nothing to restore */
  open(path: string): Promise<CompletedCheckpoint>
  /** A checkpoint of the job, with its files as a person's who chose to start from it. */
  keep(checkpoint: CompletedCheckpoint): CompletedCheckpoint
}

/** A store that keeps keyed state outside of checkpoints, run by run (Redis). */
export interface OutsideState {
  /** For messages. */
  readonly name: string
  /** The run of this job whose state the handle names; undefined: it names something else. */
  runOf(handle: ExternalHandle): string | undefined
  /** Runs of the job that keep something there. Absent where a run cannot be told from one that another process has under way. */
  runs?(): Promise<ReadonlySet<string>>
  /** Removes all that a run keeps. Repeatable. */
  discard(run: string): Promise<void>
}

export interface StateStorage extends StateReader {
  readonly codec: StateCodec
  /** Checks that it can be written. @throws MILLRACE_CHECKPOINT_STORAGE naming the place. */
  begin(run: string, attempt: number): Promise<AttemptStorage>
  /** Removes the metadata of a discarded checkpoint, when its files are gone. */
  discardMetadata?(run: string, n: number): Promise<void>
  /** Where keyed state stays outside of checkpoints. */
  readonly outside?: OutsideState | undefined
  /** Absent where nothing is written to disks. */
  readonly folders?: SnapshotFolders
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
