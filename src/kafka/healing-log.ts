/**
 * Where healing keeps its progress: records written again and the note of how far it came are one fenced transaction, so a healer that is
 * killed continues where it was, and no record is written twice.
 */
import type { BatchProducerFields } from './record-batch-builder.ts'

/** A batch that is written again under another producer. */
export interface RewrittenBatch {
  readonly topic: string
  readonly partition: number
  readonly count: number
  /** Bytes of the batch as it will be sent, for sizing requests. */
  readonly size: number
  encode(fields: BatchProducerFields): Buffer
}

export interface HealingLog {
  /** Next offset to write again, by `topic-partition`; absent = not begun. */
  progress(transaction: string): ReadonlyMap<string, bigint>
  /** Writes the batches and the progress after them. @throws MILLRACE_ATTEMPT_LOST when another worker leads. */
  write(
    transaction: string,
    batches: readonly RewrittenBatch[],
    progress: ReadonlyMap<string, bigint>,
  ): Promise<void>
}
