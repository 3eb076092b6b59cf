/**
 * One checkpoint from its trigger to its commit point: who acknowledged, who is missing.
 *
 *   Collecting ──last acknowledgement──► Full ──commit point begun──► Writing ──written──► Completed
 *       │ time-out, decline, abort         │ subsumed                    │ refused
 *       ▼                                  ▼                             ▼
 *    Aborted                            Aborted                       Aborted
 *
 * Once Writing has begun, time-out, decline, abort and cancel are illegal: the outcome is read from the log, never assumed.
 */
import type { CheckpointKind } from '../core/element.ts'
import { IllegalTransitionError } from '../errors.ts'
import type { OperatorSubtaskState } from './completed-checkpoint.ts'

export type PendingPhase = 'Collecting' | 'Full' | 'Writing' | 'Completed' | 'Aborted'

const LEGAL: Readonly<Record<PendingPhase, readonly PendingPhase[]>> = {
  Collecting: ['Full', 'Aborted'],
  Full: ['Writing', 'Aborted'],
  Writing: ['Completed', 'Aborted'],
  Completed: [],
  Aborted: [],
}

export class PendingCheckpoint {
  readonly n: number
  readonly kind: CheckpointKind
  readonly triggeredAt: number
  /** Requests (manual triggers, savepoints) that wait for this checkpoint. */
  readonly requests: string[]
  readonly states: OperatorSubtaskState[] = []
  readonly #missing: Set<string>
  #phase: PendingPhase = 'Collecting'

  constructor(
    n: number,
    kind: CheckpointKind,
    triggeredAt: number,
    subtasks: Iterable<string>,
    requests: readonly string[],
  ) {
    this.n = n
    this.kind = kind
    this.triggeredAt = triggeredAt
    this.#missing = new Set(subtasks)
    this.requests = [...requests]
  }

  get phase(): PendingPhase {
    return this.#phase
  }

  /** Subtasks whose acknowledgement is outstanding. */
  get missing(): readonly string[] {
    return [...this.#missing]
  }

  /** Takes an acknowledgement; a repeated one changes nothing. Returns true when it was the last. */
  acknowledge(subtask: string, states: readonly OperatorSubtaskState[]): boolean {
    if (this.#phase !== 'Collecting' || !this.#missing.delete(subtask)) return false
    this.states.push(...states)
    if (this.#missing.size > 0) return false
    this.move('Full')
    return true
  }

  move(to: PendingPhase): void {
    if (!LEGAL[this.#phase].includes(to))
      throw new IllegalTransitionError('pending checkpoint', this.#phase, to, this.n)
    this.#phase = to
  }
}
