import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { encodePlainBatch } from '../../../src/testing/plain-batch.ts'
import { CommittedLog } from '../committed-log.ts'
import { JobScene } from '../job-scene.ts'
import { exactly, numbers, sorted } from '../numbers.ts'

jest.setTimeout(120_000)

const COPY = 'integration/jobs/copy.ts'

describe('what a job reads', () => {
  let scene: JobScene

  beforeEach(async () => {
    scene = await JobScene.open()
  })
  afterEach(() => scene.close())

  /** Offsets that the job has committed to the group of its source. */
  const positions = async (topic: string, partitions: readonly number[]): Promise<bigint[]> => {
    const found = await scene.cluster.fetchGroupOffsets(
      `${scene.job}-readers`,
      partitions.map((partition) => ({ topic, partition })),
    )
    return found.map(({ offset }) => offset)
  }

  test('ends behind commit markers and aborted records, and its position is stored behind them', async () => {
    const topics = { IN: await scene.topic('in', 4), OUT: await scene.topic('out', 1) }
    await scene.transaction(topics.IN, 0, numbers(0, 10), 'commit')
    await scene.transaction(topics.IN, 1, numbers(10, 20), 'commit')
    await scene.transaction(topics.IN, 1, numbers(100, 110), 'abort')
    await scene.transaction(topics.IN, 2, numbers(200, 210), 'abort')
    const job = scene.start(COPY, { ...topics, BOUNDED: 'yes' })
    expect(await job.code()).toBe(0)
    expect(sorted(await scene.read(topics.OUT))).toEqual(exactly(0, 20))
    expect(await positions(topics.IN, [0, 1, 2, 3])).toEqual([11n, 22n, 11n, 0n])
  })

  describe('and cannot decode', () => {
    const poison = ['1', '{"a":', Buffer.from([0]), Buffer.alloc(0), Buffer.from([0, 0, 0, 0, 99]), '6']

    test('fails the job once, naming the record, by default', async () => {
      const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
      await scene.produce(topics.IN, 0, poison)
      const job = scene.start(COPY, topics)
      expect(await job.code()).toBe(1)
      expect(job.stderr).toContain(`${topics.IN}-0 offset 1`)
      expect(job.stderr).toContain('MILLRACE_DESERIALIZATION')
      expect(job.stderr).not.toContain('starts again')
      await scene.settled([topics.OUT], 5_000)
    })

    test('is skipped when the job says so', async () => {
      const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
      await scene.produce(topics.IN, 0, poison)
      const job = scene.start(COPY, { ...topics, POLICY: 'skip' })
      expect(await scene.readUntil(topics.OUT, (values) => values.length >= 2)).toEqual(['1', '6'])
      expect(job.running).toBe(true)
    })

    test('goes to the dead-letter topic as it was, with headers that say where it came from, exactly once over a crash', async () => {
      const letters = await scene.topic('dead', 1)
      const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1), POLICY: letters }
      await scene.produce(topics.IN, 0, poison)
      await scene.start(COPY, { ...topics, MILLRACE_FAULT_POINT: 'after-prepare:2' }).exited
      const job = scene.start(COPY, topics)
      expect(await scene.readUntil(topics.OUT, (values) => values.length >= 2)).toEqual(['1', '6'])
      await scene.readUntil(letters, (values) => values.length >= 4)
      const log = new CommittedLog(scene.cluster, letters)
      await log.poll()
      expect(log.records.map(({ value }) => value)).toEqual(
        poison.slice(1, 5).map((value) => Buffer.from(value)),
      )
      const offsets = log.records.map(({ headers }) =>
        String(headers.find(([name]) => name === 'millrace.dead-letter.offset')?.[1]),
      )
      expect(offsets).toEqual(['1', '2', '3', '4'])
      expect(job.running).toBe(true)
    })
  })

  test('may have gaps that compaction left, at the end of segments too', async () => {
    const IN = await scene.topic('in', 1, {
      'cleanup.policy': 'compact',
      'segment.ms': '50',
      'min.cleanable.dirty.ratio': '0.001',
      'min.compaction.lag.ms': '0',
      'max.compaction.lag.ms': '100',
      'delete.retention.ms': '0',
    })
    const OUT = await scene.topic('out', 1)
    const update = async (from: number, to: number): Promise<void> => {
      const records = numbers(from, to).map((value) => ({
        key: `k${Number(value) % 10}`,
        value,
        timestamp: Date.now(),
      }))
      const [answer] = await scene.cluster.produce({
        acks: -1,
        transactionalId: null,
        partitions: [{ topic: IN, partition: 0, batch: encodePlainBatch({ records }) }],
      })
      expect(answer?.errorCode).toBe(0)
    }
    for (let from = 0; from < 20_000; from += 1_000) await update(from, from + 1_000)
    let next = 20_000
    let left = new CommittedLog(scene.cluster, IN)
    await scene.until('the log was compacted', 60_000, async () => {
      // Only closed segments are compacted, and an append closes one that is old enough.
      await update(next, next + 10)
      next += 10
      left = new CommittedLog(scene.cluster, IN)
      await left.poll()
      return left.records.length < 1_000
    })
    const end = left.values.map(Number).at(-1) as number
    expect(await scene.start(COPY, { IN, OUT, BOUNDED: 'yes' }).code()).toBe(0)
    const copied = sorted(await scene.read(OUT))
    expect(copied.filter((n) => n > end - 10 && n <= end)).toEqual(exactly(end - 9, end + 1))
    expect(await positions(IN, [0])).toEqual([await scene.endOf(IN, 'read_uncommitted')])
  })

  test('is gone behind the checkpoint: the job is FAILED, naming the lost range', async () => {
    const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
    await scene.produce(topics.IN, 0, numbers(0, 100))
    const first = scene.start(COPY, topics)
    await scene.readUntil(topics.OUT, (values) => values.length === 100)
    first.signal('SIGTERM')
    expect(await first.code()).toBe(0)
    await scene.produce(topics.IN, 0, numbers(100, 200))
    await scene.cluster.deleteRecords([{ topic: topics.IN, partition: 0, beforeOffset: 150n }])
    const second = scene.start(COPY, topics)
    expect(await second.code()).toBe(1)
    expect(second.stderr).toContain('MILLRACE_DATA_LOSS')
    expect(second.stderr).toContain('100..149')
    expect(await scene.read(topics.OUT)).toHaveLength(100)
  })

  test('is another topic of the same name: the job is FAILED, naming the topic id', async () => {
    const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
    await scene.produce(topics.IN, 0, numbers(0, 100))
    const first = scene.start(COPY, topics)
    await scene.readUntil(topics.OUT, (values) => values.length === 100)
    await first.kill()
    await scene.cluster.deleteTopics([topics.IN])
    await scene.until(
      'the topic is gone',
      10_000,
      async () => (await scene.cluster.describeTopics([topics.IN])).length === 0,
    )
    await scene.topic('in', 1)
    await scene.produce(topics.IN, 0, numbers(1_000, 1_200))
    const second = scene.start(COPY, topics)
    expect(await second.code()).toBe(1)
    expect(second.stderr).toContain('MILLRACE_DATA_LOSS')
    expect(second.stderr).toMatch(/topic id of .* changed/)
    await scene.settled([topics.OUT], 10_000)
    expect(await scene.read(topics.OUT)).toHaveLength(100)
  })

  test('on a partition that was added while it runs is read from its beginning', async () => {
    const topics = { IN: await scene.topic('in', 2), OUT: await scene.topic('out', 1), DISCOVERY: '1500' }
    await scene.produce(topics.IN, 0, numbers(0, 100))
    scene.start(COPY, topics)
    await scene.readUntil(topics.OUT, (values) => values.length === 100)
    await scene.cluster.createPartitions(topics.IN, 4)
    await scene.produce(topics.IN, 3, numbers(100, 200))
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 200)
    expect(sorted(values)).toEqual(exactly(0, 200))
  })
})
