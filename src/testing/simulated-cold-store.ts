/**
 * A cold store in memory that does all that the port promises and nothing more: segments above a base, one sealed after the other, folded
 * when told. Its calls take a turn or several, as drawn by a seed, so that whatever may come in between does.
 */
import type { Clock } from '../core/ports.ts'
import { StateLostError } from '../errors.ts'
import type { ColdKey, ColdOrigin, ColdRecord, ColdStore, ColdTimers } from '../state/cold-store.ts'
import type { SeededRandom } from './seeded-random.ts'

/** Records of one segment or the base, by key group and key. */
export type Rows = ReadonlyMap<string, ColdRecord>

/** Tells keys apart. */
export const placeOf = ({ keyGroup, key }: ColdKey): string =>
  `${keyGroup}/${Buffer.from(key).toString('latin1')}`

/** What survives the process: what was sealed can be opened again. */
export class SimulatedColdDisk {
  #next: number
  readonly #sealed = new Map<number, Rows>()

  /** `first`: the first number; disks with ranges of their own never take what another one sealed for theirs. */
  constructor(first = 1) {
    this.#next = first
  }

  /** Keeps the rows under a number. */
  keep(rows: Rows): number {
    this.#sealed.set(this.#next, new Map(rows))
    return this.#next++
  }

  /** @throws StateLostError */
  at(number: number): Rows {
    const rows = this.#sealed.get(number)
    if (rows === undefined) throw new StateLostError('MILLRACE_STATE_LOST', `nothing was sealed as ${number}`)
    return rows
  }

  forget(number: number): void {
    this.#sealed.delete(number)
  }

  has(number: number): boolean {
    return this.#sealed.has(number)
  }
}

/** How a simulated store behaves. */
export interface SimulatedColdStoreOptions {
  readonly disk: SimulatedColdDisk
  readonly random: SeededRandom
  /** Chance that a call fails without having done anything. */
  readonly failures?: () => number
  readonly clock?: Clock
  /** Gives way between two steps; a turn of the event loop without it. */
  readonly turn?: () => Promise<void>
  /** Hears of keys that are loaded. */
  readonly onLoad?: (keys: number) => void
}

export class SimulatedColdStore implements ColdStore {
  readonly #options: SimulatedColdStoreOptions
  readonly #base: Map<string, ColdRecord>
  readonly #segments = new Map<number, Map<string, ColdRecord>>()
  #sealedUpTo = 0
  #closed = false

  constructor(options: SimulatedColdStoreOptions, origins: readonly ColdOrigin[]) {
    this.#options = options
    this.#base = new Map()
    for (const { range, sealed } of origins)
      for (const [place, row] of options.disk.at(sealed as number))
        if (row.keyGroup >= range[0] && row.keyGroup <= range[1]) this.#base.set(place, row)
  }

  get bytes(): number {
    return this.#base.size
  }

  async load(keys: readonly ColdKey[]): Promise<(Uint8Array | undefined)[]> {
    this.#options.onLoad?.(keys.length)
    await this.#pass('load')
    const found = keys.map((key) => this.#newest(placeOf(key), Number.POSITIVE_INFINITY)?.value)
    await this.#turns()
    return found
  }

  async write(segment: number, records: readonly ColdRecord[]): Promise<void> {
    if (segment <= this.#sealedUpTo) throw new Error(`segment ${segment} is sealed`)
    const copies = records.map(copyOf)
    await this.#pass('write')
    let rows = this.#segments.get(segment)
    if (rows === undefined) {
      rows = new Map()
      this.#segments.set(segment, rows)
    }
    for (const record of copies) rows.set(placeOf(record), record)
    await this.#turns()
  }

  async seal(segment: number): Promise<unknown> {
    await this.#pass('seal')
    this.#sealedUpTo = segment
    return this.#options.disk.keep(this.#asAt(segment))
  }

  async fold(segment: number): Promise<void> {
    await this.#pass('fold')
    for (const number of [...this.#segments.keys()].sort((a, b) => a - b)) {
      if (number > segment) continue
      for (const [place, row] of this.#segments.get(number)!) {
        if (isNothing(row)) this.#base.delete(place)
        else this.#base.set(place, row)
      }
      this.#segments.delete(number)
    }
  }

  async *timers(): AsyncIterable<readonly ColdTimers[]> {
    for (const { keyGroup, key, timers } of this.#asAt(Number.POSITIVE_INFINITY).values()) {
      await this.#turns()
      if (timers !== undefined) yield [{ keyGroup, key, timers }]
    }
  }

  async *scan(keyGroup: number, segment: number): AsyncIterable<readonly ColdRecord[]> {
    for (const row of this.#asAt(segment).values()) {
      if (row.keyGroup !== keyGroup) continue
      yield [row]
      await this.#turns()
    }
  }

  async close(): Promise<void> {
    this.#closed = true
  }

  #newest(place: string, upTo: number): ColdRecord | undefined {
    let newest: ColdRecord | undefined = this.#base.get(place)
    let at = 0
    for (const [number, rows] of this.#segments)
      if (number <= upTo && number > at && rows.has(place)) {
        newest = rows.get(place)
        at = number
      }
    return newest
  }

  #asAt(segment: number): Rows {
    const all = new Map(this.#base)
    for (const number of [...this.#segments.keys()].sort((a, b) => a - b))
      if (number <= segment) for (const [place, row] of this.#segments.get(number)!) all.set(place, row)
    for (const [place, row] of all) if (isNothing(row)) all.delete(place)
    return all
  }

  async #pass(call: string): Promise<void> {
    if (this.#closed) throw new Error(`${call} on a closed store`)
    await this.#turns()
    const { failures, random } = this.#options
    if (failures !== undefined && random.chance(failures())) throw new Error(`${call} failed on cue`)
  }

  async #turns(): Promise<void> {
    for (let left = this.#options.random.integer(0, 2); left > 0; left--)
      await (this.#options.turn?.() ?? new Promise((turn) => setImmediate(turn)))
  }
}

/** True for a record that says that its key holds nothing any more. */
export function isNothing({ value, timers }: ColdRecord): boolean {
  return value === undefined && timers === undefined
}

/** A record that does not change with the bytes it was made of. */
export function copyOf({ keyGroup, key, value, timers }: ColdRecord): ColdRecord {
  return {
    keyGroup,
    key: Uint8Array.from(key),
    value: value && Uint8Array.from(value),
    timers: timers && Uint8Array.from(timers),
  }
}
