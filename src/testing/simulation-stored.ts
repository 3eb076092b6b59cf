/**
 * What the records of completed checkpoints name, and whether all of it is still there: nothing that a record names may ever be deleted,
 * be it a snapshot, a layer that several checkpoints share, or state in a store outside.
 *
 *   something is removed ──► asked again ──► a record misses something ──still so after the grace──► violation
 *
 * The grace is for markers: a worker knows that a tombstone was committed before readers of the topic can.
 */
import type { StateHandle } from '../checkpoint/checkpoint-storage.ts'
import { type CompletedCheckpoint, handlesOf } from '../checkpoint/completed-checkpoint.ts'
import { chunkKey } from '../kafka/topic-blob-store.ts'
import { SIMULATED_ROOT } from './simulated-directory.ts'
import type { SimulatedState } from './simulated-state.ts'

/** The completed checkpoints of one job, as the topic has them. */
export class StoredCheckpoints {
  readonly #state: SimulatedState
  readonly #graceMs: number
  readonly #checkpoints = new Map<string, CompletedCheckpoint>()
  readonly #chunks = new Set<string>()
  /** Checkpoints whose state outside may be gone. */
  readonly #replaced = new Set<string>()
  /** What is missing, and until when it may be. */
  #missing = new Map<string, number>()
  #asked = true

  constructor(options: { readonly state: SimulatedState; readonly graceMs: number }) {
    this.#state = options.state
    this.#graceMs = options.graceMs
    options.state.outside.onRemoved = () => this.removed()
  }

  add(key: string, checkpoint: CompletedCheckpoint): void {
    this.#checkpoints.set(key, checkpoint)
    this.#asked = true
  }

  forget(key: string): void {
    this.#checkpoints.delete(key)
    this.#asked = true
  }

  /** A piece of a snapshot in the topic came or went. */
  chunk(key: string, isThere: boolean): void {
    if (isThere) this.#chunks.add(key)
    else if (this.#chunks.delete(key)) this.#asked = true
  }

  /**
   * A run goes on from one of its savepoints, whose state becomes what lies outside: a store outside holds one history of a run, so older
   * checkpoints lose theirs. Snapshots of their own they must keep.
   */
  replacedOutside(run: string, by: number): void {
    for (const [key, checkpoint] of this.#checkpoints)
      if (checkpoint.run === run && checkpoint.n < by) this.#replaced.add(key)
  }

  /** Something outside of the topic went. */
  removed(): void {
    this.#asked = true
  }

  /** Checkpoints of a run, the oldest first. */
  of(run: string): readonly CompletedCheckpoint[] {
    return [...this.#checkpoints.values()]
      .filter((checkpoint) => checkpoint.run === run)
      .sort((a, b) => a.n - b.n)
  }

  /** What has been missing for longer than it may. `held`: a marker is under way, or cannot come now. */
  step(now: number, held: () => boolean): string | undefined {
    if (!this.#asked && this.#missing.size === 0) return undefined
    if (this.#asked) this.#ask(now)
    if (this.#missing.size === 0) return undefined
    const isHeld = held()
    for (const [what, until] of this.#missing) {
      if (isHeld) this.#missing.set(what, now + this.#graceMs)
      else if (until < now) return what
    }
    return undefined
  }

  #ask(now: number): void {
    this.#asked = false
    const missing = new Map<string, number>()
    for (const [key, checkpoint] of this.#checkpoints) {
      const what = this.#missingOf(checkpoint, this.#replaced.has(key))
      if (what === undefined) continue
      const problem = `checkpoint ${checkpoint.n} of run ${checkpoint.run} names ${what}, which is gone`
      missing.set(problem, this.#missing.get(problem) ?? now + this.#graceMs)
    }
    this.#missing = missing
  }

  #missingOf(checkpoint: CompletedCheckpoint, isReplaced: boolean): string | undefined {
    for (const handle of handlesOf(checkpoint)) {
      const what = this.#missingBlob(handle)
      if (what !== undefined) return what
    }
    if (isReplaced) return undefined
    for (const { keyed } of checkpoint.states) {
      const why = keyed?.kind === 'external' ? this.#state.outside.unreadable(keyed) : undefined
      if (why !== undefined) return `state outside (${why})`
    }
    return undefined
  }

  #missingBlob(handle: StateHandle): string | undefined {
    const { directory, savepoints } = this.#state
    switch (handle.kind) {
      case 'inline':
        return undefined
      case 'topic':
        return Array.from({ length: handle.chunks }, (_, i) => chunkKey(handle.name, i)).find(
          (key) => !this.#chunks.has(key),
        )
      case 'file':
        return directory?.has(handle.path) === true ? undefined : handle.path
      case 'kept': {
        const isThere =
          handle.folder === SIMULATED_ROOT ? directory?.has(handle.path) : savepoints.holds(handle)
        return isThere === true ? undefined : `${handle.folder}/${handle.path}`
      }
    }
  }
}
