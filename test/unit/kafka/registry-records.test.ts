import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { recordVector } from '../../../src/core/element.ts'
import { type DeadLetterRecord, deadLetter } from '../../../src/kafka/deserialization.ts'
import { type KafkaReaderOptions, KafkaSourceReader } from '../../../src/kafka/kafka-source-reader.ts'
import { KafkaWriter } from '../../../src/kafka/kafka-writer.ts'
import { avro } from '../../../src/serdes/schema-registry.ts'
import { SimulatedRegistry, wire } from '../serdes/simulated-registry.ts'
import { countingCounter, SimulatedScene } from './simulated-scene.ts'

let scene: SimulatedScene
let registry: SimulatedRegistry

beforeEach(async () => {
  registry = await SimulatedRegistry.start()
  registry.add('in-value', { schema: '"string"' })
  scene = new SimulatedScene()
  await scene.topic('in')
})
afterEach(() => registry.stop())

/** What a source with the Avro serde gives for these records: the registry answers in real time, the brokers in virtual time. */
class Reading {
  readonly reader: KafkaSourceReader<string>
  readonly values: string[] = []
  readonly letters: DeadLetterRecord[] = []

  private constructor(options: Partial<KafkaReaderOptions<string>>) {
    this.reader = new KafkaSourceReader<string>(
      {
        cluster: scene.cluster,
        bounded: false,
        isolation: 'read_committed',
        deserializer: { kind: 'value', serde: avro<string>() },
        nullValues: 'skip',
        onDeserializationError: 'fail',
        onDataLoss: 'fail',
        fetchMaxBytes: 100_000,
        fetchMaxWaitMs: 500,
        serdes: { schemaRegistryUrl: registry.url },
        ...options,
      },
      {
        info: scene.info({ operatorName: 'Source: in' }),
        world: scene.world,
        vectorSize: 100,
        recordsIn: countingCounter(),
      },
    )
  }

  static async start(options: Partial<KafkaReaderOptions<string>> = {}): Promise<Reading> {
    const reading = new Reading(options)
    await reading.reader.start()
    const { topicId } = scene.kafka.inside.topics.get('in')!
    reading.reader.addSplits([{ id: 'in-0', topic: 'in', topicId, partition: 0, position: '0', stop: null }])
    return reading
  }

  get position(): bigint {
    return BigInt(this.reader.snapshot(1)[0]!.position)
  }

  /** Polls until the position is reached. @throws what `poll` throws. */
  async until(position: bigint): Promise<this> {
    const end = Date.now() + 10_000
    for (;;) {
      const records = this.reader.poll()
      this.values.push(...(records?.vector.values ?? []))
      this.letters.push(...((records?.side?.vector.values ?? []) as DeadLetterRecord[]))
      if (records !== undefined) continue
      if (this.position === position) return this
      if (Date.now() > end) throw new Error(`at position ${this.position} after 10 s, not at ${position}`)
      await scene.time.advance(10)
      await sleep(1)
    }
  }
}

const header = (letter: DeadLetterRecord, name: string): string =>
  Buffer.from(letter.headers.find(([key]) => key === `millrace.dead-letter.${name}`)?.[1] ?? []).toString()

describe('an Avro topic with records that are none', () => {
  const POISON = [Buffer.from('{"a":1}'), Buffer.from([0]), Buffer.alloc(0), Buffer.from([0, 0, 0, 0, 99])]
  beforeEach(async () => {
    const values = [wire(1, '\x06one'), ...POISON, wire(1, '\x06two')]
    await scene.produce(
      'in',
      values.map((value, i) => ({ key: `k${i}`, value })),
    )
  })

  test('dead letters: the good records come through, the others are kept as they were, with the reason', async () => {
    const reading = await Reading.start({ onDeserializationError: deadLetter('dlq') })
    await reading.until(6n)
    expect(reading.values).toEqual(['one', 'two'])
    expect(reading.letters.map(({ value }) => Buffer.from(value!))).toEqual(POISON)
    expect(reading.letters.map((letter) => header(letter, 'offset'))).toEqual(['1', '2', '3', '4'])
    expect(reading.letters.map((letter) => header(letter, 'error'))).toEqual([
      expect.stringContaining('with avro: the first byte is 0x7b'),
      expect.stringContaining('with avro: 1 byte, and'),
      expect.stringContaining('with avro: 0 bytes, and'),
      expect.stringContaining('Schema 99 not found'),
    ])
    expect(registry.requests).toEqual(['GET /schemas/ids/1', 'GET /schemas/ids/99'])
  })

  test('fail: the job ends at offset 1, which the error names, with what comes before it not lost', async () => {
    const reading = await Reading.start()
    await expect(reading.until(6n)).rejects.toMatchObject({
      code: 'MILLRACE_DESERIALIZATION',
      retriable: false,
      message: expect.stringMatching(/in-0 offset 1 \(key 'k1', value starts with '\{"a":1\}'\) with avro/),
      details: { topic: 'in', partition: 0, offset: 1n },
    })
    expect(reading.position).toBe(0n)
  })

  test('a registry that is down makes no dead letter of a good record: the job fails and may try again', async () => {
    registry.cue = () => ({ status: 503, body: '' })
    const reading = await Reading.start({ onDeserializationError: deadLetter('dlq') })
    await expect(reading.until(6n)).rejects.toMatchObject({
      code: 'MILLRACE_SCHEMA_REGISTRY_UNREACHABLE',
      retriable: true,
    })
    expect([reading.values, reading.letters, reading.position]).toEqual([[], [], 0n])
  })

  test('neither does a registry that refuses us: that fails the job for a person to mend', async () => {
    registry.credentials = 'ann:secret'
    const reading = await Reading.start({ onDeserializationError: 'skip' })
    await expect(reading.until(6n)).rejects.toMatchObject({
      code: 'MILLRACE_SCHEMA_REGISTRY_REFUSED',
      retriable: false,
    })
    expect(scene.metrics.counters.has('source_records_skipped')).toBe(false)
  })
})

test('a sink writes values with the schema of its topic', async () => {
  await scene.topic('out')
  const id = registry.add('out-value', { schema: '"string"' })
  const writer = new KafkaWriter<string | null>({
    sink: { topic: 'out', value: avro<string | null>() },
    cluster: scene.cluster,
    leases: undefined,
    acks: -1,
    transactionTimeoutMs: 60_000,
    assertAlive: () => undefined,
    serdes: { schemaRegistryUrl: registry.url },
    context: scene.sinkContext(),
  })
  await scene.run(writer.open())
  await writer.write(recordVector(['one', null, 'two'], [1, 2, 3]))
  await scene.run(writer.flush())
  expect((await scene.read('out')).map(({ value }) => value)).toEqual([
    wire(id, '\x06one').toString(),
    null,
    wire(id, '\x06two').toString(),
  ])
})
