/**
 * Checkpoint store of jobs without Kafka: on the heap of this process. Survives restarts of the attempt, not of the process.
 */

import type { BlobStore } from '../checkpoint/checkpoint-storage.ts'
import type {
  AttemptRecord,
  CheckpointStore,
  CommitPointOutcome,
  JobRecord,
  RecoveryFacts,
} from '../checkpoint/checkpoint-store.ts'
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { GroupOffset } from '../core/connector.ts'

export class MemoryCheckpointStore implements CheckpointStore {
  readonly blobs: BlobStore
  #attempt: AttemptRecord | undefined
  #job: JobRecord | undefined
  #completed: CompletedCheckpoint[] = []
  /** By run. */
  readonly #confirmed = new Map<string, number>()

  constructor(blobs: BlobStore) {
    this.blobs = blobs
  }

  async takeOver(): Promise<RecoveryFacts> {
    const run = this.#attempt?.run
    return {
      attempt: this.#attempt,
      job: this.#job,
      completed: this.#completed.filter((c) => c.run === run).sort((a, b) => a.n - b.n),
      ofEarlierRuns: this.#completed.filter((c) => c.run !== run),
      confirmed: run === undefined ? -1 : (this.#confirmed.get(run) ?? -1),
      acceptedLost: [],
    }
  }

  async startAttempt(record: AttemptRecord): Promise<void> {
    this.#attempt = record
    this.#job = undefined
  }

  async commitPoint(
    checkpoint: CompletedCheckpoint,
    _offsets: readonly GroupOffset[],
    forget: readonly number[] = [],
  ): Promise<CommitPointOutcome> {
    this.#completed = this.#completed.filter((c) => c.run !== checkpoint.run || !forget.includes(c.n))
    this.#completed.push(checkpoint)
    this.#confirm(checkpoint.run, checkpoint.confirmed)
    return { type: 'written' }
  }

  async writeConfirmed(run: string, n: number, end?: JobRecord): Promise<void> {
    this.#confirm(run, n)
    if (end !== undefined) this.#job = end
  }

  #confirm(run: string, n: number): void {
    this.#confirmed.set(run, Math.max(this.#confirmed.get(run) ?? -1, n))
  }

  async writeEnd(end: JobRecord): Promise<void> {
    this.#job = end
  }

  async proveLeadership(): Promise<void> {}

  async acceptLost(): Promise<void> {}

  async forget(run: string, n: number): Promise<void> {
    this.#completed = this.#completed.filter((checkpoint) => checkpoint.run !== run || checkpoint.n !== n)
  }

  async close(): Promise<void> {}
}
