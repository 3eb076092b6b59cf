import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from '@jest/globals'
import { ROOT } from './source-file.ts'

const run = promisify(execFile)
const PAGE = 'docs/testing.md'
const TIMEOUT_MS = 60_000

/** Whole modules of the page, by the line in which they begin. */
function examples(text: string): Map<number, string> {
  const found = new Map<number, string>()
  for (const match of text.matchAll(/^```ts\n([\s\S]*?)^```$/gm))
    found.set(text.slice(0, match.index).split('\n').length + 1, match[1]!)
  return found
}

/** Imports each module; its last line says what each of them threw. */
const RUN_ALL = `
const outcome = {}
for (const name of process.argv.slice(2))
  outcome[name] = await import('./' + name).then(() => 'fine', (error) => String(error?.message ?? error))
console.log('\\n' + JSON.stringify(outcome))
`

/** What becomes of modules that are run as a user would who has the sources of the package: 'fine', or the message of an error. */
async function outcomes(modules: Readonly<Record<string, string>>): Promise<Record<string, string>> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-testing-page-'))
  try {
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
    await mkdir(join(folder, 'node_modules'))
    await symlink(ROOT, join(folder, 'node_modules', 'millrace'), 'dir')
    for (const [name, code] of Object.entries({ ...modules, 'run-all.ts': RUN_ALL }))
      await writeFile(join(folder, name), code)
    const { stdout } = await run(
      process.execPath,
      ['--conditions=millrace-source', 'run-all.ts', ...Object.keys(modules)],
      { cwd: folder, env: { ...process.env, NODE_OPTIONS: '' } },
    )
    return JSON.parse(stdout.trimEnd().split('\n').at(-1)!)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const found = examples(readFileSync(join(ROOT, PAGE), 'utf8'))
const [firstLine, firstCode] = [...found][0]!

describe(`the examples of ${PAGE}`, () => {
  let outcome: Record<string, string>

  beforeAll(async () => {
    outcome = await outcomes({
      ...Object.fromEntries([...found].map(([line, code]) => [`line-${line}.ts`, code])),
      'wrong.ts': firstCode.replace('amount: 7', 'amount: 8'),
    })
  }, TIMEOUT_MS)

  test('are there', () => {
    expect(found.size).toBeGreaterThan(5)
  })

  test.each([...found.keys()])('the one at line %i holds what it asserts', (line) => {
    expect(outcome[`line-${line}.ts`]).toBe('fine')
  })

  test(`would be found out if they did not: the one at line ${firstLine} with another number`, () => {
    expect(outcome['wrong.ts']).toContain('Expected values to be strictly deep-equal')
  })
})
