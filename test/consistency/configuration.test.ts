import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { EFFECTS_HEADING } from '../../scripts/lib/effects-markdown.ts'
import { referencePages } from '../../scripts/lib/reference-pages.ts'
import { OPTIONS } from '../../src/config.ts'
import { EFFECTS } from '../effects.ts'
import { ROOT } from './source-file.ts'

/** Keys that a page has a table row for. */
const documented = (page: string): string[] =>
  [...page.matchAll(/^\| `([a-z][\w.-]*)` \|/gm)].map((row) => row[1]!)

const keys = Object.keys(OPTIONS)
const page = readFileSync(join(ROOT, 'docs', 'configuration.md'), 'utf8')
const [meanings, effects] = page.split(EFFECTS_HEADING) as [string, string]

/** Titles of the tests in a test file, as they are written. */
const titlesIn = (text: string): string[] =>
  [...text.matchAll(/(?:\btest\(|\)\()\s*(['"`])((?:\\.|(?!\1).)*)\1,/g)].map((call) =>
    call[2]!.replaceAll(/\\(['"`])/g, '$1'),
  )

describe('configuration', () => {
  test('each option in src/config is in docs/configuration.md, once', () => {
    expect(documented(meanings).toSorted()).toEqual(keys.toSorted())
  })

  test('each option has a row with the tests that show its effect', () => {
    expect(documented(effects).toSorted()).toEqual(keys.toSorted())
    expect(Object.keys(EFFECTS).toSorted()).toEqual(keys.toSorted())
    for (const [key, { tests }] of Object.entries(EFFECTS))
      expect([key, tests.flatMap(({ titles }) => titles).length]).not.toEqual([key, 0])
  })

  test('each test that shows an effect exists', () => {
    const missing = Object.entries(EFFECTS).flatMap(([key, { tests }]) =>
      tests.flatMap(({ file, titles }) => {
        const there = titlesIn(readFileSync(join(ROOT, file), 'utf8'))
        return titles.filter((title) => !there.includes(title)).map((title) => `${key}: ${file} › ${title}`)
      }),
    )
    expect(missing).toEqual([])
  })

  test('the check reads titles of tests and of tests with cases, and nothing else', () => {
    const text = `test('one', () => expect(f('no')).toBe('no'))
test.each([['no', 1]])('%s it\\'s two', async (a) => {})
test(\n  'three',\n  () => {})
describe('no', () => {})`
    expect(titlesIn(text)).toEqual(['one', "%s it's two", 'three'])
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
