import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { StructuredValueReader } from '../../src/state/structured-reader.ts'
import { StructuredValueWriter } from '../../src/state/structured-value.ts'
import { GOLDEN_VALUES } from './golden-structured-values.ts'

const golden: Record<string, string> = JSON.parse(
  readFileSync(new URL('structured-value.json', import.meta.url), 'utf8'),
)

describe('the bytes of structured values, format 1', () => {
  test('the list and the golden file name the same values', () => {
    expect(Object.keys(GOLDEN_VALUES)).toEqual(Object.keys(golden))
  })

  test.each(Object.entries(golden))(
    '%s has the bytes of the golden file and comes back from them',
    (name, hex) => {
      const writer = new StructuredValueWriter()
      writer.write(GOLDEN_VALUES[name])
      expect(Buffer.from(writer.finish()).toString('hex')).toBe(hex)
      const reader = new StructuredValueReader(Buffer.from(hex, 'hex'), 'the golden file')
      expect(reader.read()).toEqual(GOLDEN_VALUES[name])
      expect(reader.atEnd).toBe(true)
    },
  )
})
