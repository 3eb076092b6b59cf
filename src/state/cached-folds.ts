/**
 * Folding of what no restore needs apart, one call of the store after the other.
 *
 *   idle ──fold(s)──▶ folding ──done──▶ idle
 *                        ├─ trouble that passes ──▶ idle: warned of, and a later call does it again
 *                        └─ the store lacks something ──▶ broken: no snapshot is taken any more, and no key loaded
 */
import type { Logger } from '../core/ports.ts'
import { type ErrorCode, isMillraceError } from '../errors.ts'
import type { ColdStore } from './cold-store.ts'

/** The store cannot fold now, and holds what it held. */
const PASSING: readonly ErrorCode[] = [
  'MILLRACE_REDIS_UNAVAILABLE',
  'MILLRACE_REDIS_FULL',
  'MILLRACE_REDIS_NOT_DURABLE',
]

/** Folds of one operator subtask. */
export class CacheFolds {
  readonly #operatorName: string
  readonly #logger: Logger
  #foldAt = 0
  #folding: Promise<void> = Promise.resolve()
  #failure: { readonly error: unknown } | undefined

  constructor(operatorName: string, logger: Logger) {
    this.#operatorName = operatorName
    this.#logger = logger
  }

  /** Folds up to a segment if that was not done before; `failed` hears what ends the attempt. */
  fold(store: ColdStore, upTo: number, failed: (error: unknown) => void): void {
    if (upTo <= this.#foldAt) return
    this.#foldAt = upTo
    this.#folding = this.#folding.then(async () => {
      try {
        await store.fold(upTo)
      } catch (error) {
        this.#foldAt = 0
        if (endsAttempt(error)) {
          this.#failure ??= { error }
          failed(error)
        } else this.#logger.warn(`Operator '${this.#operatorName}': old state could not be folded`, { error })
      }
    })
  }

  /** @throws what a fold found: the store does not hold what it must, or belongs to another attempt */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }

  /** Resolves when no fold is on its way. */
  settled(): Promise<void> {
    return this.#folding
  }
}

/** Errors without a code are a local store's own: all that it holds is in checkpoints, too. */
function endsAttempt(error: unknown): boolean {
  return isMillraceError(error) && !PASSING.includes(error.code)
}
