import { describe, expect, test } from '@jest/globals'
import type { World } from '../../../src/core/ports.ts'
import { endByHand, inspectTransactions, jobOfId } from '../../../src/kafka/transaction-inspector.ts'
import { MetricRegistry } from '../../../src/metrics/metrics.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import { SimulatedKafka } from '../../../src/testing/simulated-cluster.ts'
import { VirtualTime } from '../../../src/testing/virtual-time.ts'

function scene() {
  const time = new VirtualTime()
  const random = new SeededRandom(1)
  const kafka = new SimulatedKafka({ clock: time, timers: time, random })
  const logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => logger }
  const world: World = { clock: time, timers: time, random, logger, metrics: new MetricRegistry() }
  const cluster = kafka.client('operator')
  const open = async (transactionalId: string) => {
    const producer = await cluster.initProducerId({ transactionalId, transactionTimeoutMs: 600_000 })
    await cluster.addPartitionsToTxn(producer, [{ topic: 'out', partition: 0 }])
    return producer
  }
  const run = async <T>(work: () => Promise<T>): Promise<T> => time.settle(work())
  return { time, cluster, world, open, run }
}

describe('transactions as an operator sees them', () => {
  test('an id tells its job, with or without a prefix of the user; ids of others tell none', () => {
    expect(jobOfId('millrace.totals.sink.0.1')).toBe('totals')
    expect(jobOfId('team.millrace.totals.sink.12.3')).toBe('totals')
    expect(jobOfId('millrace.totals.coordinator')).toBe('totals')
    expect(jobOfId('totals-producer-1')).toBeUndefined()
    expect(jobOfId('xmillrace.totals.sink.0.1')).toBeUndefined()
  })

  test('open ones are listed with age and partitions, by whole parts of a prefix', async () => {
    const { cluster, world, open, run, time } = scene()
    await run(() => cluster.createTopics([{ topic: 'out', partitions: 1, replicationFactor: 1 }]))
    await run(() => open('millrace.a.sink.0.1'))
    await run(() => open('millrace.ab.sink.0.1'))
    await run(() => open('somebody-else'))
    await time.advance(5_000)
    const all = await run(() => inspectTransactions(cluster, world))
    expect(all.map(({ transactionalId }) => transactionalId)).toEqual([
      'millrace.a.sink.0.1',
      'millrace.ab.sink.0.1',
    ])
    expect(all[0]).toMatchObject({
      job: 'a',
      state: 'Ongoing',
      promisedBy: undefined,
      partitions: [{ topic: 'out', partition: 0 }],
    })
    expect(all[0]!.ageMs).toBeGreaterThanOrEqual(5_000)
    const below = await run(() => inspectTransactions(cluster, world, 'millrace.a'))
    expect(below.map(({ job }) => job)).toEqual(['a'])
  })

  test('a sink with a prefix of its own is found by the name of its job, too', async () => {
    const { cluster, world, open, run } = scene()
    await run(() => cluster.createTopics([{ topic: 'out', partitions: 1, replicationFactor: 1 }]))
    for (const id of ['team.millrace.a.sink.0.1', 'team.millrace.ab.sink.0.1', 'millrace.a.other.0.0'])
      await run(() => open(id))
    const idsBelow = async (only: string) =>
      (await run(() => inspectTransactions(cluster, world, only))).map(
        ({ transactionalId }) => transactionalId,
      )
    expect(await idsBelow('millrace.a')).toEqual(['millrace.a.other.0.0', 'team.millrace.a.sink.0.1'])
    expect(await idsBelow('team')).toEqual(['team.millrace.a.sink.0.1', 'team.millrace.ab.sink.0.1'])
  })

  test('those of a job that runs are ended by the job, unless forced', async () => {
    const { cluster, world, open, run } = scene()
    await run(() => cluster.createTopics([{ topic: 'out', partitions: 1, replicationFactor: 1 }]))
    await run(() => open('millrace.a.sink.0.1'))
    await run(() =>
      cluster.joinGroup({
        groupId: 'millrace.a',
        protocolType: 'millrace',
        protocols: [{ name: 'graph', metadata: Buffer.alloc(0) }],
        sessionTimeoutMs: 10_000,
        rebalanceTimeoutMs: 1_000,
        memberId: '',
      }),
    )
    const [transaction] = await run(() => inspectTransactions(cluster, world, 'millrace.a'))
    await expect(run(() => endByHand(cluster, transaction!, 'abort', false))).rejects.toMatchObject({
      code: 'MILLRACE_USAGE',
      message: expect.stringContaining('a running job ends its transactions itself'),
    })
    await run(() => endByHand(cluster, transaction!, 'abort', true))
  })

  test('one that no checkpoint promised can be aborted, and is not committed unless forced', async () => {
    const { cluster, world, open, run } = scene()
    await run(() => cluster.createTopics([{ topic: 'out', partitions: 1, replicationFactor: 1 }]))
    await run(() => open('millrace.a.sink.0.1'))
    const [found] = await run(() => inspectTransactions(cluster, world))
    await expect(run(() => endByHand(cluster, found!, 'commit', false))).rejects.toMatchObject({
      code: 'MILLRACE_USAGE',
    })
    await run(() => endByHand(cluster, found!, 'abort', false))
    const [after] = await run(() => inspectTransactions(cluster, world))
    expect(after?.state).not.toBe('Ongoing')
    await expect(run(() => endByHand(cluster, after!, 'abort', false))).rejects.toMatchObject({
      code: 'MILLRACE_USAGE',
    })
  })

  test('one that a completed checkpoint promised can be committed, and is not aborted unless forced', async () => {
    const { cluster, world, open, run } = scene()
    await run(() => cluster.createTopics([{ topic: 'out', partitions: 1, replicationFactor: 1 }]))
    await run(() => open('millrace.a.sink.0.1'))
    const [found] = await run(() => inspectTransactions(cluster, world))
    const promised = { ...found!, promisedBy: 7 }
    await expect(run(() => endByHand(cluster, promised, 'abort', false))).rejects.toThrow('checkpoint 7')
    await run(() => endByHand(cluster, promised, 'commit', false))
    const [after] = await run(() => inspectTransactions(cluster, world))
    expect(['PrepareCommit', 'CompleteCommit']).toContain(after?.state)
  })
})
