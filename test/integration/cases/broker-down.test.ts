import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { type RunningKafka, startKafka } from '../../../scripts/lib/kafka-broker.ts'
import { JobScene } from '../job-scene.ts'
import { exactly, numbers, sorted } from '../numbers.ts'

jest.setTimeout(400_000)

const COPY = 'integration/jobs/copy.ts'
const PARTITIONS = 6
/** What a person sees while a restored partition has no leader. */
const WAITING = /has not succeeded for .*; trying again|waiting for the partitions of source/

describe('a job that is restored while one of three brokers is down', () => {
  let kafka: RunningKafka
  let scene: JobScene

  beforeAll(async () => {
    kafka = await startKafka({ brokers: 3, heapMb: 320, quickStart: true })
    scene = await JobScene.open(kafka.bootstrap.split(','))
  })
  afterAll(async () => {
    await scene?.close()
    await kafka?.stop()
  })

  test('waits for it, can be stopped meanwhile, and keeps the positions of its partitions', async () => {
    // One replica: partitions of a broker that is down cannot be read by anybody.
    const topics = {
      IN: await scene.topic('in', PARTITIONS, { 'min.insync.replicas': '1' }, 1),
      OUT: await scene.topic('out', 3),
    }
    for (let partition = 0; partition < PARTITIONS; partition++)
      await scene.produce(topics.IN, partition, numbers(partition * 100, partition * 100 + 100))
    const first = scene.start(COPY, topics)
    await scene.readUntil(topics.OUT, (values) => values.length >= 600, 90_000)
    await first.kill()

    const [described] = await scene.cluster.describeTopics([topics.IN])
    const broker = kafka.brokers[2]
    const orphaned = described?.partitions.filter(({ leader }) => leader === broker?.nodeId) ?? []
    expect(orphaned.length).toBeGreaterThan(0)
    await broker?.kill('SIGKILL')
    const second = scene.start(COPY, topics)
    await second.said(WAITING, 45_000)
    const asked = Date.now()
    second.signal('SIGTERM')
    expect(await second.code(12_000)).toBe(0)
    expect(Date.now() - asked).toBeLessThan(10_000)

    const third = scene.start(COPY, topics)
    await third.said(WAITING, 45_000)
    await broker?.restart()
    await third.said('resumes from checkpoint', 45_000)
    for (let partition = 0; partition < PARTITIONS; partition++)
      await scene.produce(topics.IN, partition, numbers(600 + partition * 100, 700 + partition * 100))
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 1_200, 45_000)
    await scene.settled([topics.OUT], 10_000)
    expect(sorted(values)).toEqual(exactly(0, 1_200))
  })
})
