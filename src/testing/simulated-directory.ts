/**
 * A directory that all simulated workers share: snapshots take a while to write, and writing fails now and then.
 */
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { Timers } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { MemoryBlobStore } from '../state/memory-blob-store.ts'
import type { SeededRandom } from './seeded-random.ts'

/** The directory; each worker works on it through a view with its own timers, so that it stops with the worker. */
export class SimulatedDirectory {
  readonly #blobs = new MemoryBlobStore()
  /** Every name that was ever given; the blobs are stored under longer ones, so nothing is lost by a name that comes twice. */
  readonly #written = new Set<string>()
  readonly #failures: number
  readonly #writeMs: number
  readonly #onOverwrite: ((name: string) => void) | undefined

  /**
   * `failures`: chance that a write fails; `writeMs`: how long one takes at the most; `onOverwrite` hears of a name that is written
   * again: no two attempts may share one.
   */
  constructor(options: {
    readonly failures: number
    readonly writeMs: number
    readonly onOverwrite?: (name: string) => void
  }) {
    this.#failures = options.failures
    this.#writeMs = options.writeMs
    this.#onOverwrite = options.onOverwrite
  }

  /** Names of what is stored. */
  get names(): readonly string[] {
    return this.#blobs.names
  }

  view(timers: Timers, random: SeededRandom): BlobStore {
    return {
      put: async (name, bytes): Promise<StateHandle> => {
        await timers.sleep(random.integer(0, this.#writeMs))
        if (random.chance(this.#failures))
          throw new MillraceError('MILLRACE_CHECKPOINT_STORAGE', `no space left to write ${name}`)
        if (this.#written.has(name)) this.#onOverwrite?.(name)
        this.#written.add(name)
        return this.#blobs.put(name, bytes)
      },
      get: async (handle) => {
        await timers.sleep(random.integer(0, this.#writeMs))
        return this.#blobs.get(handle)
      },
      discard: async (handle) => {
        await timers.sleep(random.integer(0, this.#writeMs))
        await this.#blobs.discard(handle)
      },
    }
  }
}
