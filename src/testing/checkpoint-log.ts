/**
 * The completed checkpoints of a job under test, whoever keeps them: the checkpoint topic of a job with Kafka, this store for one without.
 */
import type { CommitPointOutcome } from '../checkpoint/checkpoint-store.ts'
import { type CompletedCheckpoint, decodeCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { GroupOffset } from '../core/connector.ts'
import { LargeEntries } from '../kafka/large-entries.ts'
import { jobTopic } from '../kafka/transactional-id.ts'
import { MemoryCheckpointStore } from '../runtime/memory-checkpoint-store.ts'
import { CommittedReader } from './committed-reader.ts'
import type { SimulatedKafka } from './simulated-cluster.ts'

/** A store of checkpoints that remembers them all, also those that were forgotten since. */
export class CheckpointLog extends MemoryCheckpointStore {
  readonly #completed: CompletedCheckpoint[] = []
  #topic: CommittedReader | undefined
  readonly #visit = new LargeEntries().joining((key, value) => {
    if (key.startsWith('completed/') && value !== null)
      this.#completed.push(decodeCheckpoint(value.toString(), key))
  })

  /** In the order in which they were completed, as of now; checkpoint 0 is the start positions. */
  completed(kafka: SimulatedKafka, jobName: string): readonly CompletedCheckpoint[] {
    const name = jobTopic(jobName, 'checkpoints')
    const log = kafka.inside.topics.get(name)?.partitions[0]?.log
    if (log === undefined) return this.#completed
    this.#topic ??= new CommittedReader(log)
    for (const { key, value } of this.#topic.read()) this.#visit(key?.toString() ?? '', value)
    return this.#completed
  }

  override async commitPoint(
    checkpoint: CompletedCheckpoint,
    offsets: readonly GroupOffset[],
    forget?: readonly number[],
  ): Promise<CommitPointOutcome> {
    const outcome = await super.commitPoint(checkpoint, offsets, forget)
    this.#completed.push(checkpoint)
    return outcome
  }
}
