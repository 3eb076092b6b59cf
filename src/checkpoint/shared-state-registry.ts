/**
 * Which stored blobs are still named: incremental checkpoints share them. A blob may be deleted when the last completed checkpoint that
 * names it is forgotten. Counts are by checkpoint and name, so that a blob named twice in one checkpoint counts once.
 */
import type { StateHandle } from './checkpoint-storage.ts'
import { type CompletedCheckpoint, handlesOf } from './completed-checkpoint.ts'

/** What a handle deletes, as a name; undefined: nothing, its bytes are in the metadata or belong to a person. */
export function storedName(handle: StateHandle): string | undefined {
  switch (handle.kind) {
    case 'inline':
    case 'kept':
      return undefined
    case 'file':
      return `file:${handle.path}`
    case 'topic':
      return `topic:${handle.name}`
  }
}

export class SharedStateRegistry {
  readonly #checkpoints = new Map<string, ReadonlyMap<string, StateHandle>>()
  readonly #counts = new Map<string, number>()

  /** The checkpoint's blobs are needed from now on. Adding it again changes nothing. */
  add(checkpoint: Pick<CompletedCheckpoint, 'run' | 'n' | 'states'>): void {
    const id = `${checkpoint.run}/${checkpoint.n}`
    if (this.#checkpoints.has(id)) return
    const named = new Map<string, StateHandle>()
    for (const handle of handlesOf(checkpoint)) {
      const name = storedName(handle)
      if (name !== undefined) named.set(name, handle)
    }
    this.#checkpoints.set(id, named)
    for (const name of named.keys()) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
  }

  /** The checkpoint is forgotten: the blobs that nobody names any more. Empty for one that was never added. */
  forget({ run, n }: Pick<CompletedCheckpoint, 'run' | 'n'>): StateHandle[] {
    const id = `${run}/${n}`
    const unneeded: StateHandle[] = []
    for (const [name, handle] of this.#checkpoints.get(id) ?? []) {
      const count = (this.#counts.get(name) as number) - 1
      if (count > 0) {
        this.#counts.set(name, count)
        continue
      }
      this.#counts.delete(name)
      unneeded.push(handle)
    }
    this.#checkpoints.delete(id)
    return unneeded
  }

  /** True while a checkpoint names the blob. */
  has(handle: StateHandle): boolean {
    const name = storedName(handle)
    return name !== undefined && this.#counts.has(name)
  }
}
