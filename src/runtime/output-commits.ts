/** Hands the committables of checkpoints to the committers of their sinks: as a checkpoint completes, and at take-over. */
import type { OperatorSubtaskState } from '../checkpoint/completed-checkpoint.ts'
import { isLostOutput, lostOutput } from '../checkpoint/lost-output.ts'
import type { CommitPermit, Committer } from '../core/connector.ts'
import { MillraceError } from '../errors.ts'
import type { FaultHook } from './fault-points.ts'

/** Commits what the states hold: subtasks at the same time, each one's in order. */
export async function commitAll(
  committers: ReadonlyMap<string, Committer<unknown>>,
  permit: CommitPermit,
  states: readonly OperatorSubtaskState[],
  fault?: FaultHook,
): Promise<void> {
  await Promise.all(
    states.map(async (state) => {
      if (state.committables === undefined || state.committables.length === 0) return
      const committer = committerOf(committers, permit, state)
      fault?.('before-end-txn')
      await committer.commit(permit, state.committables)
      fault?.('after-end-txn')
    }),
  )
}

/**
 * The same at take-over, one after another: what the outside system gave up is made good where that is possible.
 * @throws MILLRACE_TRANSACTION_LOST, after all was tried, naming everything that is lost.
 */
export async function recoverAll(
  committers: ReadonlyMap<string, Committer<unknown>>,
  permit: CommitPermit,
  states: readonly OperatorSubtaskState[],
  fault?: FaultHook,
): Promise<void> {
  const losses: MillraceError[] = []
  for (const state of states) {
    if (state.committables === undefined || state.committables.length === 0) continue
    const committer = committerOf(committers, permit, state)
    fault?.('before-end-txn')
    try {
      if (committer.recover === undefined) await committer.commit(permit, state.committables)
      else await committer.recover(permit, state.committables)
    } catch (error) {
      if (!isLostOutput(error)) throw error
      losses.push(error)
    }
    fault?.('after-end-txn')
  }
  if (losses.length > 0) throw lostOutput(losses)
}

function committerOf(
  committers: ReadonlyMap<string, Committer<unknown>>,
  permit: CommitPermit,
  state: OperatorSubtaskState,
): Committer<unknown> {
  const committer = committers.get(state.uid)
  if (committer !== undefined) return committer
  throw new MillraceError(
    'MILLRACE_STATE_NOT_RESTORED',
    `checkpoint ${permit.checkpointId} holds uncommitted output of sink '${state.uid}', which the job does not have any more`,
    { remedy: 'Start the job once more with that sink so that its output is committed, then remove it.' },
  )
}
