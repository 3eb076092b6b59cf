/**
 * Where keyed state lies that is not on the heap: the port between the write-back cache (cached-backend.ts) and the stores that hold more
 * than the heap can (rocksdb-store.ts, redis-store.ts). One store a subtask of an operator.
 *
 * A store holds, for each key group, a *base* and above it *segments* of changed records, numbered upwards within the attempt. A read takes
 * the newest segment that has the key, then the base. Checkpoint n is the base with all segments up to the one that its freeze closed.
 * Segments, not checkpoint ids, form the chain: a checkpoint that was aborted leaves its segment where it is, and the next one names it.
 *
 *   write(s, …)*  ──seal(s)──▶  durable, named by a checkpoint  ──fold(s)──▶  part of the base
 *
 * Values are opaque here: the cache encodes and decodes them. Keys are their canonical bytes (core/key-encoding.ts).
 */

/** A key and the group it belongs to. */
export interface ColdKey {
  readonly keyGroup: number
  readonly key: Uint8Array
}

/** What a key holds, as bytes. A record replaces the whole of what was stored under its key before. */
export interface ColdRecord extends ColdKey {
  /** All its states in all namespaces; undefined = it holds none any more. */
  readonly value: Uint8Array | undefined
  /** Its timers; undefined = it has none. Kept apart, because they are read at a restore and values are not. */
  readonly timers: Uint8Array | undefined
}

/** A key that has timers. */
export interface ColdTimers extends ColdKey {
  readonly timers: Uint8Array
}

/** Records of one operator subtask beyond the heap. All calls but `close` may overlap, except two of `write`: the cache makes them one after the other. */
export interface ColdStore {
  /** Values of the keys, in their order, in one round trip; undefined = none. @throws StateLostError if what a checkpoint promised is gone */
  load(keys: readonly ColdKey[]): Promise<(Uint8Array | undefined)[]>
  /** Puts records into a segment that is not sealed; of one key the last written wins. Resolves when `load` sees them. */
  write(segment: number, records: readonly ColdRecord[]): Promise<void>
  /**
   * No more writes come for `segment`. Resolves when all segments up to it are as durable as the store promises, with what a handle must
   * hold to find and verify them again (JSON-safe).
   */
  seal(segment: number, checkpointId: number): Promise<unknown>
  /** No restore will ask for less than the state at `segment` any more: segments up to it may become part of the base. Repeatable. */
  fold(segment: number): Promise<void>
  /** Timers of all keys, by pages; at a restore, before the first record. */
  timers(): AsyncIterable<readonly ColdTimers[]>
  /** All records of a key group as they are at `segment`, by pages, in no order; those without value and timers left out. */
  scan(keyGroup: number, segment: number): AsyncIterable<readonly ColdRecord[]>
  /** Bytes held, as far as it is known, for metrics. */
  readonly bytes: number
  close(): Promise<void>
}

/** A part of what a checkpoint says about a store: what `seal` gave, and the key groups (both inclusive) that are wanted of it. */
export interface ColdOrigin {
  readonly range: readonly [first: number, last: number]
  readonly sealed: unknown
}

/**
 * Opens the store of one operator subtask for one attempt, holding exactly the state of `origins` (none: it is empty); several after a
 * rescale. The cache numbers its segments from 1 on; what the origins hold counts as segment 0.
 *
 * A store that is itself durable (Redis) must be able to take over any origin of its own kind, and throws StateLostError when what one
 * promised is gone. One that is local (RocksDB) answers undefined for origins that it cannot use, and the cache fills an empty store from
 * the remote copy instead: it calls again without origins.
 */
export type OpenColdStore = (origins: readonly ColdOrigin[]) => Promise<ColdStore | undefined>
