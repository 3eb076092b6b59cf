/**
 * Output transactions that a failed attempt left open. The next attempt aborts them when it takes over. When none comes the job does it
 * before it ends, or read_committed readers of its output would wait for the brokers' time-out, 15 minutes by default.
 */
import type { CheckpointStore, OutputTransactions, RecoveryFacts } from '../checkpoint/checkpoint-store.ts'
import { promisedIds } from '../checkpoint/completed-checkpoint.ts'
import type { World } from '../core/ports.ts'
import { isMillraceError } from '../errors.ts'

export class LeftOpen {
  /** What a take-over found promised; an attempt that fails in it knows no better. */
  #found: readonly string[] = []
  /** Ids that must stay as they are; undefined = no attempt has failed, or another worker may lead: nothing may be touched. */
  #keep: readonly string[] | undefined

  found({ completed, confirmed }: RecoveryFacts): void {
    this.#found = promisedIds(completed, confirmed)
  }

  /** `promised`: of the attempt if it came to run. */
  failed(error: unknown, promised: readonly string[] | undefined): void {
    const isLost = isMillraceError(error) && error.code === 'MILLRACE_ATTEMPT_LOST'
    this.#keep = isLost ? undefined : (promised ?? this.#found)
  }

  /** Aborts them, unless the job was lost. What cannot be done is logged: the next start does it, or the time-out. */
  async abort({
    transactions,
    store,
    world,
  }: {
    readonly transactions: OutputTransactions | undefined
    readonly store: CheckpointStore
    readonly world: World
  }): Promise<void> {
    if (this.#keep === undefined || transactions === undefined) return
    try {
      await transactions.abortOpen({ keep: this.#keep, proveLeadership: () => store.proveLeadership() })
    } catch (error) {
      world.logger.warn('could not abort what the job left open', { error })
    }
  }
}
