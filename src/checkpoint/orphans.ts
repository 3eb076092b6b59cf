/**
 * What in a job's checkpoint storage nobody needs: blobs that no completed checkpoint names, left by crashes. A running job is safe:
 *
 * | what                                                    | why it stays                                                       |
 * | named by a completed checkpoint of any run              | a restart reads it, or a person retained it                        |
 * | written by the latest attempt, or a later one           | a snapshot under way, or a layer of an aborted checkpoint that the |
 * |                                                         | next one names                                                     |
 * | younger than the age limit                              | room for doubt: clocks, a start at this moment                     |
 *
 * The list of files must be older than the facts: what a checkpoint names that completed in between was written before.
 */
import type { AttemptRecord, JobRecord } from './checkpoint-store.ts'
import { type CompletedCheckpoint, handlesOf } from './completed-checkpoint.ts'

/** A blob in storage. */
export interface StoredBlob {
  /** As a handle names it: a path relative to the root, or a name in the topic. */
  readonly name: string
  readonly bytes: number
  /** Milliseconds since it was written; undefined where storage does not tell: then its attempt decides. */
  readonly ageMs: number | undefined
  /** The attempt that wrote it; undefined for a file that is none of a job's. */
  readonly attempt: number | undefined
  /** Set for the metadata of a checkpoint: whose it is. */
  readonly metadataOf?: { readonly run: string; readonly n: number }
}

/** What the checkpoint topic says. */
export interface CheckpointFacts {
  readonly attempt: AttemptRecord | undefined
  readonly job: JobRecord | undefined
  /** Of all runs. */
  readonly completed: readonly CompletedCheckpoint[]
}

/** @returns what may be removed. Nothing at all when no attempt was ever recorded: then nothing is known. */
export function orphansAmong(
  blobs: readonly StoredBlob[],
  { attempt, job, completed }: CheckpointFacts,
  minAgeMs: number,
): StoredBlob[] {
  if (attempt === undefined) return []
  const named = new Set(completed.flatMap((checkpoint) => handlesOf(checkpoint).flatMap(nameOf)))
  const checkpoints = new Set(completed.map(({ run, n }) => `${run}/${n}`))
  const hasEnded = job?.run === attempt.run && (job.status === 'FINISHED' || job.status === 'CANCELED')
  const firstUnsafe = hasEnded ? attempt.attempt + 1 : attempt.attempt
  const newest = Math.max(-1, ...completed.filter(({ run }) => run === attempt.run).map(({ n }) => n))
  return blobs.filter(({ name, ageMs, attempt: writer, metadataOf }) => {
    if (named.has(name) || (ageMs !== undefined && ageMs < minAgeMs)) return false
    if (metadataOf === undefined) return writer !== undefined && writer < firstUnsafe
    const { run, n } = metadataOf
    return !checkpoints.has(`${run}/${n}`) && (hasEnded || run !== attempt.run || n < newest)
  })
}

/** The folder of a kept file is left out: another machine may reach the same disk under another name. */
function nameOf(handle: ReturnType<typeof handlesOf>[number]): string[] {
  switch (handle.kind) {
    case 'inline':
      return []
    case 'file':
    case 'kept':
      return [handle.path]
    case 'topic':
      return [handle.name]
  }
}
