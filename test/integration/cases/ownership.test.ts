import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { JobScene } from '../job-scene.ts'
import { exactly, numbers, sorted } from '../numbers.ts'

jest.setTimeout(120_000)

const COPY = 'integration/jobs/copy.ts'

describe('a job and what else runs under its name', () => {
  let scene: JobScene
  let topics: { IN: string; OUT: string }

  beforeEach(async () => {
    scene = await JobScene.open()
    topics = { IN: await scene.topic('in', 5), OUT: await scene.topic('out', 3) }
    for (let partition = 0; partition < 5; partition++)
      await scene.produce(topics.IN, partition, numbers(partition * 100, partition * 100 + 100))
  })
  afterEach(() => scene.close())

  test('a start with fewer subtasks ends the open transactions of all subtasks that there were', async () => {
    // Killed when all five subtasks have output in a transaction that nobody will commit.
    const wide = scene.start(COPY, { ...topics, PARALLELISM: '5', INTERVAL: '60000' })
    await scene.until('all output is written and none is committed', 30_000, async () => {
      return (await scene.endOf(topics.OUT, 'read_uncommitted')) >= 500n
    })
    await wide.kill()
    expect(await scene.endOf(topics.OUT, 'read_committed')).toBe(0n)
    const narrow = scene.start(COPY, { ...topics, PARALLELISM: '3' })
    // Another parallelism is another graph, and the dead worker stays in the group for its session time-out.
    await narrow.said('FIRST', 30_000)
    await scene.readUntil(topics.OUT, (values) => values.length >= 500)
    await scene.settled([topics.OUT], 10_000)
    expect(sorted(await scene.read(topics.OUT))).toEqual(exactly(0, 500))
    const left = (await scene.cluster.listTransactions()).filter(
      ({ transactionalId, state }) =>
        // The running job's coordinator opens one for each checkpoint.
        transactionalId.startsWith(`millrace.${scene.job}.`) &&
        !transactionalId.endsWith('.coordinator') &&
        state === 'Ongoing',
    )
    expect(left).toEqual([])
  })

  test('another graph is refused with both fingerprints, and the running job goes on undisturbed', async () => {
    const running = scene.start(COPY, topics, ['--log-level', 'debug'])
    await scene.readUntil(topics.OUT, (values) => values.length === 500)
    const other = scene.start(COPY, { ...topics, EXTRA: 'yes' })
    expect(await other.code(40_000)).toBe(1)
    expect(other.stderr).toContain('MILLRACE_JOB_CONFLICT')
    const named = /fingerprint is (\S+), this one's is (\S+?)["\s\\]/.exec(other.stderr)
    expect(named?.[1]).toBeTruthy()
    expect(named?.[1]).not.toBe(named?.[2])
    await scene.produce(topics.IN, 0, numbers(500, 600))
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 600)
    expect(sorted(values)).toEqual(exactly(0, 600))
    expect(running.running).toBe(true)
    expect(running.stderr).not.toMatch(/"level":"(warn|error)"/)
  })

  test('a second start of the same graph stands by and takes over when the leader is killed', async () => {
    const leader = scene.start(COPY, topics)
    await scene.readUntil(topics.OUT, (values) => values.length === 500)
    const standby = scene.start(COPY, topics)
    await standby.said('standing by')
    await scene.produce(topics.IN, 0, numbers(500, 600))
    await leader.kill()
    await scene.produce(topics.IN, 1, numbers(600, 700))
    await standby.said('FIRST', 30_000)
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 700)
    await scene.settled([topics.OUT], 10_000)
    expect(sorted(values)).toEqual(exactly(0, 700))
  })

  test('another job with the same transactionalIdPrefix is refused, the holder is named and goes on undisturbed; later it is free', async () => {
    const PREFIX = `${scene.job}-team`
    const holder = scene.start(COPY, { ...topics, PREFIX }, ['--log-level', 'debug'])
    await scene.readUntil(topics.OUT, (values) => values.length === 500)
    const JOB_NAME = `${scene.job}-other`
    const other = { ...topics, OUT: await scene.topic('other', 1), PREFIX, JOB_NAME }
    const refused = scene.start(COPY, other, [])
    expect(await refused.code()).toBe(1)
    expect(refused.stderr.split('MILLRACE_TRANSACTIONAL_ID_HELD')).toHaveLength(2)
    expect(refused.stderr).toContain(`is held by job '${scene.job}'`)
    expect(refused.stdout).toBe('')
    await scene.produce(topics.IN, 0, numbers(500, 600))
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 600)
    expect(sorted(values)).toEqual(exactly(0, 600))
    expect(holder.stderr).not.toMatch(/"level":"(warn|error)"/)
    holder.signal('SIGTERM')
    expect(await holder.code()).toBe(0)
    scene.start(COPY, other)
    expect(sorted(await scene.readUntil(other.OUT, (all) => all.length >= 600))).toEqual(exactly(0, 600))
  })

  test('the number of its transactional ids does not grow with its checkpoints', async () => {
    const job = scene.start(COPY, { ...topics, PARALLELISM: '2', INTERVAL: '30' }, ['--log-level', 'debug'])
    for (let checkpoint = 20; checkpoint <= 100; checkpoint += 20) {
      await scene.produce(topics.IN, checkpoint % 5, [String(480 + checkpoint)])
      await job.said(`checkpoint ${checkpoint} is complete`)
    }
    const ids = (await scene.cluster.listTransactions()).filter(({ transactionalId }) =>
      transactionalId.startsWith(`millrace.${scene.job}.`),
    )
    // Two subtasks with max concurrent + 2 ids each, and the coordinator.
    expect(ids.length).toBeLessThanOrEqual(2 * 3 + 1)
  })
})

describe('a job with a name that no topic could have', () => {
  test('runs, recovers and keeps to itself', async () => {
    const scene = await JobScene.open()
    try {
      const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
      const JOB_NAME = `${'Bestellungen/Ünïcode 注文 '.repeat(12)}${scene.job}`.padEnd(300, '…')
      await scene.produce(topics.IN, 0, numbers(0, 100))
      const first = scene.start(COPY, { ...topics, JOB_NAME })
      await scene.readUntil(topics.OUT, (values) => values.length === 100)
      await first.kill()
      // Another one whose name begins alike must not be taken for it.
      const other = { IN: topics.IN, OUT: await scene.topic('other', 1), JOB_NAME: `${JOB_NAME}.b` }
      scene.start(COPY, other)
      scene.start(COPY, { ...topics, JOB_NAME })
      await scene.produce(topics.IN, 0, numbers(100, 200))
      for (const topic of [topics.OUT, other.OUT])
        expect(sorted(await scene.readUntil(topic, (values) => values.length >= 200))).toEqual(
          exactly(0, 200),
        )
    } finally {
      await scene.close()
    }
  })
})
