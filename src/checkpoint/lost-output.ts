/**
 * Output that a completed checkpoint promised and that can neither be committed nor written again (protocol §5.4). A start looks at all of it
 * before it fails, so that a person decides once: what could be finished or healed is done by then, and stays done.
 */
import { isMillraceError, MillraceError } from '../errors.ts'
import { committableName } from './completed-checkpoint.ts'

/** One lost committable as an error; its details hold the name by which a person gives it up. */
export function lostCommittable(
  committable: unknown,
  message: string,
  options: { readonly cause?: unknown; readonly details?: Readonly<Record<string, unknown>> } = {},
): MillraceError {
  return new MillraceError('MILLRACE_TRANSACTION_LOST', message, {
    cause: options.cause,
    details: { ...options.details, lost: [committableName(committable)] },
  })
}

/** True for an error that `lostCommittable` or `lostOutput` made. */
export function isLostOutput(error: unknown): error is MillraceError {
  return isMillraceError(error) && error.code === 'MILLRACE_TRANSACTION_LOST'
}

/** All losses of one start as one error, with the flags that go on without them. At least one. */
export function lostOutput(losses: readonly MillraceError[]): MillraceError {
  const names = losses.flatMap(({ details }) => (details['lost'] ?? []) as readonly string[])
  const [first] = losses as [MillraceError]
  const flags = names.map((name) => `--accept-lost-transaction ${name}`).join(' ')
  return new MillraceError(
    'MILLRACE_TRANSACTION_LOST',
    losses.length === 1
      ? first.message
      : `output of ${names.length} transactions is lost:\n${losses.map(({ message }) => `  ${message}`).join('\n')}`,
    {
      cause: first.cause,
      details: losses.length === 1 ? first.details : { lost: names },
      remedy: `Start the job with ${flags} to go on without these records, or restore an older checkpoint.`,
    },
  )
}
