import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { avro } from '../../../src/serdes/schema-registry.ts'
import { keptInState, RegistryScene } from './opened-serde.ts'
import { wire } from './simulated-registry.ts'

let scene: RegistryScene
beforeEach(async () => {
  scene = await RegistryScene.start()
})
afterEach(() => scene.stop())

const record = (fields: Record<string, unknown>, name = 'Order') =>
  JSON.stringify({
    type: 'record',
    name,
    fields: Object.entries(fields).map(([field, type]) => ({ name: field, type })),
  })

const MAX = 2n ** 63n - 1n
const MIN = -(2n ** 63n)

describe('long', () => {
  test.each([
    [0],
    [-1],
    [2 ** 53 - 1],
    [-(2 ** 53 - 1)],
    [2n ** 53n],
    [-(2n ** 53n)],
    [2n ** 53n + 1n],
    [MAX],
    [MIN],
  ])('%p comes back as it is', async (value) => {
    scene.add({ schema: '"long"' })
    expect(await scene.there(scene.open(avro()), value)).toBe(value)
  })

  test('a bigint that a number holds exactly comes back as a number', async () => {
    scene.add({ schema: '"long"' })
    expect(await scene.there(scene.open(avro()), 7n)).toBe(7)
  })

  test.each([[1.5], [2 ** 53], [MAX + 1n], ['1'], [Number.NaN]])('%p is refused', async (value) => {
    scene.add({ schema: '"long"' })
    await expect(scene.write(scene.open(avro()), value)).rejects.toThrow('not long')
  })

  test('wherever it stands: fields, lists, maps, unions, logical types', async () => {
    scene.add({
      schema: record({
        plain: 'long',
        list: { type: 'array', items: 'long' },
        map: { type: 'map', values: 'long' },
        maybe: ['null', 'long'],
        textOr: ['string', 'long'],
        at: { type: 'long', logicalType: 'timestamp-millis' },
      }),
    })
    const value = {
      plain: MAX,
      list: [1, MIN],
      map: { a: MAX },
      maybe: MAX,
      textOr: MIN,
      at: 1_764_000_000_000,
    }
    const back = await scene.there(scene.open(avro()), value)
    expect(back).toEqual(value)
    expect(await scene.there(scene.open(avro()), { ...value, maybe: null, textOr: 'x' })).toEqual({
      ...value,
      maybe: null,
      textOr: 'x',
    })
  })

  test('its bytes are those of other Avro libraries', async () => {
    scene.add({ schema: '"long"' })
    const serde = scene.open(avro())
    expect((await scene.write(serde, -1)).toString('hex')).toBe('01')
    expect((await scene.write(serde, 64n)).toString('hex')).toBe('8001')
    expect((await scene.write(serde, MAX)).toString('hex')).toBe('feffffffffffffffff01')
    expect((await scene.write(serde, MIN)).toString('hex')).toBe('ffffffffffffffffff01')
  })
})

describe('values', () => {
  const NESTED = record({
    user: { type: 'record', name: 'User', fields: [{ name: 'name', type: 'string' }] },
    lines: { type: 'array', items: JSON.parse(record({ n: 'int' }, 'Line')) },
    next: ['null', 'Order'],
    raw: 'bytes',
    state: { type: 'enum', name: 'State', symbols: ['NEW', 'DONE'] },
  })
  const VALUE = {
    user: { name: 'ann' },
    lines: [{ n: 1 }, { n: 2 }],
    next: { user: { name: 'bob' }, lines: [], next: null, raw: Buffer.alloc(0), state: 'DONE' },
    raw: Buffer.from([1, 2]),
    state: 'NEW',
  }

  test('are plain objects at every depth, which state can keep', async () => {
    scene.add({ schema: NESTED })
    const back: any = await scene.there(scene.open(avro()), VALUE)
    expect(back).toEqual(VALUE)
    for (const object of [back, back.user, back.lines[0], back.next, back.next.user])
      expect(Object.getPrototypeOf(object)).toBe(Object.prototype)
    expect(keptInState(back)).toEqual(VALUE)
  })

  test('a union that cannot be told apart names the type', async () => {
    scene.add({
      schema: record({
        either: [JSON.parse(record({ a: 'int' }, 'A')), JSON.parse(record({ a: 'int' }, 'B'))],
      }),
    })
    expect(await scene.there(scene.open(avro()), { either: { B: { a: 1 } } })).toEqual({
      either: { B: { a: 1 } },
    })
  })

  test('bytes do not change with the buffer that they were read from', async () => {
    const id = scene.add({ schema: '"bytes"' })
    const bytes = wire(id, Buffer.from([4, 1, 2]))
    const back = await scene.read(scene.open(avro()), bytes)
    bytes.fill(9)
    expect(back).toEqual(Buffer.from([1, 2]))
  })

  test('that do not fit are refused with the place', async () => {
    scene.add({ schema: NESTED })
    const serde = scene.open(avro())
    await expect(scene.write(serde, { ...VALUE, lines: [{ n: 1 }, { n: 'two' }] })).rejects.toThrow(
      '.lines.1.n is string, not int',
    )
    await expect(scene.write(serde, { ...VALUE, user: undefined })).rejects.toThrow(
      '.user is undefined, not record',
    )
    await expect(scene.write(serde, { ...VALUE, raw: 5n })).rejects.toThrow('.raw is bigint, not bytes')
  })
})

describe('schemas', () => {
  test('may refer to others, those to further ones', async () => {
    scene.add({ schema: record({ iso: 'string' }, 'Country') }, 'country')
    scene.add(
      {
        schema: record({ city: 'string', country: 'Country' }, 'Address'),
        references: [{ name: 'Country', subject: 'country', version: 1 }],
      },
      'address',
    )
    scene.add({
      schema: record({ address: 'Address', at: 'long' }),
      references: [{ name: 'Address', subject: 'address', version: 1 }],
    })
    const value = { address: { city: 'Bern', country: { iso: 'CH' } }, at: MAX }
    expect(await scene.there(scene.open(avro()), value)).toEqual(value)
  })

  test('two versions of one record are read side by side', async () => {
    const one = scene.add({ schema: record({ a: 'int' }) })
    const two = scene.add({ schema: record({ a: 'int', b: 'string' }) })
    const serde = scene.open(avro())
    expect(await scene.read(serde, wire(one, '\x02'))).toEqual({ a: 1 })
    expect(await scene.read(serde, wire(two, '\x04\x02x'))).toEqual({ a: 2, b: 'x' })
  })

  test('a reader schema gives new fields their defaults, and leaves old ones out', async () => {
    const id = scene.add({ schema: record({ a: 'int', gone: 'string' }) })
    const readerSchema = {
      type: 'record',
      name: 'Order',
      fields: [
        { name: 'a', type: 'long' },
        { name: 'since', type: 'string', default: 'ever' },
      ],
    }
    const back = await scene.read(scene.open(avro({ readerSchema })), wire(id, '\x02\x02x'))
    expect(back).toEqual({ a: 1, since: 'ever' })
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype)
  })

  test('a reader schema that the writer does not fit is about the record', async () => {
    const id = scene.add({ schema: record({ a: 'string' }) })
    const serde = scene.open(avro({ readerSchema: record({ a: 'int' }) }))
    await expect(scene.read(serde, wire(id, '\x02x'))).rejects.toThrow('cannot read')
  })
})
