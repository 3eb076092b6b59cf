/**
 * The circumstances of one simulated run, drawn from its seed: sizes, settings of the job, and the world it meets.
 */
import type { SeededRandom } from './seeded-random.ts'
import type { MsRange } from './simulated-network.ts'

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
  /** Chance that a call of a worker is lost, late or sent twice. */
  readonly noise: number
}

/** True if output may be lost to the brokers' time-out, so that FAILED with MILLRACE_TRANSACTION_LOST is an honest end. */
export function mayLoseTransactions(scenario: Scenario): boolean {
  return scenario.transactionTimeoutMs !== undefined
}

/** Draws the circumstances of a run. `small`: little input and few faults, for many seeds a second. */
export function drawScenario(random: SeededRandom, options: { readonly small: boolean }): Scenario {
  // Long enough for a worker that stood still to wake up while the job goes on.
  const long = random.chance(0.15)
  const intervalMs = long ? random.pick([500, 1_000]) : random.pick([50, 100, 200, 500])
  const timeoutMs = random.pick([500, 1_000, 3_000])
  const rescale = random.chance(0.25)
  const parallelism = Array.from({ length: rescale ? 4 : 1 }, () =>
    random.integer(1, random.pick([1, 2, 3, 5])),
  )
  const latencyMs = random.pick([1, 2, 5, 20])
  const shortTransactions = random.chance(0.15)
  return {
    bounded: !long && random.chance(0.5),
    brokers: random.pick([1, 3]),
    partitions: random.integer(1, 3),
    recordsPerPartition: options.small ? random.integer(5, 30) : random.integer(20, 150),
    inputMs: long ? random.integer(15_000, 40_000) : random.integer(500, 3_000),
    keys: random.integer(1, 8),
    parallelism,
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
    faults: options.small ? random.integer(0, 3) : random.integer(0, 6),
    noise: random.pick([0, 0, 0.003, 0.02]),
  }
}
