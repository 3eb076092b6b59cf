/**
 * What makes a completed checkpoint a snapshot that stands alone: handles that do not depend on where its folder lies, state without output.
 *
 *   completed checkpoint ── portable(folder) ──► what `_metadata` says: files relative to the folder
 *   `_metadata`          ── keptIn(folder)   ──► what a job restores: files of that folder, never deleted (`kept`)
 *   any checkpoint       ── baseOf(run)      ──► checkpoint 0 of the run that begins with it (protocol §4.7)
 */
import { MillraceError } from '../errors.ts'
import type { ImagesHandle, KeyedStateHandle, StateHandle } from './checkpoint-storage.ts'
import type { CompletedCheckpoint, OperatorSubtaskState } from './completed-checkpoint.ts'

/**
 * The checkpoint as the savepoint in `folder` describes it: relative files, no committables. Committed output has nothing left to commit, and
 * a drained job's end is no end of the job that goes on from here.
 * @throws MillraceError MILLRACE_INTERNAL if something of it lies outside of the folder: it would not be self-contained
 */
export function portable(checkpoint: CompletedCheckpoint, folder: string): CompletedCheckpoint {
  const { savepoint, ...rest } = checkpoint
  const drained = savepoint?.drained === true
  const outside = checkpoint.states.find(({ keyed }) => keyed?.kind === 'external')
  if (outside !== undefined)
    throw notSelfContained(checkpoint.n, `state of operator ${outside.uid} in a store`)
  const states = mapHandles(withoutCommittables(checkpoint.states), (handle) => {
    if (handle.kind === 'inline') return handle
    if (handle.kind === 'kept' && handle.folder === folder)
      return { kind: 'file', path: handle.path, size: handle.size, crc32: handle.crc32 }
    throw notSelfContained(checkpoint.n, `a handle of kind '${handle.kind}'`)
  })
  return { ...rest, states: drained ? states.map(goingOn) : states }
}

function goingOn({ endOfInput: _, ...state }: OperatorSubtaskState): OperatorSubtaskState {
  return state
}

/** The checkpoint with its files found below `folder`, where nothing of this job may delete them. */
export function keptIn(checkpoint: CompletedCheckpoint, folder: string): CompletedCheckpoint {
  return {
    ...checkpoint,
    states: mapHandles(checkpoint.states, (handle) =>
      handle.kind === 'file'
        ? { kind: 'kept', folder, path: handle.path, size: handle.size, crc32: handle.crc32 }
        : handle,
    ),
  }
}

/**
 * Checkpoint 0 of a run that begins with the state of `source`: the same state under the new run's name. What the source had prepared is no
 * business of the new run: it was committed, or it is abandoned.
 */
export function baseOf(
  source: CompletedCheckpoint,
  { run, attempt, now }: { readonly run: string; readonly attempt: number; readonly now: number },
): CompletedCheckpoint {
  const { savepoint: _, ...rest } = source
  return {
    ...rest,
    run,
    attempt,
    n: 0,
    kind: 'checkpoint',
    triggeredAt: now,
    completedAt: now,
    states: withoutCommittables(source.states),
    confirmed: 0,
  }
}

function withoutCommittables(states: readonly OperatorSubtaskState[]): OperatorSubtaskState[] {
  return states.map(({ committables: _, ...state }) => state)
}

function mapHandles(
  states: readonly OperatorSubtaskState[],
  change: (handle: StateHandle) => StateHandle,
): OperatorSubtaskState[] {
  return states.map((state) => ({
    ...state,
    ...(state.keyed === undefined ? {} : { keyed: mapKeyed(state.keyed, change) }),
    ...(state.operator === undefined ? {} : { operator: change(state.operator) }),
    ...(state.inFlight === undefined ? {} : { inFlight: change(state.inFlight) }),
  }))
}

function mapKeyed(keyed: KeyedStateHandle, change: (handle: StateHandle) => StateHandle): KeyedStateHandle {
  if (keyed.kind === 'external') return keyed
  const images = (layer: ImagesHandle): ImagesHandle => ({ ...layer, handle: change(layer.handle) })
  return keyed.kind === undefined ? images(keyed) : { ...keyed, layers: keyed.layers.map(images) }
}

function notSelfContained(n: number, what: string): MillraceError {
  return new MillraceError(
    'MILLRACE_INTERNAL',
    `savepoint ${n} would not be self-contained: it names ${what}`,
  )
}
