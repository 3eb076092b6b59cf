/**
 * A running attempt of a job, and the two ways out of it that take care: a stop with a last checkpoint, and the tear-down behind every end.
 */
import type { CheckpointStore, JobRecord, OutputTransactions } from '../checkpoint/checkpoint-store.ts'
import { deadline } from '../core/deadline.ts'
import type { CheckpointKind } from '../core/element.ts'
import type { JobSettings } from '../core/job-settings.ts'
import type { World } from '../core/ports.ts'
import type { Attempt } from './attempt.ts'
import type { CheckpointDriver } from './checkpoint-driver.ts'
import type { OutsideRuns } from './outside-runs.ts'
import { discardAll } from './savepoints.ts'
import type { StateStorage } from './state-storage.ts'

/** How long the last checkpoint may take when the job is stopped; the process must be gone 10 s after SIGTERM. */
const STOP_MS = 6_500

/** How the job ended. */
export interface JobEnd {
  readonly status: 'FINISHED' | 'CANCELED' | 'FAILED' | 'SUSPENDED'
  readonly error?: unknown
}

/** How an attempt ended: with the job, or by a failure that the restart strategy decides on. */
export type AttemptEnd =
  | { readonly type: 'ended'; readonly end: JobEnd }
  | { readonly type: 'failed'; readonly error: unknown }

/** An attempt that is deployed. */
export interface Running {
  readonly run: string
  readonly attempt: Attempt
  readonly driver: CheckpointDriver
  readonly outside: OutsideRuns
  readonly settle: (end: AttemptEnd) => void
  readonly ended: Promise<AttemptEnd>
}

/** The end of the run that a confirmed checkpoint brings; `last`: sources stopped at it. */
export function endOf(
  kind: CheckpointKind,
  last: boolean,
  record: { readonly run: string; readonly at: number },
): JobRecord | undefined {
  if (kind === 'final' || (kind === 'savepoint' && last)) return { ...record, status: 'FINISHED' }
  return last ? { ...record, status: 'SUSPENDED' } : undefined
}

/** Sources stop, a last checkpoint commits. Cut short when it takes too long: the next start resumes from the one before. */
export async function suspend(running: Running, world: World, settings: JobSettings): Promise<AttemptEnd> {
  const suspended: AttemptEnd = { type: 'ended', end: { status: 'SUSPENDED' } }
  if (settings.checkpointing.intervalMs === undefined) {
    world.logger.info('stopping; checkpointing is off, so the next start begins where this one did')
    return suspended
  }
  world.logger.info('stopping: taking a last checkpoint')
  const wait = deadline(world.timers, STOP_MS)
  const timeout = wait.expired.then((): AttemptEnd => {
    world.logger.warn(
      `the last checkpoint was not complete after ${STOP_MS} ms; the next start resumes from checkpoint ${running.driver.coordinator.latest}`,
    )
    return suspended
  })
  const stopped = running.driver.request('stop', 'checkpoint', true).then(
    (n): AttemptEnd => {
      world.logger.info(`stopped at checkpoint ${n}`)
      return suspended
    },
    (error: unknown): AttemptEnd => {
      world.logger.warn('the last checkpoint failed', { error })
      return suspended
    },
  )
  const end = await Promise.race([running.ended, stopped, timeout])
  wait.cancel()
  return end
}

/** Records that the run FAILED. A start that was refused before it had a run must not end the one before it. */
export async function recordFailure(
  run: string,
  error: unknown,
  store: CheckpointStore,
  { clock, logger }: World,
): Promise<void> {
  if (run === '') return
  const reason = error instanceof Error ? error.message : String(error)
  await store
    .writeEnd({ run, status: 'FAILED', at: clock.now(), reason })
    .catch((cause: unknown) => logger.warn('could not record that the job FAILED', { error: cause }))
}

/** What the tear-down works with. */
export interface TearDownParts {
  readonly world: World
  readonly settings: JobSettings
  readonly store: CheckpointStore
  readonly storage: StateStorage
  readonly transactions: OutputTransactions | undefined
}

/** Ends tasks and open transactions; removes what nobody needs any more. Resolves with how the attempt really ended. */
export async function tearDown(
  running: Running,
  end: AttemptEnd,
  { transactions, store, storage, settings, world }: TearDownParts,
): Promise<AttemptEnd> {
  // A commit point or a commit that has begun is carried through; then the tasks end.
  await running.driver.close()
  await running.attempt.cancel()
  const cancelled = end.type === 'ended' && end.end.status === 'CANCELED'
  // The next take-over finishes what a checkpoint promised, and ends the run then.
  if (cancelled && running.driver.failure !== undefined)
    return { type: 'failed', error: running.driver.failure }
  // Somebody else leads, or the next attempt of this process aborts what is open, by compare-and-set: touch nothing.
  if (end.type === 'failed') return end
  try {
    await transactions?.abortOpen({
      keep: running.driver.promised,
      proveLeadership: () => store.proveLeadership(),
    })
    if (cancelled) await store.writeEnd({ run: running.run, status: 'CANCELED', at: world.clock.now() })
  } catch (error) {
    // Without its record the next start would go on with the job.
    if (cancelled) return { type: 'failed', error }
    world.logger.warn('could not abort what the job left open', { error })
    return end
  }
  if (end.end.status === 'SUSPENDED' || (cancelled && settings.checkpointing.retainOnCancellation)) return end
  await discardAll(running.driver.retained, running.outside, storage, store, world.logger)
  return end
}
