/** One seed of the simulation, as the runner, its threads and the tests all run it. */
import type { SimulatedJob } from '../../src/testing/simulated-job.ts'
import { Simulation, type SimulationResult } from '../../src/testing/simulation.ts'
import { JOBS } from './jobs.ts'

/** How large a run is: small ones find most defects, in little time. */
export type SeedSize = 'small' | 'full'

/** Which run to make. */
export interface SeedRequest {
  readonly seed: number
  /** Undefined = the seed picks one. */
  readonly job: string | undefined
  /** Undefined = the seed picks it. */
  readonly size: SeedSize | undefined
}

/** What is told of a run: plain data, since it may come from another thread. */
export type SeedReport = SimulationResult & { readonly size: SeedSize }

/** One in so many seeds is a full one. */
const FULL_EVERY = 5
/** Each of so many seeds runs twice: its trace must be the same. */
const TWICE_EVERY = 50

/** @throws Error for a name that no job has. */
export function jobNamed(name: string): SimulatedJob {
  const job = JOBS.find((known) => known.name === name)
  if (job === undefined)
    throw new Error(`no job ${name}; there are ${JOBS.map((known) => known.name).join(', ')}`)
  return job
}

/** The job that a seed picks. */
export function jobOf(seed: number): SimulatedJob {
  return JOBS[seed % JOBS.length]!
}

/** The command that runs a seed again, step for step. */
export function replayCommand({ seed, job, size }: Pick<SeedReport, 'seed' | 'job' | 'size'>): string {
  return `npm run -s test:simulation -- --seed ${seed} --job ${job} --${size} --trace`
}

/** Runs it; some seeds twice, also the other way of watching for rejections, which must change nothing. */
export async function simulateSeed(
  request: SeedRequest,
  options: { readonly twice?: boolean; readonly trace?: (line: string) => void } = {},
): Promise<SeedReport> {
  const { seed } = request
  const job = request.job === undefined ? jobOf(seed) : jobNamed(request.job)
  const size = request.size ?? (seed % FULL_EVERY === 0 ? 'full' : 'small')
  const small = size === 'small'
  const { trace, twice = seed % TWICE_EVERY === 0 } = options
  const result = await new Simulation({
    seed,
    job,
    small,
    ...(twice ? { strict: true } : {}),
    ...(trace === undefined ? {} : { trace }),
  }).run()
  if (!twice) return { ...result, size }
  const again = await new Simulation({ seed, job, small, strict: false }).run()
  if (again.hash === result.hash) return { ...result, size }
  const violations = [...result.violations, `not deterministic: traces ${result.hash} and ${again.hash}`]
  return { ...result, violations, size }
}
