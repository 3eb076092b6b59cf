import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type RunningBroker, type RunningKafka, startKafka } from '../../../scripts/lib/kafka-broker.ts'
import type { KafkajsCluster } from '../../../src/kafka/kafkajs/kafkajs-cluster.ts'
import { batchOf, newCluster, newTopic, RecordingLogger, randomName, readCommitted } from './real-kafka.ts'

const START_MS = 180_000
const TEST_MS = 240_000
let kafka: RunningKafka
let cluster: KafkajsCluster
const logger = new RecordingLogger()

beforeAll(async () => {
  kafka = await startKafka({ brokers: 3, heapMb: 384 })
  cluster = newCluster(kafka.bootstrap.split(','), logger)
  await cluster.connect()
}, START_MS)
afterAll(async () => {
  await cluster?.close()
  await kafka?.stop()
}, TEST_MS)

function brokerOf(nodeId: number): RunningBroker {
  const broker = kafka.brokers.find((candidate) => candidate.nodeId === nodeId)
  if (broker === undefined) throw new Error(`there is no broker ${nodeId}`)
  return broker
}

/**
 * Reads until `count` values are there, asking again when a leader has moved, as a source does. A new leader shows acknowledged
 * records only when its followers have caught up.
 */
async function readThrough(topic: string, partition: number, count: number): Promise<string[]> {
  const deadline = Date.now() + 60_000
  let seen: unknown
  while (Date.now() < deadline) {
    try {
      const values = await readCommitted(cluster, topic, partition)
      if (values.length >= count) return values
      seen = values
    } catch (error) {
      seen = error
    }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`${topic}-${partition} did not show ${count} values within a minute`, { cause: seen })
}

test(
  'fifty batches that are under way while their leader crashes are stored once each and in order',
  async () => {
    const topic = await newTopic(cluster, 1)
    const leader = brokerOf(await cluster.leaderOf(topic, 0))
    const producer = await cluster.initProducerId({
      transactionalId: randomName('tx'),
      transactionTimeoutMs: 300_000,
    })
    await cluster.addPartitionsToTxn(producer, [{ topic, partition: 0 }])
    const texts = Array.from({ length: 50 }, (_, i) => String(i))
    const send = (text: string, i: number) =>
      cluster.produce({
        acks: -1,
        transactionalId: producer.transactionalId,
        partitions: [{ topic, partition: 0, batch: batchOf([text], producer, i) }],
      })
    const before = texts.slice(0, 5).map(send)
    await Promise.all(before)
    const during = texts.slice(5).map((text, i) => send(text, i + 5))
    await leader.kill('SIGKILL')
    try {
      const produced = (await Promise.all(during)).flat()
      expect(produced.map(({ errorCode }) => errorCode)).toEqual(produced.map(() => 0))
      await cluster.endTxn(producer, 'commit')
    } finally {
      await leader.restart()
    }
    expect(await readThrough(topic, 0, texts.length)).toEqual(texts)
  },
  TEST_MS,
)

test(
  'a commit whose coordinator crashes is repeated at the next one until it is done',
  async () => {
    const topic = await newTopic(cluster, 1)
    const transactionalIds = Array.from({ length: 8 }, () => randomName('tx'))
    const producers = await Promise.all(
      transactionalIds.map((transactionalId) =>
        cluster.initProducerId({ transactionalId, transactionTimeoutMs: 300_000 }),
      ),
    )
    for (const producer of producers) {
      await cluster.addPartitionsToTxn(producer, [{ topic, partition: 0 }])
      const [stored] = await cluster.produce({
        acks: -1,
        transactionalId: producer.transactionalId,
        partitions: [{ topic, partition: 0, batch: batchOf([producer.transactionalId], producer) }],
      })
      expect(stored?.errorCode).toBe(0)
    }
    // Eight ids are spread over the coordinators, so whichever broker ends coordinates some of them.
    const victim = kafka.brokers[0] as RunningBroker
    const commits = producers.map((producer) => cluster.endTxn(producer, 'commit'))
    await victim.kill('SIGKILL')
    try {
      await Promise.all(commits)
      await Promise.all(producers.map((producer) => cluster.endTxn(producer, 'commit')))
    } finally {
      await victim.restart()
    }
    expect((await readThrough(topic, 0, transactionalIds.length)).sort()).toEqual(
      [...transactionalIds].sort(),
    )
  },
  TEST_MS,
)

test(
  'batches for several leaders are stored once each while the brokers restart one after the other',
  async () => {
    const topic = await newTopic(cluster, 6)
    const producer = await cluster.initProducerId({
      transactionalId: randomName('tx'),
      transactionTimeoutMs: 300_000,
    })
    const partitions = [0, 1, 2, 3, 4, 5]
    await cluster.addPartitionsToTxn(
      producer,
      partitions.map((partition) => ({ topic, partition })),
    )
    const restarts = (async () => {
      for (const broker of kafka.brokers) await broker.restart()
    })()
    let restarting = true
    const ended = restarts.finally(() => {
      restarting = false
    })
    let sequence = 0
    while (restarting) {
      const number = sequence++
      const leaders = new Map<number, number[]>()
      for (const partition of partitions) {
        const leader = await cluster.leaderOf(topic, partition)
        leaders.set(leader, [...(leaders.get(leader) ?? []), partition])
      }
      const produced = await Promise.all(
        [...leaders.values()].map((led) =>
          cluster.produce({
            acks: -1,
            transactionalId: producer.transactionalId,
            partitions: led.map((partition) => ({
              topic,
              partition,
              batch: batchOf([String(number)], producer, number),
            })),
          }),
        ),
      )
      expect(produced.flat().map(({ errorCode }) => errorCode)).toEqual(partitions.map(() => 0))
    }
    await ended
    await cluster.endTxn(producer, 'commit')
    const expected = Array.from({ length: sequence }, (_, i) => String(i))
    for (const partition of partitions)
      expect(await readThrough(topic, partition, sequence)).toEqual(expected)
  },
  TEST_MS,
)

test(
  'a fetch from a leader that is gone says that trying again helps, and does when the new leader is there',
  async () => {
    const topic = await newTopic(cluster, 1)
    await cluster.produce({
      acks: -1,
      transactionalId: null,
      partitions: [{ topic, partition: 0, batch: batchOf(['a']) }],
    })
    const leader = brokerOf(await cluster.leaderOf(topic, 0))
    const polling = cluster.fetch({
      isolation: 'read_committed',
      partitions: [{ topic, partition: 0, offset: 1n, maxBytes: 1024 }],
      maxWaitMs: 20_000,
      minBytes: 1,
      maxBytes: 1024,
    })
    const outcome = polling.then(
      () => undefined,
      (error: unknown) => error,
    )
    await new Promise((resolve) => setTimeout(resolve, 300))
    await leader.kill('SIGKILL')
    try {
      expect(await outcome).toMatchObject({
        code: 'MILLRACE_KAFKA_UNREACHABLE',
        retriable: true,
        api: 'Fetch',
      })
      expect(await readThrough(topic, 0, 1)).toEqual(['a'])
      expect(await cluster.leaderOf(topic, 0)).not.toBe(leader.nodeId)
    } finally {
      await leader.restart()
    }
  },
  TEST_MS,
)

test('none of this is reported to the user as an error', () => {
  expect(logger.lines.filter((line) => line.startsWith('error'))).toEqual([])
})
