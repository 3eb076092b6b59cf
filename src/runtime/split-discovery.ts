/** Looks for new splits of a source again and again while an attempt runs, and hands them over. */
import type { SourceSplit, SplitEnumerator } from '../core/connector.ts'
import type { TimerHandle, World } from '../core/ports.ts'

export interface SplitDiscoveryOptions {
  readonly uid: string
  readonly enumerator: SplitEnumerator<SourceSplit>
  readonly world: World
  readonly onFound: (splits: readonly SourceSplit[]) => void
}

/** One source's search. A look that fails is logged and repeated: a broker that is away for a while must not fail the job. */
export class SplitDiscovery {
  readonly #options: SplitDiscoveryOptions
  #timer: TimerHandle | undefined
  #stopped = false

  constructor(options: SplitDiscoveryOptions) {
    this.#options = options
  }

  /** Does nothing for a source whose splits are fixed. */
  start(): void {
    const { discoveryIntervalMs, discover } = this.#options.enumerator
    if (discoveryIntervalMs === undefined || discover === undefined) return
    this.#timer = this.#options.world.timers.schedule(discoveryIntervalMs, () => void this.#look(), true)
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
  }

  async #look(): Promise<void> {
    const { uid, enumerator, world, onFound } = this.#options
    try {
      const found = (await enumerator.discover?.()) ?? []
      if (!this.#stopped && found.length > 0) onFound(found)
    } catch (error) {
      world.logger.warn(`looking for new partitions of ${uid} failed; trying again`, { error })
    }
    if (!this.#stopped) this.start()
  }
}
