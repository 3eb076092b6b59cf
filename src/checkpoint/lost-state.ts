/** Names whose state is lost when a stored blob is missing or damaged. */
import { isMillraceError, StateLostError } from '../errors.ts'
import type { KeyGroupExtent } from './checkpoint-storage.ts'

/**
 * What reading a blob threw, with the operator and the key groups that were in it if it is a StateLostError; other errors come back as they
 * are.
 */
export function lostStateOf(operator: string, keyGroups: readonly KeyGroupExtent[], error: unknown): unknown {
  if (!isMillraceError(error) || error.code !== 'MILLRACE_STATE_LOST') return error
  const numbers = keyGroups.map(([keyGroup]) => keyGroup)
  const [first, last] = [Math.min(...numbers), Math.max(...numbers)]
  return new StateLostError(
    'MILLRACE_STATE_LOST',
    `State of operator ${operator}, key groups ${first}–${last}, is lost: ${error.message}`,
    { cause: error, details: { ...error.details, operator, keyGroups: [first, last] } },
  )
}
