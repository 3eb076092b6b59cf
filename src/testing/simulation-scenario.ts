/**
 * The circumstances of one simulated run, drawn from its seed: sizes, settings of the job, and the world it meets.
 */
import type { SeededRandom } from './seeded-random.ts'
import type { MsRange } from './simulated-network.ts'

/**
 * How the run of an unbounded job ends: SIGTERM when all output is there; JobClient.cancel half-way; or half-way in a new run: with --fresh,
 * after a cancel or after all workers died, or with the state of a savepoint or checkpoint.
 */
export type Ending =
  | 'stop'
  | 'cancel'
  | 'fresh-after-cancel'
  | 'fresh-after-crash'
  /** Cancelled by a command over the control topic. */
  | 'command-cancel'
  /** Stopped with a savepoint by a command, then a new run begins with it. */
  | 'stop-with-savepoint'
  /** A savepoint by a command; later everybody dies, and a new run begins with it. */
  | 'back-to-savepoint'
  /** Everybody dies, and a new run begins with the latest completed checkpoint, or with the oldest that is retained. */
  | 'back-to-latest'
  | 'back-to-oldest'

/** Where keyed state is kept (simulated-state.ts). */
export type StateKind = 'heap' | 'layers' | 'local' | 'outside'

/** What a job can be asked to go through. */
export interface JobLimits {
  /** A partition that is found later would bring late records, which the oracle cannot foretell. */
  readonly fixedPartitions?: boolean
  /** What is written of a prefix of the input is not the prefix of what is written: output waits for watermarks. */
  readonly waitsForTime?: boolean
}

/** What a seed decides before anything runs. */
export interface Scenario {
  readonly bounded: boolean
  readonly brokers: number
  /** Of every topic. */
  readonly partitions: number
  /** Records a partition of each input gets, roughly. */
  readonly recordsPerPartition: number
  /** Virtual ms over which an unbounded job's input arrives. */
  readonly inputMs: number
  readonly keys: number
  /** Parallelism of the first, second, … worker that starts. */
  readonly parallelism: readonly number[]
  readonly maxParallelism: number
  readonly intervalMs: number
  readonly timeoutMs: number
  readonly minPauseMs: number
  readonly maxConcurrent: number
  readonly tolerableFailures: number
  readonly retained: number
  readonly asyncSnapshots: boolean
  /** Of the sinks; undefined = the brokers' maximum. Short ones may lose transactions. */
  readonly transactionTimeoutMs: number | undefined
  readonly storage: 'topic' | 'directory'
  readonly fetchMaxBytes: number
  readonly fetchMaxWaitMs: number
  readonly latency: MsRange
  readonly markerDelay: MsRange
  /** Workers that start together. */
  readonly workers: number
  readonly faults: number
  /** AT_LEAST_ONCE barriers; then the oracle asks for no loss only. */
  readonly mode: 'EXACTLY_ONCE' | 'AT_LEAST_ONCE'
  /** Sinks write in transactions. */
  readonly transactional: boolean
  readonly startAt: 'earliest' | 'latest'
  readonly ending: Ending
  /** When the ending comes that is half-way: ms after the start. */
  readonly endAfterMs: number
  /** Partitions that each input gets while the job runs. */
  readonly newPartitions: number
  readonly discoveryMs: number
  readonly stateKind: StateKind
  /** Where a run keeps it that begins with a savepoint. */
  readonly laterStateKind: StateKind
  /** Of a store on the machine: its checkpoints are layers, and what it sealed may be used again by a worker of the same machine. */
  readonly incremental: boolean
  readonly localRecovery: boolean
  /** Of keyed state behind a cache. */
  readonly cacheBytes: number
  /** Barriers overtake records so many ms after the trigger; undefined = checkpoints are aligned. */
  readonly unalignedAfterMs: number | undefined
  /** User code takes up to so many ms a record, so that records wait in channels; 0 = no time at all. */
  readonly slowMs: number
  /** A stop with a savepoint lets event time pass to its end. */
  readonly drain: boolean
  /** Commands that somebody sends over the control topic while the job runs. */
  readonly commands: number
  /** Chance that a call of a worker is lost, late or sent twice. */
  readonly noise: number
}

/** True if the brokers may give prepared output up. The log keeps it, so all of it must be healed: that it is lost is never an honest end. */
export function mayTimeOut(scenario: Scenario): boolean {
  return scenario.transactionTimeoutMs !== undefined
}

const SLOW_TIMEOUT_MS = 20_000

/** Draws the circumstances of a run. `small`: little input and few faults, for many seeds a second. */
export function drawScenario(
  random: SeededRandom,
  options: { readonly small: boolean; readonly limits: JobLimits },
): Scenario {
  const { small, limits } = options
  // Long enough for a worker that stood still to wake up while the job goes on.
  const long = random.chance(small ? 0.06 : 0.15)
  const intervalMs = long ? random.pick([500, 1_000, 2_000]) : random.pick([50, 100, 200, 500])
  const shortTimeoutMs = random.pick([500, 1_000, 3_000])
  const rescale = random.chance(0.25)
  const parallelism = Array.from({ length: rescale ? 4 : 1 }, () =>
    random.integer(1, random.pick(small ? [1, 1, 2, 2, 3, 5] : [1, 2, 3, 5])),
  )
  const latencyMs = random.pick([1, 2, 5, 20])
  const shortTransactions = random.chance(0.15)
  const bounded = !long && random.chance(small ? 0.6 : 0.5)
  const inputMs = long
    ? random.integer(small ? 12_000 : 15_000, small ? 20_000 : 40_000)
    : random.integer(300, small ? 1_500 : 3_000)
  const rarer = drawRarer(random.fork('rarer'), bounded, inputMs, limits)
  // Records that a barrier overtook are covered by a checkpoint and not part of its output: no prefix of the output is one of the input.
  const state = drawState(random.fork('state'), rarer.mode === 'EXACTLY_ONCE' && rarer.ending === 'stop')
  const overtakes = state.unalignedAfterMs !== undefined
  // A vector of records that take their time must be able to end before its checkpoint is given up.
  const timeoutMs = state.slowMs > 0 ? SLOW_TIMEOUT_MS : shortTimeoutMs
  return {
    bounded,
    brokers: random.pick([1, 3]),
    partitions: small ? random.pick([1, 1, 2, 2, 3]) : random.integer(1, 3),
    recordsPerPartition: small ? random.integer(5, 20) : random.integer(20, 150),
    inputMs,
    keys: random.integer(1, 8),
    // Without channels there is nothing to overtake.
    parallelism: overtakes ? parallelism.map((own) => Math.max(2, own)) : parallelism,
    maxParallelism: random.pick([5, 16, 128]),
    intervalMs,
    timeoutMs,
    minPauseMs: random.pick([0, 0, 0, 50]),
    maxConcurrent: random.pick([1, 1, 2, 3]),
    tolerableFailures: random.pick([0, 1, 3, 1_000_000]),
    retained: random.integer(1, 3),
    asyncSnapshots: random.chance(0.8),
    transactionTimeoutMs: shortTransactions
      ? intervalMs + timeoutMs + 5_000 + random.integer(0, 3_000)
      : undefined,
    storage: random.pick(['topic', 'directory']),
    fetchMaxBytes: random.pick([1_024, 2_048, 1_048_576]),
    fetchMaxWaitMs: long ? 500 : random.pick([50, 500]),
    latency: { minMs: 0, maxMs: latencyMs },
    markerDelay: { minMs: 1, maxMs: random.pick([5, 30, 300]) },
    workers: random.pick([1, 1, 2, 3]),
    faults: small ? random.integer(0, 3) : random.integer(0, 6),
    noise: random.pick([0, 0, 0.003, 0.02]),
    ...state,
    ...rarer,
    ...drawCommands(random.fork('commands'), bounded, rarer, limits.waitsForTime === true || overtakes),
  }
}

/** Where state is kept, and whether barriers overtake. */
function drawState(
  random: SeededRandom,
  mayOvertake: boolean,
): Pick<
  Scenario,
  | 'stateKind'
  | 'laterStateKind'
  | 'incremental'
  | 'localRecovery'
  | 'cacheBytes'
  | 'unalignedAfterMs'
  | 'slowMs'
> {
  const kind = (): StateKind => random.pick<StateKind>(['heap', 'heap', 'layers', 'local', 'outside'])
  const stateKind = kind()
  const unaligned = mayOvertake && random.chance(0.3)
  return {
    stateKind,
    laterStateKind: random.chance(0.5) ? stateKind : kind(),
    incremental: random.chance(0.7),
    localRecovery: random.chance(0.5),
    cacheBytes: random.pick([1, 300, 1_000, 4_000]),
    unalignedAfterMs: unaligned ? random.pick([0, 0, 5, 40]) : undefined,
    slowMs: random.chance(unaligned ? 0.7 : 0.1) ? random.pick([2, 10, 40]) : 0,
  }
}

/** What people do to the job while it runs. */
function drawCommands(
  random: SeededRandom,
  bounded: boolean,
  { mode, ending, startAt }: Pick<Scenario, 'mode' | 'ending' | 'startAt'>,
  waitsForTime: boolean,
): Pick<Scenario, 'commands' | 'ending' | 'drain'> {
  const commands = random.chance(0.25) ? random.integer(1, 3) : 0
  // Time that has passed to its end has no windows and timers left for the run that goes on.
  const drain = !waitsForTime && random.chance(0.3)
  if (bounded || mode !== 'EXACTLY_ONCE' || ending !== 'stop' || startAt === 'latest' || !random.chance(0.3))
    return { commands, ending, drain }
  const endings: Ending[] = ['stop-with-savepoint', 'back-to-latest']
  // What is cut off in the middle of a window is no prefix of the output.
  if (!waitsForTime)
    endings.push('back-to-savepoint', 'back-to-savepoint', 'back-to-oldest', 'command-cancel')
  return { commands, ending: random.pick(endings), drain }
}

/** What most runs do without. A fork of its own, so that it can grow and leave the rest of a seed's circumstances as they are. */
function drawRarer(
  random: SeededRandom,
  bounded: boolean,
  inputMs: number,
  limits: JobLimits,
): Pick<
  Scenario,
  'mode' | 'transactional' | 'startAt' | 'ending' | 'endAfterMs' | 'newPartitions' | 'discoveryMs'
> {
  const mode = random.chance(0.08) ? 'AT_LEAST_ONCE' : 'EXACTLY_ONCE'
  const transactional = mode === 'EXACTLY_ONCE' || random.chance(0.5)
  const latest = !bounded && limits.waitsForTime !== true && random.chance(0.12)
  const endsEarly = !bounded && mode === 'EXACTLY_ONCE' && limits.waitsForTime !== true && random.chance(0.2)
  const grows = !bounded && !latest && limits.fixedPartitions !== true && random.chance(0.2)
  return {
    mode,
    transactional,
    startAt: latest ? 'latest' : 'earliest',
    ending: endsEarly ? random.pick<Ending>(['cancel', 'fresh-after-cancel', 'fresh-after-crash']) : 'stop',
    endAfterMs: random.integer(200, inputMs + 1_000),
    newPartitions: grows ? random.integer(1, 2) : 0,
    discoveryMs: random.pick([100, 500, 2_000]),
  }
}
