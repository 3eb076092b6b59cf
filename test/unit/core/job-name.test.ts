import { expect, test } from '@jest/globals'
import { encodeJobName } from '../../../src/core/job-name.ts'

test('a short legal name stays as it is', () => {
  for (const name of ['totals', 'my_job', 'My-Job-2']) expect(encodeJobName(name, 60)).toBe(name)
})

test('other names are readable, legal, without dots, and within the limit', () => {
  for (const name of ['a.b', 'orders / daily', '', '日本', 'x'.repeat(300), '..', 'a b'.repeat(100)])
    for (const limit of [33, 36, 60, 200]) {
      const encoded = encodeJobName(name, limit)
      expect(encoded).toMatch(/^[a-zA-Z0-9_-]+$/)
      expect(encoded.length).toBeLessThanOrEqual(limit)
    }
  expect(encodeJobName('orders / daily', 60)).toMatch(/^orders-daily-[0-9a-f]{32}$/)
  expect(encodeJobName('日本', 60)).toMatch(/^job-[0-9a-f]{32}$/)
})

test('names that differ only in what is illegal or cut off stay different', () => {
  const names = [
    'a.b',
    'a_b',
    'a-b',
    'a b',
    'a/b',
    'a..b',
    '.a.b',
    `${'x'.repeat(300)}1`,
    `${'x'.repeat(300)}2`,
    '\ud800',
    '\ufffd',
  ]
  expect(new Set(names.map((name) => encodeJobName(name, 60))).size).toBe(names.length)
})

test('a plain name that looks like an encoded one cannot take its place', () => {
  const encoded = encodeJobName('a.b', 60)
  expect(encodeJobName(encoded, 80)).not.toBe(encoded)
})

test('the result is fixed for ever', () => {
  expect(encodeJobName('a.b', 60)).toBe('a-b-c08dfec6427c183f427c183f427c183f')
})

test('a limit that leaves no room for the hash is refused', () => {
  expect(() => encodeJobName('a.b', 32)).toThrow(expect.objectContaining({ code: 'MILLRACE_INTERNAL' }))
})
