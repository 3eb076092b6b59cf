import { describe, expect, test } from '@jest/globals'
import type { ProducerIdentity } from '../../../src/kafka/kafka-cluster.ts'
import type { KafkaCommittable, WrittenRange } from '../../../src/kafka/kafka-committable.ts'
import { type TransactionFate, transactionFate } from '../../../src/kafka/transaction-fate.ts'
import { SimulatedScene } from './simulated-scene.ts'

const ID = 'job.0.0'

async function sceneOf(markerDelayMs = 5): Promise<SimulatedScene> {
  const scene = new SimulatedScene({ markerDelay: { minMs: markerDelayMs, maxMs: markerDelayMs } })
  await scene.topic('out', 2)
  return scene
}

const rangeOf = (partition: number, count: number): WrittenRange => ({
  topic: 'out',
  topicId: '',
  partition,
  firstOffset: '0',
  lastOffset: String(count - 1),
  count,
  digest: '',
})

const committableOf = (identity: ProducerIdentity, ...ranges: WrittenRange[]): KafkaCommittable => ({
  transactionalId: identity.transactionalId,
  producerId: String(identity.producerId),
  producerEpoch: identity.producerEpoch,
  attempt: 1,
  n: 1,
  deadline: 0,
  ranges,
})

/** The fate, and how long it took to know. */
async function fateOf(
  scene: SimulatedScene,
  committable: KafkaCommittable,
): Promise<[TransactionFate, number]> {
  const began = scene.time.now()
  const fate = await scene.run(transactionFate(scene.cluster, scene.world, committable))
  return [fate, scene.time.now() - began]
}

const fence = (scene: SimulatedScene) =>
  scene.run(scene.kafka.client('x').initProducerId({ transactionalId: ID, transactionTimeoutMs: 60_000 }))

const removeTo = (scene: SimulatedScene, partition: number, beforeOffset: bigint) =>
  scene.run(scene.cluster.deleteRecords([{ topic: 'out', partition, beforeOffset }]))

describe('the fate of a transaction', () => {
  test.each([
    ['commit', 'committed'],
    ['abort', 'aborted'],
  ] as const)('that ended with %s is what its marker says', async (end, fate) => {
    const scene = await sceneOf()
    const identity = await scene.transact('out', ['a', 'b'], end, ID)
    expect((await fateOf(scene, committableOf(identity, rangeOf(0, 2))))[0]).toBe(fate)
  })

  test('is waited for while markers are on their way', async () => {
    const scene = await sceneOf(5_000)
    const identity = await scene.transact('out', ['a'], 'open', ID)
    await scene.run(scene.cluster.endTxn(identity, 'commit'))
    const [fate, ms] = await fateOf(scene, committableOf(identity, rangeOf(0, 1)))
    expect(fate).toBe('committed')
    expect(ms).toBeGreaterThan(4_000)
  })

  test('is waited for as long as the coordinator says that markers will come, and is never taken for unknown', async () => {
    const scene = await sceneOf(100_000)
    const identity = await scene.transact('out', ['a'], 'open', ID)
    await scene.run(scene.cluster.endTxn(identity, 'abort'))
    const [fate, ms] = await fateOf(scene, committableOf(identity, rangeOf(0, 1)))
    expect(fate).toBe('aborted')
    expect(ms).toBeGreaterThan(90_000)
    expect(scene.warnings()).toEqual([expect.stringContaining('waiting for the brokers to write the end of')])
  })

  test('that the brokers do not write down for minutes is an error that may pass', async () => {
    const scene = await sceneOf(400_000)
    const identity = await scene.transact('out', ['a'], 'open', ID)
    await scene.run(scene.cluster.endTxn(identity, 'abort'))
    const fate = transactionFate(scene.cluster, scene.world, committableOf(identity, rangeOf(0, 1)))
    expect(await scene.failure(fate)).toMatchObject({ code: 'MILLRACE_KAFKA_PROTOCOL', retriable: true })
  })

  test('is unknown at once when no marker is left and none is to come', async () => {
    const scene = await sceneOf()
    const identity = await scene.transact('out', ['a'], 'abort', ID)
    await removeTo(scene, 0, scene.ends('out').high)
    const [fate, ms] = await fateOf(scene, committableOf(identity, rangeOf(0, 1)))
    expect(fate).toBe('unknown')
    expect(ms).toBeLessThan(1_000)
  })

  test('is unknown in the end when the coordinator says that something is open', async () => {
    const scene = await sceneOf()
    const identity = await scene.transact('out', ['a'], 'abort', ID)
    await removeTo(scene, 0, scene.ends('out').high)
    await scene.transact('out', ['b'], 'open', ID)
    const [fate, ms] = await fateOf(scene, committableOf(identity, rangeOf(0, 1)))
    expect(fate).toBe('unknown')
    expect(ms).toBeGreaterThan(14_000)
  })

  test('is told by a marker that is left where the records and what followed them are gone', async () => {
    const scene = await sceneOf()
    const identity = await scene.transact('out', ['a'], 'open', ID)
    await scene.produce('out', ['between'])
    await fence(scene)
    await scene.time.advance(50)
    const { high } = scene.ends('out')
    await removeTo(scene, 0, high - 1n)
    expect((await fateOf(scene, committableOf(identity, rangeOf(0, 1))))[0]).toBe('aborted')
  })

  test('is told by a partition that still has the records rather than by one that has lost them', async () => {
    const scene = await sceneOf()
    const identity = await scene.transact('out', ['a'], 'open', ID)
    await scene.run(scene.cluster.addPartitionsToTxn(identity, [{ topic: 'out', partition: 1 }]))
    await scene.run(scene.cluster.endTxn(identity, 'commit'))
    await scene.time.advance(50)
    // Partition 0 shows a later transaction of the id only.
    await removeTo(scene, 0, scene.ends('out').high)
    await scene.transact('out', ['later'], 'abort', ID)
    const both = committableOf(identity, rangeOf(0, 1), { ...rangeOf(1, 0), lastOffset: '-1' })
    expect((await fateOf(scene, both))[0]).toBe('committed')
  })

  test('is not told by a commit that may be a later one', async () => {
    const scene = await sceneOf()
    const identity = await scene.transact('out', ['a'], 'abort', ID)
    await removeTo(scene, 0, scene.ends('out').high)
    await scene.transact('out', ['later'], 'commit', ID)
    expect((await fateOf(scene, committableOf(identity, rangeOf(0, 1))))[0]).toBe('unknown')
  })
})
