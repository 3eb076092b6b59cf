import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { referencePages } from '../../scripts/lib/reference-pages.ts'
import { OPTIONS } from '../../src/config.ts'
import { ROOT } from './source-file.ts'

/** Keys that a page has a table row for. */
const documented = (page: string): string[] =>
  [...page.matchAll(/^\| `([a-z][\w.-]*)` \|/gm)].map((row) => row[1]!)

const keys = Object.keys(OPTIONS)
const page = readFileSync(join(ROOT, 'docs', 'configuration.md'), 'utf8')

describe('configuration', () => {
  test('each option in src/config is in docs/configuration.md, once', () => {
    expect(documented(page).toSorted()).toEqual(keys.toSorted())
  })

  test('docs/configuration.md is what npm run docs writes', () => {
    expect(page).toBe(referencePages().find(({ path }) => path === 'docs/configuration.md')?.text)
  })

  test('the check reads rows and nothing else', () => {
    expect(
      documented('| key | type |\n|---|---|\n| `kafka.brokers` | list |\n| `a.b-c` | int |\nsee `rest.port`'),
    ).toEqual(['kafka.brokers', 'a.b-c'])
  })
})
