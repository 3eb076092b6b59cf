/**
 * Keyed state that may be larger than the heap: the tables of the heap backend as a write-back cache over a cold store.
 *
 *   prefetch ── all keys here ──▶ nothing is awaited
 *       └────── some are not ──▶ one load of the store ──▶ here, and pinned until the next vector
 *   too many bytes ──▶ the hand passes over the records: used since the last time? once more ─ unchanged? dropped ─ changed? written, then dropped
 *
 * A record is a key with all it holds in all namespaces. Timers are always here: the queues hold them. Without a store everything is here, and
 * checkpoints are incremental all the same (`filesystem` with `state.backend.incremental`).
 *
 * Limits: a record is loaded and written whole, so a map state of a hundred thousand entries under one key is. An async map has a record
 * for each entry (async-map-entries.ts), loaded in the middle of a vector when it is asked for.
 */
import type { BlobStore, ImagesHandle, KeyedStateHandle } from '../checkpoint/checkpoint-storage.ts'
import { unpackImages } from '../checkpoint/checkpoint-storage.ts'
import type { SelfStoringBackend, SelfStoringState } from '../checkpoint/keyed-snapshot.ts'
import type { Key, KeyGroupImage } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import { CacheCodec } from './cached-codec.ts'
import { CacheEvictor } from './cached-evictor.ts'
import { CacheFolds } from './cached-folds.ts'
import { CacheFreezes } from './cached-freeze.ts'
import { LayerChain } from './cached-layers.ts'
import {
  type CachedBackendOptions,
  checkReadable,
  notLoaded,
  OrderedWrites,
  openAt,
  openLocalCopy,
  type SealedState,
} from './cached-parts.ts'
import { CachedRecord, NEW_RECORD_WEIGHT, type RowBytes, weightOf, weightOfBytes } from './cached-record.ts'
import { coldKeys, coldRowVisitor } from './cached-rows.ts'
import { CacheSnapshots } from './cached-snapshots.ts'
import type { ColdRecord, ColdStore, ColdTimers } from './cold-store.ts'
import type { ImageState } from './key-group-image.ts'
import type { RecordName } from './map-part.ts'
import { ENTRIES_PER_SLICE, TableBackend } from './table-backend.ts'

/** Rows that a restore writes in one call. */
const ROWS_PER_WRITE = 2_000
/** Evicted changes that are kept for the next layer take at most this part of the cache; beyond, the next checkpoint is a full one. */
const EVICTED_PART = 0.25
/** Layers that could not be stored are kept up to this many bytes; beyond, the next checkpoint is a full one. */
const CARRIED_MAX_BYTES = 64 << 20

/** Keyed state of one operator subtask behind a cache. `restoreFrom` must be called, and awaited, before anything else. */
export class CachedKeyedStateBackend
  extends TableBackend<CachedRecord, CachedBackendOptions>
  implements SelfStoringBackend
{
  readonly #codec: CacheCodec
  readonly #freezes: CacheFreezes
  readonly #chain: LayerChain
  #snapshots: CacheSnapshots | undefined
  #evictor: CacheEvictor | undefined
  #store: ColdStore | undefined
  #writes: OrderedWrites | undefined
  /** The segment that takes writes. */
  #segment = 1
  /** A key without a record may have state in the store. */
  #mayBeCold = false
  /** Number of the vector that is being processed. */
  #vector = 1
  #bytes = 0
  /** Records whose timers changed while their values are in the store: their vector comes at once. */
  readonly #coldChanged = new Set<CachedRecord>()
  /** Segments of the checkpoints that a restore may ask for. */
  readonly #segments = new Map<number, number>()
  readonly #folds: CacheFolds
  #hits = 0
  #misses = 0

  constructor(options: CachedBackendOptions) {
    super(options, () => ({
      beforeTouch: (record) => this.captureBeforeTouch(record),
      beforeChange: (record) => this.#freezes.noteChange(record),
      absent: (key) => {
        if (this.#mayBeCold) throw notLoaded(this.options.operatorName, key)
      },
      added: (record) => {
        record.used = this.#vector
        record.weight = NEW_RECORD_WEIGHT
        this.#bytes += NEW_RECORD_WEIGHT
        this.keyGroupOf(record)
      },
      keepsEmpty: true,
      makeRecord: CachedRecord,
    }))
    const { operatorName, clock, cacheMaxBytes, metrics } = options
    this.#folds = new CacheFolds(operatorName, options.logger)
    this.#codec = new CacheCodec(this.registry, operatorName, () => clock.now())
    this.#freezes = new CacheFreezes(this.tables, this.#codec, EVICTED_PART * cacheMaxBytes)
    this.#freezes.onEncoded = (record, weight) => this.#weigh(record, weight)
    this.#chain = new LayerChain(Math.min(EVICTED_PART * cacheMaxBytes, CARRIED_MAX_BYTES))
    metrics?.gauge('state_cache_bytes', () => this.#bytes)
    metrics?.gauge('state_cache_hits', () => this.#hits)
    metrics?.gauge('state_cache_misses', () => this.#misses)
    metrics?.gauge('state_cold_bytes', () => this.#store?.bytes ?? 0)
  }

  /** Bytes of the records on the heap, about. */
  get cacheBytes(): number {
    return this.#bytes
  }

  prefetch(keys: readonly Key[]): Promise<void> | undefined {
    if (!this.#mayBeCold && this.#held <= this.options.cacheMaxBytes) {
      this.#hits += keys.length
      this.tables.lookAhead(keys)
      return undefined
    }
    const vector = ++this.#vector
    const missing: RecordName[] = []
    this.tables.gather(keys, (key, record) => {
      if (record !== undefined) record.used = vector
      if (record === undefined || record.cold) missing.push({ key, part: undefined })
    })
    this.#hits += keys.length - missing.length
    this.#misses += missing.length
    // Known to have no state; from now on a key without a record may have been evicted.
    if (!this.#mayBeCold) for (const name of missing.splice(0)) this.tables.made(name)
    const room = this.#makeRoom()
    if (missing.length === 0) return room
    const loaded = this.#load(missing)
    return room === undefined ? loaded : Promise.all([loaded, room]).then(() => undefined)
  }

  override keysWith(stateName: string): Iterable<Key> | Promise<readonly Key[]> {
    return this.#mayBeCold ? this.#allKeys(stateName) : super.keysWith(stateName)
  }

  /** The evictor, the only one that takes records off the heap, has nothing to do before the next prefetch. */
  async #allKeys(stateName: string): Promise<readonly Key[]> {
    await this.#evictor?.settled()
    const isHere = (key: Key): boolean => this.isNameHere({ key, part: undefined })
    const cold = await coldKeys(this.#store!, this.options.range, this.#segment, this.#codec, isHere)
    return [...this.keys(stateName), ...cold]
  }

  freeze(checkpointId: number): SelfStoringState {
    const { operatorName, clock, durableAs, localCopy } = this.options
    if (this.#coldChanged.size > 0)
      throw new MillraceError(
        'MILLRACE_INTERNAL',
        `Operator '${operatorName}': checkpoint ${checkpointId} came between due timers and their keys' state`,
      )
    this.checkSettled(checkpointId)
    this.#folds.check()
    // A store that gets all changes has a segment for each checkpoint; otherwise one is closed when it is needed.
    const segment = durableAs !== undefined || localCopy ? this.#closeSegment() : -1
    if (segment >= 0) this.#segments.set(checkpointId, segment)
    const freeze = this.#freezes.begin(this.#writer, {
      checkpointId,
      now: clock.now(),
      segment,
      allHere: !this.#mayBeCold,
    })
    // What no scan needs apart. With a segment for each checkpoint the coordinator says what a restore may ask for.
    if (segment < 0) this.#fold(this.#segment - 1)
    return freeze
  }

  /** Only without a store, where all state is on the heap. */
  restore(images: readonly KeyGroupImage[]): void {
    if (this.options.openStore !== undefined)
      throw new MillraceError('MILLRACE_INTERNAL', 'State behind a store is restored by restoreFrom')
    this.readImages(images)
    this.#begin(undefined)
  }

  async restoreFrom(handles: readonly KeyedStateHandle[], reader: Pick<BlobStore, 'get'>): Promise<void> {
    const { openStore } = this.options
    const external = handles.filter((handle) => handle.kind === 'external')
    const layers = handles.flatMap((handle) =>
      handle.kind === 'external' ? [] : handle.kind === 'incremental' ? handle.layers : [handle],
    )
    checkReadable(external, this.options)
    const local = await openLocalCopy(this.options, handles)
    if (local !== undefined) this.#know(local.states)
    this.#know(external.flatMap(({ state }) => (state as SealedState).states))
    const store = local?.store ?? (openStore === undefined ? undefined : await openAt(this.options, external))
    this.#begin(store)
    this.#mayBeCold = local !== undefined || external.length > 0
    if (local === undefined) for (const layer of layers) await this.#importLayer(layer, reader)
    if (store !== undefined) await this.#restoreTimers(local?.timers ?? store.timers())
    else for (const record of this.tables.records()) if (record.isUnused) this.#remove(record)
    this.#chain.continueFrom(handles.filter(({ kind }) => kind !== 'external'))
    this.tables.forgetCurrent()
  }

  retainedFrom(oldest: number): void {
    const segment = this.#segments.get(oldest)
    for (const checkpointId of this.#segments.keys())
      if (checkpointId < oldest) this.#segments.delete(checkpointId)
    if (segment !== undefined) this.#fold(segment)
  }

  async close(): Promise<void> {
    this.#evictor?.close()
    await this.#snapshots?.close()
    await this.#evictor?.settled()
    await this.#folds.settled()
    this.tables.clear()
    await this.#store?.close()
  }

  /** As in the heap backend: overridden only by tests that show that they notice its absence. */
  protected captureBeforeTouch(record: CachedRecord): void {
    if (record.cold) throw notLoaded(this.options.operatorName, record.key)
    this.#freezes.capture(record)
  }

  protected override isHere(record: CachedRecord): boolean {
    return !record.cold
  }

  protected override isNameHere(name: RecordName): boolean {
    const record = this.tables.held(name)
    return record === undefined ? !this.#mayBeCold : !record.cold
  }

  /** As prefetch, in the middle of a vector. */
  protected override loadNames(names: readonly RecordName[]): Promise<void> | undefined {
    const missing: RecordName[] = []
    for (const name of names) {
      const record = this.tables.held(name)
      if (record !== undefined) record.used = this.#vector
      if (record === undefined ? this.#mayBeCold : record.cold) missing.push(name)
    }
    this.#hits += names.length - missing.length
    this.#misses += missing.length
    if (missing.length === 0) return undefined
    const room = this.#makeRoom()
    const loaded = this.#load(missing)
    return room === undefined ? loaded : Promise.all([loaded, room]).then(() => undefined)
  }

  protected override overwrite(record: CachedRecord): void {
    if (!record.cold) return
    record.cold = false
    record.version = this.tables.version
  }

  protected override releaseNames(names: readonly RecordName[]): void {
    for (const name of names) {
      const record = this.tables.held(name)
      if (record?.used === this.#vector) record.used = 0
    }
  }

  /** Timers are here whether the value is or not. */
  protected override beforeTimersChange(record: CachedRecord): void {
    if (!record.cold) {
      super.beforeTimersChange(record)
      return
    }
    if (record.listed !== this.tables.version) this.#freezes.noteChange(record)
    this.#coldChanged.add(record)
  }

  /** Bytes that count for the limit: what left the cache and waits for its layer takes the room of others. */
  get #held(): number {
    return this.#bytes + this.#freezes.evictedBytes
  }

  get #writer(): CacheSnapshots {
    if (this.#snapshots === undefined)
      throw new MillraceError('MILLRACE_INTERNAL', 'The keyed state was used before it was restored')
    return this.#snapshots
  }

  /** All parts are there. */
  #begin(store: ColdStore | undefined): void {
    const { range, operatorName, logger, durableAs, localCopy, incremental, cacheMaxBytes } = this.options
    this.#store = store
    const writes = store === undefined ? undefined : new OrderedWrites(store)
    this.#writes = writes
    this.#snapshots = new CacheSnapshots({
      durableAs,
      localCopy: localCopy && store !== undefined,
      incremental,
      operatorName,
      range,
      logger,
      store,
      entriesPerSlice: this.options.entriesPerSlice ?? ENTRIES_PER_SLICE,
      tables: this.tables,
      codec: this.#codec,
      freezes: this.#freezes,
      chain: this.#chain,
      write: (segment, rows) => writes!.write(segment, rows),
      evicted: async () => this.#evictor?.settled(),
      closeSegment: () => this.#closeSegment(),
      emptied: (record) => {
        if (!this.#mayBeCold) this.#remove(record)
      },
    })
    if (store === undefined) return
    this.#evictor = new CacheEvictor({
      maxBytes: cacheMaxBytes,
      bytes: () => this.#held,
      records: () => this.tables.records(),
      pinned: (record) => record.used === this.#vector,
      mayLeave: (record) => !record.cold && record.writing === 0 && !this.#freezes.isPending(record),
      mustBeWritten: (record) => !record.stored || record.listed >= 0,
      write: (records) => this.#writeEvicted(records),
      drop: (record) => this.#drop(record),
    })
  }

  #closeSegment(): number {
    return this.#segment++
  }

  #fold(segment: number): void {
    const running = this.#freezes.inFlight.map((freeze) => freeze.segment).filter((each) => each >= 0)
    const upTo = Math.min(segment, ...running)
    if (this.#store === undefined) return
    this.#folds.fold(this.#store, upTo, (error) => {
      for (const freeze of this.#freezes.inFlight) freeze.failure ??= { error }
    })
  }

  #makeRoom(): Promise<void> | undefined {
    const evictor = this.#evictor
    if (evictor === undefined || this.#held <= this.options.cacheMaxBytes || this.#freezes.undecided)
      return undefined
    this.#mayBeCold = true
    return evictor.run()
  }

  async #load(missing: readonly RecordName[]): Promise<void> {
    const wanted = new Set<CachedRecord>()
    const made: CachedRecord[] = []
    for (const name of missing) {
      const held = this.tables.held(name)
      const record = held ?? this.tables.made(name)
      record.used = this.#vector
      if (held === undefined) {
        record.cold = true
        record.version = -1
        made.push(record)
      }
      if (record.cold) wanted.add(record)
    }
    const records = [...wanted]
    try {
      this.#folds.check()
      const values = await this.#store!.load(
        records.map((record) => ({ keyGroup: record.keyGroup, key: this.#codec.nameBytes(record) })),
      )
      for (const [i, record] of records.entries()) this.#loaded(record, values[i])
    } catch (error) {
      for (const record of made) if (record.cold) this.#remove(record)
      throw error
    }
    this.tables.forgetCurrent()
  }

  #loaded(record: CachedRecord, value: Uint8Array | undefined): void {
    // Loaded by two calls at once, or written meanwhile.
    if (record.gone || !record.cold) return
    if (value !== undefined)
      this.#codec.visitValue(record.keyGroup, value, (restored, namespace, slot) =>
        this.putSlot(record, restored, namespace, slot),
      )
    record.cold = false
    record.version = this.tables.version
    if (this.#coldChanged.delete(record)) record.stored = false
    else record.stored = true
    this.#weigh(record, weightOfBytes(value?.length ?? 0))
  }

  /** Writes changed records to the segment that is open. */
  async #writeEvicted(records: readonly CachedRecord[]): Promise<void> {
    const rows: ColdRecord[] = []
    const { durableAs } = this.options
    const changed = new Set<CachedRecord>()
    const written: CachedRecord[] = []
    for (const record of records) {
      if (record.version !== this.tables.version) this.#freezes.capture(record)
      const bytes = this.#rowOrNothing(record)
      if (bytes === undefined) continue
      written.push(record)
      const row = this.#codec.coldRecord(record, bytes)
      rows.push(row)
      if (record.listed >= 0) {
        changed.add(record)
        this.#freezes.unlist(record)
        if (durableAs === undefined) this.#freezes.noteEvicted(row)
      }
      record.stored = true
      record.writing++
    }
    const { version } = this.tables
    try {
      await this.#writes!.write(this.#segment, rows)
    } catch (error) {
      // They were counted as stored by what was frozen meanwhile.
      for (const freeze of this.#freezes.inFlight) if (freeze.version > version) freeze.failure ??= { error }
      for (const record of written) {
        record.writing--
        // Changed meanwhile: it is on the list again.
        if (record.listed >= 0) continue
        record.stored = false
        if (changed.has(record)) this.#freezes.relist(record)
      }
      throw error
    }
    for (const record of written) record.writing--
  }

  /** A value that cannot be kept stays here; it fails the next checkpoint, which says why. */
  #rowOrNothing(record: CachedRecord): RowBytes | undefined {
    try {
      return this.#codec.rowOf(record)
    } catch (error) {
      this.options.logger.debug(`Operator '${this.options.operatorName}': a record could not be written`, {
        error,
      })
      return undefined
    }
  }

  /** The record's values leave; a record that has timers stays for them. */
  #drop(record: CachedRecord): void {
    // A whole snapshot of what was all on the heap does not ask the store, though the store has it.
    if (record.version !== this.tables.version) this.#freezes.capture(record)
    if (record.timers === undefined) {
      this.#remove(record)
      return
    }
    this.tables.empty(record)
    record.cold = true
    record.version = -1
    this.#weigh(record, weightOf({ value: undefined, timers: undefined }))
  }

  #remove(record: CachedRecord): void {
    this.tables.remove(record)
    this.#bytes -= record.weight
    record.weight = 0
  }

  #weigh(record: CachedRecord, weight: number): void {
    if (record.gone) return
    this.#bytes += weight - record.weight
    record.weight = weight
  }

  #know(states: readonly ImageState[]): void {
    const now = this.options.clock.now()
    for (const state of states) this.registry.restored(state, now)
  }

  /** Puts a layer into the store, or into the tables when there is none. */
  async #importLayer(layer: ImagesHandle, reader: Pick<BlobStore, 'get'>): Promise<void> {
    const images = unpackImages(await reader.get(layer.handle), layer.keyGroups)
    if (this.#store === undefined) {
      this.readImages(images)
      return
    }
    this.#mayBeCold = true
    const check = this.checkKeyGroup.bind(this)
    let rows: ColdRecord[] = []
    for (const image of images) {
      this.visitImage(image, (states) => coldRowVisitor(this.#codec, states, image.keyGroup, rows, check))
      if (rows.length < ROWS_PER_WRITE) continue
      await this.#store.write(this.#segment, rows)
      rows = []
    }
    if (rows.length > 0) await this.#store.write(this.#segment, rows)
  }

  async #restoreTimers(pages: Iterable<readonly ColdTimers[]> | AsyncIterable<readonly ColdTimers[]>) {
    for await (const page of pages)
      for (const { keyGroup, key: bytes, timers } of page) {
        const { key } = this.#codec.nameOf(bytes)
        this.checkKeyGroup(key, keyGroup)
        const record = this.tables.recordOf(key)
        record.used = 0
        record.cold = true
        record.version = -1
        record.stored = true
        const stored = this.#codec.timersOf(keyGroup, timers)
        for (const domain of ['event', 'processing'] as const)
          for (const { namespace, time, sequence } of stored.inOrder(domain))
            this.queues.restore(domain, record, namespace, time, sequence)
      }
  }
}
