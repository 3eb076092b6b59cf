/**
 * Keyed state that checkpoints name and do not hold (in Redis), run by run: which of it is still needed, and the removal of the rest
 * (protocol §7.6).
 *
 *   needed = the run that is under way, and every run that a stored checkpoint names
 *
 * A run's id is used once. What nobody names now nobody will name again, so removing a run by its id is right even for a worker that has been
 * replaced without knowing it. Looking for orphans is another matter: runs are listed, *then* leadership is proved, and only then what this
 * leader does not know of is unneeded, because nobody can have begun a run before the proof.
 */
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { Logger } from '../core/ports.ts'
import type { OutsideState } from './state-storage.ts'

type Named = Pick<CompletedCheckpoint, 'run' | 'n' | 'states'>

/** The runs of one job whose state lies outside, as one attempt knows them. Without an outside it does nothing. */
export class OutsideRuns {
  readonly #outside: OutsideState | undefined
  readonly #run: string
  readonly #logger: Logger
  /** Runs that a stored checkpoint names, by checkpoint. */
  readonly #named = new Map<string, ReadonlySet<string>>()

  constructor(outside: OutsideState | undefined, run: string, logger: Logger) {
    this.#outside = outside
    this.#run = run
    this.#logger = logger
  }

  /** The checkpoint is stored. */
  add(checkpoint: Named): void {
    const outside = this.#outside
    if (outside === undefined) return
    const runs = checkpoint.states.flatMap(({ keyed }) => {
      const run = keyed?.kind === 'external' ? outside.runOf(keyed) : undefined
      return run === undefined ? [] : [run]
    })
    this.#named.set(idOf(checkpoint), new Set(runs))
  }

  /** The checkpoint is forgotten: removes what only it named. Failures cost room, and are logged. */
  async forgotten(checkpoint: Pick<Named, 'run' | 'n'>): Promise<void> {
    const named = this.#named.get(idOf(checkpoint)) ?? []
    this.#named.delete(idOf(checkpoint))
    for (const run of named) if (run !== this.#run) await this.#removeUnnamed(run)
  }

  /** The run is over: its own state goes, too, unless a checkpoint that is kept names it. */
  async ended(): Promise<void> {
    await this.#removeUnnamed(this.#run)
  }

  /** Removes what crashes left of earlier runs. `proveLeadership` throws unless this worker leads. */
  async removeOrphans(proveLeadership: () => Promise<void>): Promise<void> {
    const outside = this.#outside
    if (outside?.runs === undefined) return
    try {
      const found = await outside.runs()
      const unknown = [...found].filter((run) => run !== this.#run && !this.#isNamed(run))
      if (unknown.length === 0) return
      await proveLeadership()
      for (const run of unknown) await this.#removeUnnamed(run)
    } catch (error) {
      this.#logger.info('did not look for state of earlier runs; the next start will', { error })
    }
  }

  async #removeUnnamed(run: string): Promise<void> {
    if (this.#outside === undefined || this.#isNamed(run)) return
    try {
      await this.#outside.discard(run)
      this.#logger.debug(`removed the state of run ${run} in ${this.#outside.name}`)
    } catch (error) {
      this.#logger.warn(
        `the state of run ${run} in ${this.#outside.name} is not needed any more and could not be removed`,
        { error },
      )
    }
  }

  #isNamed(run: string): boolean {
    for (const runs of this.#named.values()) if (runs.has(run)) return true
    return false
  }
}

function idOf({ run, n }: Pick<Named, 'run' | 'n'>): string {
  return `${run}/${n}`
}
