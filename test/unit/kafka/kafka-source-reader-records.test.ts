import { beforeEach, describe, expect, test } from '@jest/globals'
import type { Serde } from '../../../src/core/connector.ts'
import { MillraceError } from '../../../src/errors.ts'
import { DEAD_LETTER_TAG, deadLetter } from '../../../src/kafka/deserialization.ts'
import type { KafkaReaderOptions } from '../../../src/kafka/kafka-source-reader.ts'
import type { KafkaSplit } from '../../../src/kafka/offsets.ts'
import { json, string } from '../../../src/serdes/serdes.ts'
import { DrivenReader, splitOf } from './driven-reader.ts'
import { SimulatedScene } from './simulated-scene.ts'

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
        return loaded.has(value) || value === 'a'
          ? undefined
          : scene.time.sleep(500).then(() => void loaded.add(value))
      },
    }
    const driven = driving<string>({ deserializer: { kind: 'value', serde } }, [split()])
    await scene.time.advance(100)
    expect(driven.reader.poll()?.vector.values).toEqual(['a'])
    expect(driven.position).toEqual(['1'])
    expect(driven.reader.poll()).toBeUndefined()
    expect(driven.reader.isPreparing()).toBe(true)
    await driven.drain()
    expect(driven.reader.isPreparing()).toBe(false)
    expect(driven.values).toEqual(['b', 'c'])
    expect(driven.position).toEqual(['3'])
  })

  test('the serde is opened before the first record', async () => {
    let opened = false
    const open = () => {
      opened = true
    }
    const serde: Serde<string> = { ...string(), open }
    const driven = driving<string>({ deserializer: { kind: 'value', serde } }, [])
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
    const driven = driving<unknown>(policies, [split()])
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
    const driven = await read<unknown>(
      { ...policies, onDeserializationError: deadLetter('dlq') },
      split(0, 1n, 3n),
    )
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
        Buffer.from(bytes).toString() === 'bad'
          ? scene.time.sleep(200).then(() => Promise.reject(new Error('no schema')))
          : undefined,
    }
    const options = {
      deserializer: { kind: 'value' as const, serde },
      onDeserializationError: deadLetter('dlq'),
    }
    const driven = driving<string>(options, [split(2), split(1)], 1)
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
      prepareDeserialize: () =>
        Promise.reject(new MillraceError('MILLRACE_KAFKA_UNREACHABLE', 'registry away')),
    } as unknown as Serde<string>
    const { readSlice: _, ...general } = serde
    const driven = driving<string>(
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
  let driven: DrivenReader<string>
  beforeEach(async () => {
    await scene.produce('in', ['new'], 1)
    driven = driving<string>({}, [split()])
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
    const driven = driving<string>({}, [split()], 1)
    await scene.time.advance(100)
    driven.reader.poll()
    expect(driven.reader.lag()).toBe(2)
    expect(scene.metrics.gauges.get('source_lag_records')!()).toBe(2)
    await driven.drain()
    expect(driven.reader.lag()).toBe(0)
  })
})
