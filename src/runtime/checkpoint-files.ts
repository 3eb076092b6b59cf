/**
 * The files of one attempt's checkpoints: which are needed, and the removal of the others. Removing is never in the way of a checkpoint; what
 * could not be removed is tried again after the next commit point.
 *
 *   stored ──aborted──▶ its own: removed at once
 *                    └▶ layers of a chain: the next completed checkpoint names them ─▶ shared with it
 *                                                               └ does not ─▶ nobody will any more: removed
 *   completed ──forgotten──▶ what no other completed checkpoint names: removed
 */
import type { StateHandle } from '../checkpoint/checkpoint-storage.ts'
import {
  type CompletedCheckpoint,
  chainHandlesOf,
  type OperatorSubtaskState,
  ownHandlesOf,
} from '../checkpoint/completed-checkpoint.ts'
import { SharedStateRegistry, storedName } from '../checkpoint/shared-state-registry.ts'
import type { Logger } from '../core/ports.ts'
import type { OutsideRuns } from './outside-runs.ts'
import type { AttemptStorage, StateStorage } from './state-storage.ts'

export interface CheckpointFilesOptions {
  readonly storage: StateStorage
  readonly attemptStorage: AttemptStorage
  readonly outside: OutsideRuns
  readonly logger: Logger
}

export class CheckpointFiles {
  readonly #options: CheckpointFilesOptions
  readonly #shared = new SharedStateRegistry()
  /** Layers of aborted checkpoints, until the next completed one shows whether they are needed. */
  #undecided: { readonly n: number; readonly layers: readonly StateHandle[] }[] = []
  /** Removals that failed. */
  readonly #leftover: (() => Promise<void>)[] = []

  constructor(options: CheckpointFilesOptions) {
    this.#options = options
  }

  /** A completed checkpoint is stored. */
  add(checkpoint: CompletedCheckpoint): void {
    this.#shared.add(checkpoint)
    this.#options.outside.add(checkpoint)
  }

  /** Checkpoint n will never complete; `states` is a part of what was stored for it. Never rejects. */
  async aborted(n: number, states: readonly OperatorSubtaskState[]): Promise<void> {
    const layers = chainHandlesOf(states).filter((handle) => storedName(handle) !== undefined)
    if (layers.length > 0) this.#undecided.push({ n, layers })
    for (const handle of ownHandlesOf(states)) {
      try {
        await this.#options.storage.discard(handle)
      } catch (error) {
        // Orphans cost room, not correctness.
        this.#options.logger.warn('could not remove a snapshot that nobody needs', { error })
      }
    }
  }

  /** Follows a commit point, in which no record names the `forgotten` any more: removes what only they named. Never rejects. */
  async afterwards(
    checkpoint: CompletedCheckpoint,
    forgotten: readonly CompletedCheckpoint[],
  ): Promise<void> {
    const { attemptStorage, storage, outside, logger } = this.#options
    const removals = this.#leftover.splice(0)
    for (const old of forgotten) {
      const handles = this.#shared.forget(old)
      removals.push(async () => {
        await discardFiles(old, handles, storage)
        await outside.forgotten(old)
      })
    }
    for (const layer of this.#unnamedLayers(checkpoint)) removals.push(() => storage.discard(layer))
    // The checkpoint itself is safe in the store; left-over files cost room.
    const failed = (error: unknown): void =>
      logger.warn(`files around checkpoint ${checkpoint.n} could not be written or removed`, { error })
    try {
      if (checkpoint.kind !== 'savepoint') await attemptStorage.writeMetadata?.(checkpoint)
    } catch (error) {
      failed(error)
    }
    for (const removal of removals) {
      try {
        await removal()
      } catch (error) {
        this.#leftover.push(removal)
        failed(error)
      }
    }
  }

  /**
   * Layers of checkpoints aborted before this one that nobody will name: a chain that has them is named whole by the next checkpoint. A
   * savepoint, which names no chain, decides nothing. What a retained checkpoint names goes with that one.
   */
  #unnamedLayers({ kind, n }: CompletedCheckpoint): StateHandle[] {
    if (kind !== 'checkpoint') return []
    const decided = this.#undecided.filter((aborted) => aborted.n < n)
    this.#undecided = this.#undecided.filter((aborted) => aborted.n > n)
    const unnamed = new Map<string | undefined, StateHandle>()
    for (const layer of decided.flatMap(({ layers }) => layers))
      if (!this.#shared.has(layer)) unnamed.set(storedName(layer), layer)
    return [...unnamed.values()]
  }
}

/** Deletes what a checkpoint named, as far as `handles` has it, and its metadata. Repeatable. */
export async function discardFiles(
  checkpoint: CompletedCheckpoint,
  handles: readonly StateHandle[],
  storage: StateStorage,
): Promise<void> {
  for (const handle of handles) await storage.discard(handle)
  await storage.discardMetadata?.(checkpoint.run, checkpoint.n)
}
