import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { freePort } from '../../../scripts/lib/kafka-broker.ts'
import { KafkaCode } from '../../../src/kafka/kafka-cluster.ts'
import type { KafkajsCluster } from '../../../src/kafka/kafkajs/kafkajs-cluster.ts'
import { batchOf, newCluster, newTopic, randomName, readCommitted } from './real-kafka.ts'

const run = promisify(execFile)
const NOTHING = Buffer.alloc(0)
let cluster: KafkajsCluster

beforeAll(async () => {
  cluster = newCluster()
  await cluster.connect()
})
afterAll(() => cluster.close())

async function newProducer(timeoutMs = 60_000) {
  return cluster.initProducerId({ transactionalId: randomName('tx'), transactionTimeoutMs: timeoutMs })
}

describe('connections', () => {
  test('an address where nothing listens is named in a retriable error', async () => {
    const port = await freePort()
    const lost = newCluster([`127.0.0.1:${port}`])
    await expect(lost.describeTopics([], { timeoutMs: 0 })).rejects.toMatchObject({
      code: 'MILLRACE_KAFKA_UNREACHABLE',
      retriable: true,
      message: expect.stringContaining(`127.0.0.1:${port}`),
    })
    await lost.close()
  })

  test('one broker of the list that answers is enough', async () => {
    const port = await freePort()
    const [broker] = (process.env['KAFKA_BROKERS'] ?? '').split(',')
    const other = newCluster([`127.0.0.1:${port}`, broker as string])
    await other.connect()
    await other.close()
  })

  test('a fetch that waits for data delays neither a produce nor another fetch on the same broker', async () => {
    const topic = await newTopic(cluster, 2)
    const done: string[] = []
    const poll = (partition: number, name: string) =>
      cluster
        .fetch({
          isolation: 'read_uncommitted',
          partitions: [{ topic, partition, offset: 0n, maxBytes: 1 << 20 }],
          maxWaitMs: 2_000,
          minBytes: 1,
          maxBytes: 1 << 20,
        })
        .then(() => done.push(name))
    const idle = poll(0, 'idle fetch')
    const busy = poll(1, 'fetch with data')
    await cluster.produce({
      acks: -1,
      transactionalId: null,
      partitions: [{ topic, partition: 1, batch: batchOf(['a']) }],
    })
    done.push('produce')
    await Promise.all([idle, busy])
    expect(done.at(-1)).toBe('idle fetch')
    expect(done).toHaveLength(3)
  })

  test('close rejects what is pending and what comes later, and its sockets are gone', async () => {
    const other = newCluster()
    await other.connect()
    const topic = await newTopic(other, 1)
    const pending = other.fetch({
      isolation: 'read_uncommitted',
      partitions: [{ topic, partition: 0, offset: 0n, maxBytes: 1024 }],
      maxWaitMs: 20_000,
      minBytes: 1,
      maxBytes: 1024,
    })
    const groupId = randomName('group')
    const producer = await other.initProducerId({
      transactionalId: randomName('tx'),
      transactionTimeoutMs: 60_000,
    })
    await other.addOffsetsToTxn(producer, groupId)
    await other.txnOffsetCommit(producer, groupId, [{ topic, partition: 0, offset: 5n }])
    const retried = other.fetchGroupOffsets(groupId, [{ topic, partition: 0 }])
    const outcomes = Promise.allSettled([pending, retried])
    await new Promise((resolve) => setTimeout(resolve, 100))
    await other.close()
    for (const outcome of await outcomes) {
      expect(outcome.status === 'rejected' && outcome.reason).toMatchObject({
        code: 'MILLRACE_KAFKA_UNREACHABLE',
      })
    }
    await expect(other.describeTopics()).rejects.toMatchObject({ code: 'MILLRACE_KAFKA_UNREACHABLE' })
    await expect(
      other.fetch({
        isolation: 'read_uncommitted',
        partitions: [{ topic, partition: 0, offset: 0n, maxBytes: 1 }],
        maxWaitMs: 0,
        minBytes: 0,
        maxBytes: 1,
      }),
    ).rejects.toMatchObject({
      code: 'MILLRACE_KAFKA_UNREACHABLE',
    })
  })

  test('a client writes nothing to stderr and leaves nothing behind that keeps the process alive', async () => {
    const { stdout, stderr } = await run(process.execPath, [join(import.meta.dirname, 'quiet-client.ts')], {
      timeout: 60_000,
    })
    expect({ stdout, stderr }).toEqual({ stdout: '20\n', stderr: '' })
  })
})

describe('topics', () => {
  test('creating a topic that exists changes nothing and is no error', async () => {
    const topic = await newTopic(cluster, 2)
    const [before] = await cluster.describeTopics([topic])
    await cluster.createTopics([{ topic, partitions: 5, replicationFactor: -1 }])
    expect(await cluster.describeTopics([topic])).toEqual([before])
  })

  test('a topic that was deleted and created again has another id', async () => {
    const topic = await newTopic(cluster, 1)
    const [before] = await cluster.describeTopics([topic])
    await cluster.deleteTopics([topic])
    expect(await cluster.describeTopics([topic])).toEqual([])
    await cluster.createTopics([{ topic, partitions: 1, replicationFactor: -1 }])
    const [after] = await cluster.describeTopics([topic])
    expect(after?.topicId).toMatch(/^[\w-]{22}$/)
    expect(after?.topicId).not.toBe(before?.topicId)
  })

  test('partitions that are added are seen at once and led by a broker', async () => {
    const topic = await newTopic(cluster, 1)
    await cluster.createPartitions(topic, 3)
    const [described] = await cluster.describeTopics([topic])
    expect(described?.partitions.map(({ partition }) => partition)).toEqual([0, 1, 2])
    expect(await cluster.leaderOf(topic, 2)).toBeGreaterThan(0)
  })

  test('settings of topics and brokers are read by name', async () => {
    const topic = await newTopic(cluster, 1, { 'cleanup.policy': 'compact' })
    expect(await cluster.describeConfigs({ type: 'topic', name: topic }, ['cleanup.policy'])).toEqual([
      { name: 'cleanup.policy', value: 'compact' },
    ])
    const { brokers } = await cluster.describeCluster()
    const [limit] = await cluster.describeConfigs({ type: 'broker', name: String(brokers[0]?.nodeId) }, [
      'transaction.max.timeout.ms',
    ])
    expect(Number(limit?.value)).toBeGreaterThan(0)
  })

  test('a topic name that Kafka refuses is an error with its code', async () => {
    await expect(
      cluster.createTopics([{ topic: 'not a/name', partitions: 1, replicationFactor: 1 }]),
    ).rejects.toMatchObject({ code: 'MILLRACE_KAFKA_PROTOCOL', brokerCode: 17, api: 'CreateTopics' })
  })
})

describe('logs', () => {
  test('batches come back byte for byte apart from offset and leader epoch, on every partition', async () => {
    const topic = await newTopic(cluster, 4)
    const text = 'x'.repeat(200_000)
    const partitions = [0, 1, 2, 3].map((partition) => ({
      topic,
      partition,
      batch: batchOf([`${partition}`, text]),
    }))
    const produced = await cluster.produce({ acks: -1, transactionalId: null, partitions })
    expect(
      produced.map(({ partition, errorCode, baseOffset }) => [partition, errorCode, baseOffset]),
    ).toEqual([0, 1, 2, 3].map((p) => [p, 0, 0n]))
    const fetched = await cluster.fetch({
      isolation: 'read_committed',
      partitions: partitions.map(({ partition }) => ({ topic, partition, offset: 0n, maxBytes: 1 << 20 })),
      maxWaitMs: 500,
      minBytes: 1,
      maxBytes: 8 << 20,
    })
    expect(fetched).toHaveLength(4)
    for (const { partition, records, highWatermark } of fetched) {
      expect(highWatermark).toBe(2n)
      expect(records.subarray(17).equals((partitions[partition]?.batch ?? NOTHING).subarray(17))).toBe(true)
    }
  })

  test('a batch that is sent again is stored once and answered as a success', async () => {
    const topic = await newTopic(cluster, 1)
    const producer = await newProducer()
    await cluster.addPartitionsToTxn(producer, [{ topic, partition: 0 }])
    const send = (text: string, sequence: number) =>
      cluster.produce({
        acks: -1,
        transactionalId: producer.transactionalId,
        partitions: [{ topic, partition: 0, batch: batchOf([text], producer, sequence) }],
      })
    const [first] = await send('0', 0)
    const [again] = await send('0', 0)
    expect(again).toMatchObject({ errorCode: 0, baseOffset: first?.baseOffset })
    for (let i = 1; i < 10; i++) await send(String(i), i)
    const [last] = await send('9', 9)
    expect(last?.errorCode).toBe(0)
    await cluster.endTxn(producer, 'commit')
    expect(await readCommitted(cluster, topic, 0)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
  })

  test('fifty produce calls of one producer at the same time are stored in the order of the calls', async () => {
    const topic = await newTopic(cluster, 1)
    const producer = await newProducer()
    await cluster.addPartitionsToTxn(producer, [{ topic, partition: 0 }])
    const texts = Array.from({ length: 50 }, (_, i) => String(i))
    const produced = await Promise.all(
      texts.map((text, i) =>
        cluster.produce({
          acks: -1,
          transactionalId: producer.transactionalId,
          partitions: [{ topic, partition: 0, batch: batchOf([text], producer, i) }],
        }),
      ),
    )
    expect(produced.flat().map(({ errorCode }) => errorCode)).toEqual(texts.map(() => 0))
    await cluster.endTxn(producer, 'commit')
    expect(await readCommitted(cluster, topic, 0)).toEqual(texts)
  })

  test('a sequence with a gap is refused in the result of its partition', async () => {
    const topic = await newTopic(cluster, 1)
    const producer = await newProducer()
    await cluster.addPartitionsToTxn(producer, [{ topic, partition: 0 }])
    const send = (sequence: number) =>
      cluster.produce({
        acks: -1,
        transactionalId: producer.transactionalId,
        partitions: [{ topic, partition: 0, batch: batchOf(['x'], producer, sequence) }],
      })
    await send(0)
    expect(await send(7)).toMatchObject([
      { errorCode: KafkaCode.OUT_OF_ORDER_SEQUENCE_NUMBER, baseOffset: -1n },
    ])
    await cluster.endTxn(producer, 'abort')
  })

  test('an offset beyond the log and a partition that does not exist are codes in the result of a fetch', async () => {
    const topic = await newTopic(cluster, 1)
    const poll = (name: string, partition: number) =>
      cluster.fetch({
        isolation: 'read_committed',
        partitions: [{ topic: name, partition, offset: 99n, maxBytes: 1024 }],
        maxWaitMs: 0,
        minBytes: 0,
        maxBytes: 1024,
      })
    expect(await poll(topic, 0)).toMatchObject([{ errorCode: KafkaCode.OFFSET_OUT_OF_RANGE }])
    expect(await poll(topic, 5)).toMatchObject([{ errorCode: KafkaCode.UNKNOWN_TOPIC_OR_PARTITION }])
    expect(await poll(randomName('absent'), 0)).toMatchObject([
      { errorCode: KafkaCode.UNKNOWN_TOPIC_OR_PARTITION },
    ])
  })

  test('offsets are found by position and by time, and records below an offset can be removed', async () => {
    const topic = await newTopic(cluster, 1)
    const partition = { topic, partition: 0 }
    await cluster.produce({
      acks: -1,
      transactionalId: null,
      partitions: [{ ...partition, batch: batchOf(['a', 'b', 'c']) }],
    })
    const offset = async (at: Parameters<typeof cluster.listOffsets>[1]) =>
      (await cluster.listOffsets([partition], at, 'read_committed'))[0]?.offset
    expect(await offset('earliest')).toBe(0n)
    expect(await offset('latest')).toBe(3n)
    expect(await offset({ timestamp: 0 })).toBe(0n)
    expect(await offset({ timestamp: Date.now() + 60_000 })).toBe(-1n)
    await cluster.deleteRecords([{ ...partition, beforeOffset: 2n }])
    expect(await offset('earliest')).toBe(2n)
  })

  test('an open transaction holds the last stable offset back, and an aborted one is listed with its first offset', async () => {
    const topic = await newTopic(cluster, 1)
    const partition = { topic, partition: 0 }
    const producer = await newProducer()
    await cluster.addPartitionsToTxn(producer, [partition])
    await cluster.produce({
      acks: -1,
      transactionalId: producer.transactionalId,
      partitions: [{ ...partition, batch: batchOf(['lost'], producer) }],
    })
    expect(await cluster.listOffsets([partition], 'latest', 'read_committed')).toMatchObject([{ offset: 0n }])
    expect(await cluster.listOffsets([partition], 'latest', 'read_uncommitted')).toMatchObject([
      { offset: 1n },
    ])
    expect(await cluster.describeProducers(partition)).toMatchObject([
      { producerId: producer.producerId, currentTxnStartOffset: 0n },
    ])
    await cluster.endTxn(producer, 'abort')
    const next = await cluster.initProducerId({
      transactionalId: producer.transactionalId,
      transactionTimeoutMs: 60_000,
      expected: producer,
    })
    await cluster.addPartitionsToTxn(next, [partition])
    await cluster.produce({
      acks: -1,
      transactionalId: next.transactionalId,
      partitions: [{ ...partition, batch: batchOf(['kept'], next) }],
    })
    await cluster.endTxn(next, 'commit')
    const [fetched] = await cluster.fetch({
      isolation: 'read_committed',
      partitions: [{ ...partition, offset: 0n, maxBytes: 1 << 20 }],
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes: 1 << 20,
    })
    expect(fetched?.abortedTransactions).toEqual([{ producerId: producer.producerId, firstOffset: 0n }])
    expect(await readCommitted(cluster, topic, 0)).toEqual(['kept'])
  })
})

describe('groups', () => {
  const protocols = (text: string) => [{ name: 'millrace-1', metadata: Buffer.from(text) }]
  const joining = (groupId: string, text: string, memberId = '') => ({
    groupId,
    protocolType: 'millrace',
    protocols: protocols(text),
    sessionTimeoutMs: 10_000,
    rebalanceTimeoutMs: 5_000,
    memberId,
  })

  test('members join, learn their assignment, are told to rejoin, and leave', async () => {
    const groupId = randomName('group')
    const first = await cluster.joinGroup(joining(groupId, 'one'))
    expect(first).toMatchObject({ protocol: 'millrace-1', leaderId: first.memberId })
    const one = { groupId, generation: first.generation, memberId: first.memberId }
    expect(
      String(
        await cluster.syncGroup({
          ...one,
          assignments: [{ memberId: first.memberId, assignment: Buffer.from('all') }],
        }),
      ),
    ).toBe('all')
    await cluster.heartbeat(one)

    const second = cluster.joinGroup(joining(groupId, 'two'))
    const deadline = Date.now() + 4_000
    let told: unknown
    while (told === undefined && Date.now() < deadline) {
      told = await cluster.heartbeat(one, { timeoutMs: 0 }).then(
        () => undefined,
        (error: unknown) => error,
      )
    }
    expect(told).toMatchObject({ brokerCode: KafkaCode.REBALANCE_IN_PROGRESS })
    const [rejoined, joined] = await Promise.all([
      cluster.joinGroup(joining(groupId, 'one', first.memberId)),
      second,
    ])
    expect(rejoined.generation).toBe(joined.generation)
    expect(rejoined.members.map(({ metadata }) => String(metadata)).sort()).toEqual(['one', 'two'])
    expect(joined.members).toEqual([])
    const two = { groupId, generation: joined.generation, memberId: joined.memberId }
    const [, assignment] = await Promise.all([
      cluster.syncGroup({
        ...two,
        memberId: rejoined.memberId,
        assignments: [
          { memberId: rejoined.memberId, assignment: Buffer.from('left') },
          { memberId: joined.memberId, assignment: Buffer.from('right') },
        ],
      }),
      cluster.syncGroup({ ...two, assignments: [] }),
    ])
    expect(String(assignment)).toBe('right')
    expect(await cluster.describeGroup(groupId)).toMatchObject({
      state: 'Stable',
      protocolType: 'millrace',
      protocol: 'millrace-1',
    })
    await expect(cluster.heartbeat(one)).rejects.toMatchObject({ brokerCode: KafkaCode.ILLEGAL_GENERATION })
    await cluster.leaveGroup(two)
    await expect(cluster.heartbeat(two)).rejects.toMatchObject({ brokerCode: KafkaCode.UNKNOWN_MEMBER_ID })
    await cluster.leaveGroup({ groupId, memberId: rejoined.memberId })
    expect(await cluster.describeGroup(groupId)).toMatchObject({ state: 'Empty', members: [] })
    await cluster.deleteGroup(groupId)
    expect(await cluster.describeGroup(groupId)).toMatchObject({ state: 'Dead' })
  })

  test('a member of another protocol is refused', async () => {
    const groupId = randomName('group')
    const { memberId } = await cluster.joinGroup(joining(groupId, 'one'))
    await expect(
      cluster.joinGroup({
        ...joining(groupId, 'two'),
        protocols: [{ name: 'other', metadata: Buffer.from('') }],
      }),
    ).rejects.toMatchObject({
      brokerCode: KafkaCode.INCONSISTENT_GROUP_PROTOCOL,
    })
    await cluster.leaveGroup({ groupId, memberId })
  })
})
