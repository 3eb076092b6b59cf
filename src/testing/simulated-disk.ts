/** How fast snapshots are stored, wherever they go: usually at once, slowly while a fault says so. */
import type { BlobStore } from '../checkpoint/checkpoint-storage.ts'
import type { Clock, Timers } from '../core/ports.ts'

/** One disk under the snapshots of all workers. */
export class SimulatedDisk {
  readonly #clock: Clock
  #slowMs = 0
  #slowUntil = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Each write that begins within `forMs` takes `ms` longer. */
  slowDown(ms: number, forMs: number): void {
    this.#slowMs = ms
    this.#slowUntil = this.#clock.now() + forMs
  }

  /** The store as a worker with these timers meets it: what is read or removed is not slowed down. */
  under(store: BlobStore, timers: Timers): BlobStore {
    return {
      put: async (name, bytes) => {
        if (this.#clock.now() < this.#slowUntil) await timers.sleep(this.#slowMs)
        return store.put(name, bytes)
      },
      get: (handle) => store.get(handle),
      discard: (handle) => store.discard(handle),
    }
  }
}
