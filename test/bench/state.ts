/**
 * `npm run bench:state -- [--parts jobs,checkpoints] [--backends filesystem,rocksdb,redis] [--keys 100000,5000000] [--distributions uniform,zipf]
 *   [--records 2000000] [--cache '256 mb'] [--checkpoint-keys 1000000] [--commit 1000] [--redis URL] [--source]`
 *
 * `jobs`: a keyed count on a real broker for each backend, number of keys and distribution: records a second, memory, checkpoints; the output is
 * read back and checked. `checkpoints`: one operator's state without a broker: full checkpoints, 1 % and 100 % changed keys, the freeze and the
 * longest pause of the event loop while it is written, a restore (what was evicted before is not in the bytes of a checkpoint in Redis: a cache
 * that holds all keys shows the whole). Needs KAFKA_BROKERS for jobs; starts a redis-server of its own unless one is named. `--source` runs the sources and not the build.
 */
import { spawn } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { parseSize } from '../../src/config/values.ts'
import { RedisProcess, SAFE } from '../integration/redis/redis-process.ts'
import { type Measurement, measure } from './measure.ts'
import type { CheckpointFigures, Variant } from './state-checkpoints.ts'
import { type Distribution, ensureKeyedInput, KeyedCheck } from './state-input.ts'

const HERE = import.meta.dirname
const NODE_ARGUMENTS = ['--disable-warning=TimeoutNegativeWarning', '--disable-warning=ExperimentalWarning']
const TIMEOUT_MS = 900_000

const { values: options } = parseArgs({
  options: {
    parts: { type: 'string', default: 'jobs,checkpoints' },
    backends: { type: 'string', default: 'filesystem,rocksdb,redis' },
    keys: { type: 'string', default: '100000,5000000' },
    distributions: { type: 'string', default: 'uniform,zipf' },
    records: { type: 'string', default: '2000000' },
    cache: { type: 'string', default: '256 mb' },
    'checkpoint-keys': { type: 'string', default: '1000000' },
    commit: { type: 'string', default: '1000' },
    redis: { type: 'string' },
    source: { type: 'boolean', default: false },
  },
})
const VARIANTS: Readonly<Record<string, readonly Variant[]>> = {
  filesystem: ['filesystem', 'filesystem-incremental'],
  rocksdb: ['rocksdb', 'rocksdb-local'],
  redis: ['redis'],
}

const backends = options.backends.split(',')
const parts = options.parts.split(',')
const cacheBytes = parseSize(options.cache)
if (cacheBytes === undefined) throw new Error(`--cache ${options.cache} is no size`)
for (const backend of backends)
  if (VARIANTS[backend] === undefined)
    throw new Error(`no backend is called ${backend}; there are ${Object.keys(VARIANTS).join(', ')}`)

const own =
  backends.includes('redis') && options.redis === undefined ? await RedisProcess.start(SAFE) : undefined
const redisUrl = options.redis ?? own?.url ?? ''
let failed = false
try {
  if (parts.includes('jobs')) await jobs()
  if (parts.includes('checkpoints')) await checkpoints()
} finally {
  await own?.stop()
}
if (failed) {
  console.log('some outputs were wrong or incomplete')
  process.exitCode = 1
}

/** Checkpoints as the job logged them. */
interface Checkpoints {
  readonly count: number
  readonly maxMs: number
  readonly maxBytes: number
}

async function jobs(): Promise<void> {
  const bootstrap = process.env['KAFKA_BROKERS'] ?? process.env['BOOTSTRAP']
  if (bootstrap === undefined)
    throw new Error('set KAFKA_BROKERS to a broker: node scripts/lib/kafka-broker.ts starts one')
  const rows: string[] = []
  for (const keys of options.keys.split(',').map(Number))
    for (const distribution of options.distributions.split(',') as Distribution[])
      for (const backend of backends) {
        const { result, seen } = await job(bootstrap, backend, keys, distribution)
        console.log(JSON.stringify({ backend, keys, distribution, ...result, checkpoints: seen }))
        if (!result.ok) failed = true
        rows.push(
          backend.padEnd(12) +
            keys.toLocaleString('en').padStart(10) +
            distribution.padStart(9) +
            Math.round(result.rec_s).toLocaleString('en').padStart(10) +
            String(result.peak_rss_mb).padStart(8) +
            String(seen.count).padStart(13) +
            String(seen.maxMs).padStart(8) +
            megabytes(seen.maxBytes).padStart(8) +
            (result.ok ? 'yes' : 'NO').padStart(7),
        )
      }
  console.log(`\n${Number(options.records).toLocaleString('en')} records, cache ${options.cache}`)
  console.log('backend           keys     dist     rec/s  RSS MB  checkpoints  max ms  max MB  right')
  for (const row of rows) console.log(row)
}

async function job(
  bootstrap: string,
  backend: string,
  keys: number,
  distribution: Distribution,
): Promise<{ result: Measurement; seen: Checkpoints }> {
  const input = { records: Number(options.records), keys, distribution }
  const topic = await ensureKeyedInput(bootstrap, input)
  let log = ''
  const result = await measure({
    peer: `state-${backend}`,
    job: 'count',
    records: input.records,
    processes: 1,
    command: [
      process.execPath,
      ...NODE_ARGUMENTS,
      ...(options.source ? ['--conditions=millrace-source'] : []),
      join(HERE, 'millrace-job.ts'),
    ],
    bootstrap,
    commitMs: Number(options.commit),
    timeoutMs: TIMEOUT_MS,
    custom: { input: topic, check: new KeyedCheck(input) },
    env: {
      STATE_BACKEND: backend,
      REDIS_URL: redisUrl,
      MILLRACE_STATE_BACKEND_INCREMENTAL: 'true',
      MILLRACE_STATE_BACKEND_CACHE_MAX_BYTES: options.cache,
      // Checkpoints of 5 million keys take their time.
      MILLRACE_EXECUTION_CHECKPOINTING_TIMEOUT: '10 min',
      MILLRACE_LOG_LEVEL: 'debug',
      MILLRACE_LOG_FORMAT: 'json',
    },
    onEnd: async (workDir) => {
      for (const name of await readdir(workDir))
        if (name.startsWith('stderr-')) log += await readFile(join(workDir, name), 'utf8')
    },
  })
  return { result, seen: checkpointsIn(log) }
}

function checkpointsIn(log: string): Checkpoints {
  const found = log
    .split('\n')
    .filter((line) => /"message":"checkpoint \d+ is complete"/.test(line))
    .map((line) => JSON.parse(line) as { ms: number; bytes: number })
  return {
    count: found.length,
    maxMs: Math.max(0, ...found.map(({ ms }) => ms)),
    maxBytes: Math.max(0, ...found.map(({ bytes }) => bytes)),
  }
}

async function checkpoints(): Promise<void> {
  const keys = Number(options['checkpoint-keys'])
  const figures: CheckpointFigures[] = []
  for (const variant of backends.flatMap((backend) => VARIANTS[backend] as readonly Variant[])) {
    const each = await figuresOf(variant, keys)
    console.log(JSON.stringify(each))
    if (!each.right) failed = true
    figures.push(each)
  }
  console.log(
    `\n${keys.toLocaleString('en')} keys, cache ${options.cache}; ms and MB of a checkpoint, longest pauses in ms`,
  )
  console.log(
    'backend                   full ms    MB    1 % ms    MB  of full  100 % ms    MB  freeze  pause  restore ms  RSS MB  right',
  )
  for (const { variant, full, few, all, restoreMs, peakRssMb, right } of figures) {
    const freeze = Math.max(full.freezeMs, few.freezeMs, all.freezeMs)
    const pause = Math.max(full.pauseMs, few.pauseMs, all.pauseMs)
    console.log(
      variant.padEnd(25) +
        full.ms.toFixed(0).padStart(8) +
        megabytes(full.bytes).padStart(6) +
        few.ms.toFixed(0).padStart(10) +
        megabytes(few.bytes).padStart(6) +
        `${((few.bytes / full.bytes) * 100).toFixed(1)} %`.padStart(9) +
        all.ms.toFixed(0).padStart(10) +
        megabytes(all.bytes).padStart(6) +
        freeze.toFixed(1).padStart(8) +
        pause.toFixed(1).padStart(7) +
        restoreMs.toFixed(0).padStart(12) +
        String(peakRssMb).padStart(8) +
        (right ? 'yes' : 'NO').padStart(7),
    )
  }
}

async function figuresOf(variant: Variant, keys: number): Promise<CheckpointFigures> {
  const args = [
    ...NODE_ARGUMENTS,
    join(HERE, 'state-checkpoints.ts'),
    variant,
    String(keys),
    String(cacheBytes),
    redisUrl,
  ]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  const line = text.trim().split('\n').at(-1) ?? ''
  if (code !== 0 || !line.startsWith('{'))
    throw new Error(`${variant} gave no result (exit code ${String(code)})`)
  return JSON.parse(line) as CheckpointFigures
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}
