/**
 * The cold store of the rocksdb backend: one RocksDB on this machine's disk for each subtask of an operator. It is not durable in the sense of
 * a checkpoint; after a crash of the process, not of the machine, it can be recovered when what it holds is exactly what a checkpoint says.
 *
 *   rows of segments ── fold: copied into the base, page by page ─▶ marker "folded" moved on ─▶ segment's rows deleted
 *
 * A row that was copied stays in its segment until all of the segment is in the base and loads that began before have ended: a load that
 * meets a half-folded segment still finds the newest row. A crash in the middle leaves rows in both places, which are equal.
 */
import { crc32 } from '@node-rs/crc32'
import type RocksDB from 'rocksdb-native'
import type { Logger } from '../core/ports.ts'
import { isMillraceError, MillraceError, StateLostError } from '../errors.ts'
import type { ColdKey, ColdRecord, ColdStore, ColdTimers } from './cold-store.ts'
import {
  baseKey,
  baseRange,
  type KeyRange,
  keyOfBaseRow,
  keyOfSegmentRow,
  markerKey,
  NONE,
  type RowKind,
  segmentKey,
  segmentRange,
  segmentsFrom,
} from './rocksdb-layout.ts'

/** Rows read or written in one go. */
const PAGE = 1_000
/** Rows that an iterator fetches at once. */
const ITERATOR_ROWS = 256
/** Folding waits until this many segments can be folded: each one read costs a look-up, each one folded is written twice. */
const FOLD_FROM = 4
/** Rows of a segment that are counted at a recovery: about half a second. */
const COUNTED_ROWS = 50_000
const FORMAT = 1
const STORE_MARKER = 'store'
const KINDS: readonly RowKind[] = ['value', 'timers']

/** What `seal` gives: what the store must say about itself to be the one that a checkpoint means. */
export interface RocksdbSeal {
  readonly format: number
  /** Unique for each folder of a database. */
  readonly id: string
  /** Number of the segment in the database, which goes on over attempts. */
  readonly segment: number
  /** Rows of the segment, and the sum of their CRC-32s mod 2^32. */
  readonly rows: number
  readonly checksum: number
}

/** What the store says about itself. */
interface StoreMarker {
  readonly format: number
  readonly id: string
  /** The last segment that is in the base. */
  readonly folded: number
}

/** A segment that is not in the base. */
interface Segment {
  rows: number
  checksum: number
}

/** Rows of a segment that may still change: what each adds to the checksum. */
type OpenSegment = Map<string, number>

export interface RocksdbStoreOptions {
  readonly db: RocksDB
  readonly id: string
  readonly operatorName: string
  readonly logger: Logger
  /** Segments are summed up, so that they can be verified when the database is opened again. */
  readonly recoverable: boolean
  /** Called once when the database is damaged: it must not be recovered from. */
  readonly damaged: () => Promise<void>
  /** Called after the database is closed. */
  readonly closed: () => Promise<void>
}

export class RocksdbStore implements ColdStore {
  readonly #options: RocksdbStoreOptions
  readonly #db: RocksDB
  /** By number in the database, ascending. */
  readonly #segments = new Map<number, Segment>()
  readonly #open = new Map<number, OpenSegment>()
  /** False while no key ever had timers: then nobody asks for their rows. */
  #hasTimers = false
  #folded = 0
  /** What is added to a segment's number in this attempt. */
  #offset = 0
  readonly #loads = new Set<Promise<unknown>>()
  #closing = false
  #bytes = 0

  private constructor(options: RocksdbStoreOptions) {
    this.#options = options
    this.#db = options.db
  }

  /** A store over an empty database. */
  static async create(options: RocksdbStoreOptions): Promise<RocksdbStore> {
    const store = new RocksdbStore(options)
    await store.#writeMarker()
    return store
  }

  /**
   * A store over a database that was sealed, cut back to what it was then.
   * @throws StateLostError if it is not the one that was sealed, or lacks something
   */
  static async recover(options: RocksdbStoreOptions, seal: RocksdbSeal): Promise<RocksdbStore> {
    const store = new RocksdbStore(options)
    const marker = (await store.#readMarker(STORE_MARKER)) as StoreMarker | undefined
    if (marker === undefined || marker.format !== FORMAT || marker.id !== seal.id)
      throw store.#lost('it is not the one that the checkpoint names')
    if (marker.folded > seal.segment) throw store.#lost('it is newer than the checkpoint')
    store.#folded = marker.folded
    store.#offset = seal.segment
    store.#hasTimers = true
    for (let number = marker.folded + 1; number <= seal.segment; number++)
      await store.#verify(number, number === seal.segment ? seal : undefined)
    if (marker.folded < seal.segment && !store.#segments.has(seal.segment))
      throw store.#lost(`segment ${seal.segment} is missing`)
    await store.#cutBack(seal.segment)
    return store
  }

  get bytes(): number {
    return this.#bytes
  }

  async load(keys: readonly ColdKey[]): Promise<(Uint8Array | undefined)[]> {
    const load = this.#load(keys)
    this.#loads.add(load)
    try {
      return await load
    } catch (error) {
      throw await this.#readFailure(error)
    } finally {
      this.#loads.delete(load)
    }
  }

  async #load(keys: readonly ColdKey[]): Promise<(Uint8Array | undefined)[]> {
    const segments = this.#newestFirst(Number.POSITIVE_INFINITY)
    const batch = this.#db.read({
      autoDestroy: true,
      capacity: Math.max(8, keys.length * (segments.length + 1)),
    })
    const reads: Promise<Uint8Array | null>[] = []
    for (const key of keys) {
      for (const segment of segments) reads.push(batch.get(segmentKey('value', segment, key)))
      reads.push(batch.get(baseKey('value', key)))
    }
    batch.tryFlush()
    const rows = await Promise.all(reads)
    const places = segments.length + 1
    return keys.map((_, i) => {
      for (let place = 0; place < places; place++) {
        const row = rows[i * places + place]
        if (row !== null && row !== undefined) return row.length === 0 ? undefined : row
      }
      return undefined
    })
  }

  async write(segment: number, records: readonly ColdRecord[]): Promise<void> {
    const number = this.#offset + segment
    const batch = this.#db.write({ autoDestroy: true, capacity: Math.max(8, records.length * 2) })
    const open = this.#openSegment(number)
    const put = (kind: RowKind, record: ColdRecord, row: Uint8Array): number => {
      const place = segmentKey(kind, number, record)
      batch.tryPut(place, row)
      open?.set(textOf(place), crc32(row, crc32(place)))
      return place.length + row.length
    }
    let bytes = 0
    for (const record of records) {
      bytes += put('value', record, record.value ?? NONE)
      this.#hasTimers ||= record.timers !== undefined
      if (this.#hasTimers) bytes += put('timers', record, record.timers ?? NONE)
    }
    // Known before it is written: a load that comes meanwhile looks for it.
    if (!this.#segments.has(number)) this.#segments.set(number, { rows: 0, checksum: 0 })
    await batch.flush()
    this.#bytes += bytes
  }

  async seal(segment: number, checkpointId: number): Promise<RocksdbSeal> {
    const number = this.#offset + segment
    const { rows, checksum } = this.#close(number)
    const seal: RocksdbSeal = { format: FORMAT, id: this.#options.id, segment: number, rows, checksum }
    this.#segments.set(number, { rows, checksum })
    const batch = this.#db.write({ autoDestroy: true, capacity: 8 })
    batch.tryPut(markerKey(sealName(number)), jsonBytes({ ...seal, checkpointId }))
    await batch.flush()
    return seal
  }

  async fold(segment: number): Promise<void> {
    const upTo = this.#offset + segment
    const ripe = [...this.#segments.keys()].filter((number) => number <= upTo).sort((a, b) => a - b)
    if (ripe.length < FOLD_FROM) return
    for (const number of ripe) {
      if (this.#closing) return
      await this.#foldOne(number)
    }
  }

  async *timers(): AsyncIterable<readonly ColdTimers[]> {
    for await (const page of this.#merged('timers', undefined, Number.POSITIVE_INFINITY))
      yield page.map(({ row, keyGroup, key }) => ({ keyGroup, key, timers: row }))
  }

  async *scan(keyGroup: number, segment: number): AsyncIterable<readonly ColdRecord[]> {
    const upTo = this.#offset + segment
    const timers = new Map<string, Uint8Array>()
    for await (const page of this.#merged('timers', keyGroup, upTo))
      for (const { key, row } of page) timers.set(textOf(key), row)
    for await (const page of this.#merged('value', keyGroup, upTo))
      yield page.map(({ key, row }) => {
        const text = textOf(key)
        const own = timers.get(text)
        timers.delete(text)
        return { keyGroup, key, value: row, timers: own }
      })
    for (const [text, row] of timers)
      yield [{ keyGroup, key: Buffer.from(text, 'latin1'), value: undefined, timers: row }]
  }

  async close(): Promise<void> {
    this.#closing = true
    await Promise.allSettled(this.#loads)
    await this.#db.close()
    await this.#options.closed()
  }

  /** Rows as they are at a segment: those of the segments overlaid on the base. */
  async *#merged(
    kind: RowKind,
    keyGroup: number | undefined,
    upTo: number,
  ): AsyncIterable<{ keyGroup: number; key: Uint8Array; row: Uint8Array }[]> {
    const snapshot = this.#db.snapshot()
    try {
      const changed = new Map<
        string,
        { readonly keyGroup: number; readonly key: Uint8Array; readonly row: Uint8Array }
      >()
      for (const number of this.#newestFirst(upTo))
        for await (const page of pages(snapshot, segmentRange(kind, number, keyGroup)))
          for (const { key: place, value } of page) {
            const { keyGroup: group, key } = keyOfSegmentRow(place)
            const text = `${group}/${textOf(key)}`
            if (!changed.has(text)) changed.set(text, { keyGroup: group, key, row: value })
          }
      for await (const page of pages(snapshot, baseRange(kind, keyGroup)))
        yield page.flatMap(({ key: place, value }) => {
          const { keyGroup: group, key } = keyOfBaseRow(place)
          return changed.has(`${group}/${textOf(key)}`) ? [] : [{ keyGroup: group, key, row: value }]
        })
      const left = [...changed.values()].filter(({ row }) => row.length > 0)
      for (let at = 0; at < left.length; at += PAGE) yield left.slice(at, at + PAGE)
    } catch (error) {
      throw await this.#readFailure(error)
    } finally {
      await snapshot.close()
    }
  }

  #newestFirst(upTo: number): number[] {
    return [...this.#segments.keys()].filter((number) => number <= upTo).sort((a, b) => b - a)
  }

  async #foldOne(number: number): Promise<void> {
    for (const kind of KINDS)
      for await (const page of pages(this.#db, segmentRange(kind, number))) {
        if (this.#closing) return
        const batch = this.#db.write({ autoDestroy: true, capacity: Math.max(8, page.length) })
        for (const { key: place, value } of page) {
          const target = baseKey(kind, keyOfSegmentRow(place))
          if (value.length === 0) batch.tryDelete(target)
          else batch.tryPut(target, value)
        }
        await batch.flush()
      }
    // Loads that began while rows were copied may rely on those of the segment.
    this.#segments.delete(number)
    await Promise.allSettled(this.#loads)
    this.#folded = number
    const batch = this.#db.write({ autoDestroy: true, capacity: 8 })
    for (const kind of KINDS) batch.tryDeleteRange(...segmentRange(kind, number))
    batch.tryDelete(markerKey(sealName(number)))
    batch.tryPut(markerKey(STORE_MARKER), this.#marker())
    await batch.flush()
  }

  /** Removes what came after a segment, and what was said about it. */
  async #cutBack(segment: number): Promise<void> {
    const batch = this.#db.write({ autoDestroy: true, capacity: 8 })
    for (const kind of KINDS) batch.tryDeleteRange(...segmentsFrom(kind, segment + 1))
    const seals = sealName(0).slice(0, -1)
    for await (const page of pages(this.#db, [markerKey(seals), markerKey(`${seals}:`)]))
      for (const { key } of page)
        if (
          Number(
            Buffer.from(key)
              .toString('latin1')
              .slice(seals.length + 1),
          ) > segment
        )
          batch.tryDelete(key)
    await batch.flush()
  }

  /** What is known of a segment's rows; undefined if nobody will ask. */
  #openSegment(number: number): OpenSegment | undefined {
    if (!this.#options.recoverable) return undefined
    let open = this.#open.get(number)
    if (open === undefined) {
      open = new Map()
      this.#open.set(number, open)
    }
    return open
  }

  #close(number: number): Segment {
    const open = this.#open.get(number)
    for (const each of this.#open.keys()) if (each <= number) this.#open.delete(each)
    let checksum = 0
    for (const sum of open?.values() ?? []) checksum = (checksum + sum) >>> 0
    return { rows: open?.size ?? 0, checksum }
  }

  /**
   * Counts a segment that must be whole; one that is too large for that is trusted when its seal is there: RocksDB's log is recovered up to a
   * point, and the seal came after all rows; a block that was damaged since is noticed when it is read, as in the base (`#readFailure`).
   * @throws StateLostError
   */
  async #verify(number: number, expected: RocksdbSeal | undefined): Promise<void> {
    const sealed = (await this.#readMarker(sealName(number))) as RocksdbSeal | undefined
    const sum =
      sealed !== undefined && sealed.rows > COUNTED_ROWS
        ? { rows: sealed.rows, checksum: sealed.checksum }
        : await this.#sum(number)
    if (sealed === undefined && expected === undefined) {
      // Its checkpoint was aborted, or it belongs to none: what it holds counts all the same.
      if (sum.rows > 0) this.#segments.set(number, sum)
      return
    }
    for (const seal of [sealed, expected])
      if (seal !== undefined && (seal.rows !== sum.rows || seal.checksum !== sum.checksum))
        throw this.#lost(
          `segment ${number} has ${sum.rows} rows, ${seal.rows} were sealed, or one was changed`,
        )
    this.#segments.set(number, sum)
  }

  /** Rows of a segment and the sum of their checksums. */
  async #sum(number: number): Promise<Segment> {
    let rows = 0
    let checksum = 0
    for (const kind of KINDS)
      for await (const page of pages(this.#db, segmentRange(kind, number)))
        for (const { key, value } of page) {
          rows++
          checksum = (checksum + crc32(value, crc32(key))) >>> 0
        }
    return { rows, checksum }
  }

  #marker(): Uint8Array {
    return jsonBytes({ format: FORMAT, id: this.#options.id, folded: this.#folded } satisfies StoreMarker)
  }

  async #writeMarker(): Promise<void> {
    const batch = this.#db.write({ autoDestroy: true, capacity: 8 })
    batch.tryPut(markerKey(STORE_MARKER), this.#marker())
    await batch.flush()
  }

  async #readMarker(name: string): Promise<unknown> {
    const bytes = await this.#db.get(markerKey(name))
    if (bytes === null) return undefined
    try {
      return JSON.parse(Buffer.from(bytes).toString('utf8'))
    } catch (cause) {
      throw this.#lost(`its marker '${name}' cannot be read`, cause)
    }
  }

  /** A database that cannot be read must not be recovered from again: the attempt ends, and the next one reads the checkpoint. */
  async #readFailure(error: unknown): Promise<unknown> {
    if (isMillraceError(error) || this.#closing) return error
    const { operatorName, logger } = this.#options
    try {
      await this.#options.damaged()
    } catch (why) {
      logger.warn(`Operator '${operatorName}': its state on this machine could not be marked as damaged`, {
        error: why,
      })
    }
    return new MillraceError(
      'MILLRACE_LOCAL_STATE',
      `The local state of operator '${operatorName}' cannot be read; the restart reads the checkpoint instead`,
      {
        cause: error,
        details: { operator: operatorName },
        remedy: 'Check the disk and its file system: what RocksDB wrote is not what it reads.',
      },
    )
  }

  #lost(why: string, cause?: unknown): StateLostError {
    return new StateLostError(
      'MILLRACE_STATE_LOST',
      `The local state of operator '${this.#options.operatorName}' cannot be used: ${why}`,
      { cause, details: { operator: this.#options.operatorName } },
    )
  }
}

function sealName(segment: number): string {
  return `seal/${segment}`
}

function jsonBytes(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value))
}

function textOf(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1')
}

/** Rows of a range, by pages. */
async function* pages(
  db: RocksDB,
  [gte, lt]: KeyRange,
): AsyncIterable<{ readonly key: Uint8Array; readonly value: Uint8Array }[]> {
  let page: { readonly key: Uint8Array; readonly value: Uint8Array }[] = []
  for await (const row of db.iterator({ gte, lt }, { capacity: ITERATOR_ROWS })) {
    page.push(row)
    if (page.length < PAGE) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}
