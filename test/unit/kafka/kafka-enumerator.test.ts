import { beforeEach, describe, expect, test } from '@jest/globals'
import { type EnumeratorOptions, KafkaEnumerator } from '../../../src/kafka/kafka-enumerator.ts'
import { type KafkaSplit, OffsetsInitializer } from '../../../src/kafka/offsets.ts'
import { SimulatedScene } from './simulated-scene.ts'

let scene: SimulatedScene

beforeEach(async () => {
  scene = new SimulatedScene({ brokers: 2 })
  await scene.topic('in', 2)
})

function enumerator(change: Partial<EnumeratorOptions> = {}): KafkaEnumerator {
  return new KafkaEnumerator(
    {
      cluster: scene.cluster,
      topics: ['in'],
      topicPattern: undefined,
      partitions: undefined,
      groupId: undefined,
      startingOffsets: OffsetsInitializer.earliest(),
      bounded: undefined,
      isolation: 'read_committed',
      onDataLoss: 'fail',
      discoveryIntervalMs: 10_000,
      ...change,
    },
    { jobName: 'job', uid: 'source', world: scene.world, parallelism: 1 },
  )
}

const start = (change: Partial<EnumeratorOptions> = {}, restored?: readonly KafkaSplit[]) =>
  scene.run(enumerator(change).start(restored))
const positions = (splits: readonly KafkaSplit[]) => splits.map(({ id, position }) => [id, position])
const topicId = (topic: string) => scene.kafka.inside.topics.get(topic)!.topicId
const split = (partition: number, position: bigint, change: Partial<KafkaSplit> = {}): KafkaSplit => ({
  id: `in-${partition}`,
  topic: 'in',
  topicId: topicId('in'),
  partition,
  position: String(position),
  stop: null,
  ...change,
})
/** Three records, a commit marker, an open transaction: stable end 4, end 5. */
async function fill(): Promise<void> {
  await scene.transact('in', ['a', 'b', 'c'], 'commit')
  await scene.transact('in', ['d'], 'open', 'other')
}

describe('where a new run starts', () => {
  test('earliest: at the first record that the log still has', async () => {
    await fill()
    await scene.run(scene.cluster.deleteRecords([{ topic: 'in', partition: 0, beforeOffset: 2n }]))
    expect(await start()).toEqual([split(0, 2n), split(1, 0n)])
  })

  test('latest: at the last stable offset for read_committed, at the end for read_uncommitted', async () => {
    await fill()
    const startingOffsets = OffsetsInitializer.latest()
    expect(positions(await start({ startingOffsets }))).toEqual([
      ['in-0', '4'],
      ['in-1', '0'],
    ])
    expect(positions(await start({ startingOffsets, isolation: 'read_uncommitted' }))[0]).toEqual([
      'in-0',
      '5',
    ])
  })

  test('timestamp: at the first record at or after it, at the end where there is none', async () => {
    await scene.produce('in', [
      { value: 'a', timestamp: 10 },
      { value: 'b', timestamp: 20 },
      { value: 'c', timestamp: 30 },
    ])
    await scene.produce('in', [{ value: 'x', timestamp: 5 }], 1)
    expect(positions(await start({ startingOffsets: OffsetsInitializer.timestamp(20) }))).toEqual([
      ['in-0', '1'],
      ['in-1', '1'],
    ])
  })

  test('offsets: exactly there, and at earliest where none is named', async () => {
    expect(
      positions(
        await start({ startingOffsets: OffsetsInitializer.offsets({ in: { 1: 9007199254740993n } }) }),
      ),
    ).toEqual([
      ['in-0', '0'],
      ['in-1', '9007199254740993'],
    ])
  })

  test('committed: at the offset of the group; without one as it is told', async () => {
    await fill()
    const producer = await scene.run(
      scene.cluster.initProducerId({ transactionalId: 'offsets', transactionTimeoutMs: 60_000 }),
    )
    await scene.run(scene.cluster.addOffsetsToTxn(producer, 'g'))
    await scene.run(scene.cluster.txnOffsetCommit(producer, 'g', [{ topic: 'in', partition: 1, offset: 7n }]))
    await scene.run(scene.cluster.endTxn(producer, 'commit'))
    const from = (reset?: 'earliest' | 'latest') =>
      start({ groupId: 'g', startingOffsets: OffsetsInitializer.committed(reset) })
    expect(positions(await from('earliest'))).toEqual([
      ['in-0', '0'],
      ['in-1', '7'],
    ])
    expect(positions(await from('latest'))[0]).toEqual(['in-0', '4'])
    const failing = enumerator({ groupId: 'g', startingOffsets: OffsetsInitializer.committed() }).start(
      undefined,
    )
    expect(await scene.failure(failing)).toMatchObject({
      code: 'MILLRACE_DATA_LOSS',
      message: expect.stringContaining('in-0'),
      remedy: expect.stringContaining("committed('earliest')"),
    })
  })

  test('committed without a group is refused', async () => {
    const failing = enumerator({ startingOffsets: OffsetsInitializer.committed() }).start(undefined)
    expect(await scene.failure(failing)).toMatchObject({ code: 'MILLRACE_INVALID_OPTION' })
  })
})

describe('where a bounded source stops', () => {
  test('latest: the last stable offset at the start, resolved once', async () => {
    await fill()
    const splits = await start({ bounded: OffsetsInitializer.latest() })
    expect(splits.map(({ stop }) => stop)).toEqual(['4', '0'])
    await scene.produce('in', ['later'])
    expect(await start({ bounded: OffsetsInitializer.latest() }, splits)).toEqual(splits)
  })

  test('offsets must name every partition: one without would be read to nowhere', async () => {
    const bounded = OffsetsInitializer.offsets({ in: { 0: 3n } })
    expect(await scene.failure(enumerator({ bounded }).start(undefined))).toMatchObject({
      code: 'MILLRACE_INVALID_OPTION',
      message: expect.stringContaining('in-1'),
    })
    const all = OffsetsInitializer.offsets({ in: { 0: 3n, 1: 0n } })
    expect((await start({ bounded: all })).map(({ stop }) => stop)).toEqual(['3', '0'])
  })

  test('its set of partitions is fixed: nothing is discovered', async () => {
    expect(enumerator({ bounded: OffsetsInitializer.latest() }).discoveryIntervalMs).toBeUndefined()
    const splits = [split(0, 0n, { stop: '0' })]
    expect(await start({ bounded: OffsetsInitializer.latest() }, splits)).toEqual(splits)
  })
})

describe('which partitions', () => {
  test('of named topics; a missing one is named', async () => {
    await scene.topic('more')
    expect((await start({ topics: ['in', 'more'] })).map(({ id }) => id)).toEqual(['in-0', 'in-1', 'more-0'])
    expect(
      await scene.failure(enumerator({ topics: ['in', 'no-1', 'no-2'] }).start(undefined)),
    ).toMatchObject({
      code: 'MILLRACE_TOPIC_MISSING',
      message: expect.stringContaining('no-1, no-2'),
    })
  })

  test.each([/^orders\./, /^orders\./g, /orders\..$/y])('of topics that match %p', async (topicPattern) => {
    for (const topic of ['orders.a', 'orders.b', 'orders.c', 'xorders']) await scene.topic(topic)
    const found = await start({ topics: undefined, topicPattern })
    expect(found.map(({ topic }) => topic).toSorted()).toEqual(['orders.a', 'orders.b', 'orders.c'])
  })

  test('that are listed; one that the topic does not have is named', async () => {
    const partitions = [{ topic: 'in', partition: 1 }]
    expect((await start({ topics: undefined, partitions })).map(({ id }) => id)).toEqual(['in-1'])
    expect(enumerator({ topics: undefined, partitions }).discoveryIntervalMs).toBeUndefined()
    const beyond = enumerator({ topics: undefined, partitions: [{ topic: 'in', partition: 2 }] })
    expect(await scene.failure(beyond.start(undefined))).toMatchObject({
      code: 'MILLRACE_TOPIC_MISSING',
      message: expect.stringContaining('no partition 2'),
    })
  })

  test('that appear later are found once and start at earliest, whatever the job started with', async () => {
    const found = enumerator({ startingOffsets: OffsetsInitializer.latest() })
    await scene.run(found.start(undefined))
    expect(await scene.run(found.discover())).toEqual([])
    await scene.run(scene.cluster.createPartitions('in', 3))
    await scene.produce('in', ['a', 'b'], 2)
    expect(positions(await scene.run(found.discover()))).toEqual([['in-2', '0']])
    expect(await scene.run(found.discover())).toEqual([])
    expect(scene.lines.map(({ message }) => message).join()).toContain('in-2')
  })
})

describe('restored splits', () => {
  test('are kept as they are, also those that the options do not name any more; new ones are added at earliest', async () => {
    await scene.topic('old')
    await fill()
    const kept: KafkaSplit = { ...split(0, 0n), id: 'old-0', topic: 'old', topicId: topicId('old') }
    expect(await start({ startingOffsets: OffsetsInitializer.latest() }, [kept, split(0, 2n)])).toEqual([
      kept,
      split(0, 2n),
      split(1, 0n),
    ])
  })

  test('a position at the end of the log is there, also past the stable end', async () => {
    await fill()
    expect(positions(await start({}, [split(0, 5n), split(1, 0n)]))).toEqual([
      ['in-0', '5'],
      ['in-1', '0'],
    ])
  })

  test('a topic that is gone is a loss of data, said with the stored offset', async () => {
    await scene.topic('gone')
    const restored = [{ ...split(0, 3n), id: 'gone-0', topic: 'gone', topicId: topicId('gone') }]
    await scene.run(scene.cluster.deleteTopics(['gone']))
    expect(await scene.failure(enumerator().start(restored))).toMatchObject({
      code: 'MILLRACE_DATA_LOSS',
      message: expect.stringMatching(/topic gone does not exist any more.*offset 3/),
    })
  })

  test.each(['fail', 'earliest', 'latest'] as const)(
    'a topic that was made again is another log (policy %s)',
    async (onDataLoss) => {
      const restored = [split(0, 0n)]
      await scene.run(scene.cluster.deleteTopics(['in']))
      await scene.topic('in', 2)
      expect(await scene.failure(enumerator({ onDataLoss }).start(restored))).toMatchObject({
        code: 'MILLRACE_DATA_LOSS',
        message: expect.stringContaining('topic id of in changed'),
      })
    },
  )

  test('records that retention took: fail names the lost offsets', async () => {
    await scene.produce('in', ['a', 'b', 'c', 'd', 'e'])
    await scene.run(scene.cluster.deleteRecords([{ topic: 'in', partition: 0, beforeOffset: 4n }]))
    expect(await scene.failure(enumerator().start([split(0, 1n)]))).toMatchObject({
      code: 'MILLRACE_DATA_LOSS',
      message: expect.stringContaining('1..3'),
      details: { position: 1n, logStart: 4n, logEnd: 5n },
    })
  })

  test.each([
    ['earliest', '4'],
    ['latest', '5'],
  ] as const)('records that retention took: %s goes on, warned and counted', async (onDataLoss, position) => {
    await scene.produce('in', ['a', 'b', 'c', 'd', 'e'])
    await scene.run(scene.cluster.deleteRecords([{ topic: 'in', partition: 0, beforeOffset: 4n }]))
    expect(positions(await start({ onDataLoss }, [split(0, 1n), split(1, 0n)]))[0]).toEqual([
      'in-0',
      position,
    ])
    expect(scene.metrics.counter('source_data_loss').count).toBe(1)
    expect(scene.warnings().join()).toContain('lost range [1, 4)')
  })

  test('a position beyond the end of the log means that the log changed', async () => {
    await scene.produce('in', ['a'])
    expect(await scene.failure(enumerator().start([split(0, 100n)]))).toMatchObject({
      code: 'MILLRACE_DATA_LOSS',
      message: expect.stringContaining('before the stored position 100'),
    })
  })

  test('finished splits are not looked at: their topic may be gone', async () => {
    const finished = { ...split(0, 9n, { stop: '9' }), id: 'gone-0', topic: 'gone', topicId: 'x' }
    expect(await start({ bounded: OffsetsInitializer.latest() }, [finished])).toEqual([finished])
  })

  test('brokers that are away are waited for, and that is said', async () => {
    scene.kafka.isolate('worker')
    scene.time.schedule(300_000, () => scene.kafka.reconnect('worker'))
    expect(await start({}, [split(0, 0n), split(1, 0n)])).toHaveLength(2)
    expect(scene.warnings().join()).toContain('waiting for the topics of source source')
  })

  test('the wait ends with the source', async () => {
    scene.kafka.isolate('worker')
    const waiting = enumerator()
    const failed = scene.failure(waiting.start([split(0, 0n)]))
    await waiting.close()
    expect(await failed).toMatchObject({ retriable: true })
  })
})
