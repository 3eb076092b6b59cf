/**
 * What a completed checkpoint is made of, and its versioned JSON form (golden files in test/compat/checkpoint).
 * Every name that leaves a process carries (run, attempt, n).
 */
import type { CheckpointKind } from '../core/element.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import { blobsOf, type KeyedStateHandle, ownBlobsOf, type StateHandle } from './checkpoint-storage.ts'

/** Version of the metadata form that this code writes. */
export const CHECKPOINT_FORMAT = 1

/** What one subtask of one operator stored. */
export interface OperatorSubtaskState {
  readonly uid: string
  readonly subtask: number
  readonly keyed?: KeyedStateHandle
  /** Operator state by name, encoded by the state codec. */
  readonly operator?: StateHandle
  /** Records in the channels before the operator when an unaligned checkpoint was taken. */
  readonly inFlight?: StateHandle
  /** Sources: positions of all splits, JSON-safe. */
  readonly splits?: readonly unknown[]
  /** Sinks: prepared and undecided committables, in order, JSON-safe. */
  readonly committables?: readonly unknown[]
  /** The end of input was handled: end hooks must not run again. */
  readonly endOfInput?: boolean
}

/** Parallelism of one operator when the checkpoint was taken. */
export interface OperatorShape {
  readonly uid: string
  readonly name: string
  readonly parallelism: number
  readonly maxParallelism: number
}

export interface CompletedCheckpoint {
  readonly format: number
  readonly run: string
  readonly attempt: number
  readonly n: number
  readonly kind: CheckpointKind
  /** Epoch ms. */
  readonly triggeredAt: number
  readonly completedAt: number
  readonly operators: readonly OperatorShape[]
  readonly states: readonly OperatorSubtaskState[]
  /** Highest checkpoint whose commits were durable when this one was written; -1 = none. It rides here. */
  readonly confirmed: number
  /** Bytes of all handles, for people. */
  readonly stateBytes: number
  /** A savepoint: its folder, and whether the run was to end with it (protocol §4.6). */
  readonly savepoint?: SavepointNote
}

/** What a completed checkpoint knows of the savepoint that it is. */
export interface SavepointNote {
  readonly path: string
  readonly stop: boolean
  /** All event time had passed before it: windows and timers fired as at the end of input. */
  readonly drained: boolean
}

/** JSON text of a checkpoint. */
export function encodeCheckpoint(checkpoint: CompletedCheckpoint): string {
  return JSON.stringify(checkpoint)
}

/** @throws StateLostError when the text is damaged or of a format that this version cannot read. */
export function decodeCheckpoint(text: string, where: string): CompletedCheckpoint {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new StateLostError('MILLRACE_STATE_LOST', `checkpoint metadata at ${where} is not valid JSON`, {
      cause,
    })
  }
  const checkpoint = value as Partial<CompletedCheckpoint>
  if (checkpoint === null || typeof checkpoint !== 'object' || !Number.isSafeInteger(checkpoint.format))
    throw new StateLostError('MILLRACE_STATE_LOST', `checkpoint metadata at ${where} has no format version`)
  if ((checkpoint.format as number) > CHECKPOINT_FORMAT)
    throw new MillraceError(
      'MILLRACE_STATE_LOST',
      `checkpoint at ${where} has format ${checkpoint.format}; this version reads up to ${CHECKPOINT_FORMAT}`,
      { remedy: 'Run the job with the version of Millrace that wrote the checkpoint, or a newer one.' },
    )
  if (
    typeof checkpoint.run !== 'string' ||
    !Number.isSafeInteger(checkpoint.n) ||
    !Number.isSafeInteger(checkpoint.confirmed) ||
    !Array.isArray(checkpoint.states) ||
    !Array.isArray(checkpoint.operators)
  )
    throw new StateLostError(
      'MILLRACE_STATE_LOST',
      `checkpoint metadata at ${where} lacks run, n, confirmed, states or operators`,
    )
  return checkpoint as CompletedCheckpoint
}

/**
 * The name by which a person gives a committable up (--accept-lost-transaction): a transaction, not an id that serves many of them.
 * Undefined for sinks whose committables have no transaction.
 */
export function committableName(committable: unknown): string | undefined {
  if (typeof committable !== 'object' || committable === null) return undefined
  const { transactionalId, producerId, producerEpoch } = committable as Record<string, unknown>
  if (typeof transactionalId !== 'string' || producerId === undefined || producerEpoch === undefined)
    return undefined
  return `${transactionalId}:${producerId}:${producerEpoch}`
}

/**
 * Handles of a snapshot that no checkpoint names, as far as they are its own: layers of incremental state belong to the backend, whose next
 * snapshot names them.
 */
export function ownHandlesOf(states: readonly OperatorSubtaskState[]): StateHandle[] {
  return handlesOf({ states }, ownBlobsOf)
}

/** Handles of a snapshot that no checkpoint names and that are the backend's: the next completed checkpoint shows which are needed. */
export function chainHandlesOf(states: readonly OperatorSubtaskState[]): StateHandle[] {
  const own = new Set(ownHandlesOf(states))
  return handlesOf({ states }).filter((handle) => !own.has(handle))
}

/** All storage handles that a checkpoint names: what a discard may delete, and nothing else. */
export function handlesOf(
  checkpoint: Pick<CompletedCheckpoint, 'states'>,
  blobs: (keyed: KeyedStateHandle) => readonly StateHandle[] = blobsOf,
): StateHandle[] {
  const handles: StateHandle[] = []
  for (const state of checkpoint.states) {
    if (state.keyed !== undefined) handles.push(...blobs(state.keyed))
    if (state.operator !== undefined) handles.push(state.operator)
    if (state.inFlight !== undefined) handles.push(state.inFlight)
  }
  return handles
}

/** Transactional ids with output that checkpoints above `confirmed` promised and that may not be committed yet. */
export function promisedIds(checkpoints: readonly CompletedCheckpoint[], confirmed: number): string[] {
  const ids = new Set<string>()
  for (const { n, states } of checkpoints)
    if (n > confirmed)
      for (const { committables } of states)
        for (const committable of committables ?? []) {
          const { transactionalId } = committable as { transactionalId?: unknown }
          if (typeof transactionalId === 'string') ids.add(transactionalId)
        }
  return [...ids]
}
