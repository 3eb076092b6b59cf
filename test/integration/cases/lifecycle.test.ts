import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { JobScene } from '../job-scene.ts'
import { exactly, numbers, sorted } from '../numbers.ts'

jest.setTimeout(120_000)

const COPY = 'integration/jobs/copy.ts'

describe('a bounded job on real Kafka', () => {
  let scene: JobScene
  let topics: { IN: string; OUT: string; BOUNDED: string }

  beforeEach(async () => {
    scene = await JobScene.open()
    topics = { IN: await scene.topic('in', 2), OUT: await scene.topic('out', 2), BOUNDED: 'yes' }
    await scene.produce(topics.IN, 0, numbers(0, 500))
    await scene.produce(topics.IN, 1, numbers(500, 1_000))
  })
  afterEach(() => scene.close())

  test('finishes by itself with exit code 0 and its whole output committed', async () => {
    const job = scene.start(COPY, topics, ['--log-level', 'info'])
    expect(await job.code()).toBe(0)
    expect(job.stderr).toContain('FINISHED')
    expect(sorted(await scene.read(topics.OUT))).toEqual(exactly(0, 1_000))
  })

  test('started again after it finished exits 0 at once, says so, and writes nothing', async () => {
    expect(await scene.start(COPY, topics).code()).toBe(0)
    const written = await scene.endOf(topics.OUT, 'read_uncommitted')
    await scene.produce(topics.IN, 0, ['1000'])
    const again = scene.start(COPY, topics)
    expect(await again.code()).toBe(0)
    expect(again.stderr).toContain('FINISHED; nothing to do')
    expect(await scene.endOf(topics.OUT, 'read_uncommitted')).toBe(written)
  })

  test('with --fresh runs again from its configured start', async () => {
    expect(await scene.start(COPY, topics).code()).toBe(0)
    const again = scene.start(COPY, topics, ['--fresh'])
    expect(await again.code()).toBe(0)
    const both = exactly(0, 1_000).flatMap((n) => [n, n])
    expect(sorted(await scene.read(topics.OUT))).toEqual(both)
  })

  test('without checkpointing shows its output at its end, in one piece', async () => {
    expect(await scene.start(COPY, { ...topics, INTERVAL: '0' }).code()).toBe(0)
    expect(sorted(await scene.read(topics.OUT))).toEqual(exactly(0, 1_000))
  })
})

describe('the ends of a running job', () => {
  let scene: JobScene
  let topics: { IN: string; OUT: string }

  beforeEach(async () => {
    scene = await JobScene.open()
    topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
    await scene.produce(topics.IN, 0, numbers(0, 100))
  })
  afterEach(() => scene.close())

  test('SIGTERM ends it with code 0 within 10 s and the next start goes on exactly behind it', async () => {
    const first = scene.start(COPY, topics)
    await scene.readUntil(topics.OUT, (values) => values.length === 100)
    await scene.produce(topics.IN, 0, numbers(100, 200))
    const asked = Date.now()
    first.signal('SIGTERM')
    expect(await first.code(10_000)).toBe(0)
    expect(Date.now() - asked).toBeLessThan(10_000)
    expect(first.stderr).toContain('SUSPENDED')
    expect(await scene.settled([topics.OUT], 1_000)).toBeLessThan(1_000)
    await scene.produce(topics.IN, 0, numbers(200, 300))
    scene.start(COPY, topics)
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 300)
    expect(sorted(values)).toEqual(exactly(0, 300))
  })

  test('SIGTERM ends it within 10 s though a checkpoint hangs, and nothing is lost', async () => {
    const first = scene.start(COPY, { ...topics, HANG: '150' })
    await scene.readUntil(topics.OUT, (values) => values.length === 100)
    await scene.produce(topics.IN, 0, numbers(100, 200))
    await first.said('HANGING')
    const asked = Date.now()
    first.signal('SIGTERM')
    expect(await first.code(12_000)).toBe(0)
    expect(Date.now() - asked).toBeLessThan(10_000)
    scene.start(COPY, { ...topics, HANG: '-1' })
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 200)
    expect(sorted(values)).toEqual(exactly(0, 200))
  })

  test('a second SIGTERM ends it at once with code 130', async () => {
    const first = scene.start(COPY, { ...topics, HANG: '50' })
    await first.said('HANGING')
    first.signal('SIGTERM')
    await first.said('a second signal ends the process at once')
    const asked = Date.now()
    first.signal('SIGTERM')
    expect(await first.code(5_000)).toBe(130)
    expect(Date.now() - asked).toBeLessThan(2_000)
  })

  test('cancel without a restart frees readers of its output within 1 s', async () => {
    const job = scene.start(COPY, { ...topics, INTERVAL: '60000', PARALLELISM: '1' })
    await scene.until('output lies in an open transaction', 30_000, async () => {
      return (await scene.endOf(topics.OUT, 'read_uncommitted')) > 0n
    })
    expect(await scene.endOf(topics.OUT, 'read_committed')).toBe(0n)
    job.signal('SIGUSR2')
    expect(await job.code(10_000)).toBe(0)
    expect(job.stderr).toContain('CANCELED')
    await scene.settled([topics.OUT], 1_000)
    expect(await scene.read(topics.OUT)).toEqual([])
  })
})
