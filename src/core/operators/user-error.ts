/**
 * Errors of user functions, told with the operator that ran them.
 */
import { isMillraceError, MillraceError, UserFunctionError } from '../../errors.ts'
import type { SubtaskInfo } from '../connector.ts'

const EXCERPT_LIMIT = 160

/** A short text of a value for messages: JSON where possible, cut at `limit` characters. Never throws. */
export function excerpt(value: unknown, limit = EXCERPT_LIMIT): string {
  let text: string
  try {
    text = JSON.stringify(value, readable) ?? String(value)
  } catch {
    // Cyclic, or with a getter or toJSON that throws: its kind is all that can be said safely.
    text = Object.prototype.toString.call(value)
  }
  return text.length <= limit ? text : `${text.slice(0, limit)}…`
}

function readable(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`
  if (value instanceof Uint8Array) return `<${value.byteLength} bytes>`
  if (value instanceof Map || value instanceof Set) return [...value]
  return value
}

/** Carries an error of an operator further down through a frame that would take it for its own function's. */
export class EmitFailure {
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}

/**
 * What to throw for an error that came out of `method` of a user function: a UserFunctionError that names the operator and keeps the
 * user's error, stack and all, as its cause. An error that is Millrace's already (state, keys, a function further down) stays as it is,
 * so that each failure is wrapped exactly once.
 */
export function userError(error: unknown, info: SubtaskInfo, method: string, record?: unknown): unknown {
  if (error instanceof EmitFailure) return error.error
  if (isMillraceError(error)) return error
  const reason = error instanceof Error || hasMessage(error) ? error.message : excerpt(error)
  return new UserFunctionError(
    'MILLRACE_USER_FUNCTION',
    `${method} of operator '${info.operatorName}' (uid ${info.uid}, subtask ${info.subtaskIndex + 1}/${info.parallelism}) failed: ${reason}`,
    {
      cause: error,
      details: {
        operator: info.operatorName,
        uid: info.uid,
        subtaskIndex: info.subtaskIndex,
        method,
        ...(record === undefined ? {} : { record: excerpt(record) }),
      },
    },
  )
}

function hasMessage(error: unknown): error is { message: string } {
  return (
    typeof error === 'object' &&
    error !== null &&
    typeof (error as { message?: unknown }).message === 'string'
  )
}

/** The same error with where the records come from that were processed; only a failure of the job's own code gains by it. */
export function withPosition(error: unknown, position: string | undefined): unknown {
  if (position === undefined || !isMillraceError(error) || error.code !== 'MILLRACE_USER_FUNCTION')
    return error
  const { code, message, cause, details, retriable, fault, remedy } = error
  if ('position' in details) return error
  return new UserFunctionError(code, message, {
    cause,
    details: { ...details, position },
    retriable,
    fault,
    remedy,
  })
}

/** A key selector returned something that is no key; `error` says what is wrong with it. */
export function invalidKey(
  error: MillraceError,
  info: SubtaskInfo,
  key: unknown,
  record: unknown,
): MillraceError {
  return new MillraceError('MILLRACE_INVALID_KEY', `${error.message}; the record is ${excerpt(record)}`, {
    cause: error,
    details: { operator: info.operatorName, uid: info.uid, key: excerpt(key), record: excerpt(record) },
  })
}
