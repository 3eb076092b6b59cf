import { execFile } from 'node:child_process'
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..', '..')
const SET_UP_TIMEOUT_MS = 300_000
const manifest = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))

/** What a user's compiler is told: the strictest settings that the public types promise to work with, our declarations checked too. */
const USER_SETTINGS = {
  compilerOptions: {
    target: 'es2024',
    lib: ['es2024', 'esnext.disposable'],
    module: 'nodenext',
    moduleResolution: 'nodenext',
    types: ['node'],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noImplicitOverride: true,
    noPropertyAccessFromIndexSignature: true,
    verbatimModuleSyntax: true,
    isolatedModules: true,
    erasableSyntaxOnly: true,
    skipLibCheck: false,
    noEmit: true,
  },
  include: ['*.ts'],
}

let project: string

/** Runs a program without what jest put into the environment. @throws Error with all that it printed. */
async function runIn(cwd: string, program: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, NODE_OPTIONS: '' }
  try {
    const { stdout } = await run(program, args, { cwd, env, maxBuffer: 16 << 20 })
    return stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw new Error(`${program} ${args.join(' ')} failed:\n${stdout}\n${stderr}`, { cause: error })
  }
}

const inProject = (program: string, ...args: string[]) => runIn(project, program, ...args)

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'millrace-user-'))
  await runIn(ROOT, 'npm', 'pack', '--silent', '--pack-destination', project)
  const tarball = (await readdir(project)).find((file) => file.endsWith('.tgz'))
  await writeFile(
    join(project, 'package.json'),
    JSON.stringify({ name: 'user', private: true, type: 'module' }),
  )
  const typesOfNode = `@types/node@${manifest.devDependencies['@types/node']}`
  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--silent']
  await inProject('npm', 'install', ...flags, `./${tarball}`, typesOfNode)
}, SET_UP_TIMEOUT_MS)

afterAll(async () => {
  await rm(project, { recursive: true, force: true })
})

describe('the packed package, installed in an empty project', () => {
  test('gives the public API to a plain module', async () => {
    await writeFile(
      join(project, 'api.mjs'),
      "import { StreamExecutionEnvironment } from 'millrace'\nconsole.log(typeof StreamExecutionEnvironment.getExecutionEnvironment)",
    )
    expect(await inProject(process.execPath, 'api.mjs')).toBe('function\n')
  })

  test('gives the test kit to a plain module', async () => {
    await writeFile(
      join(project, 'kit.mjs'),
      "import * as kit from 'millrace/testing'\nconsole.log(Object.keys(kit).length > 0)",
    )
    expect(await inProject(process.execPath, 'kit.mjs')).toBe('true\n')
  })

  test('starts nothing when it is imported: the process ends at once', async () => {
    await writeFile(
      join(project, 'idle.mjs'),
      "await import('millrace')\nawait import('millrace/testing')\nconsole.log(process.getActiveResourcesInfo().filter(r => !/TTY|Pipe|FS/.test(r)).join())",
    )
    expect(await inProject(process.execPath, 'idle.mjs')).toBe('\n')
  })

  test('hides its inner files', async () => {
    await writeFile(
      join(project, 'inner.mjs'),
      "console.log(await import('millrace/dist/errors.js').then(() => 'open', error => error.code))",
    )
    expect(await inProject(process.execPath, 'inner.mjs')).toBe('ERR_PACKAGE_PATH_NOT_EXPORTED\n')
  })

  test("a job of the README's kind compiles with strict settings", async () => {
    await copyFile(join(import.meta.dirname, 'job.sample.ts'), join(project, 'job.ts'))
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify(USER_SETTINGS))
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')
    expect(await inProject(process.execPath, tsc, '-p', project, '--pretty', 'false')).toBe('')
  }, 60_000)

  test('a mistake in a job does not compile', async () => {
    const job = await readFile(join(import.meta.dirname, 'job.sample.ts'), 'utf8')
    await writeFile(join(project, 'wrong.ts'), job.replace('o.amount >= 20', 'o.amuont >= 20'))
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')
    try {
      await expect(inProject(process.execPath, tsc, '-p', project, '--pretty', 'false')).rejects.toThrow(
        /amuont/,
      )
    } finally {
      await rm(join(project, 'wrong.ts'))
    }
  }, 60_000)

  test('brings the command', async () => {
    expect((await inProject('npx', '--no-install', 'millrace', '--version')).trim()).toContain(
      manifest.version,
    )
  })
})
