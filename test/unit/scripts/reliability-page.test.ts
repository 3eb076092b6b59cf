import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import {
  readEntries,
  rowsOf,
  rowsOfPage,
  tableOf,
  updatedPage,
} from '../../../scripts/lib/reliability-page.ts'
import {
  logReliability,
  outcomeOf,
  RELIABILITY_LOG_VARIABLE,
  type ReliabilityEntry,
} from '../../reliability-log.ts'

const entry = (changed: Partial<ReliabilityEntry>): ReliabilityEntry => ({
  suite: 'kill',
  fault: 'kill -9',
  where: 'anywhere',
  count: 2,
  records: 1_000,
  outcome: 'exact',
  ...changed,
})

const page = (table: string) =>
  `# Before\n\n<!-- The table is written by \`scripts/test --write-reliability\`. -->\n\n${table}\n\n<!-- End of the table. -->\n\nAfter.\n`

describe('the log of what was tried', () => {
  let folder: string
  const before = process.env[RELIABILITY_LOG_VARIABLE]

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-log-'))
  })
  afterEach(() => {
    if (before === undefined) delete process.env[RELIABILITY_LOG_VARIABLE]
    else process.env[RELIABILITY_LOG_VARIABLE] = before
    rmSync(folder, { recursive: true })
  })

  test('holds what the suites wrote, in their order', () => {
    const file = join(folder, 'log')
    process.env[RELIABILITY_LOG_VARIABLE] = file
    logReliability(entry({ count: 1 }))
    logReliability(entry({ count: 2 }))
    expect(readEntries(file)).toEqual([entry({ count: 1 }), entry({ count: 2 })])
  })

  test('is not written without the variable', () => {
    delete process.env[RELIABILITY_LOG_VARIABLE]
    logReliability(entry({}))
    expect(readEntries(join(folder, 'log'))).toEqual([])
  })

  test('with a line that is cut off is an error, not fewer rows', () => {
    const file = join(folder, 'log')
    writeFileSync(file, '{"suite":"kill"')
    expect(() => readEntries(file)).toThrow(SyntaxError)
  })

  test('calls an output without complaints exact', () => {
    expect(outcomeOf([])).toBe('exact')
    expect(outcomeOf(['duplicate', 'missing'])).toBe('WRONG: 2 complaints')
  })
})

describe('the rows', () => {
  test('add up what was tried more than once, and one wrong outcome makes the row wrong', () => {
    const rows = rowsOf([
      entry({ count: 2, records: 10 }),
      entry({ count: 3, records: 20, outcome: 'WRONG: 1 complaints' }),
      entry({ count: 4, records: 30 }),
    ])
    expect(rows).toEqual([entry({ count: 9, records: 60, outcome: 'WRONG: 1 complaints' })])
  })

  test('are one for each suite, fault and place, sorted', () => {
    const rows = rowsOf([entry({ suite: 'zombie' }), entry({ where: 'b' }), entry({ where: 'a' })])
    expect(rows.map(({ suite, where }) => [suite, where])).toEqual([
      ['kill', 'a'],
      ['kill', 'b'],
      ['zombie', 'anywhere'],
    ])
  })

  test('can be read from the table that they were written to', () => {
    const rows = [entry({ count: 12_345, records: 6_789_012, where: 'a|b' })]
    expect(rowsOfPage(page(tableOf(rows)))).toEqual(rows)
  })
})

describe('the page', () => {
  test('gets the rows of the run and keeps those of suites that did not run, and its text', () => {
    const old = page(tableOf([entry({ suite: 'kill', count: 7 }), entry({ suite: 'proxy', count: 5 })]))
    const updated = updatedPage(old, [entry({ suite: 'kill', count: 1 })])
    expect(rowsOfPage(updated).map(({ suite, count }) => [suite, count])).toEqual([
      ['kill', 1],
      ['proxy', 5],
    ])
    expect(updated.startsWith('# Before\n\n')).toBe(true)
    expect(updated.endsWith('\n\nAfter.\n')).toBe(true)
  })

  test('without its marks is an error', () => {
    expect(() => updatedPage('# Nothing\n', [entry({})])).toThrow(/has lost the marks/)
  })
})
