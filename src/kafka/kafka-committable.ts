/**
 * A prepared transaction: enough to commit it from another process, and to find its records again if the broker gave it up. JSON-safe.
 */
import type { ProducerIdentity } from './kafka-cluster.ts'

/** What a transaction wrote to one partition. Offsets are decimal strings. */
export interface WrittenRange {
  readonly topic: string
  readonly topicId: string
  readonly partition: number
  readonly firstOffset: string
  readonly lastOffset: string
  readonly count: number
  /** See batch-digest.ts. */
  readonly digest: string
}

export interface KafkaCommittable {
  readonly transactionalId: string
  /** Decimal. */
  readonly producerId: string
  readonly producerEpoch: number
  readonly attempt: number
  /** Checkpoint it was prepared for. */
  readonly n: number
  /** Epoch ms at which the broker may give the transaction up. */
  readonly deadline: number
  readonly ranges: readonly WrittenRange[]
}

export function identityOf(committable: KafkaCommittable): ProducerIdentity {
  return {
    transactionalId: committable.transactionalId,
    producerId: BigInt(committable.producerId),
    producerEpoch: committable.producerEpoch,
  }
}

/** For people: what would be lost. */
export function describeCommittable(committable: KafkaCommittable): string {
  const ranges = committable.ranges.map(
    (r) => `${r.topic}-${r.partition} offsets ${r.firstOffset}..${r.lastOffset} (${r.count} records)`,
  )
  return `transaction ${committable.transactionalId} (producer ${committable.producerId}, epoch ${committable.producerEpoch}) of checkpoint ${committable.n}: ${ranges.join(', ')}`
}
