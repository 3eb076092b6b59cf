import { beforeEach, describe, expect, test } from '@jest/globals'
import type { Serde, SourceReaderContext, SplitRecords } from '../../../src/core/connector.ts'
import { MillraceError } from '../../../src/errors.ts'
import { DEAD_LETTER_TAG, type DeadLetterRecord, deadLetter } from '../../../src/kafka/deserialization.ts'
import { type KafkaReaderOptions, KafkaSourceReader } from '../../../src/kafka/kafka-source-reader.ts'
import type { KafkaSplit } from '../../../src/kafka/offsets.ts'
import { json, string } from '../../../src/serdes/serdes.ts'
import { countingCounter, overriding, SimulatedScene } from './simulated-scene.ts'

let scene: SimulatedScene

beforeEach(async () => {
  scene = new SimulatedScene({ brokers: 2 })
  await scene.topic('in', 3)
})

const split = (partition = 0, position = 0n, stop: bigint | null = null, change: Partial<KafkaSplit> = {}): KafkaSplit => ({
  id: `in-${partition}`,
  topic: 'in',
  topicId: scene.kafka.inside.topics.get('in')!.topicId,
  partition,
  position: String(position),
  stop: stop === null ? null : String(stop),
  ...change,
})

/** A reader as its task drives it. */
class Driven<T> {
  readonly reader: KafkaSourceReader<T>
  readonly context: SourceReaderContext
  readonly received: SplitRecords<T>[] = []

  constructor(options: Partial<KafkaReaderOptions<T>>, splits: readonly KafkaSplit[], vectorSize = 100) {
    this.context = {
      info: scene.info({ operatorName: 'Source: in' }),
      world: scene.world,
      vectorSize,
      recordsIn: countingCounter(),
    }
    this.reader = new KafkaSourceReader<T>(
      {
        cluster: scene.cluster,
        bounded: false,
        isolation: 'read_committed',
        deserializer: { kind: 'value', serde: string() as unknown as Serde<T> },
        nullValues: 'skip',
        onDeserializationError: 'fail',
        onDataLoss: 'fail',
        fetchMaxBytes: 100_000,
        fetchMaxWaitMs: 500,
        ...options,
      },
      this.context,
    )
    this.reader.addSplits(splits)
  }

  /** Polls until nothing comes for so long. */
  async drain(quietMs = 3_000): Promise<this> {
    const until = scene.time.now() + quietMs
    while (scene.time.now() < until) {
      for (let records = this.reader.poll(); records !== undefined; records = this.reader.poll()) {
        this.received.push(records)
        for (const s of this.reader.snapshot(0)) expect(BigInt(s.position)).toBeGreaterThanOrEqual(0n)
      }
      await scene.time.advance(50)
    }
    return this
  }

  get values(): T[] {
    return this.received.flatMap(({ vector }) => [...vector.values])
  }

  get letters(): DeadLetterRecord[] {
    return this.received.flatMap(({ side }) => [...((side?.vector.values ?? []) as DeadLetterRecord[])])
  }

  get position(): string[] {
    return this.reader.snapshot(1).map((s) => s.position)
  }
}

const read = <T = string>(options: Partial<KafkaReaderOptions<T>>, ...splits: KafkaSplit[]) =>
  new Driven<T>(options, splits.length === 0 ? [split()] : splits).drain()

describe('positions', () => {
  test('lie just past what was returned, in the middle of a batch too', async () => {
    await scene.produce('in', ['a', 'b', 'c', 'd', 'e'])
    const driven = new Driven<string>({}, [split()], 2)
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

  test('a reader that starts in the middle of a batch gets the rest of it', async () => {
    await scene.produce('in', ['a', 'b', 'c', 'd'])
    expect((await read({}, split(0, 2n))).values).toEqual(['c', 'd'])
  })

  test('pass commit markers: a job that has read everything has no lag and stores the position behind the marker', async () => {
    await scene.transact('in', Array.from({ length: 10 }, (_, i) => `r${i}`), 'commit')
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
      split(0, position, null, { id: 'table-0', topic: 'table', topicId: scene.kafka.inside.topics.get('table')!.topicId })
    expect((await read({}, table(0n))).values).toEqual(['38', '39', 'end'])
    for (const from of [1n, 20n, 37n]) expect((await read({}, table(from))).values).toEqual(['38', '39', 'end'])
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
      const driven = new Driven<string>({}, splits, 3)
      await scene.time.advance(200)
      for (let polls = 0; polls < 2; polls++) all.push(...(driven.reader.poll()?.vector.values ?? []))
      splits = driven.reader.snapshot(restart)
      await driven.reader.close()
    }
    expect(all.toSorted()).toEqual(
      Array.from({ length: 30 }, (_, i) => [`${i}a`, `${i}b`, `${i}c`]).flat().toSorted(),
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
    await scene.run(driven.reader.available().then(() => undefined), 10).catch(() => undefined)
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
    const driven = new Driven<string>({ bounded: true }, [split(0, 0n, 4n)], 2)
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

  test('an unbounded one is never finished', async () => {
    expect((await read({}, split(0, 0n, null))).reader.isFinished()).toBe(false)
  })
})

describe('waiting', () => {
  test('available resolves when records come', async () => {
    const driven = new Driven<string>({}, [split()])
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
    const driven = new Driven<string>({}, [split()], 1)
    await scene.time.advance(100)
    driven.reader.poll()
    await driven.reader.available()
    await driven.drain()
    const waiting = driven.reader.available()
    await driven.reader.close()
    await waiting
  })

  test('a quiet partition does not hold up a busy one, nor a busy one a quiet one', async () => {
    const driven = new Driven<string>({}, [split(0), split(1)])
    for (let i = 0; i < 200; i++) await scene.produce('in', [`${i}`])
    await driven.drain()
    await scene.produce('in', ['quiet'], 1)
    const at = scene.time.now()
    while (driven.values.at(-1) !== 'quiet') await driven.drain(20)
    expect(scene.time.now() - at).toBeLessThan(1_000)
    expect(driven.values).toHaveLength(201)
  })

  test('a partition without a leader does not hold up the others', async () => {
    const driven = new Driven<string>({}, [split(0), split(1)])
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
    const two = { ...split(), id: 'two-0', topic: 'two', topicId: scene.kafka.inside.topics.get('two')!.topicId }
    const driven = new Driven<string>({}, [two])
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
      expect.objectContaining({ code: 'MILLRACE_DATA_LOSS', message: expect.stringContaining('was deleted') }),
    )
    await driven.reader.available()
  })

  test('no right to read is said with the topic', async () => {
    const driven = new Driven<string>({}, [split()])
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
    const driven = new Driven<string>({ cluster }, [split()])
    await scene.time.advance(1_000)
    expect(() => {
      for (let polls = 0; polls < 3; polls++) driven.received.push(driven.reader.poll()!)
    }).toThrow(
      expect.objectContaining({ code: 'MILLRACE_CORRUPT_BATCH', message: expect.stringMatching(/in.*0.*offset 1/) }),
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
    const driven = new Driven<string>({}, [split(0, 1n)])
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
    const driven = new Driven<string>({}, [split(0, 50n)])
    await scene.time.advance(3_000)
    expect(() => driven.reader.poll()).toThrow(/offset 50 is outside of the log \[3, 5\)/)
  })
})

describe('values', () => {
  test('null values are skipped, counted, and warned of once', async () => {
    await scene.produce('in', ['a', { value: null }, { value: null }, 'b'])
    const driven = await read({})
    expect(driven.values).toEqual(['a', 'b'])
    expect(scene.metrics.counter('source_null_values_skipped').count).toBe(2)
    expect(scene.warnings()).toEqual([expect.stringContaining('in-0 offset 1')])
    expect(driven.position).toEqual(['4'])
  })

  test('null values are passed on when that is asked for', async () => {
    await scene.produce('in', ['a', { value: null }])
    const driven = await read<string | null>({ nullValues: 'emit' })
    expect(driven.values).toEqual(['a', null])
    expect(scene.metrics.counters.has('source_null_values_skipped')).toBe(false)
  })

  test('timestamps are those of the records, and none where there is none', async () => {
    await scene.produce('in', [
      { value: 'a', timestamp: 7 },
      { value: 'b', timestamp: -1 },
    ])
    const driven = await read({})
    expect(driven.received.flatMap(({ vector }) => [...vector.timestamps])).toEqual([7, Number.NaN])
  })

  test('a deserializer function may give none, one or many for a record', async () => {
    await scene.produce('in', ['0', '1', '3'])
    const driven = await read<string>({
      deserializer: {
        kind: 'record',
        deserialize: ({ value, offset, topic, partition }) => {
          const count = Number(Buffer.from(value!).toString())
          if (count === 0) return undefined
          const name = `${topic}-${partition}@${offset}`
          return count === 1 ? name : Array.from({ length: count }, (_, i) => `${name}#${i}`)
        },
      },
    })
    expect(driven.values).toEqual(['in-0@1', 'in-0@2#0', 'in-0@2#1', 'in-0@2#2'])
  })

  test('a serde that loads a schema first holds the record, its position, and all that is behind it', async () => {
    await scene.produce('in', ['a', 'b', 'c'])
    const loaded = new Set<string>()
    const serde: Serde<string> = {
      name: 'schema',
      serialize: (value) => Buffer.from(value),
      deserialize: (bytes) => Buffer.from(bytes).toString(),
      prepareDeserialize: (bytes) => {
        const value = Buffer.from(bytes).toString()
        return loaded.has(value) || value === 'a' ? undefined : scene.time.sleep(500).then(() => void loaded.add(value))
      },
    }
    const driven = new Driven<string>({ deserializer: { kind: 'value', serde } }, [split()])
    await scene.time.advance(100)
    expect(driven.reader.poll()?.vector.values).toEqual(['a'])
    expect(driven.position).toEqual(['1'])
    expect(driven.reader.poll()).toBeUndefined()
    await driven.drain()
    expect(driven.values).toEqual(['b', 'c'])
    expect(driven.position).toEqual(['3'])
  })

  test('the serde is opened before the first record', async () => {
    let opened = false
    const serde: Serde<string> = { ...string(), open: () => void (opened = true) }
    const driven = new Driven<string>({ deserializer: { kind: 'value', serde } }, [])
    await scene.run(driven.reader.start())
    expect(opened).toBe(true)
  })
})

describe('records that cannot be decoded', () => {
  const policies = { deserializer: { kind: 'value' as const, serde: json<unknown>() } }
  beforeEach(async () => {
    await scene.produce('in', ['{"n":1}', '{broken', '', '{"n":2}'])
  })

  test('fail: the record is named, and nothing behind it is returned', async () => {
    const driven = new Driven<unknown>(policies, [split()])
    await scene.time.advance(100)
    expect(() => driven.reader.poll()).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_DESERIALIZATION',
        message: expect.stringMatching(/in-0 offset 1 .*\{broken.*with json/),
      }),
    )
    expect(driven.position).toEqual(['0'])
  })

  test('skip: counted, warned of once, and the position passes them', async () => {
    const driven = await read<unknown>({ ...policies, onDeserializationError: 'skip' })
    expect(driven.values).toEqual([{ n: 1 }, { n: 2 }])
    expect(driven.position).toEqual(['4'])
    expect(scene.metrics.counter('source_records_skipped').count).toBe(2)
    expect(scene.warnings()).toHaveLength(1)
  })

  test('dead letter: the raw records go to the side output, together with the position that covers them', async () => {
    const driven = await read<unknown>({ ...policies, onDeserializationError: deadLetter('dlq') })
    expect(driven.values).toEqual([{ n: 1 }, { n: 2 }])
    expect(driven.received[0]!.side!.tagId).toBe(DEAD_LETTER_TAG)
    expect(driven.letters.map(({ value }) => Buffer.from(value!).toString())).toEqual(['{broken', ''])
    expect(scene.metrics.counter('source_dead_letters').count).toBe(2)
    expect(driven.position).toEqual(['4'])
  })

  test('dead letter: a vector may have nothing else', async () => {
    const driven = await read<unknown>({ ...policies, onDeserializationError: deadLetter('dlq') }, split(0, 1n, 3n))
    expect(driven.values).toEqual([])
    expect(driven.letters).toHaveLength(2)
    expect(driven.position).toEqual(['3'])
  })

  test('dead letters stay with their own split: its position covers them, not that of another', async () => {
    await scene.produce('in', ['bad'], 1)
    for (let i = 0; i < 4; i++) await scene.produce('in', ['good'], 2)
    const serde: Serde<string> = {
      name: 'schema',
      serialize: (value) => Buffer.from(value),
      deserialize: (bytes) => Buffer.from(bytes).toString(),
      prepareDeserialize: (bytes) =>
        Buffer.from(bytes).toString() === 'bad' ? scene.time.sleep(200).then(() => Promise.reject(new Error('no schema'))) : undefined,
    }
    const options = { deserializer: { kind: 'value' as const, serde }, onDeserializationError: deadLetter('dlq') }
    const driven = new Driven<string>(options, [split(2), split(1)], 1)
    const lettersAt: [string, string][] = []
    for (let i = 0; i < 40; i++) {
      const records = driven.reader.poll()
      if (records?.side !== undefined)
        lettersAt.push([records.splitId, driven.reader.snapshot(1).find(({ id }) => id === 'in-1')!.position])
      await scene.time.advance(50)
    }
    expect(lettersAt).toEqual([['in-1', '1']])
  })

  test('a schema that cannot be loaded for now is not a bad record: the job fails and may try again', async () => {
    const serde: Serde<string> = {
      ...json(),
      name: 'schema',
      prepareDeserialize: () => Promise.reject(new MillraceError('MILLRACE_KAFKA_UNREACHABLE', 'registry away')),
    } as unknown as Serde<string>
    const { readSlice: _, ...general } = serde
    const driven = new Driven<string>(
      { deserializer: { kind: 'value', serde: general }, onDeserializationError: 'skip' },
      [split()],
    )
    await scene.time.advance(100)
    driven.reader.poll()
    await scene.time.advance(100)
    expect(() => driven.reader.poll()).toThrow(/registry away/)
    expect(scene.metrics.counters.has('source_records_skipped')).toBe(false)
  })

  test('a deserializer function that throws is under the same policy', async () => {
    const driven = await read<string>({
      deserializer: {
        kind: 'record',
        deserialize: ({ offset }) => {
          if (offset % 2n === 1n) throw new Error('odd')
          return String(offset)
        },
      },
      onDeserializationError: 'skip',
    })
    expect(driven.values).toEqual(['0', '2'])
    expect(scene.warnings().join()).toContain('the deserializer function: odd')
  })
})

describe('splits that are discovered while the job runs', () => {
  const pending = () => split(1, 0n, null, { pending: true })
  let driven: Driven<string>
  beforeEach(async () => {
    await scene.produce('in', ['new'], 1)
    driven = new Driven<string>({}, [split()])
    driven.reader.addSplits([pending()])
  })

  test('give no record before a checkpoint that holds them is complete', async () => {
    await driven.drain()
    expect(driven.values).toEqual([])
    expect(driven.reader.snapshot(5)).toEqual([split(0), split(1)])
    await driven.drain()
    expect(driven.values).toEqual([])
    driven.reader.notifyCheckpointComplete(5)
    await driven.drain()
    expect(driven.values).toEqual(['new'])
    expect(driven.position).toEqual(['0', '1'])
  })

  test('are not let go by a checkpoint that was taken before they were found', async () => {
    driven.reader.notifyCheckpointComplete(4)
    driven.reader.snapshot(5)
    driven.reader.notifyCheckpointComplete(4)
    await driven.drain()
    expect(driven.values).toEqual([])
  })

  test('are let go by a later checkpoint when the first one was aborted', async () => {
    driven.reader.snapshot(5)
    driven.reader.snapshot(6)
    driven.reader.notifyCheckpointComplete(6)
    await driven.drain()
    expect(driven.values).toEqual(['new'])
  })

  test('are let go once', async () => {
    driven.reader.snapshot(5)
    driven.reader.notifyCheckpointComplete(5)
    driven.reader.notifyCheckpointComplete(6)
    await driven.drain()
    expect(driven.reader.snapshot(7)).toHaveLength(2)
    expect(driven.values).toEqual(['new'])
  })
})

describe('lag', () => {
  test('counts records behind the stable end, and is a metric', async () => {
    await scene.produce('in', ['a', 'b', 'c'])
    await scene.transact('in', ['open'], 'open')
    const driven = new Driven<string>({}, [split()], 1)
    await scene.time.advance(100)
    driven.reader.poll()
    expect(driven.reader.lag()).toBe(2)
    expect(scene.metrics.gauges.get('source_lag_records')!()).toBe(2)
    await driven.drain()
    expect(driven.reader.lag()).toBe(0)
  })
})
