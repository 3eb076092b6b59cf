import { beforeEach, describe, expect, test } from '@jest/globals'
import { appendPlain, FencedProducer, readLog } from '../../../src/kafka/topic-log.ts'
import { SimulatedScene } from './simulated-scene.ts'

let scene: SimulatedScene

beforeEach(async () => {
  scene = new SimulatedScene({ brokers: 2 })
  await scene.run(
    scene.cluster.createTopics([
      { topic: 'log', partitions: 1, replicationFactor: 2, configs: { 'cleanup.policy': 'compact' } },
    ]),
  )
})

async function entries(): Promise<[string, string | null][]> {
  const seen: [string, string | null][] = []
  await scene.run(
    readLog(scene.cluster, 'log', scene.world, (key, value) => {
      seen.push([key, value === null ? null : value.toString()])
    }),
  )
  return seen
}

const fence = (client = scene.cluster) =>
  scene.run(FencedProducer.fence(client, 'coordinator', 'log', scene.world, 60_000))
const append = (...pairs: [string, string | null][]) =>
  scene.run(
    appendPlain(
      scene.cluster,
      'log',
      pairs.map(([key, value]) => ({ key, value })),
      1,
    ),
  )

async function transaction(
  producer: FencedProducer,
  key: string,
  value: string,
  end: 'commit' | 'abort' = 'commit',
) {
  await scene.run(begin(producer, [{ key, value }]))
  await scene.run(producer.end(end, 30_000))
}

async function begin(
  producer: FencedProducer,
  written: readonly { key: string; value: string }[],
): Promise<void> {
  await producer.open([])
  await producer.write(written)
}

describe('reading', () => {
  test('gives all entries in their order, deletions too', async () => {
    await append(['a', '1'], ['b', '2'], ['a', null])
    expect(await entries()).toEqual([
      ['a', '1'],
      ['b', '2'],
      ['a', null],
    ])
  })

  test('an empty topic has none', async () => {
    expect(await entries()).toEqual([])
  })

  test('what was aborted is not there, what was committed is', async () => {
    const producer = await fence()
    await transaction(producer, 'a', '1')
    await transaction(producer, 'b', '2', 'abort')
    await transaction(producer, 'c', '3')
    expect(await entries()).toEqual([
      ['a', '1'],
      ['c', '3'],
    ])
  })

  test('waits for an open transaction to end: what lies behind it must be seen', async () => {
    const producer = await fence()
    await scene.run(begin(producer, [{ key: 'a', value: '1' }]))
    await append(['b', '2'])
    const reading = entries()
    void scene.time.schedule(6_000, () => void producer.end('commit', 30_000))
    expect(await reading).toEqual([
      ['a', '1'],
      ['b', '2'],
    ])
    expect(scene.warnings().join()).toContain('waiting for open transactions on log')
  })

  test('a fence ends the open transaction of the old leader, and its entries are gone', async () => {
    const old = await fence()
    await scene.run(begin(old, [{ key: 'old', value: '1' }]))
    const young = await fence(scene.kafka.client('young'))
    await transaction(young, 'new', '2')
    expect(await entries()).toEqual([['new', '2']])
  })

  test('more than one fetch and batches above the first limit are read to the end', async () => {
    for (let i = 0; i < 12; i++) await append([`k${i}`, 'x'.repeat(900_000)])
    expect((await entries()).map(([key]) => key)).toEqual(Array.from({ length: 12 }, (_, i) => `k${i}`))
  })

  test('gaps of a compacted log are no end of it', async () => {
    for (let i = 0; i < 20; i++) await append(['same', String(i)])
    await append(['last', 'x'])
    scene.kafka.compact('log')
    expect(await entries()).toEqual([
      ['same', '19'],
      ['last', 'x'],
    ])
  })

  test('a log whose beginning is deleted is read from where it begins now', async () => {
    await append(['a', '1'])
    await append(['b', '2'])
    await scene.run(scene.cluster.deleteRecords([{ topic: 'log', partition: 0, beforeOffset: 1n }]))
    expect(await entries()).toEqual([['b', '2']])
  })

  test('lost connections and a moved leader are ridden out', async () => {
    for (let i = 0; i < 5; i++) await append([`k${i}`, 'v'])
    let fetches = 0
    scene.kafka.intercept(({ api, clientId }) =>
      api === 'Fetch' && clientId === 'worker' && ++fetches < 6 ? 'drop-response' : 'pass',
    )
    scene.kafka.moveLeader({ topic: 'log', partition: 0 })
    expect(await entries()).toHaveLength(5)
  })

  test('brokers that stay away are an error in the end', async () => {
    await append(['a', '1'])
    scene.kafka.intercept(({ api }) => (api === 'Fetch' ? 'drop-request' : 'pass'))
    const reading = readLog(scene.cluster, 'log', scene.world, () => undefined)
    expect(await scene.failure(reading)).toMatchObject({ retriable: true })
  })

  test('a topic that is gone is an error', async () => {
    await scene.run(scene.cluster.deleteTopics(['log']))
    expect(await scene.failure(readLog(scene.cluster, 'log', scene.world, () => undefined))).toMatchObject({
      code: 'MILLRACE_KAFKA_PROTOCOL',
    })
  })
})

describe('the fenced producer', () => {
  test('entries above a batch are written in several, in one transaction', async () => {
    const producer = await fence()
    const many = Array.from({ length: 5 }, (_, i) => ({ key: `k${i}`, value: 'x'.repeat(400_000) }))
    await scene.run(begin(producer, many))
    expect(scene.ends('log').stable).toBe(0n)
    await scene.run(producer.end('commit', 30_000))
    expect(await entries()).toHaveLength(5)
  })

  test('an epoch never serves two transactions: a late duplicate of an end cannot touch the next one', async () => {
    scene.kafka.intercept(({ api }) => (api === 'EndTxn' ? { duplicateAfterMs: 500 } : 'pass'))
    const producer = await fence()
    for (let i = 0; i < 5; i++) await transaction(producer, `k${i}`, 'v')
    await scene.run(begin(producer, [{ key: 'open', value: 'v' }]))
    await scene.time.advance(5_000)
    await scene.run(producer.end('abort', 30_000))
    expect((await entries()).map(([key]) => key)).toEqual(['k0', 'k1', 'k2', 'k3', 'k4'])
  })

  test('an old leader cannot write, and cannot take the fence back', async () => {
    const old = await fence()
    await transaction(old, 'a', '1')
    const young = await fence(scene.kafka.client('young'))
    expect(await scene.failure(begin(old, [{ key: 'old', value: '1' }]))).toMatchObject({
      brokerCode: expect.any(Number),
    })
    await transaction(young, 'b', '2')
    expect(await entries()).toEqual([
      ['a', '1'],
      ['b', '2'],
    ])
  })

  test('a renewal that another leader prevented is said by the next transaction, again and again', async () => {
    const old = await fence()
    scene.kafka.intercept(({ api, clientId, args }) =>
      api === 'InitProducerId' && clientId === 'worker' && args[0] !== undefined ? { delayMs: 500 } : 'pass',
    )
    await transaction(old, 'a', '1')
    await fence(scene.kafka.client('young'))
    for (let i = 0; i < 2; i++)
      expect(await scene.failure(begin(old, [{ key: 'old', value: '1' }]))).toMatchObject({ brokerCode: 90 })
  })

  test('a transaction may be opened ahead, and its partitions and groups are added once', async () => {
    const producer = await fence()
    let added = 0
    scene.kafka.intercept(({ api }) => {
      if (api.startsWith('Add')) added++
      return 'pass'
    })
    expect(producer.openFor).toBeUndefined()
    await scene.run(producer.open(['g']))
    await scene.time.advance(1_000)
    expect(producer.openFor).toBeGreaterThanOrEqual(1_000)
    await scene.run(producer.open(['g']))
    await transaction(producer, 'a', '1')
    expect(added).toBe(2)
    expect(producer.openFor).toBeUndefined()
    expect(await entries()).toEqual([['a', '1']])
  })

  test('one that never reached the broker is not taken for open for ever', async () => {
    const producer = await fence()
    scene.kafka.intercept(({ api }) => (api === 'AddPartitionsToTxn' ? { errorCode: 29 } : 'pass'))
    await scene.failure(producer.open([]))
    scene.kafka.intercept(undefined)
    expect(await scene.failure(producer.end('abort', 1_000))).toMatchObject({ brokerCode: 48 })
    expect(producer.openFor).toBeUndefined()
  })
})
