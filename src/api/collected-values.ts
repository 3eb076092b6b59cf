/** Values of a running job, as they become visible. */
import type { CollectingSink } from './built-in-connectors.ts'
import type { JobClient } from './job-client.ts'

/**
 * Yields the values of `sink` until the job ends; throws what the job failed with. Leaving the loop early cancels the job.
 * `started` may still be pending; its rejection surfaces here.
 */
export async function* collectedValues<T>(
  sink: CollectingSink<T>,
  started: Promise<JobClient>,
): AsyncGenerator<T, undefined, undefined> {
  const client = await started
  let end: { failure?: unknown } | undefined
  const ended = client.getJobExecutionResult().then(
    () => {
      end = {}
    },
    (failure: unknown) => {
      end = { failure }
    },
  )
  try {
    for (;;) {
      // Looked at before the values are taken: what the job made visible before its end is not missed.
      const atEnd = end as { failure?: unknown } | undefined
      yield* sink.take()
      if (atEnd !== undefined) {
        if ('failure' in atEnd) throw atEnd.failure
        return undefined
      }
      await Promise.race([sink.changed(), ended])
    }
  } finally {
    sink.release()
    if (end === undefined) await client.cancel()
  }
}

/** The first `limit` values; the job is cancelled when there are that many. */
export async function firstValues<T>(values: AsyncIterable<T>, limit: number): Promise<T[]> {
  const found: T[] = []
  if (limit <= 0) return found
  for await (const value of values) if (found.push(value) >= limit) break
  return found
}
