import { beforeEach, describe, expect, test } from '@jest/globals'
import { recordVector } from '../../../src/core/element.ts'
import type { ProducerIdentity } from '../../../src/kafka/kafka-cluster.ts'
import type { KafkaSinkOptions } from '../../../src/kafka/kafka-sink-options.ts'
import { KafkaWriter } from '../../../src/kafka/kafka-writer.ts'
import { json, string } from '../../../src/serdes/serdes.ts'
import { countingCounter, SimulatedScene } from './simulated-scene.ts'

const TIMEOUT_MS = 600_000

let scene: SimulatedScene
let leases: ProducerIdentity[]
let alive: () => void

beforeEach(async () => {
  scene = new SimulatedScene()
  alive = () => undefined
  await scene.topic('out', 4)
  leases = []
  for (let slot = 0; slot < 3; slot++)
    leases.push(
      await scene.run(
        scene.cluster.initProducerId({ transactionalId: `t.0.${slot}`, transactionTimeoutMs: TIMEOUT_MS }),
      ),
    )
})

const vector = <T>(...values: T[]) =>
  recordVector(
    values,
    values.map(() => Number.NaN),
  )

async function writer<T = string>(
  sink: Partial<KafkaSinkOptions<T>> = {},
  change: { transactional?: boolean; acks?: -1 | 1 } = {},
): Promise<KafkaWriter<T>> {
  const made = new KafkaWriter<T>({
    sink: { topic: 'out', value: string() as never, partition: () => 0, ...sink },
    cluster: scene.cluster,
    leases: change.transactional === false ? undefined : leases,
    acks: change.acks ?? -1,
    transactionTimeoutMs: TIMEOUT_MS,
    assertAlive: () => alive(),
    context: scene.sinkContext(),
  })
  await scene.run(made.open())
  return made
}

describe('what is written', () => {
  test('keys, headers and timestamps are those that the selectors give', async () => {
    const made = await writer<{ k: string | null; v: number; at: number }>({
      value: json(),
      key: (value) => value.k,
      headers: (value) => [
        ['v', Buffer.from(String(value.v))],
        ['none', null],
      ],
      timestamp: (value) => value.at,
    })
    await scene.run(made.write(vector({ k: 'x', v: 1, at: 5 }, { k: null, v: 2, at: 6 })))
    await scene.run(made.flush())
    expect(await scene.read('out', 0, 'read_uncommitted')).toEqual([
      {
        offset: 0n,
        key: 'x',
        value: '{"k":"x","v":1,"at":5}',
        headers: [
          ['v', '1'],
          ['none', null],
        ],
        timestamp: 5,
      },
      expect.objectContaining({ key: null, timestamp: 6 }),
    ])
  })

  test('the timestamp is the event time, and without one the clock', async () => {
    const made = await writer()
    await scene.run(made.write(recordVector(['a', 'b'], [1_234, Number.NaN])))
    await scene.run(made.flush())
    const seen = await scene.read('out', 0, 'read_uncommitted')
    expect(seen[0]!.timestamp).toBe(1_234)
    expect(seen[1]!.timestamp).toBeGreaterThan(1_700_000_000_000)
  })

  test('records with one key go to one partition; without key they are spread', async () => {
    const made = await writer({ key: (value) => value.split(':')[0]!, partition: undefined as never })
    await scene.run(made.write(vector(...Array.from({ length: 40 }, (_, i) => `k${i % 8}:${i}`))))
    await scene.run(made.flush())
    const partitionsOf = new Map<string, Set<number>>()
    for (let partition = 0; partition < 4; partition++)
      for (const { key } of await scene.read('out', partition, 'read_uncommitted'))
        partitionsOf.set(key!, (partitionsOf.get(key!) ?? new Set()).add(partition))
    expect(partitionsOf.size).toBe(8)
    for (const partitions of partitionsOf.values()) expect(partitions.size).toBe(1)
  })

  test('numbers and bigints are keys in decimal text, bytes as they are', async () => {
    const keys = [7, 12345678901234567890n, Buffer.from('b'), null]
    const made = await writer({ key: () => keys.shift()! })
    await scene.run(made.write(vector('1', '2', '3', '4')))
    await scene.run(made.flush())
    expect((await scene.read('out', 0, 'read_uncommitted')).map(({ key }) => key)).toEqual([
      '7',
      '12345678901234567890',
      'b',
      null,
    ])
  })

  test('a topic chosen by the record is looked up once, and every record is counted once', async () => {
    await scene.topic('x')
    await scene.topic('y')
    const recordsOut = countingCounter()
    const made = new KafkaWriter<string>({
      sink: { topic: (value) => value.slice(0, 1), value: string() },
      cluster: scene.cluster,
      leases,
      acks: -1,
      transactionTimeoutMs: TIMEOUT_MS,
      assertAlive: alive,
      context: scene.sinkContext({ recordsOut }),
    })
    let lookUps = 0
    scene.kafka.intercept(({ api, args }) => {
      if (api === 'Metadata' && args.length > 0 && (args[0] as string[]).length === 1) lookUps++
      return 'pass'
    })
    await scene.run(made.write(vector('x1', 'x2', 'y1', 'x3', 'y2')))
    await scene.run(made.flush())
    expect(recordsOut.count).toBe(5)
    expect((await scene.read('x', 0, 'read_uncommitted')).map(({ value }) => value)).toEqual([
      'x1',
      'x2',
      'x3',
    ])
    expect((await scene.read('y', 0, 'read_uncommitted')).map(({ value }) => value)).toEqual(['y1', 'y2'])
    expect(lookUps).toBeLessThanOrEqual(4)
    expect(made.prepareCommit(1)[0]!.ranges.map(({ topic, count }) => [topic, count])).toEqual([
      ['x', 3],
      ['y', 2],
    ])
  })

  test('partitions that are added later are used after a while', async () => {
    const made = await writer({ partition: (_value, partitions) => partitions - 1 })
    await scene.run(made.write(vector('a')))
    await scene.run(scene.kafka.client('admin').createPartitions('out', 6))
    await scene.time.advance(61_000)
    await scene.run(made.write(vector('b')))
    await scene.run(made.flush())
    expect((await scene.read('out', 5, 'read_uncommitted')).map(({ value }) => value)).toEqual(['b'])
  })

  test('a value that is prepared asynchronously waits, and order and count stay', async () => {
    const recordsOut = countingCounter()
    const ready = new Set<string>(['a'])
    const made = new KafkaWriter<string>({
      sink: {
        topic: 'out',
        partition: () => 0,
        value: {
          name: 'slow',
          serialize: (value) => Buffer.from(value),
          deserialize: String,
          prepareSerialize: (value) =>
            ready.has(value) ? undefined : scene.time.sleep(10).then(() => void ready.add(value)),
        },
      },
      cluster: scene.cluster,
      leases,
      acks: -1,
      transactionTimeoutMs: TIMEOUT_MS,
      assertAlive: alive,
      context: scene.sinkContext({ recordsOut }),
    })
    await scene.run(made.write(vector('a', 'b', 'c')))
    await scene.run(made.flush())
    expect((await scene.read('out', 0, 'read_uncommitted')).map(({ value }) => value)).toEqual([
      'a',
      'b',
      'c',
    ])
    expect(recordsOut.count).toBe(3)
  })

  test('without transactions records are seen once they are flushed, and there is nothing to commit', async () => {
    const made = await writer({}, { transactional: false })
    await scene.run(made.write(vector('a')))
    await scene.run(made.flush())
    expect(await scene.values('out')).toEqual(['a'])
    expect(made.prepareCommit(1)).toEqual([])
    made.notifyCheckpointComplete(1)
    made.notifyCheckpointAborted(1)
    made.notifyCheckpointConfirmed(1)
  })
})

describe('records that cannot be written', () => {
  test('a serde that throws: the error names operator, topic and serde', async () => {
    const made = await writer({
      value: {
        name: 'picky',
        serialize: () => {
          throw new Error('no')
        },
        deserialize: String,
      },
    })
    expect(() => made.write(vector('a'))).toThrow(
      /operator: cannot encode a value for topic out with picky: .*no/,
    )
  })

  test('a serde that returns nothing is no tombstone', async () => {
    const made = await writer({
      value: { name: 'void', serialize: () => undefined as never, deserialize: String },
    })
    expect(() => made.write(vector('a'))).toThrow(/the serde returned undefined/)
  })

  test('selectors that throw or choose what is not there are errors of the job, with the operator named', async () => {
    const throwing = await writer({
      key: () => {
        throw new TypeError('no key')
      },
    })
    expect(() => throwing.write(vector('a'))).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_USER_FUNCTION',
        message: expect.stringContaining("'operator'"),
      }),
    )
    const choosing = await writer({ partition: () => 4 })
    expect(() => choosing.write(vector('a'))).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_SERIALIZATION',
        message: expect.stringContaining('chose 4'),
      }),
    )
    const keyless = await writer({ key: () => undefined as never })
    expect(() => keyless.write(vector('a'))).toThrow(/returned undefined/)
  })

  test('a topic that does not exist is named', async () => {
    const made = await writer({ topic: (value) => value })
    expect(await scene.failure(Promise.resolve(made.write(vector('nowhere'))))).toMatchObject({
      code: 'MILLRACE_TOPIC_MISSING',
      message: expect.stringContaining('nowhere'),
    })
  })
})
