import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { StructuredValueReader } from '../../src/state/structured-reader.ts'
import { StructuredValueWriter } from '../../src/state/structured-value.ts'

const units = fc.array(fc.nat(0xffff), { maxLength: 40 }).map((codes) => String.fromCharCode(...codes))
const leaf = fc.oneof(
  fc.constantFrom(undefined, null, true, false, -0, Number.NaN, Number.POSITIVE_INFINITY),
  fc.integer(),
  fc.double(),
  fc.bigInt(),
  fc.string({ maxLength: 50 }),
  units,
  fc.date({ noInvalidDate: true }),
  fc.uint8Array({ maxLength: 20 }),
)
const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.string({ maxLength: 4 }), tie('value'), { maxKeys: 4 }),
    fc.array(fc.tuple(tie('value'), tie('value')), { maxLength: 3 }).map((entries) => new Map(entries)),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => new Set(items)),
  ),
})).value

function bytesOf(values: readonly unknown[]): Uint8Array {
  const writer = new StructuredValueWriter()
  for (const each of values) writer.write(each)
  return writer.finish()
}

test('values come back as they were, several in one block', () => {
  fc.assert(
    fc.property(fc.array(value, { minLength: 1, maxLength: 5 }), (values) => {
      const reader = new StructuredValueReader(bytesOf(values), 'a test')
      // Written again rather than compared: equality of NaN, -0 and of Maps with object keys is then the codec's own.
      const read = values.map(() => reader.read())
      expect(reader.atEnd).toBe(true)
      expect(Buffer.compare(bytesOf(read), bytesOf(values))).toBe(0)
      expect(read).toEqual(values)
    }),
    { numRuns: 300 },
  )
})

test('damaged or hostile bytes give a value or a StateLostError, soon', () => {
  fc.assert(
    fc.property(
      fc.array(value, { minLength: 1, maxLength: 3 }).map(bytesOf),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 }),
      fc.nat(),
      (bytes, changes, cut) => {
        const damaged = Uint8Array.from(bytes)
        for (const [at, byte] of changes) damaged[at % damaged.length] = byte
        const input = damaged.subarray(0, damaged.length - (cut % damaged.length))
        try {
          const reader = new StructuredValueReader(input, 'a test')
          while (!reader.atEnd) reader.read()
        } catch (error) {
          expect(error).toMatchObject({ code: 'MILLRACE_STATE_LOST' })
        }
      },
    ),
    { numRuns: 1_000 },
  )
})

test('any bytes at all give values or a StateLostError', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
      try {
        const reader = new StructuredValueReader(Uint8Array.from([1, ...noise]), 'a test')
        while (!reader.atEnd) reader.read()
      } catch (error) {
        expect(error).toMatchObject({ code: 'MILLRACE_STATE_LOST' })
      }
    }),
    { numRuns: 2_000 },
  )
})
