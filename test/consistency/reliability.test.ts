import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { RELIABILITY_PAGE, rowsOfPage } from '../../scripts/lib/reliability-page.ts'
import { ROOT } from './source-file.ts'

const rows = rowsOfPage(readFileSync(join(ROOT, RELIABILITY_PAGE), 'utf8'))

/** Suites that say what they tried: fault tests that write the log, and the simulation. */
const SUITES = [
  'simulation',
  ...readdirSync(join(ROOT, 'test/fault'))
    .filter(
      (name) =>
        name.endsWith('.test.ts') &&
        readFileSync(join(ROOT, 'test/fault', name), 'utf8').includes('logReliability('),
    )
    .map((name) => name.slice(0, -'.test.ts'.length)),
]

describe('docs/reliability.md', () => {
  test.each(SUITES)('has rows of %s, written by a run', (suite) => {
    expect(rows.filter((row) => row.suite === suite).length).toBeGreaterThan(0)
  })

  test('has rows of no suite that is not there', () => {
    expect([...new Set(rows.map(({ suite }) => suite))].filter((suite) => !SUITES.includes(suite))).toEqual(
      [],
    )
  })

  test('says of everything that was tried that it was exact', () => {
    expect(rows.filter(({ outcome }) => outcome !== 'exact')).toEqual([])
    expect(rows.every(({ count }) => count > 0)).toBe(true)
  })

  test('names only test files that exist', () => {
    const named =
      readFileSync(join(ROOT, RELIABILITY_PAGE), 'utf8').match(/test\/[\w/-]+(\.test)?\.ts/g) ?? []
    expect(named.length).toBeGreaterThan(0)
    expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
  })
})
