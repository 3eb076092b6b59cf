import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { Serde } from '../../../src/core/connector.ts'
import {
  avro,
  jsonSchema,
  protobuf,
  type SchemaRegistryOptions,
} from '../../../src/serdes/schema-registry.ts'
import { SimulatedRegistry, wire } from './simulated-registry.ts'

const ORDER = JSON.stringify({
  type: 'record',
  name: 'Order',
  fields: [
    { name: 'user', type: 'string' },
    { name: 'amount', type: 'long' },
  ],
})
/** {user: 'ann', amount: 1} */
const ANN = Buffer.from('\x06ann\x02', 'latin1')

let registry: SimulatedRegistry
beforeEach(async () => {
  registry = await SimulatedRegistry.start()
})
afterEach(() => registry.stop())

async function opened<T = any>(
  make: (options: any) => Serde<T> = avro,
  options: SchemaRegistryOptions = {},
): Promise<Serde<T>> {
  const serde = make(options)
  await serde.open?.({ schemaRegistryUrl: registry.url })
  return serde
}

async function read<T>(serde: Serde<T>, bytes: Uint8Array): Promise<T> {
  await serde.prepareDeserialize?.(bytes)
  return serde.deserialize(bytes)
}

async function written<T>(serde: Serde<T>, value: T, topic = 'out'): Promise<Buffer> {
  await serde.prepareSerialize?.(value, topic)
  return serde.serialize(value, topic) as Buffer
}

describe('reading', () => {
  test('a value is read by the schema that its id names, which is asked for once', async () => {
    const id = registry.add('in-value', { schema: ORDER })
    const serde = await opened()
    const loading = serde.prepareDeserialize?.(wire(id, ANN))
    expect(loading).toBeInstanceOf(Promise)
    await Promise.all([loading, serde.prepareDeserialize?.(wire(id, ANN))])
    expect(serde.deserialize(wire(id, ANN))).toEqual({ user: 'ann', amount: 1 })
    expect(serde.prepareDeserialize?.(wire(id, ANN))).toBeUndefined()
    expect(registry.requests).toEqual([`GET /schemas/ids/${id}`])
  })

  test('bytes are read where they stand in a larger buffer', async () => {
    const id = registry.add('in-value', { schema: ORDER })
    const serde = await opened()
    const around = Buffer.concat([Buffer.from('xyz'), wire(id, ANN), Buffer.from('xyz')])
    expect(await read(serde, around.subarray(3, around.length - 3))).toEqual({ user: 'ann', amount: 1 })
    expect(serde.deserialize(new Uint8Array(wire(id, ANN)))).toEqual({ user: 'ann', amount: 1 })
  })

  test.each([
    ['text', Buffer.from('{"a":1}'), 'the first byte is 0x7b, not the 0x00'],
    ['one byte', Buffer.from([0]), '1 byte, and a magic byte and a schema id take 5'],
    ['nothing', Buffer.alloc(0), '0 bytes'],
    ['an id that no registry gives', Buffer.from('00ffffffff00', 'hex'), '4294967295 is no schema id'],
  ])('%s is refused without asking the registry', async (_what, bytes, message) => {
    const serde = await opened()
    expect(serde.prepareDeserialize?.(bytes)).toBeUndefined()
    expect(() => serde.deserialize(bytes)).toThrow(message)
    expect(registry.requests).toEqual([])
  })

  test('an id that the registry does not know is about the record: no MillraceError', async () => {
    const serde = await opened()
    const error = await failure(read(serde, wire(99)))
    expect(error).toMatchObject({ name: 'NotRegisteredError', errorCode: 40_403 })
    expect(error.message).toContain('Schema 99 not found')
    expect(error.code).toBeUndefined()
  })

  test('an id that is registered later is found then', async () => {
    const serde = await opened()
    await failure(read(serde, wire(1, ANN)))
    registry.add('in-value', { schema: ORDER })
    expect(await read(serde, wire(1, ANN))).toEqual({ user: 'ann', amount: 1 })
  })

  test.each([
    ['short', Buffer.from('\x06an', 'latin1')],
    ['too long', Buffer.concat([ANN, Buffer.from('x')])],
  ])('a payload that is %s for its schema is refused with the id', async (_what, payload) => {
    const id = registry.add('in-value', { schema: ORDER })
    await expect(read(await opened(), wire(id, payload))).rejects.toThrow(`schema ${id}: `)
  })

  test.each([
    ['avro', avro, 'JSON', '{}'],
    ['jsonSchema', jsonSchema, undefined, ORDER],
    ['protobuf', protobuf, undefined, ORDER],
  ])('%s refuses a schema of another kind', async (name, make, schemaType, schema) => {
    const id = registry.add('s', { schema, ...(schemaType === undefined ? {} : { schemaType }) })
    await expect(read(await opened(make), wire(id, ANN))).rejects.toThrow(
      `schema ${id} of the registry is ${schemaType ?? 'AVRO'}, and the serde is ${name}`,
    )
  })

  test('a schema that cannot be parsed is about the record', async () => {
    const id = registry.add('s', { schema: '{"type":"nonsense"}' })
    expect((await failure(read(await opened(), wire(id, ANN)))).code).toBeUndefined()
  })
})

describe('a registry in trouble', () => {
  const unreachable = { code: 'MILLRACE_SCHEMA_REGISTRY_UNREACHABLE', retriable: true, fault: 'external' }
  const refused = { code: 'MILLRACE_SCHEMA_REGISTRY_REFUSED', retriable: false }

  test.each([500, 503, 429, 408])('status %d is retriable, after three tries', async (status) => {
    registry.cue = () => ({ status, body: '{"error_code":50001,"message":"store is down"}' })
    const error = await failure(read(await opened(), wire(1)))
    expect(error).toMatchObject(unreachable)
    expect(error.message).toContain('store is down')
    expect(registry.requests).toHaveLength(3)
  })

  test('a passing failure is not noticed', async () => {
    const id = registry.add('in-value', { schema: ORDER })
    registry.cue = () => (registry.requests.length < 3 ? { status: 503, body: '' } : undefined)
    expect(await read(await opened(), wire(id, ANN))).toEqual({ user: 'ann', amount: 1 })
  })

  test('nothing that listens is retriable, and named without its password', async () => {
    const url = registry.url
    await registry.stop()
    const serde = avro({ url: url.replace('//', '//ann:s3cret@') })
    serde.open?.({})
    const error = await failure(read(serde, wire(1)))
    registry = await SimulatedRegistry.start()
    expect(error).toMatchObject(unreachable)
    expect(error.message).toContain(`GET ${url}/schemas/ids/1`)
    expect(error.message).toContain('ECONNREFUSED')
    expect(`${error.stack} ${JSON.stringify(error)}`).not.toContain('s3cret')
  })

  test('silence ends with the time limit', async () => {
    registry.cue = () => 'silence'
    const error = await failure(read(await opened(avro, { requestTimeoutMs: 30 }), wire(1)))
    expect(error).toMatchObject({
      ...unreachable,
      message: expect.stringContaining('no answer within 30 ms'),
    })
    expect(registry.requests).toHaveLength(3)
  })

  test('an answer that breaks off is retriable', async () => {
    registry.cue = () => 'break off'
    expect(await failure(read(await opened(), wire(1)))).toMatchObject(unreachable)
  })

  test.each([
    ['a path that is none', 404, '{"error_code":404,"message":"HTTP 404 Not Found"}'],
    ["another server's page", 404, '<html>not here</html>'],
    ['a page instead of JSON', 200, '<html>welcome</html>'],
    ['forbidden', 403, '{"error_code":40301,"message":"no"}'],
  ])('%s is for a person to mend: not a bad record, not retried', async (_what, status, body) => {
    registry.cue = () => ({ status, body })
    expect(await failure(read(await opened(), wire(1)))).toMatchObject(refused)
    expect(registry.requests).toHaveLength(1)
  })
})

describe('the address', () => {
  test('user and password of the URL are sent, percent-decoded, and a slash at its end does no harm', async () => {
    registry.credentials = 'ann:p@ss%'
    const id = registry.add('in-value', { schema: ORDER })
    const serde = avro({ url: `${registry.url.replace('//', '//ann:p%40ss%@')}/` })
    serde.open?.({})
    expect(await read(serde, wire(id, ANN))).toEqual({ user: 'ann', amount: 1 })
  })

  test('wrong credentials fail the job and are not shown', async () => {
    registry.credentials = 'ann:right'
    const serde = avro({ url: registry.url.replace('//', '//ann:wr0ng@') })
    serde.open?.({})
    const error = await failure(read(serde, wire(1)))
    expect(error).toMatchObject({ code: 'MILLRACE_SCHEMA_REGISTRY_REFUSED', retriable: false })
    expect(error.remedy).toContain('user and password')
    expect(error.message).not.toContain('wr0ng')
  })

  test('the option url is stronger than the configuration', async () => {
    const id = registry.add('in-value', { schema: ORDER })
    const serde = avro({ url: registry.url })
    serde.open?.({ schemaRegistryUrl: 'http://127.0.0.1:1' })
    expect(await read(serde, wire(id, ANN))).toEqual({ user: 'ann', amount: 1 })
  })

  test('without any address the serde says which settings it looked for', () => {
    expect(() => avro().open?.({})).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_INVALID_OPTION',
        remedy: expect.stringContaining('SCHEMA_REGISTRY_URL'),
      }),
    )
  })

  test.each(['localhost:8081', 'ftp://ann:s3cret@host', 'not a url'])('%s is refused, unshown', (url) => {
    expect(() => avro({ url }).open?.({})).toThrow(
      'the URL of the schema registry is not an http:// or https:// address',
    )
  })

  test('opened again with another registry, the serde forgets the ids of the first', async () => {
    const id = registry.add('in-value', { schema: ORDER })
    const serde = await opened()
    await read(serde, wire(id, ANN))
    serde.open?.({ schemaRegistryUrl: registry.url })
    expect(serde.prepareDeserialize?.(wire(id, ANN))).toBeUndefined()
    const other = await SimulatedRegistry.start()
    other.add('x', { schema: '"string"' })
    serde.open?.({ schemaRegistryUrl: other.url })
    expect(await read(serde, wire(1, '\x04hi'))).toBe('hi')
    await other.stop()
  })
})

describe('writing', () => {
  test('by default with the latest schema of <topic>-value, looked up once', async () => {
    registry.add('out-value', { schema: '"string"' })
    const id = registry.add('out-value', { schema: ORDER })
    const serde = await opened()
    expect((await written(serde, { user: 'ann', amount: 1 })).toString('hex')).toBe(
      wire(id, ANN).toString('hex'),
    )
    expect(serde.prepareSerialize?.({ user: 'bob', amount: 2 }, 'out')).toBeUndefined()
    expect(registry.requests.filter((line) => line.includes('subjects'))).toEqual([
      'GET /subjects/out-value/versions/latest',
    ])
  })

  test('with the version that is asked for', async () => {
    const first = registry.add('out-value', { schema: '"string"' })
    registry.add('out-value', { schema: ORDER })
    expect(await written(await opened(avro, { version: 1 }), 'hi')).toEqual(wire(first, '\x04hi'))
  })

  test('each topic has its subject, unless one is named', async () => {
    const one = registry.add('one-value', { schema: '"string"' })
    const two = registry.add('two-value', { schema: '"long"' })
    const named = registry.add('com.acme/Order', { schema: '"int"' })
    const serde = await opened()
    expect((await written<unknown>(serde, 'hi', 'one')).readInt32BE(1)).toBe(one)
    expect((await written<unknown>(serde, 1, 'two')).readInt32BE(1)).toBe(two)
    const other = await opened(avro, { subject: 'com.acme/Order' })
    expect((await written<unknown>(other, 1, 'one')).readInt32BE(1)).toBe(named)
  })

  test('a schema with register: true is registered, and again without harm', async () => {
    for (const serde of [
      await opened(avro, { schema: JSON.parse(ORDER), register: true }),
      await opened(avro, { schema: ORDER, register: true }),
    ])
      expect(await written(serde, { user: 'ann', amount: 1 })).toEqual(wire(1, ANN))
    expect(registry.requests.filter((line) => line.startsWith('POST'))).toEqual([
      'POST /subjects/out-value/versions',
      'POST /subjects/out-value/versions',
    ])
  })

  test('a schema without register is looked for, not the latest one taken', async () => {
    const id = registry.add('out-value', { schema: ORDER })
    registry.add('out-value', { schema: '"string"' })
    const serde = await opened(avro, { schema: ORDER })
    expect((await written(serde, { user: 'ann', amount: 1 })).readInt32BE(1)).toBe(id)
    const missing = await opened(avro, { schema: '"int"' })
    expect(await failure(written<unknown>(missing, 1))).toMatchObject({
      code: 'MILLRACE_SCHEMA_REGISTRY_REFUSED',
      message: expect.stringContaining('no schema to write subject out-value with'),
      remedy: expect.stringContaining('register: true'),
    })
  })

  test('an incompatible schema is refused with the words of the registry', async () => {
    registry.cue = (line) =>
      line.startsWith('POST')
        ? { status: 409, body: '{"error_code":409,"message":"READER_FIELD_MISSING"}' }
        : undefined
    const serde = await opened(avro, { schema: ORDER, register: true })
    expect(await failure(written(serde, { user: 'ann', amount: 1 }))).toMatchObject({
      code: 'MILLRACE_SCHEMA_REGISTRY_REFUSED',
      retriable: false,
      message: expect.stringContaining('READER_FIELD_MISSING'),
    })
  })

  test('a registry that was away is asked again', async () => {
    registry.add('out-value', { schema: ORDER })
    registry.cue = () => ({ status: 503, body: '' })
    const serde = await opened()
    expect(await failure(written(serde, { user: 'ann', amount: 1 }))).toMatchObject({ retriable: true })
    registry.cue = () => undefined
    expect(await written(serde, { user: 'ann', amount: 1 })).toEqual(wire(1, ANN))
  })

  test('null is a tombstone and needs no schema', async () => {
    const serde = await opened()
    expect(serde.prepareSerialize?.(null, 'out')).toBeUndefined()
    expect(serde.serialize(null, 'out')).toBeNull()
    expect(registry.requests).toEqual([])
  })

  test('a value that comes before its schema was loaded is an error that says what to do', async () => {
    const serde = await opened()
    expect(() => serde.serialize({}, 'out')).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_INVALID_OPTION',
        remedy: expect.stringContaining('kafkaSink'),
      }),
    )
    expect(() => serde.deserialize(wire(1))).toThrow('avro: schema 1 was not loaded')
    expect(() => avro().prepareDeserialize?.(wire(1))).toThrow('the schema registry was not loaded')
  })
})

describe('options', () => {
  test.each([
    [{ register: true }, 'avro: register needs a schema'],
    [{ schema: ORDER, version: 2 }, 'avro: give either a schema or a version'],
    [{ subject: '' }, 'avro: subject must not be empty'],
    [{ version: 0 }, 'avro: version 0 must be'],
    [{ requestTimeoutMs: 0 }, 'avro: requestTimeoutMs 0 must be'],
  ])('%j are refused when the job is built', (options, message) => {
    expect(() => avro(options)).toThrow(message)
  })
})

async function failure(promise: Promise<unknown>): Promise<any> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it did not fail')
}
