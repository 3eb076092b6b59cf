/**
 * Contracts of keyed state that stores itself: backends whose checkpoints are not one blob of images (incremental files, Redis).
 * What all backends can do, images of everything, stays the way of savepoints and full checkpoints.
 */
import type { FrozenKeyedState, KeyedStateBackend } from '../core/state.ts'
import type { BlobStore, KeyedStateHandle } from './checkpoint-storage.ts'

/** Where one operator subtask's part of checkpoint n goes. */
export interface KeyedSnapshotTarget {
  readonly n: number
  /** Blobs of checkpoint n. What was put stays the backend's: an aborted checkpoint's layer belongs to the next one. */
  readonly blobs: BlobStore
  /** Unique within the checkpoint; blobs are named by it and a suffix. */
  readonly name: string
  /** Awaited between two slices of a few ms. */
  readonly pause: () => Promise<void>
}

/** Frozen state that is stored its own way. */
export interface SelfStoringState extends FrozenKeyedState {
  /**
   * Stores what the checkpoint needs beyond earlier ones. Resolves when it is durable; undefined = there is no state.
   * When it rejects, or is never called (a savepoint takes the images of `materialize` instead), what changed since the last stored snapshot
   * goes into the next one.
   */
  store(target: KeyedSnapshotTarget): Promise<KeyedStateHandle | undefined>
}

/** A backend that stores and restores by handles. */
export interface SelfStoringBackend extends KeyedStateBackend {
  freeze(checkpointId: number): SelfStoringState
  /**
   * Takes over the state of the handles as far as it lies in the own range, images and those of other parallelisms included; before the
   * first record. @throws StateLostError if something is missing; MILLRACE_STATE_INCOMPATIBLE for state that another backend keeps
   */
  restoreFrom(handles: readonly KeyedStateHandle[], reader: Pick<BlobStore, 'get'>): Promise<void>
  /** No restore will ask for a checkpoint before `oldest` any more. Repeatable; never throws for trouble that a later call can mend. */
  retainedFrom(oldest: number): void
}

export function storesItself(backend: KeyedStateBackend): backend is SelfStoringBackend {
  return 'restoreFrom' in backend && 'retainedFrom' in backend
}
