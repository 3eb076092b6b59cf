import { beforeEach, describe, expect, test } from '@jest/globals'
import type { KafkaReaderOptions } from '../../../src/kafka/kafka-source-reader.ts'
import type { KafkaSplit } from '../../../src/kafka/offsets.ts'
import { DrivenReader, splitOf } from './driven-reader.ts'
import { overriding, SimulatedScene } from './simulated-scene.ts'

let scene: SimulatedScene

beforeEach(async () => {
  scene = new SimulatedScene({ brokers: 2 })
  await scene.topic('in', 3)
})

const split = (partition = 0, position = 0n, stop: bigint | null = null, change: Partial<KafkaSplit> = {}) =>
  splitOf(scene, partition, position, stop, change)
const driving = <T = string>(
  options: Partial<KafkaReaderOptions<T>>,
  splits: readonly KafkaSplit[],
  size = 100,
) => new DrivenReader<T>(scene, options, splits, size)
const read = <T = string>(options: Partial<KafkaReaderOptions<T>>, ...splits: KafkaSplit[]) =>
  driving<T>(options, splits.length === 0 ? [split()] : splits).drain()

describe('positions', () => {
  test('lie just past what was returned, in the middle of a batch too', async () => {
    await scene.produce('in', ['a', 'b', 'c', 'd', 'e'])
    const driven = driving<string>({}, [split()], 2)
    await scene.time.advance(100)
    const seen: [readonly string[], string[]][] = []
    for (let records = driven.reader.poll(); records !== undefined; records = driven.reader.poll())
      seen.push([records.vector.values, driven.position])
    expect(seen).toEqual([
      [['a', 'b'], ['2']],
      [['c', 'd'], ['4']],
      [['e'], ['5']],
    ])
    expect(driven.context.recordsIn.count).toBe(5)
  })

  test('of the latest vector are told to whoever looks for a record of it', async () => {
    await scene.produce('in', ['a', 'b', 'c', 'd', 'e'])
    const { reader } = driving<string>({}, [split(0, 1n)], 2)
    expect(reader.describeLastRecords('in-0')).toBeUndefined()
    await scene.time.advance(100)
    reader.poll()
    expect(reader.describeLastRecords('in-0')).toBe('in-0, offsets 1 to 2')
    reader.poll()
    expect(reader.describeLastRecords('in-0')).toBe('in-0, offsets 3 to 4')
    expect(reader.describeLastRecords('in-9')).toBeUndefined()
  })

  test('a reader that starts in the middle of a batch gets the rest of it', async () => {
    await scene.produce('in', ['a', 'b', 'c', 'd'])
    expect((await read({}, split(0, 2n))).values).toEqual(['c', 'd'])
  })

  test('pass commit markers: a job that has read everything has no lag and stores the position behind the marker', async () => {
    await scene.transact(
      'in',
      Array.from({ length: 10 }, (_, i) => `r${i}`),
      'commit',
    )
    const driven = await read({})
    expect(driven.values).toHaveLength(10)
    expect(driven.position).toEqual(['11'])
    expect(driven.reader.lag()).toBe(0)
  })

  test('pass aborted transactions, also where there is nothing else', async () => {
    await scene.transact('in', ['x', 'y'], 'abort')
    await scene.transact('in', ['a'], 'commit', 'other')
    await scene.transact('in', ['z'], 'abort')
    await scene.transact('in', ['only aborted'], 'abort', 'somebody', 1)
    const driven = await read({}, split(0), split(1))
    expect(driven.values).toEqual(['a'])
    expect(driven.position).toEqual(['7', '2'])
    expect(driven.reader.lag()).toBe(0)
  })

  test('pass compacted gaps, from inside of them too', async () => {
    await scene.topic('table', 1, { 'cleanup.policy': 'compact' })
    for (let i = 0; i < 40; i++) await scene.produce('table', [{ key: `k${i % 2}`, value: String(i) }])
    await scene.produce('table', [{ key: 'last', value: 'end' }])
    scene.kafka.compact('table')
    const table = (position: bigint) =>
      split(0, position, null, {
        id: 'table-0',
        topic: 'table',
        topicId: scene.kafka.inside.topics.get('table')!.topicId,
      })
    expect((await read({}, table(0n))).values).toEqual(['38', '39', 'end'])
    for (const from of [1n, 20n, 37n])
      expect((await read({}, table(from))).values).toEqual(['38', '39', 'end'])
  })

  test('stop at an open transaction until it ends', async () => {
    await scene.produce('in', ['a'])
    const open = await scene.transact('in', ['b'], 'open')
    await scene.produce('in', ['c'])
    const driven = await read({})
    expect(driven.values).toEqual(['a'])
    expect(driven.position).toEqual(['1'])
    await scene.run(scene.cluster.endTxn(open, 'commit'))
    await driven.drain()
    expect(driven.values).toEqual(['a', 'b', 'c'])
  })

  test('read_uncommitted sees everything at once', async () => {
    await scene.transact('in', ['b'], 'open')
    await scene.transact('in', ['x'], 'abort', 'other')
    expect((await read({ isolation: 'read_uncommitted' })).values).toEqual(['b', 'x'])
  })

  test('what is restored goes on where it stood: nothing twice, nothing lost', async () => {
    for (let i = 0; i < 30; i++) await scene.produce('in', [`${i}a`, `${i}b`, `${i}c`], i % 3)
    const all: string[] = []
    let splits: readonly KafkaSplit[] = [split(0), split(1), split(2)]
    for (let restart = 0; restart < 40; restart++) {
      const driven = driving<string>({}, splits, 3)
      await scene.time.advance(200)
      for (let polls = 0; polls < 2; polls++) all.push(...(driven.reader.poll()?.vector.values ?? []))
      splits = driven.reader.snapshot(restart)
      await driven.reader.close()
    }
    expect(all.toSorted()).toEqual(
      Array.from({ length: 30 }, (_, i) => [`${i}a`, `${i}b`, `${i}c`])
        .flat()
        .toSorted(),
    )
  })
})

describe('a bounded source', () => {
  const bounded = (stop: bigint, position = 0n) => read({ bounded: true }, split(0, position, stop))

  test('stops in the middle of a batch', async () => {
    await scene.produce('in', ['a', 'b', 'c', 'd'])
    const driven = await bounded(3n)
    expect(driven.values).toEqual(['a', 'b', 'c'])
    expect(driven.position).toEqual(['3'])
    expect(driven.reader.isFinished()).toBe(true)
    expect(driven.reader.finishedSplits()).toEqual(['in-0'])
    await scene
      .run(
        driven.reader.available().then(() => undefined),
        10,
      )
      .catch(() => undefined)
  })

  test('stops on and right after a marker', async () => {
    await scene.transact('in', ['a', 'b'], 'commit')
    for (const stop of [2n, 3n]) {
      const driven = await bounded(stop)
      expect(driven.values).toEqual(['a', 'b'])
      expect(driven.position).toEqual([String(stop)])
      expect(driven.reader.isFinished()).toBe(true)
    }
  })

  test('stops behind aborted records though none is left to return', async () => {
    await scene.transact('in', ['x', 'y'], 'abort')
    const driven = await bounded(3n)
    expect(driven.values).toEqual([])
    expect(driven.reader.isFinished()).toBe(true)
  })

  test('stops in the middle of an aborted batch', async () => {
    await scene.transact('in', ['x', 'y', 'z'], 'abort')
    const driven = await bounded(2n)
    expect(driven.position).toEqual(['2'])
    expect(driven.reader.isFinished()).toBe(true)
  })

  test('never reads what comes later, and never past a vector that ends at the stop', async () => {
    for (let i = 0; i < 10; i++) await scene.produce('in', [`${i}`])
    const driven = driving<string>({ bounded: true }, [split(0, 0n, 4n)], 2)
    await driven.drain()
    await scene.produce('in', ['later'])
    await driven.drain()
    expect(driven.values).toEqual(['0', '1', '2', '3'])
  })

  test('is finished only when all splits are', async () => {
    await scene.produce('in', ['a'])
    const driven = await read({ bounded: true }, split(0, 0n, 1n), split(1, 0n, 1n))
    expect(driven.reader.isFinished()).toBe(false)
    await scene.produce('in', ['b'], 1)
    await driven.drain()
    expect(driven.values).toEqual(['a', 'b'])
    expect(driven.reader.isFinished()).toBe(true)
  })

  test('a split that was finished when it was stored is not fetched again', async () => {
    const driven = await read({ bounded: true }, split(0, 4n, 4n))
    expect(driven.reader.isFinished()).toBe(true)
    expect(driven.reader.snapshot(1)).toEqual([split(0, 4n, 4n)])
    expect(driven.reader.poll()).toBeUndefined()
  })

  test('ends though everything up to its stop is gone, when it may go on without', async () => {
    await scene.produce('in', ['a', 'b', 'c'])
    await scene.run(scene.cluster.deleteRecords([{ topic: 'in', partition: 0, beforeOffset: 3n }]))
    const driven = await read({ bounded: true, onDataLoss: 'earliest' }, split(0, 0n, 3n))
    expect(driven.reader.isFinished()).toBe(true)
    expect(driven.position).toEqual(['3'])
  })

  test('ends though the rest up to its stop is gone while earlier records still wait to be decoded', async () => {
    await scene.produce('in', ['a', 'b'.repeat(80_000)])
    await scene.produce('in', ['c'.repeat(80_000), 'd'])
    let fetches = 0
    scene.kafka.intercept(({ api, clientId }) =>
      api === 'Fetch' && clientId === 'worker' && ++fetches === 2 ? { delayMs: 200 } : 'pass',
    )
    const driven = driving<string>({ bounded: true, onDataLoss: 'earliest' }, [split(0, 0n, 4n)])
    await scene.time.advance(50)
    await scene.run(scene.cluster.deleteRecords([{ topic: 'in', partition: 0, beforeOffset: 4n }]))
    await scene.time.advance(1_000)
    await driven.drain()
    expect(driven.values.map((value) => value.slice(0, 1))).toEqual(['a', 'b'])
    expect(driven.position).toEqual(['4'])
    expect(driven.reader.isFinished()).toBe(true)
  })

  test('an unbounded one is never finished', async () => {
    expect((await read({}, split(0, 0n, null))).reader.isFinished()).toBe(false)
  })
})

describe('waiting', () => {
  test('available resolves when records come', async () => {
    const driven = driving<string>({}, [split()])
    expect(driven.reader.poll()).toBeUndefined()
    let woken = false
    void driven.reader.available().then(() => {
      woken = true
    })
    await scene.time.advance(5_000)
    expect(woken).toBe(false)
    await scene.produce('in', ['a'])
    await scene.time.advance(1_000)
    expect(woken).toBe(true)
    expect(driven.reader.poll()?.vector.values).toEqual(['a'])
  })

  test('available resolves at once while there is more, and when the reader is closed', async () => {
    await scene.produce('in', ['a', 'b'])
    const driven = driving<string>({}, [split()], 1)
    await scene.time.advance(100)
    driven.reader.poll()
    await driven.reader.available()
    await driven.drain()
    const waiting = driven.reader.available()
    await driven.reader.close()
    await waiting
  })

  test('a quiet partition does not hold up a busy one, nor a busy one a quiet one', async () => {
    const driven = driving<string>({}, [split(0), split(1)])
    for (let i = 0; i < 200; i++) await scene.produce('in', [`${i}`])
    await driven.drain()
    await scene.produce('in', ['quiet'], 1)
    const at = scene.time.now()
    while (driven.values.at(-1) !== 'quiet') await driven.drain(20)
    expect(scene.time.now() - at).toBeLessThan(1_000)
    expect(driven.values).toHaveLength(201)
  })

  test('a partition without a leader does not hold up the others', async () => {
    const driven = driving<string>({}, [split(0), split(1)])
    await driven.drain()
    const leaderOf1 = scene.kafka.inside.topics.partition({ topic: 'in', partition: 1 })!.leader
    expect(scene.kafka.inside.topics.partition({ topic: 'in', partition: 0 })!.leader).not.toBe(leaderOf1)
    scene.kafka.stopBroker(leaderOf1)
    for (let i = 0; i < 5; i++) {
      await scene.produce('in', [`during ${i}`])
      await driven.drain(4_000)
    }
    expect(driven.values).toHaveLength(5)
    scene.kafka.startBroker(leaderOf1)
    await scene.produce('in', ['after'], 1)
    await driven.drain(90_000)
    expect(driven.values.at(-1)).toBe('after')
  })
})

describe('trouble with brokers', () => {
  test('lost answers and a moved leader lose and repeat nothing', async () => {
    await scene.run(scene.cluster.createTopics([{ topic: 'two', partitions: 1, replicationFactor: 2 }]))
    const two = {
      ...split(),
      id: 'two-0',
      topic: 'two',
      topicId: scene.kafka.inside.topics.get('two')!.topicId,
    }
    const driven = driving<string>({}, [two])
    let n = 0
    scene.kafka.intercept(({ api, clientId }) => {
      if (api !== 'Fetch' || clientId !== 'worker') return 'pass'
      return (['pass', 'drop-request', 'drop-response', 'duplicate'] as const)[++n % 4]!
    })
    for (let i = 0; i < 20; i++) {
      await scene.produce('two', [`${i}`])
      if (i % 5 === 4) scene.kafka.moveLeader({ topic: 'two', partition: 0 })
      await driven.drain(500)
    }
    await driven.drain(10_000)
    expect(driven.values).toEqual(Array.from({ length: 20 }, (_, i) => String(i)))
  })

  test('a topic that is deleted while it is read is a loss of data', async () => {
    const driven = await read({})
    await scene.run(scene.cluster.deleteTopics(['in']))
    await scene.time.advance(5_000)
    expect(() => driven.reader.poll()).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_DATA_LOSS',
        message: expect.stringContaining('was deleted'),
      }),
    )
    await driven.reader.available()
  })

  test('no right to read is said with the topic', async () => {
    const driven = driving<string>({}, [split()])
    scene.kafka.intercept(({ api }) => (api === 'Fetch' ? { errorCode: 29 } : 'pass'))
    await scene.time.advance(5_000)
    expect(() => driven.reader.poll()).toThrow(/in/)
  })

  test('damaged bytes are an error that names the place, never other records', async () => {
    await scene.produce('in', ['a'])
    await scene.produce('in', ['abcdef'])
    const cluster = overriding(scene.cluster, {
      fetch: async (request) => {
        const answers = await scene.cluster.fetch(request)
        return answers.map((answer) => {
          const records = Buffer.from(answer.records)
          const at = records.indexOf('abcdef')
          if (at >= 0) records[at] = 0x58
          return { ...answer, records }
        })
      },
    })
    const driven = driving<string>({ cluster }, [split()])
    await scene.time.advance(1_000)
    expect(() => {
      for (let polls = 0; polls < 3; polls++) driven.received.push(driven.reader.poll()!)
    }).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_CORRUPT_BATCH',
        message: expect.stringMatching(/in.*0.*offset 1/),
      }),
    )
    expect(driven.position).toEqual(['0'])
  })
})

describe('records that are gone', () => {
  beforeEach(async () => {
    await scene.produce('in', ['a', 'b', 'c', 'd', 'e'])
    await scene.run(scene.cluster.deleteRecords([{ topic: 'in', partition: 0, beforeOffset: 3n }]))
  })

  test('fail: the lost range is named', async () => {
    const driven = driving<string>({}, [split(0, 1n)])
    await scene.time.advance(3_000)
    expect(() => driven.reader.poll()).toThrow(
      expect.objectContaining({ code: 'MILLRACE_DATA_LOSS', message: expect.stringContaining('[1, 3)') }),
    )
  })

  test.each([
    ['earliest', ['d', 'e', 'new']],
    ['latest', ['new']],
  ] as const)('%s: goes on there, warned and counted', async (onDataLoss, values) => {
    const driven = await read({ onDataLoss }, split(0, 1n))
    await scene.produce('in', ['new'])
    await driven.drain()
    expect(driven.values).toEqual(values)
    expect(driven.position).toEqual(['6'])
    expect(scene.metrics.counter('source_data_loss').count).toBe(1)
    expect(scene.warnings().join()).toContain('lost range')
  })

  test('a position beyond the end is outside of the log too', async () => {
    const driven = driving<string>({}, [split(0, 50n)])
    await scene.time.advance(3_000)
    expect(() => driven.reader.poll()).toThrow(/offset 50 is outside of the log \[3, 5\)/)
  })
})
