/**
 * Random operations on a keyed state backend and on the model side by side, with freezes, slices of their writing, aborts and restores
 * between any two of them. Every image must be the state at its freeze, whatever happened since.
 */
import type { BlobStore, KeyedStateHandle } from '../checkpoint/checkpoint-storage.ts'
import { type SelfStoringBackend, type SelfStoringState, storesItself } from '../checkpoint/keyed-snapshot.ts'
import type { Serde } from '../core/connector.ts'
import type { Clock } from '../core/ports.ts'
import type {
  FrozenKeyedState,
  Key,
  KeyedStateBackend,
  KeyGroupImage,
  KeyGroupRange,
  Namespace,
} from '../core/state.ts'
import { fuzzAsyncMap } from './async-map-fuzz.ts'
import { openEmpty, restoreImages } from './backend-images.ts'
import { expectEqual } from './fuzz-comparison.ts'
import { failingBlobs, failingSerde } from './fuzz-failures.ts'
import { restoredCopy } from './fuzz-probe.ts'
import { SeededRandom } from './seeded-random.ts'
import { contractDescriptors, dumpBackend, StateBackendModel, type Total } from './state-backend-model.ts'

/** What a backend is made with. */
export interface ContractBackendOptions {
  readonly range: KeyGroupRange
  readonly maxParallelism: number
  readonly operatorName: string
  readonly clock: Clock
  /** The same object for all backends of one run of the fuzz, which stand for one subtask that crashes and comes back. */
  readonly life?: FuzzLife
}

/** One run. */
export interface FuzzLife {
  readonly seed: number
  /** True while a backend is made that only looks at a checkpoint: it must not disturb the one that runs. */
  probing: boolean
}

/** What a run may do beyond the usual. */
export interface FuzzOptions {
  /** Writing a checkpoint, loading state and the serde of a value may fail, with this chance. */
  readonly failures?: number
  /** False: a checkpoint is looked at after a crash only, since reading it takes it over. */
  readonly probes?: boolean
}

/** Makes an empty backend. One with slices should make them as small as it can, so that much happens between two. */
export type MakeBackend = (options: ContractBackendOptions) => KeyedStateBackend | Promise<KeyedStateBackend>

const MAX_PARALLELISM = 8
const MAX_IN_FLIGHT = 3
const KEYS: readonly Key[] = [
  ...['', 'a', 'b', '1', 'é😀'],
  ...[0, 1, 1n, true, false, -1, 2 ** 40, 0.5],
  new Uint8Array([1, 2]),
  ['a', 1],
  ['a', ['b', 1n]],
]
const NAMESPACES: readonly Namespace[] = ['', 'w', 10_000, 20_000, '10000']

/** One freeze in flight. */
interface Flight {
  readonly frozen: FrozenKeyedState
  readonly model: StateBackendModel
  /** Lets the next slice run; undefined while none waits. */
  next: (() => void) | undefined
  /** Settled once `materialize` is. */
  outcome: Outcome | undefined
  started: boolean
  readonly n: number
}

type Outcome =
  | { readonly images: KeyGroupImage[] }
  | { readonly handle: KeyedStateHandle | undefined }
  | { readonly error: unknown }

/** One run: a backend, its model, and what is in flight. */
class FuzzRun {
  readonly #make: MakeBackend
  readonly #random: SeededRandom
  readonly #options: FuzzOptions
  readonly #life: FuzzLife
  readonly #blobs: BlobStore
  /** That of the value state in the backend that runs. */
  readonly #serde: Serde<Total>
  #backend!: KeyedStateBackend
  #model = new StateBackendModel()
  #flights: Flight[] = []
  #completed: { readonly stored: Outcome; readonly model: StateBackendModel } = {
    stored: { images: [] },
    model: new StateBackendModel(),
  }
  #nextCheckpoint = 1
  step = 'start'

  constructor(make: MakeBackend, seed: number, options: FuzzOptions) {
    this.#make = make
    this.#random = new SeededRandom(seed)
    this.#options = options
    this.#life = { seed, probing: false }
    this.#blobs = failingBlobs(this.#random, options.failures ?? 0)
    this.#serde = failingSerde(this.#random, options.failures)
  }

  async run(steps: number): Promise<void> {
    this.#backend = await openEmpty(await this.#newBackend())
    for (let i = 0; i < steps; i++) await this.#anyStep()
    while (this.#flights.length > 0) await this.#slice(this.#flights[0]!)
    if (this.#options.failures === undefined) await this.#expectSame(await this.#imagesNow(), this.#model)
    else await this.#crash()
    await this.#backend.close()
  }

  /** An operation that a failing store may break; the task fails then, and comes back. False if it did. */
  async #survives(operation: () => Promise<void> | undefined): Promise<boolean> {
    try {
      await operation()
      return true
    } catch (error) {
      if (this.#options.failures === undefined) throw error
      await this.#crash()
      return false
    }
  }

  #newBackend(): KeyedStateBackend | Promise<KeyedStateBackend> {
    return this.#make({
      range: { start: 0, end: MAX_PARALLELISM - 1 },
      maxParallelism: MAX_PARALLELISM,
      operatorName: 'contract',
      clock: { now: () => 0 },
      life: this.#life,
    })
  }

  /** A backend that looks at a checkpoint. */
  async #probe(restore: (backend: KeyedStateBackend) => Promise<void>): Promise<KeyedStateBackend> {
    this.#life.probing = true
    try {
      const mayFold = storesItself(this.#backend) && this.#options.failures === undefined
      return await restoredCopy(() => this.#newBackend(), restore, mayFold)
    } finally {
      this.#life.probing = false
    }
  }

  async #anyStep(): Promise<void> {
    const draw = this.#random.integer(0, 99)
    const flight = this.#flights.length > 0 ? this.#random.pick(this.#flights) : undefined
    if (draw < 5 && this.#flights.length < MAX_IN_FLIGHT) this.#freeze()
    else if (draw < 25 && flight !== undefined) await this.#slice(flight)
    else if (draw < 27 && flight !== undefined) await this.#abort(flight)
    else if (draw < 28) await this.#crash()
    else if (draw < 40) await this.#timers()
    else await this.#invocation()
  }

  #freeze(): void {
    this.step = `freeze ${this.#nextCheckpoint}`
    const frozen = this.#backend.freeze(this.#nextCheckpoint++)
    this.#flights.push({
      frozen,
      model: this.#model.copy(),
      next: undefined,
      outcome: undefined,
      started: false,
      n: this.#nextCheckpoint - 1,
    })
  }

  /** Starts the writing of a freeze, or lets it go on by one slice. */
  async #slice(flight: Flight): Promise<void> {
    this.step = 'slice'
    if (!flight.started) {
      flight.started = true
      const pause = (): Promise<void> =>
        new Promise((resolve) => {
          flight.next = resolve
        })
      this.#write(flight, pause).then(
        (outcome) => {
          flight.outcome = outcome
        },
        (error: unknown) => {
          flight.outcome = { error }
        },
      )
    } else if (flight.next !== undefined) {
      const go = flight.next
      flight.next = undefined
      go()
    }
    await this.#settle(flight)
    if (flight.outcome === undefined) return
    // Whoever takes a checkpoint as the one to come back to may drop what earlier ones name: those that are done are looked at first.
    for (const other of this.#flights.slice(0, this.#flights.indexOf(flight) + 1))
      if (other.outcome !== undefined) await this.#end(other, other.outcome)
  }

  /** Looks at what a freeze has written, and makes it the checkpoint to come back to. */
  async #end(flight: Flight, outcome: Outcome): Promise<void> {
    this.#flights.splice(this.#flights.indexOf(flight), 1)
    if ('error' in outcome) {
      flight.frozen.release()
      if (this.#options.failures === undefined) throw outcome.error
      return
    }
    if ('images' in outcome) await this.#expectSame(outcome.images, flight.model)
    else if (this.#options.probes !== false) await this.#expectStored(outcome.handle, flight.model)
    // Images of a savepoint: other checkpoints are still what a restart finds.
    if ('handle' in outcome || !storesItself(this.#backend)) {
      this.#completed = { stored: outcome, model: flight.model }
      if (storesItself(this.#backend)) this.#backend.retainedFrom(flight.n)
    }
    flight.frozen.release()
  }

  /** Writes a freeze as checkpoints are, or as savepoints are. */
  async #write(flight: Flight, pause: () => Promise<void>): Promise<Outcome> {
    const { frozen, n } = flight
    if (!('store' in frozen) || this.#random.chance(0.25)) return { images: await frozen.materialize(pause) }
    const target = { n, blobs: this.#blobs, name: `state-${n}`, pause }
    return { handle: await (frozen as SelfStoringState).store(target) }
  }

  /** Waits until the writing asks for a pause or ends, or waits for an earlier one. */
  async #settle(flight: Flight): Promise<void> {
    while (flight.outcome === undefined && flight.next === undefined) {
      await new Promise((turn) => setImmediate(turn))
      if (storesItself(this.#backend) && this.#flights[0] !== flight) return
    }
  }

  async #abort(flight: Flight): Promise<void> {
    this.step = 'abort'
    const wasDone = flight.outcome !== undefined
    flight.frozen.release()
    this.#flights.splice(this.#flights.indexOf(flight), 1)
    flight.next?.()
    if (flight.started && !wasDone) {
      flight.next = undefined
      while (flight.outcome === undefined) {
        await new Promise((turn) => setImmediate(turn))
        const go = flight.next as (() => void) | undefined
        flight.next = undefined
        go?.()
      }
      if ('images' in flight.outcome) throw new Error('materialize of a released freeze must not give images')
    }
  }

  /** The process dies; another one restores the last completed checkpoint. */
  async #crash(): Promise<void> {
    this.step = 'crash and restore'
    for (const flight of [...this.#flights].reverse()) await this.#abort(flight)
    await this.#backend.close()
    const { model } = this.#completed
    while (!(await this.#comesBack())) this.step = 'restore again'
    this.#model = model.copy()
  }

  /** A backend with the last completed checkpoint. False if reading it failed on cue. */
  async #comesBack(): Promise<boolean> {
    this.#backend = await this.#newBackend()
    const { stored } = this.#completed
    try {
      await this.#restore(stored)
      return true
    } catch (error) {
      await this.#backend.close()
      if (this.#options.failures === undefined) throw error
      return false
    }
  }

  async #restore(stored: Outcome): Promise<void> {
    if ('images' in stored) await restoreImages(this.#backend, stored.images)
    else if ('handle' in stored)
      await (this.#backend as SelfStoringBackend).restoreFrom(
        stored.handle === undefined ? [] : [stored.handle],
        this.#blobs,
      )
  }

  async #timers(): Promise<void> {
    const random = this.#random
    // Timers that exist are met rarely by chance: half of the time one of them is drawn.
    const known =
      this.#model.timers.length > 0 && random.chance(0.5) ? random.pick(this.#model.timers) : undefined
    const { key, namespace, domain, time } = known ?? {
      key: random.pick(KEYS),
      namespace: random.pick(NAMESPACES),
      domain: random.chance(0.5) ? ('event' as const) : ('processing' as const),
      time: random.integer(0, 20),
    }
    const action = this.#random.integer(0, 9)
    this.step = `timer action ${action}`
    if (!(await this.#survives(() => this.#backend.prefetch(KEYS)))) return
    this.#backend.setCurrentKey(key)
    const timers = this.#backend.timers()
    const event = domain === 'event'
    if (action < 6) {
      if (event) timers.registerEventTimeTimer(namespace, time)
      else timers.registerProcessingTimeTimer(namespace, time)
      this.#model.register({ domain, key, namespace, time })
    } else if (action < 8) {
      if (event) timers.deleteEventTimeTimer(namespace, time)
      else timers.deleteProcessingTimeTimer(namespace, time)
      this.#model.delete({ domain, key, namespace, time })
    } else {
      const limit = this.#random.integer(1, 5)
      const due = event ? timers.dueEventTimers(time, limit) : timers.dueProcessingTimers(time, limit)
      const expected = this.#model.due(domain, time, limit)
      expectEqual(
        due.map((timer) => timer.time),
        expected.map((timer) => timer.time),
        'times of due timers',
      )
      expectEqual(due, expected, 'due timers')
    }
    expectEqual(timers.size, this.#model.timers.length, 'number of timers')
  }

  /** One call of user code: reads, changes what it read, stores it. */
  async #invocation(): Promise<void> {
    const random = this.#random
    const key = random.pick(KEYS)
    const namespace = random.pick(NAMESPACES)
    if (!(await this.#survives(() => this.#backend.prefetch([key])))) return
    const backend = this.#backend
    backend.setCurrentKey(key)
    backend.setCurrentNamespace(namespace)
    const cell = this.#model.cell(key, namespace)
    const descriptors = contractDescriptors(this.#serde)
    const action = random.integer(0, 19)
    const fresh = (): Total => ({ count: random.integer(0, 1_000), tags: [] })
    const change = (total: Total): void => {
      total.count++
      total.tags.push(`t${total.count}`)
    }
    this.step = `action ${action}`
    const value = backend.getState(descriptors.value)
    const list = backend.getListState(descriptors.list)
    const map = backend.getMapState(descriptors.map)
    if (action <= 3) {
      const read = value.value()
      expectEqual(read, cell.value ?? null, 'value')
      if (read === null) {
        const made = fresh()
        cell.value = structuredClone(made)
        value.update(made)
      } else {
        change(read)
        change(cell.value!)
        value.update(read)
      }
    } else if (action === 4) {
      value.clear()
      cell.value = undefined
    } else if (action <= 6) {
      const made = [fresh(), fresh()]
      list.addAll(made)
      cell.list.push(...structuredClone(made))
    } else if (action === 7) {
      const read = list.get()
      expectEqual(read, cell.list, 'list')
      for (const total of read) change(total)
      for (const total of cell.list) change(total)
      list.update(read.slice(1))
      cell.list = cell.list.slice(1)
    } else if (action === 8) {
      list.clear()
      cell.list = []
    } else if (action <= 10) {
      const mapKey = random.chance(0.5) ? random.integer(0, 5) : `${random.integer(0, 5)}`
      const total = map.get(mapKey) ?? fresh()
      expectEqual(map.contains(mapKey), cell.map.has(mapKey), 'map.contains')
      change(total)
      cell.map.set(mapKey, structuredClone(total))
      map.put(mapKey, total)
    } else if (action === 11) {
      for (const mapKey of [...map.keys()].slice(0, 2)) {
        map.remove(mapKey)
        cell.map.delete(mapKey)
      }
      expectEqual(map.isEmpty(), cell.map.size === 0, 'map.isEmpty')
    } else if (action === 12) {
      const made = fresh()
      const state = backend.getReducingState(descriptors.reducing)
      if (cell.reducing === undefined) cell.reducing = structuredClone(made)
      else cell.reducing.count += made.count
      state.add(made)
    } else if (action === 13) {
      const added = random.integer(0, 9)
      backend.getAggregatingState(descriptors.aggregating).add(added)
      cell.aggregating.push(added)
    } else if (action === 14) {
      backend.getAggregatingState(descriptors.aggregating).clear()
      cell.aggregating = []
    } else if (action === 15) this.#merge(key)
    else {
      backend.setCurrentNamespace('')
      await this.#survives(async () => {
        for (let left = random.integer(1, 4); left > 0; left--) await this.#asyncMap(key)
        await backend.settle()
      })
      return
    }
    backend.setCurrentNamespace('')
  }

  /** One operation on the async map of the current key; a snapshot may go on while it waits. */
  async #asyncMap(key: Key): Promise<void> {
    const random = this.#random
    const action = random.integer(0, 9)
    this.step = `async map action ${action}`
    const [flight] = this.#flights
    if (flight?.next !== undefined && random.chance(0.3)) {
      const go = flight.next
      flight.next = undefined
      go()
    }
    const map = this.#backend.getAsyncMapState(contractDescriptors().asyncMap)
    await fuzzAsyncMap(map, this.#model.cell(key, '').asyncMap, random, action)
  }

  #merge(key: Key): void {
    const [target, ...sources] = ['w', 10_000, '10000'] as const
    const descriptors = contractDescriptors()
    for (const descriptor of [descriptors.list, descriptors.reducing, descriptors.aggregating])
      this.#backend.mergeNamespaces(descriptor, target, sources)
    const into = this.#model.cell(key, target)
    for (const source of sources) {
      const from = this.#model.cell(key, source)
      into.list.push(...from.list)
      into.aggregating.push(...from.aggregating)
      if (into.reducing === undefined) into.reducing = from.reducing
      else if (from.reducing !== undefined) into.reducing.count += from.reducing.count
      from.list = []
      from.aggregating = []
      from.reducing = undefined
    }
  }

  async #imagesNow(): Promise<KeyGroupImage[]> {
    const frozen = this.#backend.freeze(this.#nextCheckpoint++)
    const images = await frozen.materialize(() => Promise.resolve())
    frozen.release()
    return images
  }

  async #expectSame(images: readonly KeyGroupImage[], model: StateBackendModel): Promise<void> {
    await this.#expectHolds(await this.#probe((backend) => restoreImages(backend, images)), model)
  }

  async #expectStored(handle: KeyedStateHandle | undefined, model: StateBackendModel): Promise<void> {
    const handles = handle === undefined ? [] : [handle]
    await this.#expectHolds(
      await this.#probe((backend) => (backend as SelfStoringBackend).restoreFrom(handles, this.#blobs)),
      model,
    )
  }

  async #expectHolds(restored: KeyedStateBackend, model: StateBackendModel): Promise<void> {
    const actual = await dumpBackend(restored, KEYS, NAMESPACES)
    await restored.close()
    expectEqual(
      actual.split('\n'),
      model.copy().dump(KEYS, NAMESPACES).split('\n'),
      'image and state at the freeze',
    )
  }
}

/**
 * Runs `steps` random steps. @throws Error naming seed and step at the first difference between the backend and the model
 */
export async function fuzzStateBackend(
  make: MakeBackend,
  seed: number,
  steps: number,
  options: FuzzOptions = {},
): Promise<void> {
  const run = new FuzzRun(make, seed, options)
  try {
    await run.run(steps)
  } catch (cause) {
    throw new Error(
      `Seed ${seed}, at '${run.step}': ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    )
  }
}
