/**
 * State that lies outside of all workers and outlives them, as Redis holds it: for each key group a base and segments above it. What one
 * attempt folds into the base cannot be taken apart again, so a checkpoint that is older than the base is lost, and the simulation says so.
 *
 *   claim (upward only) ──► write into segment a/s ──seal──► a checkpoint names base and segments ──fold──► base: only what comes later can be restored
 */
import type { ExternalHandle } from '../checkpoint/checkpoint-storage.ts'
import type { Timers } from '../core/ports.ts'
import type { KeyGroupRange } from '../core/state.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import type { OutsideState } from '../runtime/state-storage.ts'
import type { SealedState } from '../state/cached-parts.ts'
import type {
  ColdKey,
  ColdOrigin,
  ColdRecord,
  ColdStore,
  ColdTimers,
  OpenColdStore,
} from '../state/cold-store.ts'
import type { SeededRandom } from './seeded-random.ts'
import { copyOf, isNothing, placeOf, type Rows } from './simulated-cold-store.ts'

/** One key group of an operator, in one run. */
interface Group {
  owner: number
  base: Map<string, ColdRecord>
  /** The last segment that is part of the base; '' = none. */
  folded: string
  readonly segments: Map<string, Map<string, ColdRecord>>
  /** Segments that ever held something. */
  readonly written: Set<string>
}

/** Key groups that share a chain of segments, oldest first. */
interface Chain {
  readonly first: number
  readonly last: number
  readonly segments: readonly string[]
}

/** What `seal` gives. */
interface Sealed {
  readonly run: string
  readonly operator: string
  readonly chains: readonly Chain[]
}

/** Whose store. */
interface Subtask {
  readonly run: string
  readonly attempt: number
  readonly operator: string
  readonly range: KeyGroupRange
}

/** The way to the server and back, for one worker: requests that are on their way are executed whatever becomes of the worker. */
export interface OutsideConnection {
  readonly world: Timers
  readonly worker: Timers
  readonly random: SeededRandom
  /** How long one way takes at the most. */
  readonly latencyMs: number
  /** Hears of keys that are loaded. */
  readonly onLoad?: (keys: number) => void
  /** Chance that a request is not executed. */
  readonly failures: () => number
}

const NO_SEGMENTS: readonly string[] = []

/** The server. */
export class SimulatedOutsideState {
  readonly #groups = new Map<string, Group>()
  /** Hears of everything that may make a checkpoint unreadable. */
  onRemoved: (() => void) | undefined

  group(run: string, operator: string, keyGroup: number): Group {
    const name = `${run}/${operator}/${keyGroup}`
    let group = this.#groups.get(name)
    if (group === undefined) {
      group = { owner: -1, base: new Map(), folded: '', segments: new Map(), written: new Set() }
      this.#groups.set(name, group)
    }
    return group
  }

  /** What a worker stores its keyed state with. */
  connect(connection: OutsideConnection): { storeOf(subtask: Subtask): OpenColdStore } {
    return {
      storeOf: (subtask) => (origins) => SimulatedOutsideStore.open(this, connection, subtask, origins),
    }
  }

  /** Runs, for whoever removes those that nobody needs. */
  outside(connection: OutsideConnection): OutsideState {
    return {
      name: 'the simulated store',
      runOf: ({ state }) => ((state as SealedState).sealed as Sealed).run,
      runs: () =>
        travel(
          connection,
          () => new Set([...this.#groups.keys()].map((name) => name.slice(0, name.indexOf('/')))),
        ),
      discard: (run) =>
        travel(connection, () => {
          for (const name of this.#groups.keys()) if (name.startsWith(`${run}/`)) this.#groups.delete(name)
          this.onRemoved?.()
        }),
    }
  }

  /** Why the state of a checkpoint cannot be restored; undefined = it can. */
  unreadable({ state, range }: ExternalHandle): string | undefined {
    const { run, operator, chains } = (state as SealedState).sealed as Sealed
    for (const { first, last, segments } of chains)
      for (let keyGroup = Math.max(first, range[0]); keyGroup <= Math.min(last, range[1]); keyGroup++) {
        const why = whyLost(this.group(run, operator, keyGroup), segments)
        if (why !== undefined) return `key group ${keyGroup} of ${operator} in run ${run}: ${why}`
      }
    return undefined
  }
}

function whyLost({ folded, segments, written }: Group, chain: readonly string[]): string | undefined {
  const at = chain.indexOf(folded)
  if (folded !== '' && at < 0) return `its base goes beyond the checkpoint, up to segment ${folded}`
  const gone = chain.slice(at + 1).find((id) => written.has(id) && !segments.has(id))
  return gone === undefined ? undefined : `segment ${gone} is gone`
}

async function travel<T>(
  { world, worker, random, latencyMs, failures }: OutsideConnection,
  execute: () => T,
): Promise<T> {
  await world.sleep(random.integer(0, latencyMs))
  const chance = failures()
  const refused = chance > 0 && random.chance(chance)
  let outcome: { readonly value: T } | { readonly error: unknown }
  try {
    outcome = refused
      ? { error: new MillraceError('MILLRACE_REDIS_UNAVAILABLE', 'the simulated store did not answer') }
      : { value: execute() }
  } catch (error) {
    outcome = { error }
  }
  await worker.sleep(random.integer(0, latencyMs))
  if ('error' in outcome) throw outcome.error
  return outcome.value
}

/** The state of one operator subtask in one attempt. */
class SimulatedOutsideStore implements ColdStore {
  readonly #server: SimulatedOutsideState
  readonly #connection: OutsideConnection
  readonly #subtask: Subtask
  /** What the attempt began with, by key group. */
  #restored: readonly Chain[]
  /** Segments of this attempt that hold something, in order. */
  #own: number[] = []

  private constructor(
    server: SimulatedOutsideState,
    connection: OutsideConnection,
    subtask: Subtask,
    restored: readonly Chain[],
  ) {
    this.#server = server
    this.#connection = connection
    this.#subtask = subtask
    this.#restored = restored
  }

  /** Takes all key groups over. @throws MILLRACE_ATTEMPT_LOST if a newer attempt has them; StateLostError */
  static open(
    server: SimulatedOutsideState,
    connection: OutsideConnection,
    subtask: Subtask,
    origins: readonly ColdOrigin[],
  ): Promise<SimulatedOutsideStore> {
    const { run, operator, range, attempt } = subtask
    return travel(connection, () => {
      const restored: Chain[] = []
      for (let keyGroup = range.start; keyGroup <= range.end; keyGroup++) {
        const group = server.group(run, operator, keyGroup)
        if (group.owner > attempt) throw ousted(subtask)
        group.owner = attempt
        const { sealed, chain } = originOf(origins, keyGroup)
        const isOwn = sealed?.run === run && sealed.operator === operator
        const before = restored.at(-1)
        const segments = isOwn ? chain : NO_SEGMENTS
        if (before?.segments === segments) restored[restored.length - 1] = { ...before, last: keyGroup }
        else restored.push({ first: keyGroup, last: keyGroup, segments })
        if (isOwn) {
          const why = whyLost(group, chain)
          if (why !== undefined) throw lost(operator, keyGroup, why)
          for (const id of group.segments.keys()) if (!chain.includes(id)) group.segments.delete(id)
          continue
        }
        group.base.clear()
        group.segments.clear()
        group.folded = ''
        if (sealed === undefined) continue
        const other = server.group(sealed.run, sealed.operator, keyGroup)
        const why = whyLost(other, chain)
        if (why !== undefined) throw lost(operator, keyGroup, why)
        group.base = rowsAt(other, chain)
      }
      return new SimulatedOutsideStore(server, connection, subtask, restored)
    })
  }

  get bytes(): number {
    return 0
  }

  load(keys: readonly ColdKey[]): Promise<(Uint8Array | undefined)[]> {
    this.#connection.onLoad?.(keys.length)
    return this.#travel(() => {
      const at = new Map<number, Rows>()
      return keys.map((key) => {
        let rows = at.get(key.keyGroup)
        if (rows === undefined) {
          rows = this.#rows(key.keyGroup, Number.POSITIVE_INFINITY)
          at.set(key.keyGroup, rows)
        }
        return rows.get(placeOf(key))?.value
      })
    })
  }

  write(segment: number, records: readonly ColdRecord[]): Promise<void> {
    const copies = records.map(copyOf)
    return this.#travel(() => {
      if (!this.#own.includes(segment)) this.#own = [...this.#own, segment].sort((a, b) => a - b)
      const id = this.#id(segment)
      for (const record of copies) {
        const group = this.#owned(record.keyGroup)
        const rows = group.segments.get(id) ?? new Map<string, ColdRecord>()
        group.segments.set(id, rows)
        group.written.add(id)
        rows.set(placeOf(record), record)
      }
    })
  }

  seal(segment: number): Promise<unknown> {
    const { run, operator } = this.#subtask
    return this.#travel((): Sealed => ({ run, operator, chains: this.#chains(segment) }))
  }

  fold(segment: number): Promise<void> {
    return this.#travel(() => {
      for (const { first, last, segments } of this.#chains(segment))
        for (let keyGroup = first; keyGroup <= last; keyGroup++) foldInto(this.#owned(keyGroup), segments)
      const newest = this.#own.findLast((own) => own <= segment)
      if (newest !== undefined) {
        // The base has all before it, which no checkpoint needs to name again.
        this.#restored = this.#restored.map((chain) => ({ ...chain, segments: NO_SEGMENTS }))
        this.#own = this.#own.filter((own) => own >= newest)
      }
      this.#server.onRemoved?.()
    })
  }

  async *timers(): AsyncIterable<readonly ColdTimers[]> {
    const { range } = this.#subtask
    const found = await this.#travel(() => {
      const all: ColdTimers[] = []
      for (let keyGroup = range.start; keyGroup <= range.end; keyGroup++)
        for (const { key, timers } of this.#rows(keyGroup, Number.POSITIVE_INFINITY).values())
          if (timers !== undefined) all.push({ keyGroup, key, timers })
      return all
    })
    if (found.length > 0) yield found
  }

  async *scan(keyGroup: number, segment: number): AsyncIterable<readonly ColdRecord[]> {
    // Nothing of it at all is the rule, and is known here.
    if (this.#rows(keyGroup, segment).size === 0) return
    yield await this.#travel(() =>
      [...this.#rows(keyGroup, segment).values()].filter((row) => !isNothing(row)),
    )
  }

  async close(): Promise<void> {}

  #travel<T>(execute: () => T): Promise<T> {
    return travel(this.#connection, execute)
  }

  #id(segment: number): string {
    return `${this.#subtask.attempt}/${segment}`
  }

  #owned(keyGroup: number): Group {
    const { run, operator, attempt } = this.#subtask
    const group = this.#server.group(run, operator, keyGroup)
    if (group.owner !== attempt) throw ousted(this.#subtask)
    return group
  }

  #rows(keyGroup: number, segment: number): Rows {
    const { run, operator } = this.#subtask
    const own = this.#restored.find(({ last }) => keyGroup <= last) as Chain
    return rowsAt(this.#server.group(run, operator, keyGroup), this.#chain(own, segment))
  }

  #chain({ segments }: Chain, upTo: number): readonly string[] {
    const own = this.#own.filter((segment) => segment <= upTo)
    return [...segments, ...own.map((segment) => this.#id(segment))]
  }

  #chains(upTo: number): Chain[] {
    return this.#restored.map((chain) => ({ ...chain, segments: this.#chain(chain, upTo) }))
  }
}

/** Makes segments part of the base, in order. */
function foldInto(group: Group, segments: readonly string[]): void {
  for (const id of segments.slice(segments.indexOf(group.folded) + 1)) {
    for (const [place, row] of group.segments.get(id) ?? [])
      if (isNothing(row)) group.base.delete(place)
      else group.base.set(place, row)
    group.segments.delete(id)
    group.folded = id
  }
}

/** Base and segments of the chain, the newest first. */
function rowsAt({ base, folded, segments }: Group, chain: readonly string[]): Map<string, ColdRecord> {
  const rows = new Map(base)
  for (const id of chain.slice(chain.indexOf(folded) + 1))
    for (const [place, row] of segments.get(id) ?? []) rows.set(place, row)
  return rows
}

function originOf(
  origins: readonly ColdOrigin[],
  keyGroup: number,
): { readonly sealed: Sealed | undefined; readonly chain: readonly string[] } {
  for (const { range, sealed } of origins) {
    if (keyGroup < range[0] || keyGroup > range[1]) continue
    const { chains } = sealed as Sealed
    const own = chains.find(({ first, last }) => first <= keyGroup && keyGroup <= last)
    if (own !== undefined) return { sealed: sealed as Sealed, chain: own.segments }
  }
  return { sealed: undefined, chain: [] }
}

function ousted({ attempt, operator }: Subtask): MillraceError {
  return new MillraceError(
    'MILLRACE_ATTEMPT_LOST',
    `attempt ${attempt} does not own the state of operator '${operator}' any more`,
  )
}

function lost(operator: string, keyGroup: number, why: string): StateLostError {
  return new StateLostError('MILLRACE_STATE_LOST', `key group ${keyGroup} of operator '${operator}': ${why}`)
}
