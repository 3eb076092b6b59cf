import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Serde } from '../../src/core/connector.ts'
import { avro, jsonSchema, protobuf } from '../../src/serdes/schema-registry.ts'
import { SimulatedRegistry, wire } from '../unit/serdes/simulated-registry.ts'
import { CommittedLog } from './committed-log.ts'
import { JobScene } from './job-scene.ts'

jest.setTimeout(120_000)

const REGISTRY = process.env['SCHEMA_REGISTRY_URL'] || undefined
if (REGISTRY === undefined)
  console.log(
    'SCHEMA_REGISTRY_URL is not set: what needs a real schema registry is skipped, the whole jobs use a simulated one',
  )

const MAX = 2n ** 63n - 1n
const READING = {
  type: 'record',
  name: 'Reading',
  fields: [
    { name: 'sensor', type: 'string' },
    { name: 'count', type: 'long' },
  ],
}

async function written<T>(serde: Serde<T>, value: T, topic: string): Promise<Buffer> {
  await serde.prepareSerialize?.(value, topic)
  return Buffer.from(serde.serialize(value, topic) as Uint8Array)
}

async function read<T>(serde: Serde<T>, bytes: Uint8Array): Promise<T> {
  await serde.prepareDeserialize?.(bytes)
  return serde.deserialize(bytes)
}

function opened<T>(serde: Serde<T>): Serde<T> {
  void serde.open?.({ schemaRegistryUrl: REGISTRY })
  return serde
}

;(REGISTRY === undefined ? describe.skip : describe)('a real registry', () => {
  let topic: string
  beforeEach(() => {
    topic = `it-${randomUUID()}`
  })

  test.each([
    ['avro', avro, JSON.stringify(READING)],
    ['protobuf', protobuf, 'syntax = "proto3"; message Reading { string sensor = 1; int64 count = 2; }'],
    [
      'jsonSchema',
      jsonSchema,
      '{"type":"object","properties":{"sensor":{"type":"string"},"count":{"type":"integer"}},"required":["sensor"]}',
    ],
  ])(
    '%s: a schema is registered, found again, taken as the latest, and read by its id',
    async (name, make, schema) => {
      const value = { sensor: 'a', count: name === 'jsonSchema' ? 7 : MAX }
      const first = await written(opened(make<any>({ schema, register: true })), value, topic)
      expect(await written(opened(make<any>({ schema, register: true })), value, topic)).toEqual(first)
      expect(await written(opened(make<any>({ schema })), value, topic)).toEqual(first)
      expect(await written(opened(make<any>()), value, topic)).toEqual(first)
      expect(await written(opened(make<any>({ version: 1 })), value, topic)).toEqual(first)
      expect(await read(opened(make<any>()), first)).toEqual(value)
    },
  )

  test('schemas with references are read', async () => {
    const country = { type: 'record', name: 'Country', fields: [{ name: 'iso', type: 'string' }] }
    await written(opened(avro<any>({ schema: country, register: true })), { iso: 'CH' }, `${topic}-country`)
    const address = { type: 'record', name: 'Address', fields: [{ name: 'country', type: 'Country' }] }
    const references = [{ name: 'Country', subject: `${topic}-country-value`, version: 1 }]
    const value = { country: { iso: 'CH' } }
    const serde = opened(avro<any>({ schema: address, register: true, references }))
    expect(await read(opened(avro<any>()), await written(serde, value, topic))).toEqual(value)
  })

  test('an id, a subject and a version that it does not have are not taken for trouble', async () => {
    await expect(read(opened(avro()), wire(2_000_000_000))).rejects.toMatchObject({
      name: 'NotRegisteredError',
    })
    await expect(written(opened(avro<any>()), {}, topic)).rejects.toMatchObject({
      code: 'MILLRACE_SCHEMA_REGISTRY_REFUSED',
      cause: { name: 'NotRegisteredError', errorCode: 40_401 },
    })
    await written(opened(avro<any>({ schema: READING, register: true })), { sensor: 'a', count: 1 }, topic)
    await expect(written(opened(avro<any>({ version: 2 })), {}, topic)).rejects.toMatchObject({
      cause: { name: 'NotRegisteredError', errorCode: 40_402 },
    })
    await expect(written(opened(avro<any>({ schema: '"int"' })), 1, topic)).rejects.toMatchObject({
      cause: { name: 'NotRegisteredError', errorCode: 40_403 },
    })
  })

  test('a schema that is none is refused, and a wrong path is not taken for an unknown id', async () => {
    await expect(
      written(opened(avro<any>({ schema: '{"type":"nonsense"}', register: true })), {}, topic),
    ).rejects.toMatchObject({ code: 'MILLRACE_SCHEMA_REGISTRY_REFUSED' })
    const lost = avro({ url: `${new URL(REGISTRY as string).origin}/no/such/path` })
    await lost.open?.({})
    await expect(read(lost, wire(1))).rejects.toMatchObject({ code: 'MILLRACE_SCHEMA_REGISTRY_REFUSED' })
  })
})

describe('a job that reads Avro and writes Protocol Buffers', () => {
  const JOB = 'integration/jobs/registry-copy.ts'
  let scene: JobScene
  let registry: SimulatedRegistry | undefined
  let url: string

  beforeEach(async () => {
    registry = REGISTRY === undefined ? await SimulatedRegistry.start() : undefined
    url = REGISTRY ?? (registry as SimulatedRegistry).url
    scene = await JobScene.open()
  })
  afterEach(async () => {
    await scene.close()
    await registry?.stop()
  })

  /** The topics, with the poisoned input of producers that know no schemas. */
  async function poisoned(): Promise<{ IN: string; OUT: string }> {
    const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
    const serde = avro<any>({ url, schema: READING, register: true })
    await serde.open?.({})
    await scene.produce(topics.IN, 0, [
      await written(serde, { sensor: 'a', count: 1 }, topics.IN),
      '{"a":1}',
      Buffer.from([0]),
      Buffer.alloc(0),
      // The id is one that the registry has not given out.
      registry === undefined ? wire(2_000_000_000) : wire(99),
      await written(serde, { sensor: 'b', count: MAX }, topics.IN),
    ])
    return topics
  }

  async function outputOf(topic: string): Promise<unknown[]> {
    const log = new CommittedLog(scene.cluster, topic)
    await log.poll()
    const serde = protobuf<any>({ url })
    await serde.open?.({})
    const values: unknown[] = []
    for (const { value } of log.records) values.push(await read(serde, value as Uint8Array))
    return values
  }

  test('sends what is no Avro to the dead letters and goes on', async () => {
    const topics = await poisoned()
    const letters = await scene.topic('dead', 1)
    const job = scene.start(JOB, { ...topics, LETTERS: letters, SCHEMA_REGISTRY_URL: url })
    await scene.readUntil(letters, (values) => values.length >= 4)
    await scene.readUntil(topics.OUT, (values) => values.length >= 2)
    expect(await outputOf(topics.OUT)).toEqual([
      { sensor: 'a', count: 1 },
      { sensor: 'b', count: MAX },
    ])
    expect((await scene.read(letters)).length).toBe(4)
    expect(job.running).toBe(true)
  })

  test('fails once at the first bad record when it was not told otherwise, and names it', async () => {
    const topics = await poisoned()
    const job = scene.start(JOB, { ...topics, SCHEMA_REGISTRY_URL: url })
    expect(await job.code()).toBe(1)
    expect(job.stderr).toContain(`${topics.IN}-0 offset 1`)
    expect(job.stderr).toContain('MILLRACE_DESERIALIZATION')
    expect(job.stderr).not.toContain('starts again')
  })

  test('waits for a registry that is away, and makes no dead letter of a good record meanwhile', async () => {
    const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
    const letters = await scene.topic('dead', 1)
    const ill = await SimulatedRegistry.start()
    ill.add('x', { schema: JSON.stringify(READING) })
    ill.cue = () => ({ status: 503, body: '' })
    try {
      await scene.produce(topics.IN, 0, [wire(1, '\x02a\x02')])
      const job = scene.start(JOB, { ...topics, LETTERS: letters, SCHEMA_REGISTRY_URL: ill.url })
      await scene.until('the job has started again', 30_000, () => ill.requests.length > 3)
      ill.cue = () => undefined
      await scene.readUntil(topics.OUT, (values) => values.length >= 1)
      expect(await scene.read(letters)).toEqual([])
      expect(job.stderr).toContain('MILLRACE_SCHEMA_REGISTRY_UNREACHABLE')
    } finally {
      await ill.stop()
    }
  })
})
