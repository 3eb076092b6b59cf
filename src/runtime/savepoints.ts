/** Takes savepoints of a running attempt, and removes checkpoints of runs that are over, as far as nobody needs them. */
import type { CheckpointStore, RecoveryFacts } from '../checkpoint/checkpoint-store.ts'
import { type CompletedCheckpoint, handlesOf } from '../checkpoint/completed-checkpoint.ts'
import { SharedStateRegistry } from '../checkpoint/shared-state-registry.ts'
import type { Logger, World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { type CheckpointDriver, discardCheckpoint } from './checkpoint-driver.ts'
import { OutsideRuns } from './outside-runs.ts'
import type { StateStorage } from './state-storage.ts'

/** What a savepoint is taken of, and where it may go. */
export interface SavepointSite {
  readonly driver: CheckpointDriver
  readonly storage: StateStorage
  readonly world: World
  /** `state.savepoints.dir`. */
  readonly defaultDirectory: string | undefined
}

/**
 * Takes a savepoint below `directory`; resolves with its folder when it can be restored from and all output up to it is committed. When it
 * fails its files are removed again, and a job that was to stop with it restarts from its latest checkpoint.
 * @throws MillraceError MILLRACE_SAVEPOINT_DIRECTORY without a directory; MILLRACE_CHECKPOINT_STORAGE; MILLRACE_CHECKPOINT_FAILED
 */
export async function takeSavepoint(
  { driver, storage, world, defaultDirectory }: SavepointSite,
  directory: string | undefined,
  { stop, drain }: { readonly stop: boolean; readonly drain: boolean },
): Promise<string> {
  const parent = directory ?? defaultDirectory
  if (parent === undefined)
    throw new MillraceError(
      'MILLRACE_SAVEPOINT_DIRECTORY',
      'the savepoint has no place to go: no folder was named, and state.savepoints.dir is not set',
    )
  if (storage.folders === undefined)
    throw new MillraceError('MILLRACE_INTERNAL', `nothing here can write a savepoint to '${parent}'`)
  const id = world.random.uuid()
  const target = await storage.folders.create(parent, id.replaceAll('-', '').slice(0, 12))
  try {
    const n = await driver.requestSavepoint(id, { target, stop, drain })
    world.logger.info(`savepoint ${target.path} is complete (checkpoint ${n})`)
    return target.path
  } catch (error) {
    await target
      .abandon()
      .catch((cause: unknown) =>
        world.logger.warn(`could not remove what was written of savepoint ${target.path}`, { error: cause }),
      )
    throw error
  }
}

/**
 * Forgets the checkpoints of an earlier run, of no use once a new one has begun; but what the new run begins with stays when it lies in a
 * directory, and so does everything that a person wanted to retain.
 */
export async function discardEarlierRun(
  {
    facts,
    from,
    base,
  }: {
    readonly facts: RecoveryFacts
    readonly from: CompletedCheckpoint | undefined
    readonly base: CompletedCheckpoint
  },
  retainOnCancellation: boolean,
  storage: StateStorage,
  store: CheckpointStore,
  outside: OutsideRuns,
): Promise<void> {
  const earlier = facts.completed.filter(({ run }) => run !== base.run)
  const status = facts.job?.run === facts.attempt?.run ? facts.job?.status : undefined
  if (status === 'CANCELED' || (status === 'FAILED' && retainOnCancellation)) return
  const shared = new SharedStateRegistry()
  for (const checkpoint of [base, ...earlier]) shared.add(checkpoint)
  for (const old of earlier) {
    const isChosen = from !== undefined && old.run === from.run && old.n === from.n
    if (isChosen && handlesOf(old).some(({ kind }) => kind === 'file')) continue
    await discardCheckpoint(old, storage, store, shared.forget(old))
    await outside.forgotten(old)
  }
}

/**
 * What a leader left that died between the end of a FINISHED run and its cleaning up. Nobody resumes from it; what it cannot remove costs room.
 * Of a CANCELED run nothing is touched: whether its checkpoints were to be kept is not recorded.
 */
export async function discardEnded(
  { status, facts }: { readonly status: string; readonly facts: RecoveryFacts },
  storage: StateStorage,
  store: CheckpointStore,
  logger: Logger,
): Promise<void> {
  const run = facts.attempt?.run
  if (status !== 'FINISHED' || run === undefined) return
  const outside = new OutsideRuns(storage.outside, run, logger)
  for (const checkpoint of [...(facts.ofEarlierRuns ?? []), ...facts.completed]) outside.add(checkpoint)
  const own = facts.completed.filter((each) => each.run === run)
  await discardAll(own, outside, storage, store, logger)
}

/** Removes all checkpoints of a run that is over, in an order in which no record ever names a file that is gone. */
export async function discardAll(
  checkpoints: readonly CompletedCheckpoint[],
  outside: OutsideRuns,
  storage: StateStorage,
  store: CheckpointStore,
  logger: Logger,
): Promise<void> {
  const shared = new SharedStateRegistry()
  for (const checkpoint of checkpoints) shared.add(checkpoint)
  try {
    for (const checkpoint of checkpoints) {
      await discardCheckpoint(checkpoint, storage, store, shared.forget(checkpoint))
      await outside.forgotten(checkpoint)
    }
    await outside.ended()
  } catch (error) {
    logger.warn('cleaning up after the job failed', { error })
  }
}
