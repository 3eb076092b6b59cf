/**
 * `node test/bench/profile.ts [--peer millrace] [--job etl] [--records 1000000] [--top 10]`
 *
 * Runs a job under V8's profiler and names the functions that it spends most of its own time in.
 */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { BenchJob } from './data.ts'
import { measure } from './measure.ts'

const SCRIPTS: Readonly<Record<string, string>> = {
  millrace: 'millrace-job.ts',
  loop: 'loop.ts',
  kafkajs: 'kafkajs-loop.ts',
}

/** The parts of a .cpuprofile file that are used here. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
  }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

/** One function with its own time. */
interface HotFunction {
  readonly name: string
  readonly milliseconds: number
  /** Of the time that the process was not idle. */
  readonly share: number
}

/** Functions by their own time, the hottest first. */
function hotFunctions(profile: CpuProfile): HotFunction[] {
  const names = new Map(profile.nodes.map(({ id, callFrame }) => [id, frameName(callFrame)]))
  const own = new Map<string, number>()
  profile.samples.forEach((id, i) => {
    const name = names.get(id) ?? '?'
    own.set(name, (own.get(name) ?? 0) + (profile.timeDeltas[i] ?? 0) / 1000)
  })
  own.delete('(idle)')
  const total = [...own.values()].reduce((sum, time) => sum + time, 0)
  return [...own]
    .map(([name, milliseconds]) => ({ name, milliseconds, share: milliseconds / total }))
    .sort((a, b) => b.milliseconds - a.milliseconds)
}

function frameName(frame: CpuProfile['nodes'][number]['callFrame']): string {
  const name = frame.functionName || '(anonymous)'
  if (frame.url === '') return name
  const place = frame.url.replace(/^.*\/(?=(?:src|dist|test|node_modules)\/)/, '')
  return `${name}  ${place}:${frame.lineNumber + 1}`
}

const { values: options } = parseArgs({
  options: {
    peer: { type: 'string', default: 'millrace' },
    job: { type: 'string', default: 'etl' },
    records: { type: 'string', default: '1000000' },
    top: { type: 'string', default: '10' },
    bootstrap: { type: 'string' },
  },
})
const bootstrap = options.bootstrap ?? process.env['KAFKA_BROKERS'] ?? process.env['BOOTSTRAP']
const script = SCRIPTS[options.peer]
if (bootstrap === undefined)
  throw new Error('set KAFKA_BROKERS to a broker: node scripts/lib/kafka-broker.ts starts one')
if (script === undefined)
  throw new Error(`no peer is called ${options.peer}; there are ${Object.keys(SCRIPTS).join(', ')}`)

const folder = mkdtempSync(join(tmpdir(), 'millrace-profile-'))
try {
  const profiler = ['--cpu-prof', `--cpu-prof-dir=${folder}`, '--cpu-prof-interval=500']
  const result = await measure({
    peer: options.peer,
    job: options.job as BenchJob,
    records: Number(options.records),
    processes: 1,
    command: [
      process.execPath,
      '--disable-warning=TimeoutNegativeWarning',
      ...profiler,
      join(import.meta.dirname, script),
    ],
    bootstrap,
  })
  console.log(JSON.stringify(result))
  const files = readdirSync(folder).filter((file) => file.endsWith('.cpuprofile'))
  if (files.length === 0) throw new Error('no profile was written: the job did not end by itself on SIGTERM')
  for (const file of files) {
    const functions = hotFunctions(JSON.parse(readFileSync(join(folder, file), 'utf8')))
    console.log(`\n${file}: own time of ${functions.length} functions`)
    for (const { name, milliseconds, share } of functions.slice(0, Number(options.top)))
      console.log(
        `${(100 * share).toFixed(1).padStart(6)} % ${milliseconds.toFixed(0).padStart(7)} ms  ${name}`,
      )
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}
