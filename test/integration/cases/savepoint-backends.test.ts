/** One job whose state moves from backend to backend by savepoints, on real brokers and a real Redis. */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { JobScene } from '../job-scene.ts'
import { numbers } from '../numbers.ts'
import { RedisProcess } from '../redis/redis-process.ts'

jest.setTimeout(240_000)

const COUNT = 'integration/jobs/count.ts'
const KEYS = 10
/** Records that each stage adds. */
const RECORDS = 400

let scene: JobScene
let server: RedisProcess
let folder: string
beforeEach(async () => {
  scene = await JobScene.open()
  server = await RedisProcess.start()
  folder = await mkdtemp(join(tmpdir(), 'millrace-moves-'))
})
afterEach(async () => {
  await scene.close()
  await server.stop()
  await rm(folder, { recursive: true, force: true })
})

test('a savepoint taken on Redis restores on RocksDB and on the heap, and back, with every count exact', async () => {
  const topics = { IN: await scene.topic('in', 2), OUT: await scene.topic('out', 2) }
  const environment = {
    ...topics,
    ON_SIGNAL: 'stop',
    REDIS_URL: server.url,
    SAVEPOINTS: join(folder, 'savepoints'),
    CHECKPOINTS: join(folder, 'checkpoints'),
    MILLRACE_TASKMANAGER_STATE_LOCAL_ROOT_DIRS: join(folder, 'local'),
  }
  const stages = ['redis', 'rocksdb', 'redis', 'jobmanager', 'rocksdb', 'jobmanager', 'redis']
  let from: string[] = []
  for (const [stage, backend] of stages.entries()) {
    for (let partition = 0; partition < 2; partition++) {
      const first = stage * RECORDS + (partition * RECORDS) / 2
      await scene.produce(topics.IN, partition, numbers(first, first + RECORDS / 2))
    }
    const parallelism = String(1 + (stage % 3))
    const job = scene.start(COUNT, { ...environment, STATE: backend, PARALLELISM: parallelism }, from)
    const wanted = (stage + 1) * RECORDS
    await scene.readUntil(topics.OUT, ({ length }) => length >= wanted, 60_000)
    job.signal('SIGUSR2')
    await job.said(/SAVEPOINT \//, 60_000)
    expect(await job.code(30_000)).toBe(0)
    from = ['--from-savepoint', (/^SAVEPOINT (.*)$/m.exec(job.stdout) as RegExpExecArray)[1] as string]
    // Stopped with a savepoint is FINISHED: the store has nothing left, the savepoint has it all.
    expect({ stage, keys: await server.keys() }).toEqual({ stage, keys: [] })
    expect({ stage, local: await readdir(join(folder, 'local')).catch(() => []) }).toEqual({
      stage,
      local: [],
    })
  }
  const counts = (await scene.read(topics.OUT)).map((text) => {
    const { key, count } = JSON.parse(String(text)) as { key: number; count: number }
    return `${key}:${count}`
  })
  const total = stages.length * RECORDS
  const expected = Array.from({ length: total }, (_, i) => `${i % KEYS}:${Math.floor(i / KEYS) + 1}`)
  expect(counts.toSorted()).toEqual(expected.toSorted())
})
