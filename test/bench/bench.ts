/**
 * `npm run bench -- [--records 4000000] [--rounds 3] [--jobs etl,count] [--peers millrace,loop] [--peers-dir DIR] [--kill-after MS]`
 *
 * Runs the peers in turn on the same broker and the same input, so that drift meets all of them, prints every run, then the medians and the
 * ratios of the first peer to the others. Needs a broker: KAFKA_BROKERS or BOOTSTRAP. Peers:
 *   millrace, millrace2   test/bench/millrace-job.ts on the built package, one or two workers
 *   loop, loop2           the hand-written loop, one or two processes
 *   kafkajs               plain kafkajs, two processes, etl only
 *   @name                 `run.sh name <job> <records>` of the harness in --peers-dir (Flink, Kafka Streams, …)
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { BenchJob } from './data.ts'
import { type Measurement, measure } from './measure.ts'

const HERE = import.meta.dirname

interface Peer {
  readonly script: string
  readonly processes: number
  readonly jobs: readonly BenchJob[]
}

const PEERS: Readonly<Record<string, Peer>> = {
  millrace: { script: 'millrace-job.ts', processes: 1, jobs: ['etl', 'count', 'window'] },
  millrace2: { script: 'millrace-job.ts', processes: 2, jobs: ['etl', 'count', 'window'] },
  loop: { script: 'loop.ts', processes: 1, jobs: ['etl', 'count'] },
  loop2: { script: 'loop.ts', processes: 2, jobs: ['etl'] },
  kafkajs: { script: 'kafkajs-loop.ts', processes: 2, jobs: ['etl'] },
}

const { values: options } = parseArgs({
  options: {
    records: { type: 'string', default: '4000000' },
    rounds: { type: 'string', default: '3' },
    jobs: { type: 'string', default: 'etl,count' },
    peers: { type: 'string', default: 'millrace,loop' },
    'peers-dir': { type: 'string' },
    'kill-after': { type: 'string' },
    commit: { type: 'string', default: '1000' },
    keep: { type: 'boolean', default: false },
    bootstrap: { type: 'string' },
  },
})
const bootstrap = options.bootstrap ?? process.env['KAFKA_BROKERS'] ?? process.env['BOOTSTRAP']
if (bootstrap === undefined)
  throw new Error('set KAFKA_BROKERS to a broker: node scripts/lib/kafka-broker.ts starts one')
const address: string = bootstrap
const records = Number(options.records)
const jobs = options.jobs.split(',') as BenchJob[]
const peers = options.peers.split(',')

/** Node options that every peer of ours runs with; kafkajs makes Node 24 warn of negative time-outs. */
const NODE_ARGUMENTS = ['--disable-warning=TimeoutNegativeWarning', '--disable-warning=ExperimentalWarning']

async function runOwn(name: string, peer: Peer, job: BenchJob): Promise<Measurement> {
  return measure({
    peer: name,
    job,
    records,
    processes: peer.processes,
    command: [process.execPath, ...NODE_ARGUMENTS, join(HERE, peer.script)],
    bootstrap: address,
    commitMs: Number(options.commit),
    keep: options.keep,
    ...(options['kill-after'] === undefined ? {} : { killAfterMs: Number(options['kill-after']) }),
  })
}

/** One run of the external harness, whose last line on stdout is the result. */
async function runExternal(folder: string, name: string, job: BenchJob): Promise<Measurement> {
  const env = { ...process.env, BOOTSTRAP: address, COMMIT_MS: options.commit }
  const child = spawn(join(folder, 'run.sh'), [name, job, String(records)], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout.on('data', (chunk) => {
    text += chunk
  })
  const code = await new Promise((resolve) => child.once('exit', resolve))
  const line = text.trim().split('\n').at(-1) ?? ''
  if (!line.startsWith('{')) throw new Error(`${name} gave no result (exit code ${code}): ${line}`)
  return JSON.parse(line)
}

async function runPeer(name: string, job: BenchJob): Promise<Measurement | undefined> {
  if (name.startsWith('@')) {
    const folder = options['peers-dir']
    if (folder === undefined) throw new Error(`name the harness of ${name} with --peers-dir`)
    return { ...(await runExternal(folder, name.slice(1), job)), peer: name }
  }
  const own = PEERS[name]
  if (own === undefined)
    throw new Error(
      `no peer is called ${name}; there are ${Object.keys(PEERS).join(', ')}, and @name with --peers-dir`,
    )
  return own.jobs.includes(job) ? runOwn(name, own, job) : undefined
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

const results: Measurement[] = []
for (const job of jobs)
  for (let round = 1; round <= Number(options.rounds); round++)
    for (const name of peers) {
      const result = await runPeer(name, job)
      if (result === undefined) continue
      results.push(result)
      console.log(JSON.stringify(result))
    }

console.log(`\n${records.toLocaleString('en')} records, median of ${options.rounds}`)
console.log('job     peer                      rec/s   CPU s  RSS MB  right   ratio')
for (const job of jobs) {
  const first = results.filter((result) => result.job === job && result.peer === peers[0])
  for (const name of peers) {
    const runs = results.filter((result) => result.job === job && result.peer === name)
    if (runs.length === 0) continue
    const rate = median(runs.map((run) => run.rec_s))
    const ratio = first.length > 0 && rate > 0 ? median(first.map((run) => run.rec_s)) / rate : Number.NaN
    console.log(
      job.padEnd(8) +
        name.padEnd(22) +
        Math.round(rate).toLocaleString('en').padStart(9) +
        median(runs.map((run) => run.cpu_s))
          .toFixed(1)
          .padStart(8) +
        String(Math.round(median(runs.map((run) => run.peak_rss_mb)))).padStart(8) +
        `${runs.filter((run) => run.ok).length}/${runs.length}`.padStart(7) +
        (name === peers[0] || Number.isNaN(ratio) ? '' : `   ${peers[0]} = ${ratio.toFixed(2)} × ${name}`),
    )
  }
}
if (results.some((result) => !result.ok)) {
  console.log('some outputs were wrong or incomplete')
  process.exitCode = 1
}
