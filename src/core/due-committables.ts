/** What a commit permit asks of a committer, whatever the sink writes to. */
import { MillraceError } from '../errors.ts'
import type { CommitPermit } from './connector.ts'

/**
 * Committables whose commits are not known to be durable, in their order.
 * @throws MillraceError MILLRACE_INTERNAL for one of a checkpoint that is not complete: nothing may commit it
 */
export function dueCommittables<C extends { readonly n: number }>(
  permit: CommitPermit,
  committables: readonly C[],
): C[] {
  for (const { n } of committables)
    if (n > permit.checkpointId)
      throw new MillraceError(
        'MILLRACE_INTERNAL',
        `no permit for checkpoint ${n}: the latest complete one is ${permit.checkpointId}`,
      )
  return committables.filter(({ n }) => n > permit.confirmed)
}
