/** Entries that no single record of the checkpoint topic can hold. */
import { describe, expect, test } from '@jest/globals'
import { LargeEntries } from '../../../src/kafka/large-entries.ts'
import type { LogEntry } from '../../../src/kafka/topic-log.ts'

/** What a reader makes of records. */
function read(records: readonly LogEntry[], entries = new LargeEntries()): Map<string, string> {
  const found = new Map<string, string>()
  const visit = entries.joining((key, value) => {
    if (value === null) found.delete(key)
    else found.set(key, value.toString())
  })
  for (const { key, value } of records) visit(key, value === null ? null : Buffer.from(value as string))
  return found
}

const large = (letter: string, length = 1_000_000): string => letter.repeat(length)
const names = (records: readonly LogEntry[]): string[] =>
  records.map(({ key, value }) => `${key}${value === null ? ' ✝' : ''}`)

describe('an entry', () => {
  test('that a record holds is written as it is', () => {
    const entry = { key: 'completed/r/1', value: large('a', 300_000) }
    expect(new LargeEntries().split([entry])).toEqual([entry])
  })

  test('that is larger is written in parts, its head behind them, and read whole', () => {
    const value = large('a')
    const records = new LargeEntries().split([
      { key: 'completed/r/1', value },
      { key: 'b', value: 'x' },
    ])
    expect(names(records)).toEqual([
      'part/completed/r/1/0',
      'part/completed/r/1/1',
      'part/completed/r/1/2',
      'part/completed/r/1/3',
      'completed/r/1',
      'b',
    ])
    for (const record of records)
      expect(Buffer.byteLength(record.value as string)).toBeLessThanOrEqual(900_000)
    expect(read(records)).toEqual(
      new Map([
        ['completed/r/1', value],
        ['b', 'x'],
      ]),
    )
  })

  test('is not cut within a character', () => {
    const value = `x${'😀'.repeat(400_000)}`
    expect(read(new LargeEntries().split([{ key: 'k', value }])).get('k')).toBe(value)
  })

  test('that is deleted takes its parts with it, head first, also when another process wrote them', () => {
    const written = new LargeEntries().split([{ key: 'k', value: large('a') }])
    const other = new LargeEntries()
    read(written, other)
    const deleted = other.split([{ key: 'k', value: null }])
    expect(names(deleted)).toEqual(['k ✝', 'part/k/0 ✝', 'part/k/1 ✝', 'part/k/2 ✝', 'part/k/3 ✝'])
    expect(read([...written, ...deleted])).toEqual(new Map())
    expect(names(other.split([{ key: 'k', value: null }]))).toEqual(['k ✝'])
  })

  test('that is written again with fewer parts, or with none, leaves no part behind', () => {
    const entries = new LargeEntries()
    const first = entries.split([{ key: 'k', value: large('a') }])
    const second = entries.split([{ key: 'k', value: large('b', 500_000) }])
    expect(names(second)).toEqual(['part/k/0', 'part/k/1', 'k', 'part/k/2 ✝', 'part/k/3 ✝'])
    expect(read([...first, ...second]).get('k')).toBe(large('b', 500_000))
    const third = entries.split([{ key: 'k', value: 'small' }])
    expect(names(third)).toEqual(['k', 'part/k/0 ✝', 'part/k/1 ✝'])
    expect(read([...first, ...second, ...third])).toEqual(new Map([['k', 'small']]))
  })

  test('whose parts are gone is read as its head, until what replaced it is read', () => {
    const [, ...damaged] = new LargeEntries().split([{ key: 'k', value: large('a') }])
    expect(read(damaged).get('k')).toBe('{"parts":4}')
    const after = new LargeEntries().split([{ key: 'k', value: large('b') }])
    expect(read([...damaged, ...after]).get('k')).toBe(large('b'))
  })
})
