/**
 * Freezes of the write-back cache, and who changed since the last one. A freeze costs nothing by size: it takes the list of changed
 * records away and begins another. What it still lacks is written when it is touched, or when its turn comes, whichever is earlier.
 *
 *   undecided ── store ──▶ delta: the records on its list        ──▶ done
 *       │  └──── store ──▶ full: all that the store lacks        ──▶ done
 *       │  └─ materialize ▶ full (or delta, when the store is the chain)
 *       └────── release ──────────────────────────────────────────▶ done: what it had goes on to the next freeze, or back to the open list
 *
 * Why it is exact. A record that freeze f lists was changed before f and not since, as long as `listed` says so: whoever wants to look at it
 * goes through `beforeTouch`, which writes it for f first. A row that was written so is f's; the first change afterwards marks it superseded
 * with the version at that time, so that it can still go to a later freeze that was taken before the change.
 */
import type { KeyedStateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { KeyedSnapshotTarget, SelfStoringState } from '../checkpoint/keyed-snapshot.ts'
import type { KeyGroupImage } from '../core/state.ts'
import type { CacheCodec } from './cached-codec.ts'
import { type CachedRecord, type CapturedRow, ChangeList, type RowBytes, weightOf } from './cached-record.ts'
import type { ColdRecord } from './cold-store.ts'
import { EvictedRows } from './evicted-rows.ts'
import type { HeapTables } from './heap-tables.ts'

/** What a freeze is written by. */
export interface FreezeWriter {
  store(freeze: CacheFreeze, target: KeyedSnapshotTarget): Promise<KeyedStateHandle | undefined>
  materialize(freeze: CacheFreeze, pause: () => Promise<void>): Promise<KeyGroupImage[]>
  release(freeze: CacheFreeze): void
}

/** The frozen state of one checkpoint. */
export class CacheFreeze implements SelfStoringState {
  readonly checkpointId: number
  /** Records of a lower version have not been touched since. */
  readonly version: number
  /** For times to live. */
  readonly now: number
  /** The number of the segment that holds its changes; -1: none was closed for it. */
  segment: number
  /** Records that changed before it and after the freeze before. */
  list: ChangeList
  /** Rows of records that changed so and were evicted; needed for layers only. */
  evicted: EvictedRows
  /** All state was on the heap at the freeze: a full snapshot needs no store. */
  readonly allHere: boolean
  /** Not all that was evicted could be kept: only a full snapshot holds it. */
  lossy: boolean
  /** What was written of listed records because they were touched. */
  rows: CapturedRow[] = []
  /** The same of other records, for a full freeze. */
  others: CapturedRow[] = []
  mode: 'undecided' | 'delta' | 'full' | 'done' = 'undecided'
  /** Writing it has begun or waits in line. */
  queued = false
  released = false
  /** A record could not be written. It is the checkpoint's failure, not that of the user code that touched the record. */
  failure: { readonly error: unknown } | undefined
  readonly #writer: FreezeWriter
  #images: Promise<KeyGroupImage[]> | undefined

  constructor(
    writer: FreezeWriter,
    parts: Pick<
      CacheFreeze,
      'checkpointId' | 'version' | 'now' | 'segment' | 'list' | 'evicted' | 'lossy' | 'allHere'
    >,
  ) {
    this.#writer = writer
    this.checkpointId = parts.checkpointId
    this.version = parts.version
    this.now = parts.now
    this.segment = parts.segment
    this.list = parts.list
    this.evicted = parts.evicted
    this.lossy = parts.lossy
    this.allHere = parts.allHere
  }

  /** The number of its list. */
  get number(): number {
    return this.version - 1
  }

  store(target: KeyedSnapshotTarget): Promise<KeyedStateHandle | undefined> {
    return this.#writer.store(this, target)
  }

  materialize(pause: () => Promise<void>): Promise<KeyGroupImage[]> {
    this.#images ??= this.#writer.materialize(this, pause)
    return this.#images
  }

  release(): void {
    this.#writer.release(this)
  }
}

/** What changed, and the freezes in flight. */
export class CacheFreezes {
  readonly #tables: HeapTables<CachedRecord>
  readonly #codec: CacheCodec
  /** Oldest first. */
  readonly #inFlight: CacheFreeze[] = []
  /** Records that changed since the newest freeze. */
  #open = new ChangeList()
  /** Rows of those that were evicted since. */
  #evicted = new EvictedRows()
  #lossy = false
  readonly #evictedMaxBytes: number

  /** Rows of evicted changes are kept up to `evictedMaxBytes` for a layer; beyond, the next snapshot is a full one. */
  constructor(tables: HeapTables<CachedRecord>, codec: CacheCodec, evictedMaxBytes: number) {
    this.#evictedMaxBytes = evictedMaxBytes
    this.#tables = tables
    this.#codec = codec
  }

  get inFlight(): readonly CacheFreeze[] {
    return this.#inFlight
  }

  /** Bytes of evicted rows that are kept for a layer. */
  get evictedBytes(): number {
    let bytes = this.#evicted.bytes
    for (const { evicted } of this.#inFlight) bytes += evicted.bytes
    return bytes
  }

  /** True while it is not known what a freeze needs: until then nothing may leave the cache. */
  get undecided(): boolean {
    return this.#inFlight.some(({ mode }) => mode === 'undecided')
  }

  begin(
    writer: FreezeWriter,
    {
      checkpointId,
      now,
      segment,
      allHere,
    }: Pick<CacheFreeze, 'checkpointId' | 'now' | 'segment' | 'allHere'>,
  ): CacheFreeze {
    const tables = this.#tables
    tables.version++
    tables.forgetCurrent()
    const freeze = new CacheFreeze(writer, {
      checkpointId,
      version: tables.version,
      now,
      segment,
      list: this.#open,
      evicted: this.#evicted,
      lossy: this.#lossy,
      allHere,
    })
    this.#open = new ChangeList()
    this.#evicted = new EvictedRows()
    this.#lossy = false
    // What an earlier one could not write it cannot hand on either: until that is over, a later one lacks it, too.
    freeze.failure = this.#inFlight.find(({ failure }) => failure !== undefined)?.failure
    this.#inFlight.push(freeze)
    return freeze
  }

  /** Before a record is handed out for the first time since the newest freeze: writes it for those that need it. */
  capture(record: CachedRecord): void {
    let bytes: RowBytes | undefined
    for (const freeze of this.#inFlight) {
      if (freeze.version <= record.version || freeze.failure !== undefined) continue
      const listed = record.listed === freeze.number
      // Moved on from an earlier freeze: a second row of it would not be marked when the record changes, and outlive that change.
      if (listed && record.row !== undefined) continue
      if (!listed && !(freeze.mode !== 'delta' && missing(freeze, record))) continue
      try {
        bytes ??= this.#encode(record)
      } catch (error) {
        // Later ones build on this one.
        for (const each of this.#inFlight) if (each.version >= freeze.version) each.failure ??= { error }
        break
      }
      const row: CapturedRow = { ...bytes, record, supersededAt: Number.POSITIVE_INFINITY }
      if (listed) {
        freeze.rows.push(row)
        record.row = row
      } else freeze.others.push(row)
    }
    record.version = this.#tables.version
  }

  /** True if a full freeze must still look at the record. */
  mustSweep(freeze: CacheFreeze, record: CachedRecord): boolean {
    return record.version < freeze.version && missing(freeze, record)
  }

  #encode(record: CachedRecord): RowBytes {
    const bytes = this.#codec.rowOf(record)
    this.onEncoded(record, weightOf(bytes))
    return bytes
  }

  /** Told what a record weighs when it was encoded. */
  onEncoded: (record: CachedRecord, weight: number) => void = () => undefined

  /** Before a record that is not on the open list changes. */
  noteChange(record: CachedRecord): void {
    const { version } = this.#tables
    if (record.row !== undefined) {
      record.row.supersededAt = version
      record.row = undefined
    }
    record.listed = version
    record.stored = false
    this.#open.add(record)
  }

  /** A record is on the open list, and is written elsewhere: take it off. */
  unlist(record: CachedRecord): void {
    this.#open.remove(record)
    record.listed = -1
  }

  /** A record is still part of the next snapshot. */
  relist(record: CachedRecord): void {
    record.listed = this.#tables.version
    // A record on the open list is not asked again when it changes.
    record.stored = false
    this.#open.add(record)
  }

  /** True if the record is on the list of a freeze in flight and not yet written for it. */
  isPending(record: CachedRecord): boolean {
    return record.listed >= 0 && record.listed !== this.#tables.version
  }

  /** Rows that count as stored are not in the store: what was frozen after `version`, and may read it, lacks them. */
  failReaders(version: number, error: unknown): void {
    for (const freeze of this.#inFlight)
      if (freeze.version > version && freeze.mode !== 'delta' && !freeze.allHere) freeze.failure ??= { error }
  }

  /** A changed record left the cache. */
  noteEvicted(row: ColdRecord): void {
    if (this.#lossy) return
    this.#evicted.add(row)
    if (this.#evicted.bytes <= this.#evictedMaxBytes) return
    this.#lossy = true
    this.#evicted = new EvictedRows()
  }

  /** The freeze needs no more captures. What it did not use must have been moved on. */
  end(freeze: CacheFreeze): void {
    freeze.mode = 'done'
    const at = this.#inFlight.indexOf(freeze)
    if (at >= 0) this.#inFlight.splice(at, 1)
    freeze.list = new ChangeList()
    freeze.evicted = new EvictedRows()
    freeze.rows = []
    freeze.others = []
  }

  /** What the freeze has not stored belongs to the next one, or to the open list. */
  moveOn(freeze: CacheFreeze): void {
    const next = this.#inFlight.find(({ version }) => version > freeze.version)
    for (const row of freeze.rows) {
      const { record } = row
      const current = record.row === row
      if (next !== undefined && row.supersededAt >= next.version) {
        next.rows.push(row)
        if (current) record.listed = next.number
      } else if (current) {
        record.row = undefined
        this.relist(record)
      }
    }
    for (const record of freeze.list.records) {
      if (record.listed !== freeze.number) continue
      if (next === undefined) this.relist(record)
      else {
        record.listed = next.number
        next.list.add(record)
      }
    }
    if (freeze.lossy) {
      if (next === undefined) this.#lossy = true
      else next.lossy = true
    }
    const later = next === undefined ? this.#evicted : next.evicted
    later.prepend(freeze.evicted)
  }
}

/** True if a full freeze needs the record itself, not what the store has of it. */
function missing(freeze: CacheFreeze, record: CachedRecord): boolean {
  return !record.cold && (freeze.allHere || !record.stored)
}
