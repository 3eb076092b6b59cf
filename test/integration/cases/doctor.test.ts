import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Diagnosis } from '../../../src/core/diagnosis.ts'
import { JobScene } from '../job-scene.ts'
import { millrace } from '../millrace-command.ts'
import { numbers } from '../numbers.ts'
import { RedisProcess, type RedisSettings, SAFE } from '../redis/redis-process.ts'

jest.setTimeout(180_000)

const COPY = join(import.meta.dirname, '..', 'jobs', 'copy.ts')

let scene: JobScene
/** What the job module reads; the command runs it in a process of its own. */
let before: Record<string, string | undefined>

beforeEach(async () => {
  scene = await JobScene.open()
  before = { ...process.env }
  Object.assign(process.env, { JOB_NAME: scene.job, IN: `${scene.job}.in`, OUT: `${scene.job}.out` })
})
afterEach(async () => {
  process.env = before as NodeJS.ProcessEnv
  await scene.close()
})

/** Runs the checks; what was found by what was looked at. */
async function doctor(
  ...args: readonly string[]
): Promise<{ code: number | undefined; found: Map<string, Diagnosis> }> {
  const { code, stdout, stderr } = await millrace(scene.brokers, 'doctor', '--json', ...args, COPY)
  const lines = stdout.split('\n').filter((line) => line.startsWith('{'))
  if (lines.length === 0) throw new Error(`nothing was found:\n${stderr}`)
  const found = lines.map((line) => JSON.parse(line) as Diagnosis)
  return { code, found: new Map(found.map((each) => [each.check, each])) }
}

const wrong = (found: Map<string, Diagnosis>): string[] =>
  [...found.values()].filter(({ status }) => status === 'fix').map(({ check }) => check)

describe('millrace doctor', () => {
  test('names what a job lacks, and finds nothing once it is there; nothing is started or made', async () => {
    const lacking = await doctor('-D', 'state.checkpoints.dir=/dev/null/x', '-D', 'state.backend=filesystem')
    expect(lacking.code).toBe(1)
    expect(wrong(lacking.found)).toEqual([
      `topic ${scene.job}.in`,
      `topic ${scene.job}.out`,
      'state.checkpoints.dir',
    ])
    await scene.topic('in', 2)
    await scene.topic('out', 1)
    const shown = await millrace(scene.brokers, 'doctor', COPY)
    expect(shown).toMatchObject({ code: 0, stderr: '' })
    expect(shown.stdout).toMatch(new RegExp(`^Job '${scene.job}'\nOK {4}Node\\.js +\\d`))
    expect(shown.stdout).toMatch(/OK {4}topic \S+\.in +2 partitions, 1 replica; source 'numbers' reads it\n/)
    expect(shown.stdout.trimEnd().split('\n').at(-1)).toBe('nothing to fix')
    const made = (await scene.cluster.describeTopics()).map(({ topic }) => topic)
    expect(made.filter((topic) => topic.startsWith('millrace.') && topic.includes(scene.job))).toEqual([])
    const ids = (await scene.cluster.listTransactions()).map(({ transactionalId }) => transactionalId)
    expect(ids.filter((id) => id.includes(scene.job))).toEqual([])
  })

  test('does not disturb the job that runs under the same name', async () => {
    const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
    await scene.produce(topics.IN, 0, numbers(0, 10))
    const job = scene.start('integration/jobs/copy.ts', topics)
    await scene.readUntil(topics.OUT, (values) => values.length >= 10, 60_000)
    const { code, found } = await doctor()
    expect({ code, wrong: wrong(found) }).toEqual({ code: 0, wrong: [] })
    expect(found.get('worker group')?.message).toContain('one more would stand by')
    expect(found.get(`topic millrace.${scene.job}.checkpoints`)).toMatchObject({ status: 'ok' })
    await scene.produce(topics.IN, 0, numbers(10, 20))
    await scene.readUntil(topics.OUT, (values) => values.length >= 20)
    expect(job.running).toBe(true)
    expect(job.log).not.toContain('starts again')

    process.env['EXTRA'] = 'yes'
    expect(wrong((await doctor()).found)).toEqual(['worker group'])
  })

  test('says what is wrong with the options, with brokers that do not answer, and with a transaction limit', async () => {
    await scene.topic('in', 1)
    await scene.topic('out', 1)
    process.env['CHECKPOINT_TIMEOUT'] = '900000'
    expect(wrong((await doctor()).found)).toEqual(["sink 'kafka sink'"])
    expect(wrong((await doctor('-D', 'state.backend=filesystem')).found)).toEqual(['configuration'])
    const { code, found } = await doctor('-D', 'kafka.brokers=127.0.0.1:1', '-D', 'kafka.request-timeout=2s')
    expect(code).toBe(1)
    expect(found.get('brokers')).toMatchObject({
      status: 'fix',
      message: expect.stringContaining('127.0.0.1:1'),
      remedy: expect.stringContaining('kafka.brokers'),
    })
  })
})

describe('the schema registry', () => {
  let server: Server
  afterEach(() => new Promise((resolve) => server.close(resolve)))

  /** A registry whose clock is `offMs` away. */
  function registry(offMs: number, status = 200): Promise<string> {
    server = createServer((_request, response) => {
      response.writeHead(status, { date: new Date(Date.now() + offMs).toUTCString() })
      response.end('["AVRO"]')
    })
    return new Promise((resolve) => {
      server.listen(0, '127.0.0.1', () =>
        resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
      )
    })
  }

  test.each([
    ['a clock that agrees', 0, 200, []],
    ['a clock that is a minute ahead', 60_000, 200, ['clocks']],
    ['a registry that refuses us', 0, 401, ['schema registry']],
  ])('%s', async (_, offMs, status, fixes) => {
    await scene.topic('in', 1)
    await scene.topic('out', 1)
    const { found } = await doctor('-D', `schema.registry.url=${await registry(offMs, status)}`)
    expect(wrong(found)).toEqual(fixes)
  })
})

describe('Redis', () => {
  let server: RedisProcess | undefined
  afterEach(async () => {
    await server?.stop()
    server = undefined
  })

  test.each<[string, RedisSettings, string | undefined]>([
    ['one that keeps what is written', SAFE, undefined],
    [
      'one that may evict state',
      { ...SAFE, 'maxmemory-policy': 'allkeys-lru' },
      'maxmemory-policy allkeys-lru',
    ],
    ['one that keeps nothing', { appendonly: 'no' }, 'keeps no append-only file'],
  ])('%s', async (_, settings, message) => {
    await scene.topic('in', 1)
    await scene.topic('out', 1)
    server = await RedisProcess.start(settings)
    const { found } = await doctor('-D', 'state.backend=redis', '-D', `state.backend.redis.url=${server.url}`)
    expect(found.get('Redis')).toMatchObject(
      message === undefined ? { status: 'ok' } : { status: 'fix', message: expect.stringContaining(message) },
    )
    const clocks = [...found.values()].filter(({ check }) => check.startsWith('clock of Redis '))
    expect(clocks.map(({ status }) => status)).toEqual(message === undefined ? ['ok'] : [])
  })
})
