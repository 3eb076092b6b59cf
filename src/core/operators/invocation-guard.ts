/**
 * Tells whether a user function is running, so that collectors, contexts and state handles refuse to work at any other time.
 *
 *            enter            enterKeyed
 *   closed ────────► open   closed ────────► keyed
 *      ▲── leave ──────┘       ▲──── leave ────┘
 *
 * open: collectors and side outputs work. keyed: keyed state and timers as well. While a returned promise is pending the phase stays.
 * Promises of state that the function began must have settled when it leaves: what they do belongs to its key.
 */
import { MillraceError } from '../../errors.ts'

/** No user function runs. */
export const CLOSED = 0
/** A function without a current key runs. */
export const OPEN = 1
/** A function runs for the current key. */
export const KEYED = 2
export type InvocationPhase = typeof CLOSED | typeof OPEN | typeof KEYED

/** The phase of one operator's subtask. Must be set back to CLOSED after each invocation. */
export class InvocationGuard {
  phase: InvocationPhase = CLOSED
  /** Promises of state that have not settled. */
  private unsettled = 0
  /** Operator name, for messages. */
  private readonly operatorName: string

  constructor(operatorName: string) {
    this.operatorName = operatorName
  }

  /** @throws MILLRACE_STATE_ACCESS unless a function runs. */
  requireOpen(what: string): void {
    if (this.phase === CLOSED) throw this.refused(what)
  }

  /** @throws MILLRACE_STATE_ACCESS unless a function runs for a key. */
  requireKey(what: string): void {
    if (this.phase !== KEYED) throw this.refused(what)
  }

  /** Counts a promise of state until it settles. */
  track<T>(promise: Promise<T>): Promise<T> {
    this.unsettled++
    const settled = (): void => {
      this.unsettled--
    }
    promise.then(settled, settled)
    return promise
  }

  /** @throws MILLRACE_STATE_ACCESS if the function that ran last left a promise of state behind. */
  requireSettled(): void {
    if (this.unsettled === 0) return
    throw new MillraceError(
      'MILLRACE_STATE_ACCESS',
      `A function of operator '${this.operatorName}' returned before a promise of its async map state settled`,
      {
        details: { operator: this.operatorName },
        remedy:
          'Await every promise and finish every loop over the map, and return a promise that waits for them.',
      },
    )
  }

  private refused(what: string): MillraceError {
    const reason =
      this.phase === CLOSED ? 'outside of the call that it was given to' : 'in a call that has no current key'
    return new MillraceError(
      'MILLRACE_STATE_ACCESS',
      `${what} of operator '${this.operatorName}' was used ${reason}`,
      {
        details: { operator: this.operatorName, what },
      },
    )
  }
}
