/**
 * Savepoints under way in one attempt: whose they are, where they go, and what became of their files.
 *
 *   Ordered ──trigger n──► Collecting ──commit point──► Sealed ──commits done──► Finished: `_metadata` is written, then confirmed(n)
 *                              │                          │ refused                 └──► Failed: the file could not be written
 *                              └───────── aborted ────────┴──► given up by whoever ordered it
 */
import type { BlobStore } from '../checkpoint/checkpoint-storage.ts'
import type { CompletedCheckpoint, SavepointNote } from '../checkpoint/completed-checkpoint.ts'
import type { SavepointTarget } from './state-storage.ts'

/** What somebody wants. */
export interface SavepointOrder {
  readonly target: SavepointTarget
  /** Sources stop at it, and the run ends with it. */
  readonly stop: boolean
  /** Event time passes to its end before it, as when all input was read. */
  readonly drain: boolean
}

export class SavepointOrders {
  readonly #ordered = new Map<string, SavepointOrder>()
  readonly #taken = new Map<number, SavepointOrder>()
  readonly #requests = new Map<number, string>()
  readonly #failures = new Map<number, unknown>()

  order(request: string, order: SavepointOrder): void {
    this.#ordered.set(request, order)
  }

  /** Checkpoint n is triggered for one of these requests. */
  triggered(n: number, requests: readonly string[]): SavepointOrder | undefined {
    const request = requests.find((id) => this.#ordered.has(id))
    const order = request === undefined ? undefined : this.#ordered.get(request)
    if (request === undefined || order === undefined) return undefined
    this.#ordered.delete(request)
    this.#taken.set(n, order)
    this.#requests.set(n, request)
    return order
  }

  blobs(n: number): BlobStore | undefined {
    return this.#taken.get(n)?.target.blobs
  }

  /** True once a savepoint is under way at which sources stop. */
  get stopping(): boolean {
    return [...this.#taken.values()].some(({ stop }) => stop)
  }

  /** Who asked for savepoint n. */
  requestOf(n: number): string {
    return this.#requests.get(n) ?? ''
  }

  stopsAt(n: number): boolean {
    return this.#taken.get(n)?.stop === true
  }

  /** What the commit point of checkpoint n says about it; nothing of its files may be deleted from now on. */
  seal(n: number): SavepointNote | undefined {
    const order = this.#taken.get(n)
    if (order === undefined) return undefined
    order.target.seal()
    return { path: order.target.path, stop: order.stop, drained: order.drain }
  }

  unseal(n: number): void {
    this.#taken.get(n)?.target.unseal()
  }

  /** All output of the checkpoint is committed: the savepoint becomes one. What fails is kept for `failureOf`. */
  async finish(checkpoint: CompletedCheckpoint | undefined): Promise<void> {
    const order = checkpoint === undefined ? undefined : this.#taken.get(checkpoint.n)
    if (checkpoint === undefined || order === undefined) return
    try {
      await order.target.finish(checkpoint)
    } catch (error) {
      this.#failures.set(checkpoint.n, error)
    }
  }

  /** Why savepoint n is none although its checkpoint is complete. */
  failureOf(n: number): unknown {
    return this.#failures.get(n)
  }
}
