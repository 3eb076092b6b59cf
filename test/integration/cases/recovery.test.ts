import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { JobScene } from '../job-scene.ts'
import { exactly, numbers, sorted } from '../numbers.ts'

jest.setTimeout(120_000)

const COPY = 'integration/jobs/copy.ts'

describe('a job that is started again after kill -9', () => {
  let scene: JobScene
  let topics: { IN: string; OUT: string }

  beforeEach(async () => {
    scene = await JobScene.open()
    topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
  })
  afterEach(() => scene.close())

  test('repeats the commit of a checkpoint without committing what the next transaction had written', async () => {
    const first = scene.start(COPY, { ...topics, INTERVAL: '5000' })
    await scene.produce(topics.IN, 0, ['42'])
    await scene.readUntil(topics.OUT, (values) => values.length === 1)
    const committed = await scene.endOf(topics.OUT, 'read_uncommitted')
    await scene.produce(topics.IN, 0, ['43'])
    await scene.until('43 is flushed', 10_000, async () => {
      return (await scene.endOf(topics.OUT, 'read_uncommitted')) > committed
    })
    await first.kill()
    expect(await scene.read(topics.OUT)).toEqual(['42'])
    scene.start(COPY, topics)
    await scene.readUntil(topics.OUT, (values) => values.length >= 2)
    await scene.settled([topics.OUT], 10_000)
    expect(await scene.read(topics.OUT)).toEqual(['42', '43'])
  })

  test('finishes the commits of a completed checkpoint, however often the start that does so is killed', async () => {
    await scene.produce(topics.IN, 0, numbers(0, 100))
    const died = scene.start(COPY, { ...topics, MILLRACE_FAULT_POINT: 'after-commit-point' })
    await died.exited
    expect(await scene.read(topics.OUT)).toEqual([])
    for (const place of ['before-end-txn', 'after-end-txn', 'before-confirm']) {
      const recovering = scene.start(COPY, { ...topics, MILLRACE_FAULT_POINT: place })
      expect(await recovering.exited).toEqual({ code: null, signal: 'SIGKILL' })
    }
    await scene.settled([topics.OUT], 1_000)
    expect(sorted(await scene.read(topics.OUT))).toEqual(exactly(0, 100))
    await scene.produce(topics.IN, 0, numbers(100, 200))
    scene.start(COPY, topics)
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 200)
    expect(sorted(values)).toEqual(exactly(0, 200))
  })

  test('resumes from the same checkpoint again and again: its commits are known to be done, whatever its ids did since', async () => {
    const first = scene.start(COPY, topics, ['--log-level', 'debug'])
    await scene.produce(topics.IN, 0, numbers(0, 100))
    await scene.readUntil(topics.OUT, (values) => values.length === 100)
    const completed = Number(/checkpoint (\d+) is complete/.exec(first.stderr)?.[1])
    await first.said(`checkpoint ${completed + 2} is complete`)
    await first.kill()
    await scene.produce(topics.IN, 0, numbers(100, 200))
    const resumed: unknown[] = []
    // No checkpoint comes to pass in these starts, and each writes with ids that the checkpoint's output was committed with.
    for (let start = 0; start < 3; start++) {
      const written = await scene.endOf(topics.OUT, 'read_uncommitted')
      const again = scene.start(COPY, { ...topics, INTERVAL: '60000' }, ['--log-level', 'debug'])
      await again.said('FIRST')
      await scene.until('it has written', 10_000, async () => {
        return (await scene.endOf(topics.OUT, 'read_uncommitted')) >= written + 100n
      })
      resumed.push(/resumes from checkpoint (\d+)/.exec(again.stderr)?.[1])
      expect(again.stderr).not.toMatch(/healed|MILLRACE_TRANSACTION/)
      await again.kill()
    }
    expect(new Set(resumed).size).toBe(1)
    scene.start(COPY, topics)
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 200)
    await scene.settled([topics.OUT], 10_000)
    expect(sorted(values)).toEqual(exactly(0, 200))
  })

  test('runs at once when all its checkpoints were of an idle topic', async () => {
    const first = scene.start(COPY, topics, ['--log-level', 'debug'])
    await first.said('checkpoint 5 is complete')
    await first.kill()
    const second = scene.start(COPY, topics, ['--log-level', 'debug'])
    await second.said(/checkpoint (?:[6-9]|\d{2,}) is complete/)
    expect(second.stderr).not.toMatch(/"level":"(warn|error)"/)
    await scene.produce(topics.IN, 0, ['1'])
    expect(await scene.readUntil(topics.OUT, (values) => values.length >= 1)).toEqual(['1'])
  })

  test('whose live transactional id was taken by another producer recovers in one restart, exactly', async () => {
    const job = scene.start(COPY, { ...topics, INTERVAL: '3000' })
    await scene.produce(topics.IN, 0, numbers(0, 100))
    await scene.readUntil(topics.OUT, (values) => values.length === 100)
    await scene.produce(topics.IN, 0, numbers(100, 200))
    let taken: string | undefined
    await scene.until('the sink has a transaction open', 10_000, async () => {
      const open = (await scene.cluster.listTransactions()).find(
        ({ transactionalId, state }) =>
          state === 'Ongoing' &&
          transactionalId.startsWith(`millrace.${scene.job}.`) &&
          !transactionalId.endsWith('.coordinator'),
      )
      taken = open?.transactionalId
      return taken !== undefined
    })
    await scene.cluster.initProducerId({ transactionalId: taken as string, transactionTimeoutMs: 60_000 })
    await scene.produce(topics.IN, 0, numbers(200, 300))
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 300)
    await scene.settled([topics.OUT], 10_000)
    expect(sorted(values)).toEqual(exactly(0, 300))
    expect(job.running).toBe(true)
    expect(job.stderr.match(/starts again in/g)).toHaveLength(1)
  })
})
