/**
 * Writes the freezes of a cache, one after the other in their order.
 *
 * Two kinds of chain. A durable store (Redis) is the chain itself: changed records go into the segment that the freeze closed, and sealing
 * it gives the handle. Otherwise checkpoints are layers of images in checkpoint storage; a local store (RocksDB) then only holds what the
 * heap does not, or, for local recovery, a copy of everything.
 */
import type { KeyedStateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { KeyedSnapshotTarget } from '../checkpoint/keyed-snapshot.ts'
import type { KeyGroupImage } from '../core/state.ts'
import type { MillraceError } from '../errors.ts'
import { LayerWriter } from './cached-codec.ts'
import type { CacheFreeze, FreezeWriter } from './cached-freeze.ts'
import { type Batch, frozenUnusable, listOf, type SealedState, type SnapshotParts } from './cached-parts.ts'
import {
  type CachedRecord,
  type CapturedRow,
  ChangeList,
  lengthOf,
  weightOf,
  weightOfBytes,
} from './cached-record.ts'
import { EvictedRows } from './evicted-rows.ts'
import { inKeyGroupOrder } from './key-group-order.ts'
import { discardAll, putImages } from './stored-images.ts'

/** Slices whose rows go to the store in one call, and about how many bytes. */
const SLICES_PER_WRITE = 2
const BYTES_PER_WRITE = 1 << 20
/** A record of this many bytes on the heap counts as one more value in a slice. */
const WEIGHT_PER_ENTRY = 512
/** Records passed over weigh this much of one that is written. */
const SKIP_WEIGHT = 1 / 16

export class CacheSnapshots implements FreezeWriter {
  readonly #parts: SnapshotParts
  readonly #waiting: (() => void)[] = []
  /** The local copy lacks something: it is never named again. */
  #copyBroken = false
  #closed = false
  #running: Promise<void> = Promise.resolve()

  constructor(parts: SnapshotParts) {
    this.#parts = parts
  }

  /** True if the store gets each change at the next snapshot. */
  get #storesChanges(): boolean {
    return this.#parts.durableAs !== undefined || (this.#parts.localCopy && !this.#copyBroken)
  }

  store(freeze: CacheFreeze, target: KeyedSnapshotTarget): Promise<KeyedStateHandle | undefined> {
    const { durableAs, incremental, freezes } = this.#parts
    // If an earlier full one is under way it may fail, and then this one has to be full.
    const mayBeFull =
      !incremental ||
      this.#needsBase(freeze) ||
      freezes.inFlight.some(({ mode, version }) => mode === 'full' && version < freeze.version)
    this.#decide(freeze, durableAs === undefined && mayBeFull ? 'full' : 'delta')
    return this.#inTurn(freeze, async () => {
      if (durableAs !== undefined) return this.#storeInStore(freeze, durableAs, target)
      if (!incremental) return this.#storeAll(freeze, target)
      return this.#needsBase(freeze) ? this.#storeBase(freeze, target) : this.#storeDelta(freeze, target)
    })
  }

  #needsBase(freeze: CacheFreeze): boolean {
    return freeze.lossy || this.#parts.chain.needsBase
  }

  materialize(freeze: CacheFreeze, pause: () => Promise<void>): Promise<KeyGroupImage[]> {
    const { durableAs } = this.#parts
    this.#decide(freeze, durableAs === undefined ? 'full' : 'delta')
    return this.#inTurn(freeze, async () => {
      const all =
        durableAs === undefined ? this.#everything(freeze, pause, true) : this.#scanStore(freeze, pause)
      const images = await listOf(all)
      this.#checkUsable(freeze)
      return images
    })
  }

  release(freeze: CacheFreeze): void {
    freeze.released = true
    if (freeze.mode !== 'done' && !freeze.queued) this.#end(freeze)
    this.#wake()
  }

  /** Resolves when nothing is being written any more. */
  async close(): Promise<void> {
    this.#closed = true
    for (const freeze of [...this.#parts.freezes.inFlight]) this.release(freeze)
    await this.#running
  }

  #decide(freeze: CacheFreeze, mode: 'delta' | 'full'): void {
    if (freeze.released || freeze.mode !== 'undecided')
      throw this.#failed(freeze, 'it was released before it was written')
    freeze.mode = mode
    if (mode === 'delta') freeze.others = []
    // Nothing was evicted since the oldest undecided freeze, so what is closed now holds nothing that came later.
    else if (this.#parts.store !== undefined)
      for (const each of this.#parts.freezes.inFlight)
        if (
          each.version <= freeze.version &&
          each.segment < 0 &&
          (each === freeze || each.mode === 'undecided')
        )
          each.segment = this.#parts.closeSegment()
  }

  /** Runs `work` when all earlier freezes are done; afterwards the freeze is done, whatever came of it. */
  #inTurn<T>(freeze: CacheFreeze, work: () => Promise<T>): Promise<T> {
    freeze.queued = true
    const run = async (): Promise<T> => {
      try {
        while (this.#parts.freezes.inFlight[0] !== freeze) {
          this.#checkUsable(freeze)
          await new Promise<void>((resolve) => this.#waiting.push(resolve))
        }
        this.#checkUsable(freeze)
        return await work()
      } finally {
        this.#end(freeze)
      }
    }
    const result = run()
    this.#running = Promise.allSettled([this.#running, result]).then(() => undefined)
    return result
  }

  #end(freeze: CacheFreeze): void {
    this.#parts.freezes.moveOn(freeze)
    this.#parts.freezes.end(freeze)
    this.#wake()
  }

  #wake(): void {
    for (const go of this.#waiting.splice(0)) go()
  }

  #checkUsable(freeze: CacheFreeze): void {
    if (freeze.released || this.#closed) throw this.#failed(freeze, 'it was released before it was written')
    if (freeze.failure !== undefined) throw freeze.failure.error
  }

  #failed({ checkpointId }: CacheFreeze, why: string): MillraceError {
    return frozenUnusable(this.#parts.operatorName, checkpointId, why)
  }

  async #storeInStore(
    freeze: CacheFreeze,
    backend: string,
    target: KeyedSnapshotTarget,
  ): Promise<KeyedStateHandle> {
    const { range } = this.#parts
    const size = await this.#writeChanges(freeze, undefined, target.pause)
    await this.#parts.evicted()
    this.#checkUsable(freeze)
    return {
      kind: 'external',
      backend,
      range: [range.start, range.end],
      state: await this.#seal(freeze),
      size,
    }
  }

  async #storeDelta(freeze: CacheFreeze, target: KeyedSnapshotTarget): Promise<KeyedStateHandle | undefined> {
    const { chain, codec } = this.#parts
    freeze.others = []
    freeze.mode = 'delta'
    const layer = new LayerWriter(codec, freeze.now)
    try {
      await this.#writeEvicted(freeze, layer, target.pause)
      await this.#writeChanges(freeze, layer, target.pause)
    } catch (error) {
      this.#carry(layer)
      throw error
    }
    await chain.putDelta(layer.finish(), target)
    return chain.handle(await this.#sealCopy(freeze))
  }

  async #storeBase(freeze: CacheFreeze, target: KeyedSnapshotTarget): Promise<KeyedStateHandle | undefined> {
    const { chain } = this.#parts
    if (freeze.mode !== 'full') throw this.#failed(freeze, 'what it builds on could not be stored')
    await chain.putBase(this.#everything(freeze, target.pause, false), target)
    this.#allStored(freeze)
    return chain.handle(await this.#sealCopy(freeze))
  }

  /** Each checkpoint whole, without a chain. */
  async #storeAll(freeze: CacheFreeze, target: KeyedSnapshotTarget): Promise<KeyedStateHandle | undefined> {
    const { blobs, name, pause } = target
    const layers = await putImages(this.#everything(freeze, pause, false), blobs, name)
    this.#allStored(freeze)
    if (layers.length === 0) return undefined
    try {
      const local = await this.#sealCopy(freeze)
      return { kind: 'incremental', layers, own: true, ...(local === undefined ? {} : { local }) }
    } catch (error) {
      await discardAll(layers, blobs)
      throw error
    }
  }

  /** What is in an unfinished layer counts as stored; the rest goes to the next snapshot by itself. */
  #carry(layer: LayerWriter): void {
    const { chain, logger, operatorName } = this.#parts
    try {
      chain.carry(layer.finish())
    } catch (error) {
      logger.debug(`Operator '${operatorName}': the next snapshot is a full one`, { error })
      chain.loseBase()
    }
  }

  /** All that changed before the freeze is in what was stored. */
  #allStored(freeze: CacheFreeze): void {
    for (const record of freeze.list.records) {
      if (record.listed !== freeze.number) continue
      record.listed = -1
      record.row = undefined
      if (record.isUnused) this.#parts.emptied(record)
    }
    freeze.list = new ChangeList()
    freeze.rows = []
    freeze.evicted = new EvictedRows()
    freeze.lossy = false
  }

  async #seal(freeze: CacheFreeze): Promise<SealedState> {
    const { store, codec, range } = this.#parts
    const states = codec.registry.imageStates()
    const sealed = await store!.seal(freeze.segment, freeze.checkpointId)
    return { states, range: [range.start, range.end], sealed }
  }

  /** What finds the local copy again; undefined if there is none. The checkpoint does not depend on it. */
  async #sealCopy(freeze: CacheFreeze): Promise<SealedState | undefined> {
    if (!this.#parts.localCopy || this.#copyBroken || freeze.segment < 0) return undefined
    await this.#parts.evicted()
    this.#checkUsable(freeze)
    try {
      return await this.#seal(freeze)
    } catch (error) {
      this.#breakCopy(error)
      return undefined
    }
  }

  #breakCopy(error: unknown): void {
    this.#copyBroken = true
    this.#parts.logger.warn(
      `Operator '${this.#parts.operatorName}': the local copy of its state could not be written; a restart will read the checkpoint instead`,
      { error },
    )
  }

  async #writeEvicted(freeze: CacheFreeze, layer: LayerWriter, pause: () => Promise<void>): Promise<void> {
    const { codec, entriesPerSlice } = this.#parts
    let budget = entriesPerSlice
    for (let row = freeze.evicted.take(); row !== undefined; row = freeze.evicted.take()) {
      layer.row(row.keyGroup, codec.nameOf(row.key), row)
      budget--
      if (budget > 0) continue
      await pause()
      this.#checkUsable(freeze)
      budget = entriesPerSlice
    }
  }

  /** Writes the records on the freeze's list to the store, to a layer, or to both. Returns the bytes that went to the store. */
  async #writeChanges(
    freeze: CacheFreeze,
    layer: LayerWriter | undefined,
    pause: () => Promise<void>,
  ): Promise<number> {
    const { entriesPerSlice, range } = this.#parts
    const batch: Batch = { rows: [], bytes: 0 }
    let [size, budget] = [0, entriesPerSlice]
    const isFull = (): boolean =>
      batch.rows.length >= SLICES_PER_WRITE * entriesPerSlice || batch.bytes >= BYTES_PER_WRITE
    const slice = async (): Promise<void> => {
      await pause()
      this.#checkUsable(freeze)
      budget = entriesPerSlice
    }
    const sorted = { range, entriesPerSlice, slice }
    try {
      const { records } = freeze.list
      const live = this.#storesChanges ? await inKeyGroupOrder(records, (record) => record, sorted) : records
      for (const record of live) {
        budget -= SKIP_WEIGHT
        if (record.listed === freeze.number && record.row === undefined) {
          budget -= 1 + record.weight / WEIGHT_PER_ENTRY
          this.#checkUsable(freeze)
          this.#writeLive(record, layer, batch)
        }
        if (isFull()) size += await this.#flush(freeze, batch)
        if (budget <= 0) await slice()
      }
      // From here on nothing is captured for this freeze: no record is on its list any more.
      if (this.#storesChanges)
        freeze.rows = await inKeyGroupOrder(freeze.rows, ({ record }) => record, sorted)
      // A row stays the freeze's until it is written: one that is refused goes to the next snapshot with its record.
      for (let row = freeze.rows.at(-1); row !== undefined; row = freeze.rows.at(-1)) {
        budget -= 1 + row.record.weight / WEIGHT_PER_ENTRY
        this.#writeCaptured(row, layer, batch)
        freeze.rows.pop()
        if (isFull()) size += await this.#flush(freeze, batch)
        if (budget <= 0) await slice()
      }
      return size + (await this.#flush(freeze, batch))
    } catch (error) {
      // Without a durable store they are in a layer that is carried on, and count as stored.
      if (this.#parts.durableAs === undefined) await this.#flush(freeze, batch)
      this.#putBack(freeze, batch.rows.splice(0))
      throw error
    }
  }

  #writeLive(record: CachedRecord, layer: LayerWriter | undefined, batch: Batch): void {
    const { codec, freezes } = this.#parts
    const written = layer?.live(record)
    if (this.#storesChanges) {
      const bytes = codec.rowOf(record)
      freezes.onEncoded(record, weightOf(bytes))
      record.listed = -1
      this.#add(batch, { ...bytes, record, supersededAt: Number.POSITIVE_INFINITY }, true)
      return
    }
    if (written !== undefined) freezes.onEncoded(record, weightOfBytes(written))
    record.listed = -1
    if (record.isUnused) this.#parts.emptied(record)
  }

  #writeCaptured(row: CapturedRow, layer: LayerWriter | undefined, batch: Batch): void {
    const { record } = row
    layer?.row(record.keyGroup, record, row)
    const current = record.row === row
    if (current) {
      record.row = undefined
      record.listed = -1
    }
    if (this.#storesChanges) this.#add(batch, row, current)
    else if (current && record.isUnused) this.#parts.emptied(record)
  }

  #add(batch: Batch, row: CapturedRow, current: boolean): void {
    const { record } = row
    record.writing++
    if (current) {
      record.row = row
      record.stored = true
    }
    batch.rows.push(row)
    batch.bytes += lengthOf(row)
  }

  /** Rows that did not get to the store: they are the freeze's again if the store is the chain. */
  #putBack(freeze: CacheFreeze, rows: readonly CapturedRow[]): void {
    const isChain = this.#parts.durableAs !== undefined
    for (const row of rows) {
      const { record } = row
      record.writing--
      if (record.row === row) {
        record.stored = false
        if (isChain) record.listed = freeze.number
        else record.row = undefined
      }
      if (isChain) freeze.rows.push(row)
    }
  }

  /** Writes a batch into the freeze's segment. When that fails its rows are the freeze's again. */
  async #flush(freeze: CacheFreeze, batch: Batch): Promise<number> {
    const { rows } = batch
    if (rows.length === 0) return 0
    const { codec, durableAs, emptied, freezes } = this.#parts
    const size = batch.bytes
    const written = rows.splice(0)
    batch.bytes = 0
    try {
      await this.#parts.write(
        freeze.segment,
        written.map((row) => codec.coldRecord(row.record, row)),
      )
    } catch (error) {
      this.#putBack(freeze, written)
      if (durableAs !== undefined) throw error
      freezes.failReaders(freeze.version, error)
      this.#breakCopy(error)
      return 0
    }
    for (const row of written) {
      const { record } = row
      record.writing--
      if (record.row !== row) continue
      record.row = undefined
      if (record.isUnused) emptied(record)
    }
    return size
  }

  /** Images of everything as it was at the freeze, for a store that is the chain: what changed goes there first. */
  async *#scanStore(freeze: CacheFreeze, pause: () => Promise<void>): AsyncIterable<KeyGroupImage> {
    await this.#writeChanges(freeze, undefined, pause)
    yield* this.#scan(freeze, pause)
  }

  /**
   * Images of everything as it was at the freeze, one of each key group in their order: what the store lacks goes there first, then all of it
   * is read; if all was on the heap the store is not asked. `keepsRows`: what changed is part of the next layer all the same, so each record's row is kept until the end.
   */
  async *#everything(
    freeze: CacheFreeze,
    pause: () => Promise<void>,
    keepsRows: boolean,
  ): AsyncIterable<KeyGroupImage> {
    const { tables, freezes, entriesPerSlice, codec } = this.#parts
    const { allHere } = freeze
    const layer = new LayerWriter(codec, freeze.now)
    let fromList = 0
    let budget = entriesPerSlice
    const drain = async (): Promise<void> => {
      const rows = [...freeze.rows.slice(fromList), ...freeze.others]
      fromList = freeze.rows.length
      freeze.others = []
      if (allHere)
        for (const row of rows)
          if (row.value !== undefined || row.timers !== undefined)
            layer.row(row.record.keyGroup, row.record, row)
      if (!allHere || this.#storesChanges) await this.#fill(freeze, rows)
    }
    for (const record of tables.records()) {
      budget -= SKIP_WEIGHT
      if (freezes.mustSweep(freeze, record)) {
        budget -= 1 + record.weight / WEIGHT_PER_ENTRY
        if (allHere && !keepsRows && !this.#storesChanges && freezes.inFlight.length === 1) {
          if (!record.isUnused) layer.live(record)
          record.version = tables.version
        } else freezes.capture(record)
      }
      this.#checkUsable(freeze)
      if (budget > 0) continue
      await drain()
      await pause()
      this.#checkUsable(freeze)
      budget = entriesPerSlice
    }
    while (fromList < freeze.rows.length || freeze.others.length > 0) await drain()
    this.#checkUsable(freeze)
    if (!allHere) yield* this.#scan(freeze, pause)
    for (const image of layer.wholes()) {
      yield image
      this.#checkUsable(freeze)
    }
  }

  /** Writes rows that the store lacks, whole checkpoints only: which list they are on stays as it is. */
  async #fill(freeze: CacheFreeze, rows: readonly CapturedRow[]): Promise<void> {
    const { codec } = this.#parts
    const most = SLICES_PER_WRITE * this.#parts.entriesPerSlice
    for (let at = 0; at < rows.length; at += most) {
      const batch = rows.slice(at, at + most)
      await this.#parts.write(
        freeze.segment,
        batch.map((row) => codec.coldRecord(row.record, row)),
      )
      for (const row of batch) {
        const { record } = row
        // Changed since: then it is on a later list, or was written later.
        if (record.row === row || (record.listed === -1 && record.row === undefined)) record.stored = true
      }
    }
  }

  async *#scan(freeze: CacheFreeze, pause: () => Promise<void>): AsyncIterable<KeyGroupImage> {
    const { store, range, codec, entriesPerSlice } = this.#parts
    const layer = new LayerWriter(codec, freeze.now)
    let budget = entriesPerSlice
    await this.#parts.evicted()
    this.#checkUsable(freeze)
    for (let keyGroup = range.start; keyGroup <= range.end; keyGroup++) {
      for await (const page of store!.scan(keyGroup, freeze.segment)) {
        for (const row of page) layer.row(keyGroup, codec.nameOf(row.key), row)
        budget -= page.length
        if (budget > 0) continue
        await pause()
        this.#checkUsable(freeze)
        budget = entriesPerSlice
      }
      this.#checkUsable(freeze)
      yield* layer.whole(keyGroup)
      this.#checkUsable(freeze)
    }
  }
}
