/** Names whose state is lost when a stored blob is missing or damaged. */
import { isMillraceError, StateLostError } from '../errors.ts'
import type { KeyGroupExtent } from './checkpoint-storage.ts'

/**
 * Runs `read`; a StateLostError of it comes back with the operator and the key groups that were in the blob. Other errors stay as they are.
 * @throws StateLostError
 */
export async function readingStateOf<T>(
  operator: string,
  keyGroups: readonly KeyGroupExtent[],
  read: () => Promise<T>,
): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (!isMillraceError(error) || error.code !== 'MILLRACE_STATE_LOST') throw error
    const numbers = keyGroups.map(([keyGroup]) => keyGroup)
    const [first, last] = [Math.min(...numbers), Math.max(...numbers)]
    throw new StateLostError(
      'MILLRACE_STATE_LOST',
      `State of operator ${operator}, key groups ${first}–${last}, is lost: ${error.message}`,
      { cause: error, details: { ...error.details, operator, keyGroups: [first, last] } },
    )
  }
}
