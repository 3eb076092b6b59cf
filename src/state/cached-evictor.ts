/**
 * Chooses which records leave a cache: second chance. A hand goes round over all records; one that was used since it last came by is passed
 * over once more. What is as the store has it is dropped at once; the rest is written first, and dropped when that resolved and nobody has
 * touched it meanwhile.
 */
import type { CachedRecord } from './cached-record.ts'

/** What the evictor needs of its cache. */
export interface EvictorParts {
  readonly maxBytes: number
  bytes(): number
  records(): Iterator<CachedRecord>
  /** True for records of the running vector: user code may hold them. */
  pinned(record: CachedRecord): boolean
  /** False for records that somebody else has in hand. */
  mayLeave(record: CachedRecord): boolean
  mustBeWritten(record: CachedRecord): boolean
  /** Encodes the records at once; resolves when the store has them. */
  write(records: readonly CachedRecord[]): Promise<void>
  drop(record: CachedRecord): void
}

/** Records that the hand passes in one run, so that a run takes a few milliseconds. */
const STEPS = 8_192
/** Records written in one run. */
const BATCH = 1_024
/** A run goes on until this part of the limit is reached, so that not each vector needs one. */
const LOW_WATER = 0.98
/** With this much above the limit, vectors wait until records have left. */
const HARD_LIMIT = 1.1
/** With this much above the limit a store that takes nothing is an error. */
const FULL = 2

export class CacheEvictor {
  readonly #parts: EvictorParts
  #hand: Iterator<CachedRecord> | undefined
  #running: Promise<void> | undefined
  #closed = false
  #failure: { readonly error: unknown } | undefined

  constructor(parts: EvictorParts) {
    this.#parts = parts
  }

  /** Lets records leave. The answer must be awaited before more are loaded; undefined: there is room enough to go on. */
  run(): Promise<void> | undefined {
    if (this.#closed) return undefined
    this.#running ??= this.#pass()?.finally(() => {
      this.#running = undefined
    })
    const { bytes, maxBytes } = this.#parts
    return bytes() > maxBytes * HARD_LIMIT ? this.#awaited() : undefined
  }

  async #awaited(): Promise<void> {
    await this.#running
    const { bytes, maxBytes } = this.#parts
    if (this.#failure !== undefined && bytes() > maxBytes * FULL) throw this.#failure.error
  }

  /** Resolves when no write is on its way. */
  async settled(): Promise<void> {
    await this.#running
  }

  close(): void {
    this.#closed = true
  }

  #pass(): Promise<void> | undefined {
    const parts = this.#parts
    const goal = parts.maxBytes * LOW_WATER
    const batch: CachedRecord[] = []
    let leaving = 0
    for (let step = 0; step < STEPS && batch.length < BATCH; step++) {
      if (parts.bytes() - leaving <= goal) break
      const record = this.#next()
      if (record === undefined) break
      if (parts.pinned(record) || !parts.mayLeave(record)) continue
      if (record.used !== 0) {
        record.used = 0
        continue
      }
      if (parts.mustBeWritten(record)) {
        leaving += record.weight
        batch.push(record)
      } else parts.drop(record)
    }
    return batch.length === 0 ? undefined : this.#write(batch)
  }

  /** The next record; after the last one the hand begins anew. Undefined if there is none. */
  #next(): CachedRecord | undefined {
    for (let round = 0; round < 2; round++) {
      this.#hand ??= this.#parts.records()
      const { done, value } = this.#hand.next()
      if (done !== true) return value
      this.#hand = undefined
    }
    return undefined
  }

  async #write(batch: readonly CachedRecord[]): Promise<void> {
    const parts = this.#parts
    try {
      await parts.write(batch)
      this.#failure = undefined
    } catch (error) {
      // They stay, and are tried again; only a cache that is far too full turns it into a failure.
      this.#failure = { error }
      return
    }
    if (this.#closed) return
    for (const record of batch)
      if (!record.gone && !parts.pinned(record) && parts.mayLeave(record) && !parts.mustBeWritten(record))
        parts.drop(record)
  }
}
