import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { protobuf } from '../../../src/serdes/schema-registry.ts'
import { keptInState, RegistryScene } from './opened-serde.ts'
import { wire } from './simulated-registry.ts'

let scene: RegistryScene
beforeEach(async () => {
  scene = await RegistryScene.start()
})
afterEach(() => scene.stop())

const add = (schema: string, subject?: string, references?: any) =>
  scene.add({ schema, schemaType: 'PROTOBUF', ...(references && { references }) }, subject)

const ORDER = `
  syntax = "proto3";
  package acme.shop;
  enum State { NEW = 0; DONE = 1; }
  message Unused { string x = 1; }
  message Order {
    message Line { string item = 1; int32 n = 2; }
    string user_name = 1;
    int64 amount = 2;
    repeated Line lines = 3;
    map<string, int64> marks = 4;
    State state = 5;
    bytes raw = 6;
    Line first = 7;
    optional int32 maybe = 8;
    oneof either { string left = 9; int32 right = 10; }
    map<uint64, bool> ids = 11;
    repeated sint64 many = 12;
    fixed64 big = 13;
  }`
const FULL = {
  userName: 'ann',
  amount: 2n ** 63n - 1n,
  lines: [
    { item: 'a', n: 1 },
    { item: 'b', n: 0 },
  ],
  marks: { x: 1, y: -(2n ** 63n) },
  state: 1,
  raw: Buffer.from([1, 2]),
  first: { item: 'c', n: 3 },
  maybe: 0,
  right: 5,
  ids: { '18446744073709551615': true, '7': false },
  many: [1, -1, -(2n ** 60n)],
  big: 2n ** 64n - 1n,
}
const EMPTY = {
  userName: '',
  amount: 0,
  lines: [],
  marks: {},
  state: 0,
  raw: Buffer.alloc(0),
  first: null,
  ids: {},
  many: [],
  big: 0,
}
const order = () => scene.open(protobuf({ messageName: 'Order' }))

describe('values', () => {
  test('of every kind come back', async () => {
    add(ORDER)
    expect(await scene.there(order(), FULL)).toEqual(FULL)
  })

  test('what a message leaves out has its default; a oneof and an optional field stay away', async () => {
    add(ORDER)
    expect(await scene.there(order(), {})).toEqual(EMPTY)
    expect(await scene.there(order(), { ...EMPTY, first: null, maybe: undefined })).toEqual(EMPTY)
  })

  test('are plain objects at every depth, which state can keep', async () => {
    add(ORDER)
    const back: any = await scene.there(order(), FULL)
    for (const object of [back, back.lines[0], back.marks, back.first])
      expect(Object.getPrototypeOf(object)).toBe(Object.prototype)
    expect(keptInState(back)).toEqual(FULL)
  })

  test('bytes do not change with the buffer that they were read from', async () => {
    add(ORDER)
    const serde = order()
    const bytes = Buffer.concat([wire(1), await scene.write(serde, { raw: Buffer.from([1, 2]) })])
    const back: any = await scene.read(serde, bytes)
    bytes.fill(9)
    expect(back.raw).toEqual(Buffer.from([1, 2]))
  })

  test.each([
    [{ username: 'ann' }, 'message Order has no field username; it has userName,'],
    [{ lines: [{ item: 'a' }, { items: 'b' }] }, 'message Line has no field items'],
    [{ userName: 5 }, 'userName: string expected'],
    [{ amount: 1.5 }, 'amount: 1.5 is no exact whole number'],
    [{ amount: 2 ** 53 }, 'is no exact whole number; write a bigint'],
    [{ amount: 2n ** 63n }, 'amount: 9223372036854775808 does not fit into int64'],
    [{ amount: '1' }, 'amount: a number or bigint expected, not string'],
    [{ big: -1 }, 'big: -1 does not fit into fixed64'],
    [{ marks: { x: 0.5 } }, 'marks["x"]: 0.5 is no exact'],
    [{ many: [1, {}] }, 'many[1]: a number or bigint expected, not object'],
    [{ many: 1 }, 'many: array expected'],
    [{ marks: 1 }, 'marks: object expected'],
    [{ lines: [null] }, 'lines[0]: an object for message Line expected'],
    [{ first: 'x' }, 'first: an object for message Line expected'],
    [{ left: 'a', right: 1 }, 'either: multiple values'],
    [{ state: 7 }, 'state: enum value expected'],
    ['text', 'the value: an object for message Order expected'],
  ])('%p is refused', async (value, message) => {
    add(ORDER)
    await expect(scene.write<unknown>(order(), value)).rejects.toThrow(message)
  })
})

describe('message indexes', () => {
  const NESTED =
    'syntax = "proto3"; message A { message X { int32 n = 1; } message Y { int32 n = 1; } } message B { int32 n = 1; }'

  test.each([
    [undefined, '00'],
    ['A', '00'],
    ['B', '0202'],
    ['A.X', '040000'],
    ['A.Y', '040002'],
  ])('of message %s are %s', async (messageName, indexes) => {
    const id = add(NESTED)
    const serde = scene.open(protobuf(messageName === undefined ? {} : { messageName }))
    const value = messageName === undefined || messageName === 'A' ? {} : { n: 1 }
    const bytes = await scene.write(serde, value)
    expect(bytes.toString('hex')).toBe(
      indexes + (messageName === undefined || messageName === 'A' ? '' : '0801'),
    )
    // Reading takes the message that the record names, whatever this serde writes.
    expect(await scene.read(scene.open(protobuf()), Buffer.concat([wire(id), bytes]))).toEqual(value)
  })

  test('[0] may be written out', async () => {
    const id = add('syntax = "proto3"; message A { int32 n = 1; }')
    expect(await scene.read(scene.open(protobuf()), wire(id, Buffer.from('02000801', 'hex')))).toEqual({
      n: 1,
    })
  })

  test.each([
    ['0206', 'no message at indexes [3]'],
    ['040006', 'no message at indexes [0, 3]'],
    ['01', 'a path of -1 message indexes'],
    ['fe01', 'a path of 127 message indexes'],
    ['', 'index out of range'],
    ['00ff', 'index out of range'],
  ])('%s is refused', async (bytes, message) => {
    const id = add(NESTED)
    await expect(scene.read(scene.open(protobuf()), wire(id, Buffer.from(bytes, 'hex')))).rejects.toThrow(
      message,
    )
  })

  test('a name that the schema does not have is told with those that it has', async () => {
    add(NESTED)
    await expect(scene.write(scene.open(protobuf({ messageName: 'C' })), {})).rejects.toThrow(
      'the schema has no message C; it has A, B',
    )
  })

  test('without them, records are those of the client package', async () => {
    const id = add(NESTED)
    const serde = scene.open(protobuf({ messageName: 'B', messageIndexes: false }))
    expect((await scene.write(serde, { n: 1 })).toString('hex')).toBe('0801')
    expect(await scene.read(serde, wire(id, Buffer.from('0801', 'hex')))).toEqual({ n: 1 })
  })
})

describe('schemas', () => {
  test('may import google/protobuf files, which no registry holds', async () => {
    add(`syntax = "proto3";
      import "google/protobuf/timestamp.proto";
      import "google/protobuf/wrappers.proto";
      message Order { google.protobuf.Timestamp at = 1; google.protobuf.StringValue note = 2; }`)
    const value = { at: { seconds: 1_764_000_000, nanos: 5 }, note: { value: 'x' } }
    expect(await scene.there(scene.open(protobuf()), value)).toEqual(value)
  })

  test('may refer to others in the same package, without moving the message indexes', async () => {
    add('syntax = "proto3"; package p; message Country { string iso = 1; }', 'country')
    add(
      'syntax = "proto3"; package p; import "country.proto"; message Address { Country country = 1; }',
      'address',
      [{ name: 'country.proto', subject: 'country', version: 1 }],
    )
    add(
      'syntax = "proto3"; package p; import "address.proto"; import "country.proto"; message Order { Address address = 1; Country from = 2; }',
      'out-value',
      [
        { name: 'address.proto', subject: 'address', version: 1 },
        { name: 'country.proto', subject: 'country', version: 1 },
      ],
    )
    const serde = scene.open(protobuf())
    const value = { address: { country: { iso: 'CH' } }, from: { iso: 'DE' } }
    expect(await scene.there(serde, value)).toEqual(value)
    expect((await scene.write(serde, value))[0]).toBe(0)
  })

  test('a type that nothing defines is named', async () => {
    const id = add('syntax = "proto3"; message Order { Missing m = 1; }')
    await expect(scene.read(scene.open(protobuf()), wire(id, '\x00'))).rejects.toThrow('Missing')
  })

  test('proto2 defaults count', async () => {
    const id = add(
      'syntax = "proto2"; message A { optional int64 n = 1 [default = 7]; optional string s = 2 [default = "x"]; }',
    )
    expect(await scene.read(scene.open(protobuf()), wire(id, '\x00'))).toEqual({ n: 7, s: 'x' })
  })

  test('a schema is registered with its kind', async () => {
    const serde = scene.open(protobuf({ schema: ORDER, messageName: 'Order', register: true }))
    expect(await scene.there(serde, FULL)).toEqual(FULL)
  })
})
