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

export class MemoryCheckpointStore implements CheckpointStore {
  readonly blobs: BlobStore
  #attempt: AttemptRecord | undefined
  #job: JobRecord | undefined
  #completed: CompletedCheckpoint[] = []
  #confirmed = -1

  constructor(blobs: BlobStore) {
    this.blobs = blobs
  }

  async takeOver(): Promise<RecoveryFacts> {
    return {
      attempt: this.#attempt,
      job: this.#job,
      completed: [...this.#completed],
      confirmed: this.#confirmed,
      acceptedLost: [],
    }
  }

  async startAttempt(record: AttemptRecord): Promise<void> {
    this.#attempt = record
    this.#job = undefined
  }

  async commitPoint(checkpoint: CompletedCheckpoint): Promise<CommitPointOutcome> {
    this.#completed.push(checkpoint)
    this.#confirmed = Math.max(this.#confirmed, checkpoint.confirmed)
    return { type: 'written' }
  }

  async writeConfirmed(_run: string, n: number, end?: JobRecord): Promise<void> {
    this.#confirmed = Math.max(this.#confirmed, n)
    if (end !== undefined) this.#job = end
  }

  async writeEnd(end: JobRecord): Promise<void> {
    this.#job = end
  }

  async acceptLost(): Promise<void> {}

  async forget(run: string, n: number): Promise<void> {
    this.#completed = this.#completed.filter((checkpoint) => checkpoint.run !== run || checkpoint.n !== n)
  }

  async close(): Promise<void> {}
}
