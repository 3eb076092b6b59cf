import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { ERROR_CODES } from '../../../src/errors.ts'
import { type Ended, MAIN, runNode } from './node-process.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-cli-'))
})
afterAll(() => rm(folder, { recursive: true }))

test('--version prints the version of the package', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  expect(await runNode(folder, [MAIN, '--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
})

test('a usage error goes to stderr and is the exit code of the process', async () => {
  expect(await runNode(folder, [MAIN, 'rnu'])).toEqual({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining("did you mean 'millrace run'?"),
  })
})

describe('on another Node.js', () => {
  /** Runs main.ts in a process that believes to be another version. */
  async function pretending(version: string): Promise<Ended> {
    const disguise = join(folder, 'disguise.cjs')
    await writeFile(
      disguise,
      `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`,
    )
    return runNode(folder, ['--require', disguise, MAIN, '--version'])
  }

  test.each(['20.20.2', '22.17.1', '23.5.0'])('%s is refused at once, with what to do', async (version) => {
    const ended = await pretending(version)
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toContain(`this is ${version}`)
    expect(ended.stderr).toContain('[MILLRACE_UNSUPPORTED_NODE]')
    expect(ended.stderr).toContain(`What to do: ${ERROR_CODES.MILLRACE_UNSUPPORTED_NODE.remedy}`)
  })

  test.each(['22.18.0', '23.6.0', '26.1.0'])('%s is accepted', async (version) => {
    expect(await pretending(version)).toMatchObject({ code: 0, stderr: '' })
  })

  test('main.ts loads nothing before it has looked at the version', () => {
    expect(readFileSync(MAIN, 'utf8')).not.toMatch(/^import .* from/m)
  })
})
