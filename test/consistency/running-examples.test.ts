import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { ROOT } from './source-file.ts'

/** A ```ts run block of a guide, and the ```text block behind it: what it prints. */
interface RunningExample {
  readonly page: string
  readonly line: number
  readonly code: string
  readonly expected: readonly string[]
  /** Marked `text unordered`: lines come in any order. */
  readonly ordered: boolean
}

const GUIDE = join(ROOT, 'docs', 'guide')
const TIMEOUT_MS = 120_000

function examplesOf(page: string, text: string): RunningExample[] {
  const found: RunningExample[] = []
  const lines = text.split('\n')
  for (let i = 0; i < lines.length; i++) {
    if (lines[i] !== '```ts run') continue
    const end = lines.indexOf('```', i + 1)
    const output = /^```text( unordered)?$/.exec(lines[end + 1] ?? '')
    if (output === null)
      throw new Error(
        `${page}:${i + 1}: a block to run needs a \`\`\`text block right behind it: what it prints`,
      )
    found.push({
      page,
      line: i + 1,
      code: lines.slice(i + 1, end).join('\n'),
      expected: lines.slice(end + 2, lines.indexOf('```', end + 2)),
      ordered: output[1] === undefined,
    })
  }
  return found
}

/** What the module prints to stdout, line by line. @throws with its stderr if it fails */
function run(file: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    execFile(
      process.execPath,
      ['--conditions=millrace-source', file],
      { timeout: TIMEOUT_MS, env: { PATH: process.env['PATH'] } },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout.split('\n').filter((line) => line !== ''))
        else reject(new Error(`${file} failed: ${stderr}`, { cause: error }))
      },
    )
  })
}

const pages = (await readdir(GUIDE)).filter((name) => name.endsWith('.md'))
const examples = (
  await Promise.all(pages.map(async (page) => examplesOf(page, await readFile(join(GUIDE, page), 'utf8'))))
).flat()

describe('examples of the guides', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-guide-'))
    await mkdir(join(folder, 'node_modules'))
    await symlink(ROOT, join(folder, 'node_modules', 'millrace'))
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  test.each(examples.map((example) => [`${example.page}:${example.line}`, example] as const))(
    '%s prints what the page says',
    async (name, { code, expected, ordered }) => {
      const file = join(folder, `${name.replaceAll(/\W/g, '-')}.ts`)
      await writeFile(file, code)
      const printed = await run(file)
      expect(ordered ? printed : printed.toSorted()).toEqual(ordered ? expected : expected.toSorted())
    },
    TIMEOUT_MS,
  )

  test('are there', () => {
    expect(examples.length).toBeGreaterThanOrEqual(8)
  })

  test('that say nothing of what they print are found', () => {
    expect(() => examplesOf('a.md', '# A\n```ts run\nlet x\n```\nText')).toThrow(/^a\.md:2: /)
  })
})
