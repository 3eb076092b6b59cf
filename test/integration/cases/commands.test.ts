import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { JobCommand } from '../../../src/core/job-control.ts'
import { sendCommand } from '../../../src/kafka/control-client.ts'
import { jobTopic } from '../../../src/kafka/transactional-id.ts'
import { MetricRegistry } from '../../../src/metrics/metrics.ts'
import { realWorld } from '../../../src/runtime/real-world.ts'
import type { JobProcess } from '../job-process.ts'
import { JobScene } from '../job-scene.ts'
import { RecordingLogger } from '../kafka/real-kafka.ts'
import { type CommandEnd, MillraceCommand, millrace } from '../millrace-command.ts'
import { exactly, numbers, sorted } from '../numbers.ts'

jest.setTimeout(240_000)

const COPY = 'integration/jobs/copy.ts'
const VERBS = ['cancel', 'stop', 'savepoint', 'checkpoint', 'info'] as const
/** A name with everything that Kafka allows in no topic. */
const ODD_NAME = 'totals of ä/b: "all" 🚀'

let scene: JobScene
let folder: string
let topics: { IN: string; OUT: string }

beforeEach(async () => {
  scene = await JobScene.open()
  folder = await mkdtemp(join(tmpdir(), 'millrace-commands-'))
  topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
  await scene.produce(topics.IN, 0, numbers(0, 100))
})
afterEach(async () => {
  await scene.close()
  await rm(folder, { recursive: true, force: true })
})

const type = (...args: readonly string[]): Promise<CommandEnd> => millrace(scene.brokers, ...args)

/** The copying job, once its first output is there. */
async function running(environment: Record<string, string> = {}): Promise<JobProcess> {
  const job = scene.start(COPY, { ...topics, ...environment })
  await scene.readUntil(topics.OUT, (values) => values.length >= 100, 60_000)
  return job
}

const lines = (text: string): any[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))

/** Finished savepoints in the folder. */
async function savepoints(): Promise<string[]> {
  const found: string[] = []
  for (const name of await readdir(folder))
    if ((await readdir(join(folder, name))).includes('_metadata')) found.push(join(folder, name))
  return found
}

describe('a running job', () => {
  test('does what is typed, says what came of it, and keeps its output exact', async () => {
    const job = await running()
    const { job: name } = scene

    const shown = await type('info', name)
    expect(shown).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(new RegExp(`^${name}: RUNNING, up `)),
    })
    expect(shown.stdout).not.toContain('event time')
    const [info] = lines((await type('info', name, '--json')).stdout)
    expect(info).toMatchObject({
      job: name,
      status: 'RUNNING',
      attempt: 1,
      workers: 1,
      restarts: 0,
      findings: [],
    })
    expect(info.tasks[0].load).toEqual({
      busy: expect.any(Number),
      idle: expect.any(Number),
      backpressured: expect.any(Number),
    })

    const checkpoint = await type('checkpoint', name, '--json')
    expect(checkpoint).toMatchObject({ code: 0, stderr: expect.stringContaining("has heard 'checkpoint'") })
    expect(lines(checkpoint.stdout)).toEqual([{ checkpoint: expect.any(Number) }])

    const savepoint = await type('savepoint', name, '--savepoint-path', folder)
    expect(savepoint.code).toBe(0)
    expect([savepoint.stdout]).toEqual((await savepoints()).map((path) => `savepoint ${path}\n`))

    await scene.produce(topics.IN, 0, numbers(100, 200))
    await scene.readUntil(topics.OUT, (values) => values.length >= 200)

    const listed = lines((await type('list', '--running', '--json')).stdout)
    expect(listed.find((row) => row.job === name)).toMatchObject({ state: 'RUNNING', workers: 1 })

    const stopped = await type('stop', name, '--savepoint-path', folder)
    expect(stopped).toMatchObject({ code: 0, stdout: expect.stringContaining('has stopped; savepoint ') })
    expect(await job.code()).toBe(0)
    expect(await savepoints()).toHaveLength(2)

    const told = lines((await type('events', name, '--json')).stdout)
    expect(told.filter(({ type }) => type === 'command').map(({ message }) => message)).toEqual(
      ['checkpoint', 'savepoint', 'stop'].map((verb) =>
        expect.stringMatching(new RegExp(`^command '${verb}' from \\S+@\\S+: done$`)),
      ),
    )
    expect(told.map(({ type }) => type)).toEqual(
      expect.arrayContaining(['status', 'attempt-started', 'checkpoint-completed']),
    )
    expect(told.at(-1)).toMatchObject({ type: 'command' })
    const after = lines((await type('list', '--json')).stdout).find((row) => row.job === name)
    expect(after).toMatchObject({ state: 'FINISHED', workers: 0 })
    expect(sorted(await scene.read(topics.OUT))).toEqual(exactly(0, 200))
  })

  test('is cancelled, whatever its name is; another one goes on', async () => {
    const other = await running()
    const odd = { IN: topics.IN, OUT: await scene.topic('odd', 1), JOB_NAME: ODD_NAME }
    const job = scene.start(COPY, odd)
    await scene.readUntil(odd.OUT, (values) => values.length >= 100, 60_000)
    expect(lines((await type('info', ODD_NAME, '--json')).stdout)).toMatchObject([
      { job: ODD_NAME, status: 'RUNNING' },
    ])
    expect(await type('cancel', ODD_NAME)).toMatchObject({
      code: 0,
      stdout: `job '${ODD_NAME}' is CANCELED\n`,
    })
    expect(await job.code()).toBe(0)
    expect(await type('info', ODD_NAME)).toMatchObject({ code: 3 })
    expect(other.running).toBe(true)
    await scene.cluster.deleteTopics([jobTopic(ODD_NAME, 'control'), jobTopic(ODD_NAME, 'checkpoints')])
  })

  test('refuses with its reason what it cannot do, and runs on', async () => {
    const job = await running()
    expect(await type('savepoint', scene.job)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('[MILLRACE_SAVEPOINT_DIRECTORY]'),
    })
    expect(await type('stop', scene.job, '--savepoint-path', '/dev/null/nowhere')).toMatchObject({
      code: 1,
      stdout: '',
    })
    expect(job.running).toBe(true)
    expect(await type('checkpoint', scene.job)).toMatchObject({ code: 0 })
  })

  test('answers within two seconds', async () => {
    await running()
    const world = realWorld(new RecordingLogger(), new MetricRegistry())
    for (const command of [{ type: 'info' }, { type: 'checkpoint' }] satisfies JobCommand[]) {
      const took: number[] = []
      for (let i = 0; i < 3; i++) {
        const before = Date.now()
        const outcome = await sendCommand(scene.cluster, scene.job, command, world, {
          by: 'a test',
          acceptWithinMs: 10_000,
        })
        expect(outcome.type).toBe('done')
        took.push(Date.now() - before)
      }
      // The machine may be busy with something else for a while.
      expect(Math.min(...took)).toBeLessThan(2_000)
    }
  })

  test('is left sound by a command that is killed in the middle of a savepoint', async () => {
    // A vector of records takes seconds, and the barrier waits behind it.
    const job = scene.start(COPY, { ...topics, SLOW: '60', INTERVAL: '1000' })
    await scene.until('the first record is read', 60_000, () => job.log.includes('FIRST'))
    const command = new MillraceCommand(scene.brokers, ['savepoint', scene.job, '--savepoint-path', folder])
    await scene.until('the job has heard it', 60_000, () => command.said.includes("has heard 'savepoint'"))
    expect(await savepoints()).toEqual([])
    command.signal('SIGKILL')
    expect((await command.ended).code).toBeUndefined()
    await scene.until(
      'the savepoint is complete all the same',
      60_000,
      async () => (await savepoints()).length === 1,
    )
    // The answer follows the files, and its event is written with others, a moment later.
    let told: ReturnType<typeof lines> = []
    await scene.until('the answer is among the events', 60_000, async () => {
      const events = lines((await type('events', scene.job, '--json')).stdout)
      told = events.filter((event) => event.type === 'command')
      return told.length > 0
    })
    expect(told).toMatchObject([
      {
        message: expect.stringContaining('done'),
        details: { result: { path: expect.stringContaining(folder) } },
      },
    ])
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 100, 60_000)
    expect(sorted(values)).toEqual(exactly(0, 100))
    expect(job.running).toBe(true)
    expect(await type('checkpoint', scene.job)).toMatchObject({ code: 0 })
  })
})

describe('a job that does not run', () => {
  test('every verb says so and exits with 3; nothing acts later', async () => {
    const ends = await Promise.all(VERBS.map((verb) => type(verb, scene.job)))
    for (const end of ends)
      expect(end).toMatchObject({
        code: 3,
        stdout: '',
        stderr: expect.stringContaining('[MILLRACE_NO_SUCH_JOB]'),
      })
    expect(await type('events', scene.job)).toMatchObject({ code: 3 })
    const job = await running()
    expect(job.running).toBe(true)
    await job.kill()
    await scene.until('Kafka has noticed', 30_000, async () => {
      return (await type('checkpoint', scene.job)).code === 3
    })
  })
})
