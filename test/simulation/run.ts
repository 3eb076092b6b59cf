/**
 * Simulates jobs, a seed a run, on all cores:
 *
 *   npm run -s test:simulation -- [--seeds N] [--from S] [--seed S] [--job NAME] [--small | --full] [--threads N] [--trace]
 *
 * Of five seeds one is a full run (more input, more faults), the others are small ones. The last line is the verdict; exit 1 names the
 * seeds that failed and the command that replays each.
 */
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { logReliability, outcomeOf } from '../reliability-log.ts'
import {
  jobNamed,
  replayCommand,
  type SeedReport,
  type SeedRequest,
  type SeedSize,
  simulateSeed,
} from './simulate-seed.ts'

const { values: flags } = parseArgs({
  options: {
    seeds: { type: 'string', default: '5000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    job: { type: 'string' },
    small: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    threads: { type: 'string', default: String(availableParallelism()) },
    trace: { type: 'boolean', default: false },
    'stop-after': { type: 'string', default: '10' },
  },
})

const TOLD_EVERY = 250
const write = (text: string): void => void process.stdout.write(text)

/** Adds up what the runs tell. */
class Tally {
  readonly #started = performance.now()
  readonly #ends = new Map<string, number>()
  readonly #faults = new Map<string, number>()
  readonly #counts = new Map<string, number>()
  readonly failed: SeedReport[] = []
  runs = 0
  #steps = 0
  #checkpoints = 0
  #records = 0

  add(report: SeedReport): void {
    this.runs++
    this.#steps += report.steps
    this.#checkpoints += report.checkpoints
    this.#records += report.records
    this.#ends.set(report.end, (this.#ends.get(report.end) ?? 0) + 1)
    for (const [kind, count] of report.faultKinds)
      this.#faults.set(kind, (this.#faults.get(kind) ?? 0) + count)
    for (const [what, count] of report.counts) this.#counts.set(what, (this.#counts.get(what) ?? 0) + count)
    if (report.violations.length === 0) return
    this.failed.push(report)
    write(`\nseed ${report.seed} (${report.job}) FAILED after ${report.virtualMs} virtual ms:\n`)
    for (const violation of report.violations) write(`  ${violation}\n`)
    write(`  replay: ${replayCommand(report)}\n`)
  }

  get rate(): string {
    return (this.runs / ((performance.now() - this.#started) / 1_000)).toFixed(1)
  }

  finish(): void {
    const list = (counts: ReadonlyMap<string, number>): string =>
      [...counts]
        .sort(([, a], [, b]) => b - a)
        .map(([name, count]) => `${name} ${count}`)
        .join(', ')
    const { user, system } = process.cpuUsage()
    write(
      `${this.rate} seeds/s, ${((user + system) / 1_000 / Math.max(1, this.runs)).toFixed(1)} CPU ms a seed, ${this.#steps} steps, ${this.#checkpoints} checkpoints; ends: ${list(this.#ends)}\n`,
    )
    write(`faults: ${list(this.#faults) || 'none'}\n`)
    write(`came up: ${list(this.#counts) || 'nothing special'}\n`)
    write(`${this.runs - this.failed.length} passed, ${this.failed.length} failed\n`)
    const outcome = outcomeOf(this.failed)
    const entry = { suite: 'simulation', where: `${this.runs} seeds`, records: this.#records, outcome }
    for (const [fault, count] of this.#faults) logReliability({ ...entry, fault, count })
  }
}

const size: SeedSize | undefined = flags.full ? 'full' : flags.small ? 'small' : undefined
if (flags.job !== undefined) jobNamed(flags.job)
const tally = new Tally()

function* requests(): Generator<SeedRequest> {
  const from = Number(flags.from)
  for (let seed = from; seed < from + Number(flags.seeds); seed++)
    if (tally.failed.length < Number(flags['stop-after'])) yield { seed, job: flags.job, size }
}

/** One thread takes requests until there are none left. */
function drain(queue: Generator<SeedRequest>): Promise<void> {
  const thread = new Worker(new URL('seed-thread.ts', import.meta.url))
  return new Promise<void>((resolve, reject) => {
    const next = (): void => {
      const { value, done } = queue.next()
      if (done === true) resolve()
      else thread.postMessage(value)
    }
    thread.on('message', (report: SeedReport) => {
      tally.add(report)
      if (tally.runs % TOLD_EVERY === 0)
        write(`${tally.runs} seeds, ${tally.failed.length} failed, ${tally.rate} seeds/s\n`)
      next()
    })
    thread.on('error', reject)
    next()
  }).finally(() => thread.terminate())
}

if (flags.seed !== undefined) {
  // The first write opens the pipe or the terminal: not while a run is watched for what it opens.
  write('')
  const request = { seed: Number(flags.seed), job: flags.job, size }
  const report = await simulateSeed(request, {
    twice: !flags.trace,
    ...(flags.trace ? { trace: (line: string) => write(`${line}\n`) } : {}),
  })
  tally.add(report)
  write(
    `seed ${report.seed}: ${report.end}, trace ${report.hash}, ${report.steps} steps, ${report.workers} workers, ${report.faults} faults, ${report.checkpoints} checkpoints\n${JSON.stringify(report.scenario)}\n`,
  )
} else {
  const queue = requests()
  await Promise.all(Array.from({ length: Number(flags.threads) }, () => drain(queue)))
}
tally.finish()
process.exitCode = tally.failed.length === 0 ? 0 : 1
