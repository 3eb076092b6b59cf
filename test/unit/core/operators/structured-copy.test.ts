import { runInNewContext } from 'node:vm'
import { expect, test } from '@jest/globals'
import { keepForeign, refuseForeign, structuredCopy } from '../../../../src/core/operators/structured-copy.ts'

const copy = <T>(value: T): T => structuredCopy(value, keepForeign)

test('every structured value is copied as it is', () => {
  const value = {
    text: 'a',
    nothing: null,
    missing: undefined,
    notANumber: Number.NaN,
    big: 1n,
    when: new Date(3),
    bytes: Uint8Array.of(1, 2),
    map: new Map<unknown, unknown>([
      ['k', { deep: [1] }],
      [{ key: 1 }, 2],
    ]),
    set: new Set([1, { in: 'set' }]),
    list: [1, [2, { three: 3 }]],
    bare: Object.assign(Object.create(null), { x: 1 }),
  }
  expect(copy(value)).toStrictEqual(value)
})

test('nothing mutable is shared', () => {
  const value = {
    list: [{ a: 1 }],
    map: new Map([['k', { b: 1 }]]),
    bytes: Uint8Array.of(1),
    when: new Date(1),
  }
  const result = copy(value)
  value.list[0]!.a = 2
  value.map.get('k')!.b = 2
  value.bytes[0] = 2
  value.when.setTime(2)
  expect(result).toEqual({
    list: [{ a: 1 }],
    map: new Map([['k', { b: 1 }]]),
    bytes: Uint8Array.of(1),
    when: new Date(1),
  })
})

test('a field named __proto__ stays a field', () => {
  const value = JSON.parse('{"__proto__":{"admin":true},"a":{"b":1}}')
  const result = copy(value)
  expect(Object.keys(result)).toEqual(['__proto__', 'a'])
  expect(result.admin).toBeUndefined()
  expect(Object.getPrototypeOf(result)).toBe(Object.prototype)
})

test('values of another realm are structured values too', () => {
  const refused = refuseForeign('state')
  const value = runInNewContext(
    '({ when: new Date(5), map: new Map([[1, {}]]), list: [{}], set: new Set([1]), bytes: Uint8Array.of(7) })',
  )
  const result = structuredCopy(value, refused)
  expect(result.when.getTime()).toBe(5)
  expect([...result.map.keys(), ...result.set, ...result.bytes]).toEqual([1, 1, 7])
})

test.each([
  ['a function', () => 1],
  ['an instance of Array2', new (class Array2 {})()],
  ['a symbol', Symbol('x')],
  ['an instance of Promise', Promise.resolve()],
])('%s is foreign: kept or refused as asked', (what, foreign) => {
  expect(copy({ foreign }).foreign).toBe(foreign)
  expect(() => structuredCopy({ foreign }, refuseForeign('s'))).toThrow(
    `State 's' cannot keep ${what}, at .foreign`,
  )
})
