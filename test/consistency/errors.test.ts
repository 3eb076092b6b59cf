import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { errorsPage } from '../../scripts/lib/reference-pages.ts'
import { ERROR_CODES } from '../../src/errors.ts'
import { ROOT } from './source-file.ts'

const documented = (page: string): string[] =>
  [...page.matchAll(/^## (MILLRACE_\w+)$/gm)].map((match) => match[1]!)

const codes = Object.keys(ERROR_CODES)
const page = readFileSync(join(ROOT, 'docs', 'errors.md'), 'utf8')

describe('error codes', () => {
  test('each code in src/errors.ts is in docs/errors.md', () => {
    expect(codes.filter((code) => !documented(page).includes(code))).toEqual([])
  })

  test('each code in docs/errors.md is in src/errors.ts', () => {
    expect(documented(page).filter((code) => !codes.includes(code))).toEqual([])
  })

  test('docs/errors.md is what npm run docs writes', () => {
    expect(page).toBe(errorsPage(ERROR_CODES))
  })

  test('each remedy is a sentence that says what to do', () => {
    const poor = Object.entries(ERROR_CODES).filter(
      ([, { remedy }]) => remedy.length < 20 || !remedy.endsWith('.'),
    )
    expect(poor).toEqual([])
  })
})

describe('the checks find offenders', () => {
  test('a code that only one of the two has', () => {
    const sample = errorsPage({
      MILLRACE_NEW: { fault: 'user', retriable: false, remedy: 'Do this.' },
      MILLRACE_OLD: { fault: 'external', retriable: true, remedy: 'Do that.' },
    })
    expect(documented(sample)).toEqual(['MILLRACE_NEW', 'MILLRACE_OLD'])
    expect(sample).toMatch(/something that the job depends on. Trying again may help/)
  })
})
