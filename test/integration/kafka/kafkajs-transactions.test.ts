import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { KafkaCode } from '../../../src/kafka/kafka-cluster.ts'
import type { KafkajsCluster } from '../../../src/kafka/kafkajs/kafkajs-cluster.ts'
import { batchOf, newCluster, newTopic, randomName, readCommitted } from './real-kafka.ts'

let cluster: KafkajsCluster

beforeAll(async () => {
  cluster = newCluster()
  await cluster.connect()
})
afterAll(() => cluster.close())

async function newProducer(timeoutMs = 60_000) {
  return cluster.initProducerId({ transactionalId: randomName('tx'), transactionTimeoutMs: timeoutMs })
}

/** Waits until a transaction has ended and its markers are written. */
async function untilEnded(transactionalId: string) {
  const deadline = Date.now() + 30_000
  for (;;) {
    const [described] = await cluster.describeTransactions([transactionalId])
    if (described?.state.startsWith('Complete')) return described
    if (Date.now() > deadline) throw new Error(`the transaction is still ${described?.state}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

test('a commit may be repeated; once somebody else holds the id it is refused', async () => {
  const topic = await newTopic(cluster, 1)
  const producer = await newProducer()
  await cluster.addPartitionsToTxn(producer, [{ topic, partition: 0 }])
  await cluster.endTxn(producer, 'commit')
  await cluster.endTxn(producer, 'commit')
  await expect(cluster.endTxn(producer, 'abort')).rejects.toMatchObject({
    code: 'MILLRACE_KAFKA_PROTOCOL',
    api: 'EndTxn',
    brokerCode: KafkaCode.INVALID_TXN_STATE,
  })
  await cluster.initProducerId({ transactionalId: producer.transactionalId, transactionTimeoutMs: 60_000 })
  await expect(cluster.endTxn(producer, 'commit')).rejects.toMatchObject({
    brokerCode: KafkaCode.INVALID_PRODUCER_EPOCH,
    brokerError: 'INVALID_PRODUCER_EPOCH',
  })
  await expect(
    cluster.endTxn({ ...producer, producerId: producer.producerId + 1_000_000n }, 'commit'),
  ).rejects.toMatchObject({ brokerCode: KafkaCode.INVALID_PRODUCER_ID_MAPPING })
})

test('a producer that was fenced from outside can neither add partitions, nor store records, nor come back', async () => {
  const topic = await newTopic(cluster, 1)
  const producer = await newProducer()
  await cluster.addPartitionsToTxn(producer, [{ topic, partition: 0 }])
  await cluster.produce({
    acks: -1,
    transactionalId: producer.transactionalId,
    partitions: [{ topic, partition: 0, batch: batchOf(['a'], producer) }],
  })
  const thief = newCluster()
  await thief.initProducerId({ transactionalId: producer.transactionalId, transactionTimeoutMs: 60_000 })
  await thief.close()
  await expect(cluster.addPartitionsToTxn(producer, [{ topic, partition: 0 }])).rejects.toMatchObject({
    brokerCode: KafkaCode.INVALID_PRODUCER_EPOCH,
    retriable: false,
  })
  const produced = await cluster.produce({
    acks: -1,
    transactionalId: producer.transactionalId,
    partitions: [{ topic, partition: 0, batch: batchOf(['b'], producer, 1) }],
  })
  expect(produced).toMatchObject([{ errorCode: KafkaCode.INVALID_PRODUCER_EPOCH }])
  await expect(
    cluster.initProducerId({
      transactionalId: producer.transactionalId,
      transactionTimeoutMs: 60_000,
      expected: producer,
    }),
  ).rejects.toMatchObject({
    brokerCode: KafkaCode.PRODUCER_FENCED,
  })
  expect(await readCommitted(cluster, topic, 0)).toEqual([])
})

test('a time-out above the limit of the broker is refused with its code', async () => {
  await expect(newProducer(2_000_000_000)).rejects.toMatchObject({
    code: 'MILLRACE_KAFKA_PROTOCOL',
    brokerCode: KafkaCode.INVALID_TRANSACTION_TIMEOUT,
  })
})

test('a transaction that times out is aborted, and its commit is refused', async () => {
  const topic = await newTopic(cluster, 1)
  const producer = await newProducer(1_000)
  await cluster.addPartitionsToTxn(producer, [{ topic, partition: 0 }])
  await cluster.produce({
    acks: -1,
    transactionalId: producer.transactionalId,
    partitions: [{ topic, partition: 0, batch: batchOf(['late'], producer) }],
  })
  await untilEnded(producer.transactionalId)
  await expect(cluster.endTxn(producer, 'commit')).rejects.toMatchObject({
    brokerCode: KafkaCode.INVALID_PRODUCER_EPOCH,
  })
})

test('transactions are listed and described with their partitions while they are open', async () => {
  const topic = await newTopic(cluster, 2)
  const producer = await newProducer(45_000)
  await cluster.addPartitionsToTxn(producer, [
    { topic, partition: 0 },
    { topic, partition: 1 },
  ])
  expect(await cluster.listTransactions()).toContainEqual({
    transactionalId: producer.transactionalId,
    producerId: producer.producerId,
    state: 'Ongoing',
  })
  const [described, absent] = await cluster.describeTransactions([
    producer.transactionalId,
    randomName('absent'),
  ])
  expect(described).toMatchObject({ ...producer, errorCode: 0, state: 'Ongoing', timeoutMs: 45_000 })
  expect(described?.startTimeMs).toBeGreaterThan(0n)
  expect(described?.partitions.map(({ partition }) => partition).sort()).toEqual([0, 1])
  expect(absent).toMatchObject({ errorCode: KafkaCode.TRANSACTIONAL_ID_NOT_FOUND, partitions: [] })
  await cluster.endTxn(producer, 'abort')
  const ended = await untilEnded(producer.transactionalId)
  expect(ended).toMatchObject({ state: 'CompleteAbort', startTimeMs: -1n, partitions: [] })
})

test('two thousand tiny transactions over twenty partitions, without a pause and with group offsets, meet no error', async () => {
  const topic = await newTopic(cluster, 20)
  const groupId = randomName('group')
  const producer = await newProducer()
  const partitions = Array.from({ length: 20 }, (_, partition) => ({ topic, partition }))
  const ends: number[] = []
  for (let i = 0; i < 2_000; i++) {
    await cluster.addPartitionsToTxn(producer, partitions)
    await cluster.addOffsetsToTxn(producer, groupId)
    await cluster.txnOffsetCommit(producer, groupId, [{ topic, partition: i % 20, offset: BigInt(i) }])
    const begun = performance.now()
    await cluster.endTxn(producer, 'commit')
    ends.push(performance.now() - begun)
  }
  const offsets = await cluster.fetchGroupOffsets(groupId, partitions)
  expect(offsets.map(({ offset }) => offset)).toEqual(
    partitions.map((_, partition) => BigInt(1_980 + partition)),
  )
  ends.sort((a, b) => a - b)
  process.stderr.write(`EndTxn: p50 ${ends[1_000]?.toFixed(1)} ms, p99 ${ends[1_980]?.toFixed(1)} ms\n`)
}, 120_000)

test('offsets committed in a transaction are waited for while it is open', async () => {
  const topic = await newTopic(cluster, 1)
  const groupId = randomName('group')
  const producer = await newProducer()
  await cluster.addOffsetsToTxn(producer, groupId)
  await cluster.txnOffsetCommit(producer, groupId, [{ topic, partition: 0, offset: 5n }])
  await expect(
    cluster.fetchGroupOffsets(groupId, [{ topic, partition: 0 }], { timeoutMs: 0 }),
  ).rejects.toMatchObject({ retriable: true })
  const waiting = cluster.fetchGroupOffsets(groupId, [{ topic, partition: 0 }])
  await cluster.endTxn(producer, 'commit')
  expect(await waiting).toEqual([{ topic, partition: 0, offset: 5n }])
})
