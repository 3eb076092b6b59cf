import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { JobScene } from '../job-scene.ts'
import { exactly, numbers, sorted } from '../numbers.ts'

jest.setTimeout(120_000)

const COPY = 'integration/jobs/copy.ts'
const COMMAND = join(import.meta.dirname, '..', '..', '..', 'src', 'cli', 'main.ts')

interface Answer {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** A line of `list --json`. */
interface Listed {
  readonly transactionalId: string
  readonly job: string
  readonly producerId: string
  readonly producerEpoch: number
  readonly state: string
  readonly ageMs?: number
  readonly partitions: readonly { readonly topic: string; readonly partition: number }[]
  readonly promisedBy?: number
}

describe('millrace transactions', () => {
  let scene: JobScene
  let topics: { IN: string; OUT: string; PARALLELISM: string }
  let prefix: string

  beforeEach(async () => {
    scene = await JobScene.open()
    topics = { IN: await scene.topic('in', 2), OUT: await scene.topic('out', 1), PARALLELISM: '2' }
    prefix = `millrace.${scene.job}`
    for (let partition = 0; partition < 2; partition++)
      await scene.produce(topics.IN, partition, numbers(partition * 100, partition * 100 + 100))
  })
  afterEach(() => scene.close())

  const transactions = (...args: string[]): Promise<Answer> =>
    new Promise((resolve) => {
      execFile(
        process.execPath,
        ['--conditions=millrace-source', COMMAND, 'transactions', ...args],
        { env: { ...process.env, NODE_OPTIONS: '', KAFKA_BROKERS: scene.brokers } },
        (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
      )
    })
  const listed = async (...args: string[]): Promise<Listed[]> => {
    const { stdout } = await transactions('list', '--json', ...args)
    return stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Listed)
  }

  test('shows output that a checkpoint promised, and commits it instead of the job; the job then goes on exactly', async () => {
    const died = scene.start(COPY, {
      ...topics,
      INTERVAL: '2000',
      MILLRACE_FAULT_POINT: 'after-commit-point',
    })
    await died.exited
    const promised = (await listed(prefix)).filter(({ promisedBy }) => promisedBy !== undefined)
    const ids = [0, 1].map((subtask) => expect.stringMatching(`^${prefix}\\.out\\.${subtask}\\.\\d$`))
    expect(promised).toEqual(
      ids.map((transactionalId) => ({
        transactionalId,
        job: scene.job,
        producerId: expect.stringMatching(/^\d+$/),
        producerEpoch: expect.any(Number),
        state: 'Ongoing',
        ageMs: expect.any(Number),
        partitions: [{ topic: topics.OUT, partition: 0 }],
        promisedBy: 1,
      })),
    )
    const [first, second] = promised as [Listed, Listed]
    const shown = await transactions('list', first.transactionalId)
    expect(shown.stdout.split('\n')[0]).toMatch(/^ID +STATE +AGE +PRODUCER\/EPOCH +CHECKPOINT +PARTITIONS$/)
    expect(shown.stdout.split('\n')[1]).toMatch(
      new RegExp(`^${first.transactionalId} +Ongoing +.*s +\\d+/\\d+ +1 +${topics.OUT}-0$`),
    )

    // The worker that died is a member of its group until its session is over.
    const running = await transactions('abort', first.transactionalId)
    expect(running).toMatchObject({ code: 2, stderr: expect.stringContaining('which has 1 worker') })
    await scene.until('the dead worker has left the group', 30_000, async () => {
      return (await scene.cluster.describeGroup(prefix)).members.length === 0
    })
    const refused = await transactions('abort', first.transactionalId)
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('completed checkpoint 1') })
    expect(await transactions('abort', prefix)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('2 of 2 transactions were refused'),
    })
    expect(await transactions('commit', first.transactionalId)).toMatchObject({
      code: 0,
      stdout: `committed ${first.transactionalId}\n`,
    })
    expect((await listed(prefix)).map(({ transactionalId }) => transactionalId)).not.toContain(
      first.transactionalId,
    )
    // Against what the checkpoint says: the job heals it.
    expect((await transactions('abort', '--force', second.transactionalId)).code).toBe(0)

    const job = scene.start(COPY, topics)
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 200)
    await job.said('healed: the broker had given up')
    await scene.settled([topics.OUT], 10_000)
    expect(sorted(values)).toEqual(exactly(0, 200))
  })

  test('ends what no checkpoint promised, so that readers go on before the job is back', async () => {
    const died = scene.start(COPY, { ...topics, INTERVAL: '60000' })
    await scene.until('output lies in open transactions', 30_000, async () => {
      return (await scene.endOf(topics.OUT, 'read_uncommitted')) >= 200n
    })
    await died.kill()
    await scene.until('the dead worker has left the group', 30_000, async () => {
      return (await scene.cluster.describeGroup(prefix)).members.length === 0
    })
    const open = await listed(prefix)
    expect(open).toHaveLength(2)
    expect(open.map(({ promisedBy }) => promisedBy)).toEqual([undefined, undefined])
    expect((await listed('--all', prefix)).length).toBeGreaterThan(open.length)

    const [first] = open as [Listed]
    const refused = await transactions('commit', first.transactionalId)
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('no completed checkpoint') })
    const aborted = await transactions('abort', `${prefix}.out`)
    expect(aborted).toMatchObject({
      code: 0,
      stdout: open.map(({ transactionalId }) => `aborted ${transactionalId}\n`).join(''),
    })
    await scene.settled([topics.OUT], 1_000)
    expect(await transactions('list', prefix)).toMatchObject({
      code: 0,
      stdout: 'no open transactions of Millrace jobs\n',
    })
    expect((await transactions('abort', prefix)).code).toBe(3)
    scene.start(COPY, topics)
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 200)
    expect(sorted(values)).toEqual(exactly(0, 200))
  })
})
