import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { ROOT } from './source-file.ts'

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

const parts = (version: string): [number, number] => {
  const [major, minor] = version.replace(/^\D*/, '').split('.').map(Number)
  return [major ?? 0, minor ?? 0]
}

describe('tooling', () => {
  test('the tests run on a Node that the package supports, whatever the machine has', () => {
    const [major, minor] = parts(process.versions.node)
    const [neededMajor, neededMinor] = parts(manifest.engines.node)
    expect(major > neededMajor || (major === neededMajor && minor >= neededMinor)).toBe(true)
  })

  test('kafkajs, whose internals are used, is pinned exactly', () => {
    expect(manifest.dependencies.kafkajs).toMatch(/^\d+\.\d+\.\d+$/)
  })

  test('every file that the package publishes by name exists', () => {
    expect(manifest.files).toEqual(expect.arrayContaining(['dist']))
    expect(Object.keys(manifest.exports)).toEqual(['.', './testing', './package.json'])
  })
})
