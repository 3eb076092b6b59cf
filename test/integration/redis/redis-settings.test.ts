/** What each setting of state in Redis does to a running job, on real servers. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { JobClient } from 'millrace'
import { freePort } from '../../../scripts/lib/kafka-broker.ts'
import { FedSource } from '../../unit/settings/fed-source.ts'
import { type Counted, counting, LocalJobs, type Settings } from '../../unit/settings/local-jobs.ts'
import { RedisProcess, type RedisSettings, SAFE, until } from './redis-process.ts'

jest.setTimeout(60_000)
// It would beat what the jobs here say in code.
delete process.env['REDIS_URL']

let jobs: LocalJobs
let servers: RedisProcess[]
let source: FedSource<number>
let counted: Counted[]
beforeEach(async () => {
  jobs = await LocalJobs.open()
  servers = []
})
afterEach(async () => {
  await jobs.close()
  await Promise.all(servers.map((server) => server.stop()))
})

async function start(settings: RedisSettings = SAFE, mode: readonly string[] = []): Promise<RedisProcess> {
  const server = await RedisProcess.start(settings, mode)
  servers.push(server)
  return server
}

/** A job that has counted ten keys; rejects with why it could not start. */
async function running(url: string, settings: Settings = {}): Promise<JobClient> {
  source = new FedSource()
  counted = []
  source.feed(...Array.from({ length: 10 }, (_, i) => i))
  const client = await jobs.start(
    counting(source, (each) => counted.push(each)),
    {
      'state.backend': 'redis',
      'state.backend.redis.url': url,
      'execution.checkpointing.tolerable-failed-checkpoints': 9,
      ...settings,
    },
  )
  await jobs.until('all is counted', () => counted.length === 10)
  return client
}

describe('state.backend.redis.url', () => {
  test('names the server that has the state of the job', async () => {
    const server = await start()
    const client = await running(server.url)
    await client.triggerCheckpoint()
    const keys = await server.keys()
    expect(keys.length).toBeGreaterThan(0)
    expect(keys.every((key) => key.includes('job') && key.includes('count'))).toBe(true)
  })

  test('at which nothing listens is said before the job starts', async () => {
    const port = await freePort()
    await expect(
      running(`redis://127.0.0.1:${port}`, { 'state.backend.redis.timeout': '1 s' }),
    ).rejects.toMatchObject({
      code: 'MILLRACE_REDIS_UNAVAILABLE',
      message: expect.stringContaining(String(port)),
    })
  })
})

describe('state.backend.redis.persistence', () => {
  test('aof refuses a server that writes no file; any takes it', async () => {
    const server = await start({ appendonly: 'no' })
    await expect(running(server.url)).rejects.toMatchObject({ code: 'MILLRACE_REDIS_REFUSED' })
    const client = await running(server.url, { 'state.backend.redis.persistence': 'any' })
    expect(await client.triggerCheckpoint()).toBe(1)
  })
})

describe('state.backend.redis.replicas', () => {
  test('so many must have the state before a checkpoint completes', async () => {
    const server = await start()
    const replica = await start({ ...SAFE, replicaof: `127.0.0.1 ${server.port}` })
    await until('the replica is in step', async () =>
      /master_link_status:up/.test(String(await replica.ask('INFO', 'replication'))),
    )
    const settings = { 'state.backend.redis.persistence': 'replicas', 'state.backend.redis.timeout': '1 s' }
    const enough = await running(server.url, { ...settings, 'state.backend.redis.replicas': 1 })
    expect(await enough.triggerCheckpoint()).toBe(1)
    await enough.cancel()
    const tooFew = async (): Promise<number> =>
      (await running(server.url, { ...settings, 'state.backend.redis.replicas': 2 })).triggerCheckpoint()
    await expect(tooFew()).rejects.toMatchObject({ code: 'MILLRACE_CHECKPOINT_FAILED' })
  })
})

describe('state.backend.redis.timeout', () => {
  test.each([500, 2_000])(
    '%i ms: a server that hangs fails the checkpoint after it, and not the job',
    async (timeoutMs) => {
      const server = await start()
      const client = await running(server.url, { 'state.backend.redis.timeout': timeoutMs })
      await client.triggerCheckpoint()
      server.signal('SIGSTOP')
      source.feed(1)
      await jobs.until('a key has changed', () => counted.length === 11)
      const begun = performance.now()
      await expect(client.triggerCheckpoint()).rejects.toMatchObject({ code: 'MILLRACE_CHECKPOINT_FAILED' })
      expect(performance.now() - begun).toBeGreaterThan(timeoutMs * 0.9)
      expect(performance.now() - begun).toBeLessThan(timeoutMs + 5_000)
      server.signal('SIGCONT')
      expect(await client.getJobStatus()).toBe('RUNNING')
      expect(await client.triggerCheckpoint()).toBeGreaterThan(2)
    },
  )
})

describe('state.backend.redis.sentinel.password', () => {
  test('is what Sentinel asks for', async () => {
    const server = await start()
    const sentinel = await start(
      { 'sentinel monitor it': `127.0.0.1 ${server.port} 1`, requirepass: 'geheim' },
      ['--sentinel'],
    )
    const url = `redis+sentinel://127.0.0.1:${sentinel.port}/it`
    const timeout = { 'state.backend.redis.timeout': '2 s' }
    await expect(running(url, timeout)).rejects.toMatchObject({ code: 'MILLRACE_REDIS_UNAVAILABLE' })
    const client = await running(url, { ...timeout, 'state.backend.redis.sentinel.password': 'geheim' })
    expect(await client.triggerCheckpoint()).toBe(1)
    expect((await server.keys()).length).toBeGreaterThan(0)
  })
})

describe('state.backend.redis.ssl.ca', () => {
  test('names the authority to trust with rediss://', async () => {
    const [ca, key] = [join(jobs.folder, 'ca.pem'), join(jobs.folder, 'key.pem')]
    await promisify(execFile)('openssl', [
      ...[
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-days',
        '1',
      ],
      ...['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', ca],
    ])
    const port = await freePort()
    await start({
      ...SAFE,
      'tls-port': String(port),
      'tls-cert-file': ca,
      'tls-key-file': key,
      'tls-auth-clients': 'no',
    })
    const url = `rediss://127.0.0.1:${port}`
    const timeout = { 'state.backend.redis.timeout': '2 s' }
    await expect(running(url, timeout)).rejects.toMatchObject({ code: 'MILLRACE_REDIS_UNAVAILABLE' })
    const client = await running(url, { ...timeout, 'state.backend.redis.ssl.ca': ca })
    expect(await client.triggerCheckpoint()).toBe(1)
  })
})
