import { describe, expect, test } from '@jest/globals'
import {
  readVarlong,
  varintEnd,
  varintSize,
  varintValue,
  writeVarint,
  writeVarlong,
} from '../../../src/kafka/varint.ts'

const steps = [0, 1, 63, 64, 8191, 8192, 1_048_575, 1_048_576, 134_217_727, 134_217_728, 2 ** 30 - 1]
const integers = [...steps, 2 ** 31 - 1].flatMap((n) => [n, 0 - n, -n - 1])
const longs = [
  ...integers,
  ...[31, 32, 40, 47, 48, 49, 51, 52].flatMap((bits) => [
    2 ** bits,
    2 ** bits - 1,
    -(2 ** bits),
    -(2 ** bits) - 1,
  ]),
  Number.MAX_SAFE_INTEGER,
  -Number.MAX_SAFE_INTEGER,
]

describe('varints', () => {
  test.each(integers)('%d is written in as many bytes as it is said to take and read back', (n) => {
    const bytes = Buffer.alloc(12, 0xee)
    const end = writeVarint(bytes, 1, n)
    expect(end - 1).toBe(varintSize(n))
    const raw = varintValue(bytes, 1)
    expect((raw >>> 1) ^ -(raw & 1)).toBe(n)
    expect(varintEnd()).toBe(end)
  })

  test.each(longs)('%d survives as a 64-bit varint', (n) => {
    const bytes = Buffer.alloc(12, 0xee)
    const end = writeVarlong(bytes, 1, n)
    expect(readVarlong(bytes, 1, 0, 0n)).toBe(n)
    expect(varintEnd()).toBe(end)
  })

  test('base and delta beyond what a number holds give an exact sum', () => {
    const bytes = Buffer.alloc(12)
    writeVarlong(bytes, 0, Number.MIN_SAFE_INTEGER)
    const base = 2n ** 53n + 101n
    expect(readVarlong(bytes, 0, Number(base), base)).toBe(102)
  })

  test('one that is too long for its type ends beyond any buffer', () => {
    const bytes = Buffer.alloc(12, 0xff)
    varintValue(bytes, 0)
    expect(varintEnd()).toBeGreaterThan(2 ** 30)
    readVarlong(bytes, 0, 0, 0n)
    expect(varintEnd()).toBeGreaterThan(2 ** 30)
  })

  test('one that is cut off by the end of the buffer ends behind it', () => {
    expect(varintValue(Buffer.from([0xff, 0xff]), 0)).toBeGreaterThan(0)
    expect(varintEnd()).toBeGreaterThan(2)
    readVarlong(Buffer.alloc(8, 0xff), 0, 0, 0n)
    expect(varintEnd()).toBeGreaterThan(8)
  })
})
