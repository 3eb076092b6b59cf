import { describe, expect, test } from '@jest/globals'
import { readOption } from '../../../src/config/option-reader.ts'
import { isOptionKey, OPTION_KEYS, specOf, variableOf } from '../../../src/config/option-table.ts'

describe('every option', () => {
  test.each(OPTION_KEYS.filter((key) => specOf(key).default !== undefined))(
    '%s accepts its own default',
    (key) => {
      expect(readOption(specOf(key), specOf(key).default!)).toBeDefined()
    },
  )

  test.each([...OPTION_KEYS])('%s has a doc text of whole sentences', (key) => {
    expect(specOf(key).doc).toMatch(/^[A-Z`].*\.$/s)
  })

  test('has a variable of its own', () => {
    const variables = OPTION_KEYS.flatMap((key) => [variableOf(key), ...(specOf(key).env ?? [])])
    expect(variables.filter((name, i) => variables.indexOf(name) !== i)).toEqual([])
  })

  test('is not also the name under which another one is known elsewhere', () => {
    const elsewhere = OPTION_KEYS.flatMap((key) => specOf(key).knownAs ?? [])
    expect(elsewhere.filter(isOptionKey)).toEqual([])
    expect(elsewhere.filter((name) => name !== name.toLowerCase())).toEqual([])
  })

  test('that depends on another one names an option that exists, with a value that it accepts', () => {
    for (const key of OPTION_KEYS) {
      const condition = specOf(key).appliesWhen
      if (condition === undefined) continue
      expect(isOptionKey(condition.key)).toBe(true)
      if (isOptionKey(condition.key))
        for (const value of [condition.is].flat())
          expect(String(readOption(specOf(condition.key), value))).toBe(value)
    }
  })
})

test('a variable is the key in capitals with _ for dots and dashes', () => {
  expect(variableOf('execution.checkpointing.min-pause')).toBe('MILLRACE_EXECUTION_CHECKPOINTING_MIN_PAUSE')
})
