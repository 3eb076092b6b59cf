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
  const messages = losses.flatMap(messagesOf)
  return new MillraceError(
    'MILLRACE_TRANSACTION_LOST',
    messages.length === 1
      ? first.message
      : `output of ${names.length} transactions is lost:\n${messages.map((message) => `  ${message}`).join('\n')}`,
    {
      cause: first.cause,
      details: messages.length === 1 ? first.details : { lost: names, messages },
      remedy: `Start the job with ${flags} to go on without these records, or restore an older checkpoint.`,
    },
  )
}

/** A loss that was put together before is taken apart again. */
function messagesOf({ message, details }: MillraceError): readonly string[] {
  return (details['messages'] as readonly string[] | undefined) ?? [message]
}
