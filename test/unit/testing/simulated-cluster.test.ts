import { beforeEach, describe, expect, test } from '@jest/globals'
import { ContractScene, codeOf, plainBatch } from '../../../src/testing/kafka-contract-scene.ts'
import { readBatchHeader, splitBatches } from '../../../src/testing/plain-batch.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import { SimulatedKafka } from '../../../src/testing/simulated-cluster.ts'
import type { Interception, SimulatedCall } from '../../../src/testing/simulated-network.ts'
import { VirtualTime } from '../../../src/testing/virtual-time.ts'

let time: VirtualTime
let kafka: SimulatedKafka
let scene: ContractScene
let calls: string[]

function start(seed: number): void {
  time = new VirtualTime()
  calls = []
  kafka = new SimulatedKafka({
    clock: time,
    timers: time,
    random: new SeededRandom(seed),
    brokers: 3,
    configs: { 'default.replication.factor': '3' },
  })
  let clients = 0
  const another = async () => kafka.client(`other-${++clients}`)
  scene = new ContractScene({
    cluster: kafka.client('main'),
    another,
    close: async () => {},
    waitMs: (ms) => time.sleep(ms),
  })
}

beforeEach(() => start(1))

const run = (body: () => Promise<void>) => () => time.settle(body(), { maxMs: 3_600_000 })

/** The first tries of `api` have these fates, all other calls pass. */
function onFirst(api: string, ...fates: Interception[]): void {
  kafka.intercept((call: SimulatedCall) => {
    calls.push(`${call.api} ${call.attempt}`)
    return (call.api === api && fates.shift()) || 'pass'
  })
}

describe('faults of the network', () => {
  test(
    'a dropped request was not executed and is sent again',
    run(async () => {
      const topic = await scene.topic()
      onFirst('Produce', 'drop-request', 'drop-request')
      expect((await scene.store(topic, ['a'])).baseOffset).toBe(0n)
      expect(calls.filter((call) => call.startsWith('Produce'))).toEqual([
        'Produce 1',
        'Produce 2',
        'Produce 3',
      ])
      expect((await scene.read(topic, 'read_committed')).values).toEqual(['a'])
    }),
  )

  test(
    'a lost answer of a plain produce stores twice, of an idempotent one once',
    run(async () => {
      const topic = await scene.topic()
      onFirst('Produce', 'drop-response')
      await scene.store(topic, ['plain'])
      onFirst('Produce', 'drop-response')
      const producer = await scene.producer()
      expect(await producer.write(topic, ['idempotent'])).toBe(2n)
      await producer.commit()
      await scene.settled(topic)
      expect((await scene.read(topic, 'read_committed')).values).toEqual(['plain', 'plain', 'idempotent'])
    }),
  )

  test(
    'a lost answer of EndTxn leaves the transaction committed',
    run(async () => {
      const topic = await scene.topic()
      const producer = await scene.producer()
      await producer.write(topic, ['a'])
      onFirst('EndTxn', 'drop-response')
      const lost = scene.cluster.endTxn(producer.identity, 'commit', { timeoutMs: 0 })
      await expect(lost).rejects.toMatchObject({
        code: 'MILLRACE_KAFKA_UNREACHABLE',
        retriable: true,
        brokerCode: -1,
      })
      await scene.settled(topic)
      expect((await scene.read(topic, 'read_committed')).values).toEqual(['a'])
      await producer.commit()
    }),
  )

  test(
    'a duplicate of EndTxn that comes late commits the next transaction of the same epoch',
    run(async () => {
      const topic = await scene.topic()
      const producer = await scene.producer()
      await producer.write(topic, ['first'])
      onFirst('EndTxn', { duplicateAfterMs: 5_000 })
      await producer.commit()
      await producer.write(topic, ['second'])
      await time.sleep(6_000)
      expect((await scene.read(topic, 'read_committed')).values).toEqual(['first', 'second'])
    }),
  )

  test(
    'a duplicate Produce carries the bytes of its time though the buffer was used again',
    run(async () => {
      const topic = await scene.topic()
      const batch = plainBatch(['one'])
      onFirst('Produce', { duplicateAfterMs: 1_000 })
      await scene.cluster.produce({
        acks: -1,
        transactionalId: null,
        partitions: [{ topic, partition: 0, batch }],
      })
      batch.fill(0)
      await time.sleep(2_000)
      expect((await scene.read(topic, 'read_committed')).values).toEqual(['one', 'one'])
    }),
  )

  test(
    'a batch that changes while it is being retried is a defect that is told',
    run(async () => {
      const topic = await scene.topic()
      const batch = plainBatch(['one'])
      onFirst('Produce', 'drop-request')
      const produced = scene.cluster.produce({
        acks: -1,
        transactionalId: null,
        partitions: [{ topic, partition: 0, batch }],
      })
      batch[70]! ^= 1
      await expect(produced).rejects.toMatchObject({ code: 'MILLRACE_INTERNAL' })
    }),
  )

  test(
    'an injected error code is retried when it is transient and thrown when it is not',
    run(async () => {
      const id = { transactionalId: scene.name('id'), transactionTimeoutMs: 1_000 }
      onFirst('InitProducerId', { errorCode: 51 }, { errorCode: 16 })
      expect((await scene.cluster.initProducerId(id)).producerEpoch).toBe(0)
      onFirst('InitProducerId', { errorCode: 53 })
      await expect(scene.cluster.initProducerId(id)).rejects.toMatchObject({
        code: 'MILLRACE_KAFKA_UNAUTHORIZED',
        brokerCode: 53,
      })
    }),
  )

  test(
    'tries end when the time is up, with a retriable error',
    run(async () => {
      kafka.isolate('main')
      const from = time.now()
      const call = scene.cluster.describeCluster()
      await expect(call).rejects.toMatchObject({ code: 'MILLRACE_KAFKA_UNREACHABLE', retriable: true })
      expect(time.now() - from).toBeGreaterThan(58_000)
      expect(time.now() - from).toBeLessThan(61_000)
      kafka.reconnect('main')
      await scene.cluster.describeCluster()
    }),
  )

  test(
    'calls of one producer are stored in the order they were made, whatever the latency',
    run(async () => {
      const topic = await scene.topic()
      const producer = await scene.producer()
      await scene.cluster.addPartitionsToTxn(producer.identity, [{ topic, partition: 0 }])
      onFirst('Produce', { delayMs: 500 }, 'drop-request')
      const sent = ['a', 'b', 'c', 'd'].map((value, sequence) =>
        producer.send({ topic, partition: 0 }, [{ value }], sequence),
      )
      expect((await Promise.all(sent)).map(({ errorCode }) => errorCode)).toEqual([0, 0, 0, 0])
      expect((await scene.read(topic, 'read_uncommitted')).values).toEqual(['a', 'b', 'c', 'd'])
    }),
  )
})

describe('leaders and brokers', () => {
  test(
    'a produce finds a moved leader, a fetch is refused once and finds it the next time',
    run(async () => {
      const topic = await scene.topic()
      await scene.store(topic, ['a'])
      const before = await scene.cluster.leaderOf(topic, 0)
      kafka.moveLeader({ topic, partition: 0 })
      expect(await codeOf(scene.read(topic, 'read_committed'))).toBe(6)
      expect((await scene.read(topic, 'read_committed')).values).toEqual(['a'])
      expect(await scene.cluster.leaderOf(topic, 0)).not.toBe(before)
      kafka.moveLeader({ topic, partition: 0 })
      expect((await scene.store(topic, ['b'])).baseOffset).toBe(1n)
    }),
  )

  test(
    'batches carry the epoch of the leader that stored them',
    run(async () => {
      const topic = await scene.topic()
      await scene.store(topic, ['a'])
      kafka.moveLeader({ topic, partition: 0 })
      await scene.store(topic, ['b'])
      const { records } = kafka.inside.topics
        .get(topic)!
        .partitions[0]!.log.read(0n, 10_000, 'read_committed', true)
      expect(splitBatches(records).map((batch) => readBatchHeader(batch)!.leaderEpoch)).toEqual([0, 1])
    }),
  )

  test(
    'a stopped broker loses nothing: its partitions get other leaders, transactions go on',
    run(async () => {
      const topic = await scene.topic()
      const producer = await scene.producer()
      await producer.write(topic, ['a'])
      kafka.stopBroker(await scene.cluster.leaderOf(topic, 0), 500)
      await producer.write(topic, ['b'])
      await producer.commit()
      await scene.until('the marker is there', async () => (await codeOf(scene.settled(topic))) === 0)
      await scene.cluster.describeTopics([topic])
      expect((await scene.read(topic, 'read_committed')).values).toEqual(['a', 'b'])
    }),
  )

  test(
    'with too few replicas in sync a produce waits until one is back',
    run(async () => {
      const topic = await scene.topic(1, { 'min.insync.replicas': '3' })
      kafka.stopBroker(3)
      time.schedule(5_000, () => kafka.startBroker(3))
      const from = time.now()
      expect((await scene.store(topic, ['a'])).errorCode).toBe(0)
      expect(time.now() - from).toBeGreaterThan(4_999)
    }),
  )

  test(
    'members survive a move of the coordinator that is longer than their session',
    run(async () => {
      const groupId = scene.name('group')
      const request = {
        groupId,
        protocolType: 'millrace',
        protocols: [{ name: 'a', metadata: Buffer.alloc(0) }],
      }
      const joined = await scene.cluster.joinGroup({
        ...request,
        sessionTimeoutMs: 6_000,
        rebalanceTimeoutMs: 1_000,
        memberId: '',
      })
      const { generation, memberId } = joined
      await scene.cluster.syncGroup({ groupId, generation, memberId, assignments: [] })
      await time.sleep(5_000)
      kafka.moveCoordinators(4_000)
      await scene.cluster.heartbeat({ groupId, generation, memberId })
    }),
  )
})

describe('processes', () => {
  test(
    'a killed client is never answered, but what it sent may be done',
    run(async () => {
      const topic = await scene.topic()
      const dying = kafka.client('dying')
      let answered = false
      const batch = plainBatch(['last words'])
      const note = (): void => {
        answered = true
      }
      dying
        .produce({ acks: -1, transactionalId: null, partitions: [{ topic, partition: 0, batch }] })
        .then(note, note)
      await time.sleep(1)
      dying.kill()
      dying.describeCluster().then(note, note)
      await time.sleep(100_000)
      expect(answered).toBe(false)
      expect((await scene.read(topic, 'read_committed')).values.length).toBeLessThan(2)
    }),
  )

  test(
    'a paused client goes on where it stood, as a zombie',
    run(async () => {
      const topic = await scene.topic()
      const client = kafka.client('zombie')
      const producer = await scene.producer({ on: client })
      await producer.write(topic, ['lost'])
      client.pause()
      const late = codeOf(producer.commit())
      const holder = await scene.producer({ id: producer.identity.transactionalId })
      client.resume()
      expect(await late).toBe(47)
      await holder.write(topic, ['kept'])
      await holder.commit()
      await scene.settled(topic)
      expect((await scene.read(topic, 'read_committed')).values).toEqual(['kept'])
    }),
  )

  test(
    'an emptied group is forgotten and starts at generation 1 again',
    run(async () => {
      const groupId = scene.name('group')
      const request = {
        groupId,
        protocolType: 'millrace',
        protocols: [{ name: 'a', metadata: Buffer.alloc(0) }],
      }
      const join = () =>
        scene.cluster.joinGroup({
          ...request,
          sessionTimeoutMs: 6_000,
          rebalanceTimeoutMs: 1_000,
          memberId: '',
        })
      const { memberId } = await join()
      kafka.expireEmptyGroups()
      await scene.cluster.leaveGroup({ groupId, memberId })
      kafka.expireEmptyGroups()
      expect((await join()).generation).toBe(1)
    }),
  )
})

describe('a run is a function of its seed', () => {
  /** Everything that a small, busy run does, call by call. */
  async function trace(seed: number): Promise<string[]> {
    start(seed)
    const faults = new SeededRandom(seed).fork('faults')
    const lines: string[] = []
    kafka.intercept((call) => {
      lines.push(`${time.now()} ${call.clientId} ${call.api} ${call.attempt}`)
      // A lost fetch is its caller's to repeat; a bare InitProducerId that comes twice fences its own first answer.
      if (call.api === 'Fetch' || call.api === 'InitProducerId') return 'pass'
      return faults.chance(0.1)
        ? faults.pick(['drop-request', 'drop-response', 'duplicate'] as const)
        : 'pass'
    })
    await run(async () => {
      const topic = await scene.topic(2)
      await Promise.all(
        [0, 1].map(async (partition) => {
          const producer = await scene.producer({ on: await scene.another(), timeoutMs: 600_000 })
          for (let i = 0; i < 10; i++) {
            await producer.write(topic, [`${i}`], partition)
            await producer.commit()
            // A duplicate that is still on its way must not meet the next transaction of this epoch.
            await time.sleep(100)
          }
        }),
      )
      for (const partition of [0, 1]) {
        await scene.settled(topic, partition)
        lines.push((await scene.read(topic, 'read_committed', 0n, partition)).values.join())
      }
    })()
    return lines.map((line) => line.replaceAll(/contract-\S+/g, ''))
  }

  test('the same seed gives the same run, another seed another one, and all are exactly once', async () => {
    const first = await trace(7)
    expect(await trace(7)).toEqual(first)
    expect(await trace(8)).not.toEqual(first)
    for (let seed = 20; seed < 30; seed++) {
      expect((await trace(seed)).slice(-2)).toContain('0,1,2,3,4,5,6,7,8,9')
    }
  })

  test('on real time it works without a driver', async () => {
    const client = SimulatedKafka.realTime().client('real')
    await client.createTopics([{ topic: 't', partitions: 1, replicationFactor: 1 }])
    const partitions = [{ topic: 't', partition: 0, batch: plainBatch(['a']) }]
    expect((await client.produce({ acks: -1, transactionalId: null, partitions }))[0]!.baseOffset).toBe(0n)
    await client.close()
  })
})
