/**
 * Where simulated workers keep state: a directory or the checkpoint topic for snapshots, folders for savepoints, and for keyed state the
 * heap, layers, a store on the machine, or one outside of all of them.
 *
 * | kind    | keyed state is                                        | a dead worker takes with it                      |
 * | heap    | on the heap, whole in each snapshot                   | everything since the latest checkpoint           |
 * | layers  | on the heap, what changed in each snapshot            | the same                                         |
 * | local   | behind a cache on the machine, with layers            | the store, but for what local recovery may use   |
 * | outside | behind a cache in a store that outlives all workers   | what the cache had not written yet               |
 */
import type { BlobStore } from '../checkpoint/checkpoint-storage.ts'
import type { Timers, World } from '../core/ports.ts'
import type { StateStorage } from '../runtime/state-storage.ts'
import { plainStorage } from '../runtime/state-storage.ts'
import type { OpenColdStore } from '../state/cold-store.ts'
import type { KeyedBackendSettings } from '../state/keyed-backends.ts'
import { STATE_CODEC } from '../state/operator-state-codec.ts'
import type { SeededRandom } from './seeded-random.ts'
import { SimulatedColdDisk, SimulatedColdStore } from './simulated-cold-store.ts'
import type { SimulatedDirectory } from './simulated-directory.ts'
import type { SimulatedDisk } from './simulated-disk.ts'
import { type OutsideConnection, SimulatedOutsideState } from './simulated-outside-state.ts'
import { SimulatedSavepoints } from './simulated-savepoints.ts'
import type { Scenario, StateKind } from './simulation-scenario.ts'

/** What differs from one worker to the next. */
export interface StateOfWorker {
  /** Number of the worker: it decides which machine it runs on. */
  readonly index: number
  readonly kind: StateKind
  /** Of the worker: they end with it. */
  readonly timers: Timers
  readonly random: SeededRandom
  readonly world: World
}

/** The circumstances that matter to it. */
export type StateScenario = Pick<
  Scenario,
  'localRecovery' | 'incremental' | 'cacheBytes' | 'latency' | 'noise'
>

/** What a worker is composed with. */
export interface WorkerState {
  readonly keyedState: KeyedBackendSettings
  /** `own`: the job's checkpoint topic. */
  storage(own: BlobStore): StateStorage
}

const MACHINES = 2
/** Numbers of what one machine seals. */
const SEALS = 1_000_000
const WRITE_MS = 30
/** Chance that a call of a store fails in a noisy world. */
const STORE_FAILURES = 0.01

/** State of one simulated job, on all machines and outside of them. */
export class SimulatedState {
  readonly directory: SimulatedDirectory | undefined
  readonly savepoints = new SimulatedSavepoints({ writeMs: WRITE_MS })
  readonly outside = new SimulatedOutsideState()
  readonly #scenario: StateScenario
  readonly #time: Timers
  readonly #disk: SimulatedDisk
  readonly #machines = Array.from({ length: MACHINES }, (_, i) => new SimulatedColdDisk(1 + i * SEALS))
  #isCalm = false
  #loaded = 0

  constructor(options: {
    readonly scenario: StateScenario
    readonly time: Timers
    readonly disk: SimulatedDisk
    readonly directory: SimulatedDirectory | undefined
  }) {
    this.#scenario = options.scenario
    this.#time = options.time
    this.#disk = options.disk
    this.directory = options.directory
  }

  /** Keys whose state was loaded from a store. */
  get loaded(): number {
    return this.#loaded
  }

  /** From now on nothing fails. */
  calm(): void {
    this.#isCalm = true
  }

  of(worker: StateOfWorker): WorkerState {
    const { kind, timers, random, world } = worker
    const { localRecovery, incremental, cacheBytes, latency } = this.#scenario
    const connection: OutsideConnection = {
      world: this.#time,
      worker: timers,
      random: random.fork('outside'),
      latencyMs: latency.maxMs,
      failures: () => this.#failures(),
      onLoad: this.#onLoad,
    }
    const common = {
      incremental: kind === 'layers' || incremental,
      localRecovery,
      localRoots: [],
      cacheMaxBytes: cacheBytes,
      world,
    }
    return {
      keyedState: {
        ...common,
        backend: BACKENDS[kind],
        local: { storeOf: () => this.#localStore(worker) },
        redis: this.outside.connect(connection),
      },
      storage: (own) => this.#storage(worker, own, connection),
    }
  }

  readonly #onLoad = (keys: number): void => {
    this.#loaded += keys
  }

  #failures(): number {
    return this.#isCalm || this.#scenario.noise === 0 ? 0 : STORE_FAILURES
  }

  /** On the machine of the worker; what another machine sealed it does not know. */
  #localStore({ index, timers, random }: StateOfWorker): OpenColdStore {
    const disk = this.#machines[index % MACHINES] as SimulatedColdDisk
    const options = {
      disk,
      random: random.fork('local store'),
      failures: () => this.#failures(),
      turn: () => timers.turn(),
      onLoad: this.#onLoad,
    }
    return async (origins) =>
      origins.every(({ sealed }) => disk.has(sealed as number))
        ? new SimulatedColdStore(options, origins)
        : undefined
  }

  #storage(
    { kind, timers, random }: StateOfWorker,
    own: BlobStore,
    connection: OutsideConnection,
  ): StateStorage {
    const store = this.directory?.view(timers, random.fork('directory')) ?? own
    const plain = plainStorage(this.#disk.under(store, timers), STATE_CODEC)
    const { savepoints } = this
    return {
      ...plain,
      folders: savepoints.view(timers, random.fork('savepoints'), this.directory !== undefined),
      get: async (handle) =>
        handle.kind === 'kept' && savepoints.has(handle.folder) ? savepoints.read(handle) : plain.get(handle),
      ...(kind === 'outside' ? { outside: this.outside.outside(connection) } : {}),
    }
  }
}

const BACKENDS: Readonly<Record<StateKind, KeyedBackendSettings['backend']>> = {
  heap: 'jobmanager',
  layers: 'filesystem',
  local: 'rocksdb',
  outside: 'redis',
}
