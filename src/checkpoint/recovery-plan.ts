/**
 * Observed facts → what a new leader does (protocol §4.2). Pure and total.
 *
 * | last record of the latest run         | plain start                        | --fresh          | --from-…                       |
 * | none                                  | start a run                        | start a run      | start a run from the snapshot  |
 * | FINISHED, CANCELED                    | nothing to do: exit 0 and say so   | start a new run  | start a new run from it        |
 * | FAILED, SUSPENDED, or none (a crash)  | resume the latest completed one    | start a new run  | start a new run from it        |
 * | the same, at a stop with a savepoint  | finish the stop: FINISHED          | start a new run  | start a new run from it        |
 *
 * A failure that asks a person to decide (lost records, lost state) is found again at once by the resumed start, before any record is read.
 * Output that an operator gave up is not committed again.
 * A new run of a job whose last one was not finished first finishes the commits of its latest checkpoint: they were promised. Whatever it
 * begins with, the last run's checkpoints are abandoned then: its records are under another name, which nobody asks for again.
 */
import type { CommitPermit } from '../core/connector.ts'
import { MillraceError } from '../errors.ts'
import type { RecoveryFacts } from './checkpoint-store.ts'
import { commitPermit } from './commit-permit.ts'
import { type CompletedCheckpoint, committableName } from './completed-checkpoint.ts'

/** Commits that a completed checkpoint promised. */
export interface CommitAgain {
  readonly permit: CommitPermit
  readonly checkpoint: CompletedCheckpoint
}

export type RecoveryPlan =
  | { readonly type: 'ended'; readonly status: 'FINISHED' | 'CANCELED'; readonly message: string }
  | {
      readonly type: 'start'
      readonly run: string
      readonly attempt: number
      readonly commitAgain: CommitAgain | undefined
      /** What the run begins with instead of nothing. */
      readonly from?: CompletedCheckpoint
    }
  /** The last run was stopped with a savepoint and died before it could say so: what is left of the stop is done. */
  | {
      readonly type: 'finish'
      readonly run: string
      readonly attempt: number
      readonly checkpoint: CompletedCheckpoint
      readonly commitAgain: CommitAgain | undefined
    }
  | {
      readonly type: 'resume'
      readonly run: string
      readonly attempt: number
      readonly checkpoint: CompletedCheckpoint
      readonly commitAgain: CommitAgain | undefined
    }

/** What somebody wants the next run to begin with: a snapshot that was opened, or a completed checkpoint of the latest run. */
export type RestoreRequest =
  | { readonly type: 'snapshot'; readonly checkpoint: CompletedCheckpoint }
  | { readonly type: 'checkpoint'; readonly n: number | 'latest' }

export interface RecoveryRequest {
  readonly fresh: boolean
  readonly restore?: RestoreRequest | undefined
  /** Id for a new run. */
  readonly newRun: string
}

/** @throws MillraceError MILLRACE_CHECKPOINT_MISSING when the checkpoint that was asked for is not there */
export function planRecovery(facts: RecoveryFacts, request: RecoveryRequest): RecoveryPlan {
  const attempt = (facts.attempt?.attempt ?? 0) + 1
  const latest = facts.completed.at(-1)
  const commitAgain: CommitAgain | undefined =
    latest !== undefined && latest.n > facts.confirmed
      ? {
          permit: commitPermit(latest.n, facts.confirmed),
          checkpoint: without(withUnconfirmed(latest, facts), facts.acceptedLost),
        }
      : undefined
  const { restore } = request
  if (restore !== undefined)
    return { type: 'start', run: request.newRun, attempt, commitAgain, from: chosen(restore, facts) }
  if (facts.attempt === undefined)
    return { type: 'start', run: request.newRun, attempt, commitAgain: undefined }
  if (request.fresh) return { type: 'start', run: request.newRun, attempt, commitAgain }
  const end = facts.job?.run === facts.attempt.run ? facts.job : undefined
  if (end !== undefined && (end.status === 'FINISHED' || end.status === 'CANCELED'))
    return {
      type: 'ended',
      status: end.status,
      message:
        end.savepoint === undefined
          ? `the last run of this job is ${end.status}; nothing to do (use --fresh to start a new run)`
          : `this job was stopped with a savepoint; nothing to do (go on with --from-savepoint ${end.savepoint}, or start anew with --fresh)`,
    }
  // A crash before checkpoint 0: nothing was read yet, so the run begins again under its own name.
  if (latest === undefined) return { type: 'start', run: facts.attempt.run, attempt, commitAgain: undefined }
  if (latest.savepoint?.stop === true)
    return { type: 'finish', run: facts.attempt.run, attempt, checkpoint: latest, commitAgain }
  return { type: 'resume', run: facts.attempt.run, attempt, checkpoint: latest, commitAgain }
}

function chosen(restore: RestoreRequest, { completed }: RecoveryFacts): CompletedCheckpoint {
  if (restore.type === 'snapshot') return restore.checkpoint
  const found = restore.n === 'latest' ? completed.at(-1) : completed.find(({ n }) => n === restore.n)
  if (found !== undefined) return found
  const there = completed.map(({ n }) => n).join(', ')
  throw new MillraceError(
    'MILLRACE_CHECKPOINT_MISSING',
    restore.n === 'latest' || there === ''
      ? 'the last run of this job has no completed checkpoint'
      : `the last run of this job has no completed checkpoint ${restore.n}; there are ${there}`,
  )
}

/**
 * The latest checkpoint with what the completed ones before it promised and nobody confirmed: a snapshot holds no committable of a
 * checkpoint that was complete when it was taken, though its commit may still have been under way when everything died. They come first,
 * so that output is committed in the order of its checkpoints.
 */
function withUnconfirmed(
  latest: CompletedCheckpoint,
  { completed, confirmed }: RecoveryFacts,
): CompletedCheckpoint {
  const older = completed.filter(({ n }) => n > confirmed && n < latest.n)
  if (older.length === 0) return latest
  const states = [...older, latest].flatMap((checkpoint) => checkpoint.states)
  const bySubtask = Map.groupBy(states, ({ uid, subtask }) => `${uid}/${subtask}`)
  return {
    ...latest,
    states: latest.states.map((state) => {
      const promised = (bySubtask.get(`${state.uid}/${state.subtask}`) ?? []).flatMap(
        ({ committables }) => committables ?? [],
      )
      if (promised.length === 0) return state
      // A transaction that was not decided yet is in the next snapshot too.
      const once = new Map(
        promised.map((committable) => [committableName(committable) ?? committable, committable]),
      )
      return { ...state, committables: [...once.values()] }
    }),
  }
}

/** The checkpoint without the committables that were given up. */
function without(checkpoint: CompletedCheckpoint, lost: readonly string[]): CompletedCheckpoint {
  if (lost.length === 0) return checkpoint
  const kept = (committable: unknown): boolean => !lost.includes(committableName(committable) ?? '')
  return {
    ...checkpoint,
    states: checkpoint.states.map((state) =>
      state.committables === undefined ? state : { ...state, committables: state.committables.filter(kept) },
    ),
  }
}
