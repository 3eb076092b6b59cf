/**
 * Keyed state that is larger than its cache, in Redis and in RocksDB, through seeded kill -9 of the worker and trouble of the Redis server; then
 * the whole output must be exact, and nothing of the job's state may be left when the job is over.
 * FAULT_SEED=n replays the moments of a run, FAULT_KILLS=n sets the number of kills.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { JobProcess } from '../integration/job-process.ts'
import { millrace } from '../integration/millrace-command.ts'
import { RedisProcess } from '../integration/redis/redis-process.ts'
import { logReliability } from '../reliability-log.ts'
import { type OrderOutcome, OrderRun, verdict } from './order-run.ts'
import { SeededRandom } from './seeded-random.ts'

jest.setTimeout(600_000)

const SEED = Number(process.env['FAULT_SEED'] ?? Date.now() % 1_000_000)
const KILLS = Number(process.env['FAULT_KILLS'] ?? 6)
/** 1,000 users of 4,000 bytes each in two subtasks: about half of them do not fit into the smallest cache that can be set. */
const LARGER_THAN_THE_CACHE = { PAD: '4000', MILLRACE_STATE_BACKEND_CACHE_MAX_BYTES: '1 mb' }
const USERS = 1_000

let folder: string
let redis: RedisProcess | undefined
let run: OrderRun | undefined
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-backends-'))
})
afterEach(async () => {
  await run?.close()
  run = undefined
  await redis?.stop()
  redis = undefined
  await rm(folder, { recursive: true, force: true })
})

async function withRedis(): Promise<{ server: RedisProcess; environment: Record<string, string> }> {
  const server = await RedisProcess.start()
  redis = server
  return { server, environment: { MILLRACE_STATE_BACKEND: 'redis', REDIS_URL: server.url } }
}

const rocksdb = (): Record<string, string> => ({
  MILLRACE_STATE_BACKEND: 'rocksdb',
  MILLRACE_STATE_BACKEND_INCREMENTAL: 'true',
  MILLRACE_STATE_CHECKPOINTS_DIR: join(folder, 'checkpoints'),
  MILLRACE_TASKMANAGER_STATE_LOCAL_ROOT_DIRS: join(folder, 'local'),
})

async function open(environment: Record<string, string>, random: SeededRandom): Promise<OrderRun> {
  run = await OrderRun.open({
    random,
    users: USERS,
    environment: { ...LARGER_THAN_THE_CACHE, ...environment },
  })
  return run
}

/** Ends the worker at a random moment: some while they start, the others, the first among them, when they have committed output. */
async function killAtRandom(
  orders: OrderRun,
  worker: JobProcess,
  random: SeededRandom,
  kill: number,
): Promise<void> {
  if (kill > 0 && random.next() < 0.3) await sleep(random.between(50, 2_500))
  else {
    await orders.progress(90_000)
    await sleep(random.between(20, 1_000))
  }
  await worker.kill()
}

/** kill -9, again and again; the outcome, and what the workers logged. */
async function killed(
  environment: Record<string, string>,
  where: string,
): Promise<{ readonly outcome: OrderOutcome; readonly logs: readonly string[] }> {
  const random = new SeededRandom(SEED)
  const orders = await open(environment, random)
  const logs: string[] = []
  for (let kill = 0; kill < KILLS; kill++) {
    const worker = orders.start()
    await killAtRandom(orders, worker, random, kill)
    logs.push(worker.stdout + worker.stderr)
  }
  const last = orders.start()
  const outcome = await orders.finish([last])
  logs.push(last.stdout + last.stderr)
  console.log(
    `${where}, FAULT_SEED=${SEED}: ${KILLS} kills, ${outcome.records} records, settled in ${outcome.settledMs} ms`,
  )
  logReliability({
    suite: 'state-backends',
    fault: 'kill -9, restart at once',
    where: `at random moments of start-up and work, ${where}, state larger than its cache`,
    count: KILLS,
    records: outcome.records,
    outcome: verdict(outcome),
  })
  return { outcome, logs }
}

function expectExact({ etl, totals, open: left }: OrderOutcome): void {
  expect({ etl, totals, left }).toEqual({ etl: [], totals: [], left: [] })
}

/** Starts the stopped job once more and cancels it. */
async function cancel(orders: OrderRun): Promise<void> {
  const worker = orders.start()
  await worker.said(/resumes from checkpoint/, 60_000)
  const { brokers, job } = orders.scene
  const cancelled = await millrace(brokers, 'cancel', job)
  expect({ ...cancelled, code: cancelled.code }).toMatchObject({ code: 0 })
  expect(await worker.code(30_000)).toBe(0)
}

describe(`kill -9 of the worker (FAULT_SEED=${SEED})`, () => {
  test('with state in Redis: the output is exact, and no key is left when the job was cancelled', async () => {
    const { server, environment } = await withRedis()
    const { outcome } = await killed(environment, 'state.backend redis')
    expectExact(outcome)
    expect((await server.keys('millrace:*')).length).toBeGreaterThan(0)
    await cancel(run as OrderRun)
    expect(await server.keys()).toEqual([])
  })

  test('with state in RocksDB and incremental checkpoints: the output is exact, and no file is left when the job was cancelled', async () => {
    expectExact((await killed(rocksdb(), 'state.backend rocksdb, incremental')).outcome)
    await cancel(run as OrderRun)
    await expectNoFiles(run as OrderRun)
  })

  test('with local recovery: the output is exact, and restarts went on with what was on the disk', async () => {
    const environment = { ...rocksdb(), MILLRACE_STATE_BACKEND_LOCAL_RECOVERY: 'true' }
    const { outcome, logs } = await killed(environment, 'state.backend rocksdb, incremental, local recovery')
    expectExact(outcome)
    expect(
      logs.filter((log) => log.includes('goes on with its state on this machine')).length,
    ).toBeGreaterThan(0)
    await cancel(run as OrderRun)
    await expectNoFiles(run as OrderRun)
  })
})

describe(`trouble of the Redis server while a job runs (FAULT_SEED=${SEED})`, () => {
  test('kill -9 and a restart, and hanging for seconds: the output is exact', async () => {
    const random = new SeededRandom(SEED)
    const { server, environment } = await withRedis()
    const orders = await open(environment, random)
    const worker = orders.start()
    for (let trouble = 0; trouble < 3; trouble++) {
      await orders.progress(90_000)
      await sleep(random.between(20, 800))
      await server.kill()
      await sleep(random.between(200, 1_500))
      await server.restart()
      await orders.progress(90_000)
      await sleep(random.between(20, 800))
      server.signal('SIGSTOP')
      await sleep(random.between(2_000, 5_000))
      server.signal('SIGCONT')
    }
    const outcome = await orders.finish([worker])
    for (const fault of ['kill -9 of redis-server, restart', 'SIGSTOP of redis-server for 2 to 5 s'])
      logReliability({
        suite: 'state-backends',
        fault,
        where: 'at random moments of work, appendfsync always',
        count: 3,
        records: outcome.records,
        outcome: verdict(outcome),
      })
    expectExact(outcome)
    await cancel(orders)
    expect(await server.keys()).toEqual([])
  })
})

/** Checkpoints that were under way when the worker was killed left files that no checkpoint names; collecting orphans finds them all. */
async function expectNoFiles({ scene }: OrderRun): Promise<void> {
  const collected = await millrace(
    scene.brokers,
    'checkpoints',
    'gc',
    scene.job,
    '--older-than',
    '0 s',
    '-D',
    `state.checkpoints.dir=${join(folder, 'checkpoints')}`,
  )
  expect(collected).toMatchObject({ code: 0 })
  expect(await filesBelow(folder)).toEqual([])
}

/** Files, without folders. */
async function filesBelow(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
}
