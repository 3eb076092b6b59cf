import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { KafkaCode } from '../../../src/kafka/kafka-cluster.ts'
import type { KafkajsCluster } from '../../../src/kafka/kafkajs/kafkajs-cluster.ts'
import { newCluster, randomName } from './real-kafka.ts'

let cluster: KafkajsCluster

beforeAll(async () => {
  cluster = newCluster()
  await cluster.connect()
})
afterAll(() => cluster.close())

// Slow: 32,767 round trips, half a minute.
test('when the epochs of a producer id are used up the broker gives another id, and the old one is refused', async () => {
  const first = await cluster.initProducerId({
    transactionalId: randomName('tx'),
    transactionTimeoutMs: 60_000,
  })
  let last = first
  let producer = first
  // 32,766 is the last epoch that a producer can have.
  for (let i = 0; i < 40_000 && producer.producerId === first.producerId; i++) {
    last = producer
    producer = await cluster.initProducerId({
      transactionalId: first.transactionalId,
      transactionTimeoutMs: 60_000,
      expected: last,
    })
  }
  expect(last.producerEpoch).toBe(32_766)
  expect(producer).toMatchObject({ transactionalId: first.transactionalId, producerEpoch: 0 })
  await expect(cluster.endTxn(last, 'commit')).rejects.toMatchObject({
    brokerCode: KafkaCode.INVALID_PRODUCER_ID_MAPPING,
  })
}, 180_000)
