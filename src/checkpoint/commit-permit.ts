/**
 * Ability as a value: committing an incomplete checkpoint does not compile, because a permit comes only from here,
 * and only the coordinator (after CommitPointWritten) and the recovery plan (for the latest completed checkpoint) ask for one.
 * test/consistency checks who imports this file.
 */
import type { CommitPermit } from '../core/connector.ts'

/** A permit for checkpoint n. `confirmed`: commits up to this checkpoint are known to be durable. */
export function commitPermit(checkpointId: number, confirmed: number): CommitPermit {
  return { checkpointId, confirmed } as CommitPermit
}
