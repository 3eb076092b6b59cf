import { beforeEach, expect, test } from '@jest/globals'
import type { ProducerIdentity } from '../../../src/kafka/kafka-cluster.ts'
import { ContractScene, codeOf } from '../../../src/testing/kafka-contract-scene.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import { SimulatedKafka } from '../../../src/testing/simulated-cluster.ts'
import { VirtualTime } from '../../../src/testing/virtual-time.ts'

let time: VirtualTime
let kafka: SimulatedKafka
let scene: ContractScene

beforeEach(() => {
  time = new VirtualTime()
  kafka = new SimulatedKafka({
    clock: time,
    timers: time,
    random: new SeededRandom(11),
    markerDelay: { minMs: 50, maxMs: 500 },
  })
  const another = async () => kafka.client('other')
  scene = new ContractScene({
    cluster: kafka.client('main'),
    another,
    close: async () => {},
    waitMs: (ms) => time.sleep(ms),
  })
})

/** Runs a test's body on virtual time. */
const run = (body: () => Promise<void>) => () => time.settle(body(), { maxMs: 1_000_000_000 })

const init = (transactionalId: string, expected?: ProducerIdentity) =>
  scene.cluster.initProducerId({
    transactionalId,
    transactionTimeoutMs: 60_000,
    ...(expected && { expected }),
  })

test(
  'while markers are on their way, a repeated EndTxn and the next transaction are held off with 51',
  run(async () => {
    const topic = await scene.topic(3)
    const producer = await scene.producer()
    for (const partition of [0, 1, 2]) await producer.write(topic, ['a'], partition)
    await producer.commit()
    const once = { timeoutMs: 0 }
    const at = [{ topic, partition: 0 }]
    expect(await codeOf(scene.cluster.endTxn(producer.identity, 'commit', once))).toBe(51)
    expect(await codeOf(scene.cluster.addPartitionsToTxn(producer.identity, at, once))).toBe(51)
    expect(await codeOf(init(producer.identity.transactionalId))).toBe(0)
    expect(await codeOf(scene.cluster.endTxn(producer.identity, 'abort', once))).toBe(47)
  }),
)

test(
  'markers reach partitions one by one: half of a commit can be seen',
  run(async () => {
    const topic = await scene.topic(8)
    const producer = await scene.producer()
    for (let partition = 0; partition < 8; partition++) await producer.write(topic, ['a'], partition)
    await producer.commit()
    const visible = () =>
      kafka.inside.topics
        .get(topic)!
        .partitions.filter(({ log }) => log.lastStableOffset === log.highWatermark).length
    const counts = new Set<number>()
    for (let ms = 0; ms < 600; ms += 5) {
      counts.add(visible())
      await time.sleep(5)
    }
    expect(counts.size).toBeGreaterThan(3)
    expect(visible()).toBe(8)
  }),
)

test(
  'after the last epoch InitProducerId gives a new producer id; the old one is unknown',
  run(async () => {
    const topic = await scene.topic()
    const { identity } = await scene.producer()
    kafka.inside.transactions.setEpoch(identity.transactionalId, 32_765)
    const last = await init(identity.transactionalId)
    expect([last.producerId, last.producerEpoch]).toEqual([identity.producerId, 32_766])
    await scene.cluster.addPartitionsToTxn(last, [{ topic, partition: 0 }])
    await scene.cluster.endTxn(last, 'commit')
    const next = await init(identity.transactionalId, last)
    expect(next.producerId).not.toBe(last.producerId)
    expect(next.producerEpoch).toBe(0)
    expect(await codeOf(scene.cluster.endTxn(last, 'commit'))).toBe(49)
    expect(await init(identity.transactionalId, last)).toEqual(next)
    await init(identity.transactionalId)
    expect(await codeOf(init(identity.transactionalId, last))).toBe(90)
  }),
)

test(
  'a fence of an open transaction in the last epoch writes its marker in epoch 32767 and then gives a new producer id',
  run(async () => {
    const topic = await scene.topic()
    const { identity } = await scene.producer()
    kafka.inside.transactions.setEpoch(identity.transactionalId, 32_765)
    const producer = await scene.producer({ id: identity.transactionalId })
    await producer.write(topic, ['lost'])
    const next = await init(identity.transactionalId)
    expect([next.producerId === identity.producerId, next.producerEpoch]).toEqual([false, 0])
    await scene.settled(topic)
    expect(
      (await scene.read(topic, 'read_committed')).markers.map(({ producerEpoch }) => producerEpoch),
    ).toEqual([32_767])
  }),
)

test(
  'an id that was unused for transactional.id.expiration.ms is forgotten: 49',
  run(async () => {
    const topic = await scene.topic()
    const producer = await scene.producer()
    await producer.write(topic, ['a'])
    await producer.commit()
    await scene.settled(topic)
    await time.sleep(604_800_000)
    kafka.expireTransactionalIds()
    expect(await codeOf(scene.cluster.endTxn(producer.identity, 'commit'))).toBe(49)
    expect((await init(producer.identity.transactionalId)).producerId).not.toBe(producer.identity.producerId)
  }),
)

test(
  'time-outs are found at the scan after them, not before',
  run(async () => {
    const topic = await scene.topic()
    const producer = await scene.producer({ timeoutMs: 12_000 })
    const started = time.now()
    await producer.write(topic, ['a'])
    await scene.settled(topic)
    expect(time.now() - started).toBeGreaterThan(12_000)
    expect(time.now() - started).toBeLessThan(23_000)
  }),
)

test(
  'a marker waits for a partition without leader',
  run(async () => {
    const topic = await scene.topic()
    const producer = await scene.producer()
    await producer.write(topic, ['a'])
    await producer.commit()
    kafka.stopBroker(1)
    await time.sleep(10_000)
    kafka.startBroker(1)
    await scene.settled(topic)
    expect((await scene.read(topic, 'read_committed')).values).toEqual(['a'])
  }),
)
