import { runInNewContext } from 'node:vm'
import { describe, expect, test } from '@jest/globals'
import { StructuredValueReader } from '../../../src/state/structured-reader.ts'
import { StructuredValueWriter } from '../../../src/state/structured-value.ts'

function bytesOf(...values: unknown[]): Uint8Array {
  const writer = new StructuredValueWriter()
  for (const value of values) writer.write(value, 'total')
  return writer.finish()
}

const copyOf = (value: unknown): any => new StructuredValueReader(bytesOf(value), 'a test').read()

class Owner {
  readonly name = 'x'
}
class Names extends Map {}
class Stamps extends Date {}
class Rows extends Array {}

describe('structured values', () => {
  test('keep what JSON loses', () => {
    const value = {
      a: undefined,
      b: Number.NaN,
      c: -0,
      d: 10n ** 30n,
      e: new Date(3),
      f: new Map([[{ k: 1 }, new Set([1])]]),
    }
    expect(copyOf(value)).toEqual(value)
    expect(Object.is(copyOf(-0), -0)).toBe(true)
    expect(Object.keys(copyOf({ a: undefined }))).toEqual(['a'])
    expect(copyOf('\ud800')).toBe('\ud800')
  })

  test('give bytes back as what they were: a Buffer prints as text, a Uint8Array does not', () => {
    expect(Buffer.isBuffer(copyOf(Buffer.from('abc')))).toBe(true)
    expect(Buffer.isBuffer(copyOf(new Uint8Array([1])))).toBe(false)
    expect(copyOf(new Float32Array([1, 2]).subarray(1))).toEqual(new Float32Array([2]))
  })

  test('of another realm and without a prototype are kept', () => {
    const foreign = runInNewContext(
      '({ o: { a: 1 }, l: [1, [2]], m: new Map([[1, 2]]), s: new Set([1]), d: new Date(5), b: new Uint8Array([1]), f: new Float64Array([1.5]) })',
    )
    const copy = copyOf(foreign)
    expect(copy.o).toEqual({ a: 1 })
    expect(copy.l).toEqual([1, [2]])
    expect(copy.m.get(1)).toBe(2)
    expect(copy.s.has(1)).toBe(true)
    expect(copy.d.getTime()).toBe(5)
    expect([...copy.b, ...copy.f]).toEqual([1, 1.5])
    expect(copyOf(Object.assign(Object.create(null), { a: 1 }))).toEqual({ a: 1 })
  })

  test('an own __proto__ comes back as a property and changes no prototype', () => {
    const copy = copyOf(JSON.parse('{"__proto__":{"evil":1}}'))
    expect(copy.evil).toBeUndefined()
    expect(Object.keys(copy)).toEqual(['__proto__'])
  })

  test('name the keys of a kind of object once in a block', () => {
    const one = bytesOf({ longPropertyName: 1, another: 2 }).length
    const two = bytesOf({ longPropertyName: 1, another: 2 }, { longPropertyName: 3, another: 4 }).length
    expect(two - one).toBe(3)
  })

  test('of many shapes, and dictionaries with many keys, come back', () => {
    const shapes = Array.from({ length: 6_000 }, (_, i) => ({ [`k${i}`]: i, common: { [`n${i % 7}`]: 1 } }))
    expect(copyOf(shapes)).toEqual(shapes)
    const dictionary = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`user${i}`, { n: i }]))
    expect(copyOf(dictionary)).toEqual(dictionary)
  })

  test.each<[string, unknown, string]>([
    ['a class instance at the top', new Owner(), "State 'total' cannot keep an instance of Owner"],
    [
      'a class instance inside',
      { items: [0, 1, 2, { owner: new Owner() }] },
      'an instance of Owner, at .items[3].owner',
    ],
    ['a function', { run: () => 1 }, 'a function, at .run'],
    ['a symbol', [Symbol('x')], 'a symbol, at [0]'],
    ['a subclass of Map', { m: new Names() }, 'an instance of Names, at .m'],
    ['a subclass of Date', new Stamps(), 'an instance of Stamps'],
    ['a subclass of Array', [new Rows()], 'an instance of Rows, at [0]'],
    ['an Error', { e: new Error('x') }, 'an instance of Error, at .e'],
    ['a RegExp', { 'odd key': /x/ }, 'an instance of RegExp, at ["odd key"]'],
    ['a promise', Promise.resolve(), 'an instance of Promise'],
    ['a boxed number', Object(1), 'an instance of Number'],
    ['a DataView', new DataView(new ArrayBuffer(1)), 'an instance of DataView'],
    ['something in a Map', new Map([['k', new Owner()]]), 'an instance of Owner, at .get("k")'],
    ['something in a Set', new Set([1, new Owner()]), 'an instance of Owner, at (element 1 of the set)'],
  ])('refuse %s with state and path', (_name, value, message) => {
    expect(() => bytesOf(value)).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_INVALID_STATE_VALUE',
        message: expect.stringContaining(message),
      }),
    )
  })

  test('refuse a cycle, naming where it closes, but not two references to one object', () => {
    const value: Record<string, unknown> = { list: [] }
    ;(value['list'] as unknown[]).push({ up: value })
    expect(() => bytesOf(value)).toThrow(/contains it, at \.list\[0\]\.up/)
    const shared = { n: 1 }
    expect(copyOf([shared, shared])).toEqual([{ n: 1 }, { n: 1 }])
  })

  test('refuse what is nested too deep', () => {
    let value: unknown = 1
    for (let i = 0; i < 600; i++) value = [value]
    expect(() => bytesOf(value)).toThrow(/nested deeper than 512/)
  })

  test('a block with a refused value in it cannot be finished', () => {
    const writer = new StructuredValueWriter()
    expect(() => writer.write({ a: new Owner() }, 'total')).toThrow(/Owner/)
    expect(() => writer.finish()).toThrow(/Owner/)
  })

  test('bare counts and doubles lie between values, after the headroom', () => {
    const writer = new StructuredValueWriter({ headroom: 5 })
    writer.writeCount(300)
    writer.writeCount(Number.MAX_SAFE_INTEGER)
    writer.writeDouble(0.5)
    writer.write('x')
    const bytes = writer.finish()
    expect([...bytes.subarray(0, 6)]).toEqual([0, 0, 0, 0, 0, 1])
    const reader = new StructuredValueReader(bytes, 'a test', 5)
    expect([
      reader.readCount(),
      reader.readCount(),
      reader.readDouble(),
      reader.read(),
      reader.atEnd,
    ]).toEqual([300, Number.MAX_SAFE_INTEGER, 0.5, 'x', true])
  })
})

describe('damaged bytes', () => {
  const read = (hex: string) =>
    new StructuredValueReader(Buffer.from(hex, 'hex'), "operator 'count', key group 3").read()

  test.each([
    ['nothing', ''],
    ['another format version', '0260'],
    ['a value that is missing', '01'],
    ['an unknown tag', '0175'],
    ['a string longer than the bytes', '014561'],
    ['an array of four thousand million elements', '016fffffffff0f'],
    ['a map that would need more bytes', '01730a6060'],
    ['a number of more than 53 bits', '016cffffffffffffffffff01'],
    ['an unknown shape', '0180'],
    ['a key that is no string', '01700160'],
    ['a bigint without digits', '01670000'],
    ['a typed array of an unknown kind', '016e2000'],
    ['a typed array of half an element', '016e0301ff'],
    ['arrays nested without end', `01${'6f01'.repeat(600)}60`],
    ['shapes nested without end', `01700141${'61'}${'80'.repeat(600)}60`],
  ])('%s: StateLostError that names where', (_name, hex) => {
    expect(() => read(hex)).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_STATE_LOST',
        message: expect.stringContaining("operator 'count', key group 3"),
      }),
    )
  })
})
