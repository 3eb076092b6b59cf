/** Savepoints on real brokers: stop and go on at another parallelism, restore twice, drain, die in the middle of a stop, clean up beside a running job. */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { FAULT_POINT_VARIABLE } from '../../../src/runtime/fault-points.ts'
import type { JobProcess } from '../job-process.ts'
import { JobScene } from '../job-scene.ts'
import { numbers } from '../numbers.ts'

jest.setTimeout(120_000)

const COUNT = 'integration/jobs/count.ts'
const COMMAND = join(import.meta.dirname, '..', '..', '..', 'src', 'cli', 'main.ts')
const KEYS = 10
const RECORDS = 2_000

let scene: JobScene
let folder: string
let topics: { IN: string; OUT: string }
let settings: Record<string, string>

beforeEach(async () => {
  scene = await JobScene.open()
  folder = await mkdtemp(join(tmpdir(), 'millrace-savepoints-'))
  topics = { IN: await scene.topic('in', 4), OUT: await scene.topic('out', 2) }
  settings = { ...topics, SAVEPOINTS: join(folder, 'savepoints'), CHECKPOINTS: join(folder, 'checkpoints') }
  for (let partition = 0; partition < 4; partition++)
    await scene.produce(
      topics.IN,
      partition,
      numbers((partition * RECORDS) / 4, ((partition + 1) * RECORDS) / 4),
    )
})
afterEach(async () => {
  await scene.close()
  await rm(folder, { recursive: true })
})

/** Every count of every key, each once, in order: `key:count`. */
function allCounts(): string[] {
  return Array.from({ length: RECORDS }, (_, i) => `${i % KEYS}:${Math.floor(i / KEYS) + 1}`).sort()
}

function counts(values: readonly (string | null)[]): string[] {
  return values
    .map((value) => {
      const { key, count } = JSON.parse(value as string) as { key: number; count: number }
      return `${key}:${count}`
    })
    .sort()
}

/** Runs until some output is there, then sends the signal; resolves with the savepoint. */
async function savepointOf(job: JobProcess): Promise<string> {
  await scene.readUntil(topics.OUT, (values) => values.length > RECORDS / 20, 60_000)
  job.signal('SIGUSR2')
  await job.said(/SAVEPOINT /, 60_000)
  return (/^SAVEPOINT (.*)$/m.exec(job.stdout) as RegExpExecArray)[1] as string
}

/** Runs on until the last count of every key was written so many times, and stops as by SIGTERM; resolves with the process. */
async function runOn(
  args: readonly string[],
  environment: Record<string, string>,
  times = 1,
): Promise<JobProcess> {
  const job = scene.start(COUNT, environment, args)
  await job.said(/attempt \d/, 60_000)
  const isLast = (count: string): boolean => count.endsWith(`:${RECORDS / KEYS}`)
  await scene.readUntil(topics.OUT, (values) => counts(values).filter(isLast).length >= times * KEYS, 60_000)
  job.signal('SIGTERM')
  expect(await job.code()).toBe(0)
  return job
}

const slow = (onSignal: string): Record<string, string> => ({ ...settings, SLOW: '1', ON_SIGNAL: onSignal })

const millrace = (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
  new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--conditions=millrace-source', COMMAND, ...args],
      { env: { ...process.env, NODE_OPTIONS: '', KAFKA_BROKERS: scene.brokers } },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    )
  })

describe('a job that is stopped with a savepoint', () => {
  test('is not run again by itself, and goes on from it at another parallelism without a record lost or repeated', async () => {
    const job = scene.start(COUNT, { ...slow('stop'), SLOW: '4', PARALLELISM: '2' }, [])
    const path = await savepointOf(job)
    expect(await job.code()).toBe(0)
    const before = await scene.read(topics.OUT)
    expect(before.length).toBeLessThan(RECORDS)
    const plain = scene.start(COUNT, settings, [])
    expect(await plain.code()).toBe(0)
    expect(plain.log).toContain(`go on with --from-savepoint ${path}`)
    const next = { ...settings, PARALLELISM: '3', STATE: 'filesystem' }
    await runOn(['--from-savepoint', path], next)
    expect(counts(await scene.read(topics.OUT))).toEqual(allCounts())
    await scene.settled([topics.OUT], 5_000)
  })

  test('that dies between its commit point and its commits is finished by the next start, not run again', async () => {
    const first = { ...slow('stop'), INTERVAL: '200000', [FAULT_POINT_VARIABLE]: 'before-end-txn' }
    const job = scene.start(COUNT, first, [])
    await scene.until('the job has read some records', 30_000, async () => {
      return (await scene.endOf(topics.OUT, 'read_uncommitted')) > 100n
    })
    job.signal('SIGUSR2')
    await job.exited
    expect(await scene.read(topics.OUT)).toEqual([])
    const again = scene.start(COUNT, settings, [])
    expect(await again.code()).toBe(0)
    expect(again.log).toContain('it is finished now')
    expect((await scene.read(topics.OUT)).length).toBeGreaterThan(0)
    const [name] = await readdir(settings['SAVEPOINTS'] as string)
    const path = join(settings['SAVEPOINTS'] as string, name as string)
    await runOn(['--from-savepoint', path], settings)
    expect(counts(await scene.read(topics.OUT))).toEqual(allCounts())
  })

  test('from the command line, and drained, has fired its windows', async () => {
    const windows = await scene.topic('windows', 1)
    const job = scene.start(COUNT, { ...slow('none'), WINDOWS: windows }, [])
    await scene.readUntil(topics.OUT, (values) => values.length > RECORDS / 20, 60_000)
    const stopped = await millrace('stop', scene.job, '--drain', '--json')
    expect(JSON.parse(stopped.stdout).path).toContain(settings['SAVEPOINTS'])
    expect(await job.code()).toBe(0)
    const read = (await scene.read(topics.OUT)).length
    const sums = (await scene.read(windows)).map(Number)
    expect(sums.length).toBe(1)
    expect(read).toBeGreaterThan(0)
    await scene.settled([windows, topics.OUT], 5_000)
  })
})

/** How many records the state of a savepoint has counted. */
async function countedAt(path: string): Promise<number> {
  const { stdout } = await millrace('state', 'read', path, '--operator', 'count', '--json')
  return stdout
    .trim()
    .split('\n')
    .reduce((sum, line) => sum + (JSON.parse(line) as { value: number }).value, 0)
}

describe('a savepoint', () => {
  test('is restored twice, after the job went on and was killed: nothing is missing, what repeats is what followed it (case 19)', async () => {
    const job = scene.start(COUNT, { ...slow('savepoint'), SLOW: '3' }, [])
    const path = await savepointOf(job)
    const atSavepoint = await countedAt(path)
    await scene.readUntil(topics.OUT, (values) => values.length > atSavepoint + 200)
    await job.kill()
    for (let i = 1; i <= 2; i++) {
      const restored = await runOn(['--from-savepoint', path], settings, i)
      expect(restored.log).toContain('may be written again')
      const all = counts(await scene.read(topics.OUT))
      expect([...new Set(all)].sort()).toEqual(allCounts())
      // What was written before the savepoint is not written again, what followed it is, once a restore.
      const times = new Map<string, number>()
      for (const each of all) times.set(each, (times.get(each) ?? 0) + 1)
      expect([...times.values()].filter((n) => n === 1).length).toBeGreaterThan(0)
      expect(Math.max(...times.values())).toBe(i + 1)
    }
    await scene.settled([topics.OUT], 5_000)
  })
})

test('the command line shows checkpoints and removes only what a crash left, beside a running job', async () => {
  // All state in files, or what the crash leaves might be none.
  const files: Record<string, string> = {
    ...settings,
    STATE: 'filesystem',
    MILLRACE_STATE_BACKEND_FS_MEMORY_THRESHOLD: '0',
  }
  // Dies when its snapshot is stored and nothing names it yet.
  const dying = scene.start(COUNT, { ...files, SLOW: '1', [FAULT_POINT_VARIABLE]: 'before-ack:3' }, [])
  await dying.exited
  const job = scene.start(COUNT, { ...files, SLOW: '1' }, [])
  // What the latest attempt wrote is never an orphan: the dead one must not be the latest any more.
  await job.said('attempt 2 resumes', 60_000)
  await scene.readUntil(topics.OUT, (values) => values.length > RECORDS / 5)
  const listed = await millrace('checkpoints', 'list', scene.job, '--json')
  const [first] = listed.stdout.split('\n').map((line) => (line === '' ? undefined : JSON.parse(line)))
  expect(first).toMatchObject({ kind: 'checkpoint', attempt: expect.any(Number) })
  const shown = await millrace('checkpoints', 'show', scene.job)
  expect(shown.stdout).toMatch(/\(uid in, parallelism 1 of 128\)\n {2}subtask 0 {2}position/)
  const gc = async (...options: string[]): Promise<string[]> => {
    const args = ['gc', scene.job, '--dir', files['CHECKPOINTS'] as string, '--older-than', '0 ms', '--json']
    const { stdout } = await millrace('checkpoints', ...args, ...options)
    const names = stdout
      .split('\n')
      .flatMap((line) => (line === '' ? [] : (JSON.parse(line) as { name: string }).name))
    // The running job forgets checkpoints all the time; metadata may lie there for a moment without its record.
    return names.filter((name) => !name.endsWith('_metadata'))
  }
  const orphans = await gc('--dry-run')
  expect(orphans.length).toBeGreaterThan(0)
  expect(orphans.filter((name) => !/-1(\.1\.tmp)?$/.test(name))).toEqual([])
  expect(await gc()).toEqual(orphans)
  expect(await gc()).toEqual([])
  expect((await millrace('checkpoints', 'list', 'no-such-job')).code).not.toBe(0)
  await job.kill()
  await runOn([], files)
  expect(counts(await scene.read(topics.OUT))).toEqual(allCounts())
})
