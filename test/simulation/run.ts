/**
 * Simulates jobs, a seed a run:
 *
 *   npm run -s test:simulation -- [--seeds N] [--from S] [--seed S] [--job NAME] [--small] [--trace]
 *
 * The last line is the verdict; exit 1 names the seeds that failed and the command that replays each.
 */
import { parseArgs } from 'node:util'
import { type SimulatedJob, Simulation, type SimulationResult } from '../../src/testing/simulation.ts'
import { JOBS } from './jobs.ts'

const { values: flags } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    job: { type: 'string' },
    small: { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
    'stop-after': { type: 'string', default: '10' },
  },
})

/** Each of so many seeds runs twice: its trace must be the same. */
const TWICE_EVERY = 50

function jobOf(seed: number): SimulatedJob {
  if (flags.job === undefined) return JOBS[seed % JOBS.length]!
  const job = JOBS.find(({ name }) => name === flags.job)
  if (job === undefined)
    throw new Error(`no job ${flags.job}; there are ${JOBS.map(({ name }) => name).join(', ')}`)
  return job
}

async function simulate(seed: number): Promise<SimulationResult> {
  const job = jobOf(seed)
  const run = (trace?: (line: string) => void): Promise<SimulationResult> =>
    new Simulation({ seed, job, small: flags.small, ...(trace === undefined ? {} : { trace }) }).run()
  const result = await run(flags.trace ? (line) => process.stdout.write(`${line}\n`) : undefined)
  if (seed % TWICE_EVERY !== 0 && flags.seed === undefined) return result
  const again = await run()
  if (again.hash === result.hash) return result
  return {
    ...result,
    violations: [...result.violations, `not deterministic: traces ${result.hash} and ${again.hash}`],
  }
}

const from = Number(flags.seed ?? flags.from)
const count = flags.seed === undefined ? Number(flags.seeds) : 1
const stopAfter = Number(flags['stop-after'])
const started = performance.now()
const failed: SimulationResult[] = []
const ends = new Map<string, number>()
let passed = 0
let steps = 0
let checkpoints = 0
for (let seed = from; seed < from + count && failed.length < stopAfter; seed++) {
  const result = await simulate(seed)
  steps += result.steps
  checkpoints += result.checkpoints
  ends.set(result.end, (ends.get(result.end) ?? 0) + 1)
  if (result.violations.length === 0) passed++
  else {
    failed.push(result)
    process.stdout.write(`\nseed ${seed} (${result.job}) FAILED after ${result.virtualMs} virtual ms:\n`)
    for (const violation of result.violations) process.stdout.write(`  ${violation}\n`)
    process.stdout.write(
      `  replay: npm run -s test:simulation -- --seed ${seed} --job ${result.job}${flags.small ? ' --small' : ''} --trace\n`,
    )
  }
  if (flags.seed !== undefined)
    process.stdout.write(
      `seed ${seed}: ${result.end}, trace ${result.hash}, ${result.steps} steps, ${result.workers} workers, ${result.faults} faults, ${result.checkpoints} checkpoints\n${JSON.stringify(result.scenario)}\n`,
    )
  else if ((seed - from + 1) % 100 === 0) {
    const seconds = (performance.now() - started) / 1_000
    process.stdout.write(
      `${seed - from + 1} seeds, ${failed.length} failed, ${((seed - from + 1) / seconds).toFixed(1)} seeds/s\n`,
    )
  }
}
const seconds = (performance.now() - started) / 1_000
const endsText = [...ends].map(([end, n]) => `${end} ${n}`).join(', ')
process.stdout.write(
  `${((passed + failed.length) / seconds).toFixed(1)} seeds/s, ${steps} steps, ${checkpoints} checkpoints; ends: ${endsText}\n`,
)
process.stdout.write(`${passed} passed, ${failed.length} failed\n`)
process.exitCode = failed.length === 0 ? 0 : 1
