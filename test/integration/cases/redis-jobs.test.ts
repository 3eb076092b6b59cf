/** Whole jobs with their state in a real Redis: a server that is full, evicts, hangs or lost something, and what is left when a run is over. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { JobProcess } from '../job-process.ts'
import { JobScene } from '../job-scene.ts'
import { millrace } from '../millrace-command.ts'
import { RedisProcess, SAFE } from '../redis/redis-process.ts'

jest.setTimeout(180_000)

const JOB = 'fault/jobs/orders.ts'
const PARTITIONS = 2
/** Bytes of state of each user, where there are many of them. */
const PAD = 4_000

let scene: JobScene
let topics: { IN: string; ETL_OUT: string; COUNT_OUT: string }
let servers: RedisProcess[]
beforeEach(async () => {
  servers = []
  scene = await JobScene.open()
  topics = {
    IN: await scene.topic('in', PARTITIONS),
    ETL_OUT: await scene.topic('etl', PARTITIONS),
    COUNT_OUT: await scene.topic('count', PARTITIONS),
  }
})
afterEach(async () => {
  await scene.close()
  await Promise.all(servers.map((server) => server.stop()))
})

async function redis(settings: Readonly<Record<string, string>> = {}): Promise<RedisProcess> {
  const server = await RedisProcess.start({ ...SAFE, ...settings })
  servers.push(server)
  return server
}

function start(
  server: RedisProcess,
  environment: Readonly<Record<string, string>> = {},
  command?: readonly string[],
): JobProcess {
  return scene.start(
    JOB,
    { ...topics, MILLRACE_STATE_BACKEND: 'redis', REDIS_URL: server.url, ...environment },
    command,
  )
}

/** One order of each user in a round; users are numbers from 0. */
async function feed(users: number, rounds = 1): Promise<void> {
  for (let round = 0; round < rounds; round++)
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const own = Array.from({ length: users }, (_, user) => user).filter(
        (user) => user % PARTITIONS === partition,
      )
      const orders = own.map((user) =>
        JSON.stringify({ id: round * users + user, user: `u${user}`, amount: 50 }),
      )
      await scene.produce(topics.IN, partition, orders)
    }
}

/** The committed counts of all users: each 1, 2, 3 …; waits until there are `total`. */
async function expectCounts(users: number, rounds: number, timeoutMs = 60_000): Promise<void> {
  const values = await scene.readUntil(topics.COUNT_OUT, ({ length }) => length >= users * rounds, timeoutMs)
  const counts = new Map<string, number>()
  for (const text of values) {
    const { user, count } = JSON.parse(String(text)) as { user: string; count: number }
    expect(`${user}: ${count}`).toBe(`${user}: ${(counts.get(user) ?? 0) + 1}`)
    counts.set(user, count)
  }
  expect(new Set(counts.values())).toEqual(new Set([rounds]))
  expect(counts.size).toBe(users)
}

/** Stops in order: SUSPENDED, its state stays. */
async function suspend(job: JobProcess): Promise<void> {
  job.signal('SIGTERM')
  expect(await job.code(30_000)).toBe(0)
}

async function cancel(job: JobProcess): Promise<void> {
  expect((await millrace(scene.brokers, 'cancel', scene.job)).code).toBe(0)
  expect(await job.code(30_000)).toBe(0)
}

/** Runs that keep something in Redis. */
async function runsIn(server: RedisProcess): Promise<string[]> {
  const keys = await server.keys()
  return [...new Set(keys.map((key) => /^millrace:\{[^/]+\/([^/]+)\//.exec(key)?.[1] ?? key))]
}

describe('SIGTERM while the server is away', () => {
  /** Whoever stops containers waits 10 s; half as much again on a machine that does other things as well. */
  const GONE_MS = 15_000

  test.each(['hangs', 'is dead'] as const)(
    'that %s ends the job in time, and the next start is exact',
    async (how) => {
      const users = 50
      const server = await redis()
      await feed(users)
      const job = start(server)
      await expectCounts(users, 1)
      await feed(users)
      if (how === 'hangs') server.signal('SIGSTOP')
      else await server.kill()
      const asked = Date.now()
      job.signal('SIGTERM')
      expect(await job.code(30_000)).toBe(0)
      expect(Date.now() - asked).toBeLessThan(GONE_MS)
      if (how === 'hangs') server.signal('SIGCONT')
      else await server.restart()
      const next = start(server)
      await expectCounts(users, 2)
      await scene.settled([topics.COUNT_OUT, topics.ETL_OUT], 10_000)
      await suspend(next)
    },
  )
})

describe('a server that is full', () => {
  test('fails checkpoints and not the job, and when it has memory again all of the output comes (OOM)', async () => {
    // 6,000 users of 4,000 bytes: 24 MB.
    const users = 6_000
    const server = await redis({ maxmemory: '10mb' })
    await feed(users)
    const job = start(server, {
      PAD: String(PAD),
      MILLRACE_RESTART_STRATEGY_TYPE: 'none',
      MILLRACE_EXECUTION_CHECKPOINTING_TOLERABLE_FAILED_CHECKPOINTS: '1000000',
    })
    const aborted = /checkpoint \d+ was aborted[^\n]*Redis[^\n]*memory/g
    await scene.until('several checkpoints were aborted because Redis is full', 60_000, () => {
      return [...job.log.matchAll(aborted)].length >= 2
    })
    expect(job.running).toBe(true)
    expect((await scene.read(topics.COUNT_OUT)).length).toBeLessThan(users)
    const info = await millrace(scene.brokers, 'info', scene.job, '--json')
    expect(JSON.parse(info.stdout)).toMatchObject({ status: 'RUNNING', restarts: 0 })
    await server.ask('CONFIG', 'SET', 'maxmemory', '200mb')
    await expectCounts(users, 1)
    await cancel(job)
    expect(await server.keys()).toEqual([])
  })
})

describe('a start is refused or fails, soon and with what to do', () => {
  test('where Redis evicts', async () => {
    const server = await redis({ 'maxmemory-policy': 'allkeys-lru' })
    const job = start(server)
    expect(await job.code(30_000)).toBe(1)
    expect(job.log).toMatch(/MILLRACE_REDIS_REFUSED/)
    expect(job.log).toMatch(/maxmemory-policy allkeys-lru, so it may evict state; set it to noeviction/)
  })

  test('where Redis hangs', async () => {
    const server = await redis()
    server.signal('SIGSTOP')
    const job = start(server, { MILLRACE_STATE_BACKEND_REDIS_TIMEOUT: '2s' })
    expect(await job.code(30_000)).toBe(1)
    server.signal('SIGCONT')
    expect(job.log).toMatch(/MILLRACE_REDIS_UNAVAILABLE/)
    expect(job.log).toContain(`127.0.0.1:${server.port}`)
  })

  test('where no server is named', async () => {
    const job = scene.start(JOB, { ...topics, MILLRACE_STATE_BACKEND: 'redis' })
    expect(await job.code(30_000)).toBe(1)
    expect(job.log).toMatch(/MILLRACE_INVALID_OPTION/)
    expect(job.log).toContain('state.backend.redis.url is not set, and neither is REDIS_URL')
  })

  test('where RocksDB has no folder for checkpoints', async () => {
    const job = scene.start(JOB, { ...topics, MILLRACE_STATE_BACKEND: 'rocksdb' })
    expect(await job.code(30_000)).toBe(1)
    expect(job.log).toContain('state.backend is rocksdb, but state.checkpoints.dir is not set')
  })

  test.each(['base', 'marker'])(
    'where state is gone: a %s that was deleted by hand FAILS the job and names the key group, and the start after that does so again',
    async (part) => {
      const server = await redis()
      await feed(40, 3)
      const job = start(server)
      await expectCounts(40, 3)
      await scene.until('a segment has become part of a base', 30_000, async () => {
        return (await server.keys('*:base')).length > 0
      })
      await suspend(job)
      // Of a key group that the checkpoint names.
      const key = ((await server.keys('*:base'))[0] as string).replace(/base$/, part)
      const keyGroup = /\/(\d+)\}/.exec(key)?.[1]
      await server.ask('DEL', key)
      for (let again = 0; again < 2; again++) {
        const broken = start(server)
        expect(await broken.code(40_000)).toBe(1)
        expect(broken.log).toMatch(/MILLRACE_STATE_LOST/)
        expect(broken.log).toContain(`Key group ${keyGroup} of operator 'count'`)
        expect(broken.log).toContain(key)
      }
      await expectCounts(40, 3)
    },
  )
})

describe('what a run left in Redis', () => {
  const USERS = 40

  test('goes when a new run begins without it', async () => {
    const server = await redis()
    await feed(USERS)
    const first = start(server)
    await expectCounts(USERS, 1)
    await suspend(first)
    const [old, ...others] = await runsIn(server)
    expect(others).toEqual([])
    const next = start(server, {}, ['--fresh'])
    // It reads everything again.
    await scene.readUntil(topics.COUNT_OUT, ({ length }) => length === 2 * USERS, 60_000)
    await scene.until('only the new run keeps something', 30_000, async () => {
      const runs = await runsIn(server)
      return runs.length === 1 && runs[0] !== old
    })
    await cancel(next)
    expect(await server.keys()).toEqual([])
  })

  test('is copied by a run that begins with its checkpoint, and goes when nothing names it any more', async () => {
    const server = await redis()
    await feed(USERS)
    const first = start(server)
    await expectCounts(USERS, 1)
    await suspend(first)
    const [old] = await runsIn(server)
    const next = start(server, {}, ['--from-checkpoint', 'latest'])
    await feed(USERS)
    await expectCounts(USERS, 2)
    await scene.until('only the new run keeps something', 30_000, async () => {
      const runs = await runsIn(server)
      return runs.length === 1 && runs[0] !== old
    })
    await suspend(next)
    const resumed = start(server)
    await feed(USERS)
    await expectCounts(USERS, 3)
    await cancel(resumed)
    expect(await server.keys()).toEqual([])
  })

  test('stays when its checkpoints are retained, also while a run lives that began with one of them', async () => {
    const server = await redis()
    const retain = {
      MILLRACE_EXECUTION_CHECKPOINTING_EXTERNALIZED_CHECKPOINT_RETENTION: 'RETAIN_ON_CANCELLATION',
    }
    await feed(USERS)
    const first = start(server, retain)
    await expectCounts(USERS, 1)
    await cancel(first)
    const [old] = await runsIn(server)
    expect(old).toBeDefined()
    const next = start(server, {}, ['--from-checkpoint', 'latest'])
    await feed(USERS)
    await expectCounts(USERS, 2)
    await cancel(next)
    expect(await runsIn(server)).toEqual([old])
    const again = start(server, {}, ['--fresh'])
    await scene.readUntil(topics.COUNT_OUT, ({ length }) => length === 4 * USERS, 60_000)
    await cancel(again)
    expect(await runsIn(server)).toEqual([old])
  })

  test('goes at the next start when Redis was away at the end of the run', async () => {
    const server = await redis()
    await feed(USERS)
    const first = start(server, { MILLRACE_STATE_BACKEND_REDIS_TIMEOUT: '1s' })
    await expectCounts(USERS, 1)
    server.signal('SIGSTOP')
    await cancel(first)
    expect(first.stderr).toContain('could not be removed')
    server.signal('SIGCONT')
    const [old] = await runsIn(server)
    const next = start(server, {}, ['--fresh'])
    await scene.readUntil(topics.COUNT_OUT, ({ length }) => length === 2 * USERS, 60_000)
    await scene.until('what the cancelled run left is gone', 30_000, async () => {
      return !(await runsIn(server)).includes(old as string)
    })
    await cancel(next)
    expect(await server.keys()).toEqual([])
  })
})
