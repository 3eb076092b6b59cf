/** A completed checkpoint for tests of what stores it. */
import { CHECKPOINT_FORMAT, type CompletedCheckpoint } from '../../../src/checkpoint/completed-checkpoint.ts'

export function completed(changes: Partial<CompletedCheckpoint> = {}): CompletedCheckpoint {
  return {
    format: CHECKPOINT_FORMAT,
    run: 'run',
    attempt: 1,
    n: 7,
    kind: 'checkpoint',
    triggeredAt: 1_000,
    completedAt: 1_250,
    operators: [],
    states: [],
    confirmed: 6,
    stateBytes: 0,
    ...changes,
  }
}
