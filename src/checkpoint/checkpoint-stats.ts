/** What people and tools see of completed checkpoints: plain facts, nothing that can commit, restore or delete. */
import type { CheckpointKind } from '../core/element.ts'
import { blobsOf } from './checkpoint-storage.ts'
import type { CompletedCheckpoint, OperatorShape } from './completed-checkpoint.ts'

/** One completed checkpoint. JSON-safe. */
export interface CheckpointStats {
  readonly n: number
  readonly kind: CheckpointKind
  readonly run: string
  readonly attempt: number
  /** Epoch ms. */
  readonly triggeredAt: number
  readonly completedAt: number
  readonly stateBytes: number
  /** Its folder, where it has one of its own. */
  readonly folder?: string
  /** Its output is known to be committed; undefined where nothing tells. */
  readonly confirmed?: boolean
  readonly operators: readonly OperatorStats[]
}

/** What one operator stored. */
export interface OperatorStats extends OperatorShape {
  readonly subtasks: readonly SubtaskStats[]
}

/** What one subtask stored; what it has not is left out. */
export interface SubtaskStats {
  readonly subtask: number
  /** How keyed state is kept: images, incremental, or the name of the store outside. */
  readonly keyed?: string
  readonly keyedBytes?: number
  readonly operatorStateBytes?: number
  readonly inFlightBytes?: number
  readonly transactions?: number
  readonly positions?: readonly unknown[]
  readonly endOfInput?: boolean
}

/** `confirmed`: as far as the reader knows. */
export function statsOf(
  checkpoint: CompletedCheckpoint,
  known: { readonly confirmed?: boolean | undefined; readonly folder?: string | undefined } = {},
): CheckpointStats {
  const { n, kind, run, attempt, triggeredAt, completedAt, stateBytes, savepoint } = checkpoint
  const folder = known.folder ?? savepoint?.path
  return {
    n,
    kind,
    run,
    attempt,
    triggeredAt,
    completedAt,
    stateBytes,
    ...(folder === undefined ? {} : { folder }),
    ...(known.confirmed === undefined ? {} : { confirmed: known.confirmed }),
    operators: checkpoint.operators.map((shape) => ({
      ...shape,
      subtasks: subtasksOf(checkpoint, shape.uid),
    })),
  }
}

function subtasksOf(checkpoint: CompletedCheckpoint, owner: string): SubtaskStats[] {
  return checkpoint.states
    .filter(({ uid }) => uid === owner)
    .map(({ subtask, keyed, operator, inFlight, committables, splits, endOfInput }) => ({
      subtask,
      ...(keyed === undefined
        ? {}
        : {
            keyed: keyed.kind === 'external' ? keyed.backend : (keyed.kind ?? 'images'),
            keyedBytes:
              keyed.kind === 'external'
                ? keyed.size
                : blobsOf(keyed).reduce((sum, { size }) => sum + size, 0),
          }),
      ...(operator === undefined ? {} : { operatorStateBytes: operator.size }),
      ...(inFlight === undefined ? {} : { inFlightBytes: inFlight.size }),
      ...(committables === undefined ? {} : { transactions: committables.length }),
      ...(splits === undefined ? {} : { positions: splits }),
      ...(endOfInput === true ? { endOfInput } : {}),
    }))
    .sort((a, b) => a.subtask - b.subtask)
}
