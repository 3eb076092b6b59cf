import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { run as runCommand } from '../../../src/cli/run.ts'
import { ERROR_CODES } from '../../../src/errors.ts'
import { type Ended, MAIN, runNode } from './node-process.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-cli-'))
})
afterAll(() => rm(folder, { recursive: true }))

const millrace = (...args: string[]) => runNode(folder, [MAIN, ...args])

/** What the environment does for a job: it reports to the settings that the command left. */
const JOB = `const launch: any = (globalThis as any)[Symbol.for('millrace.launch')]
const submit = (name: string): void => launch.onJobSubmitted(name)
const settle = (jobName: string, status: string, error?: unknown): void => launch.onJobSettled({ jobName, status, error })
`

async function run(name: string, text: string, ...options: string[]): Promise<Ended> {
  await writeFile(join(folder, name), text)
  return millrace('run', ...options, name)
}

describe('millrace run', () => {
  test('runs a TypeScript module in its own process, hands it settings and arguments, and exits 0', async () => {
    const text = `${JOB}
interface Shown { flags: unknown }
submit('etl')
const { onJobSubmitted, onJobSettled, ...data } = launch
console.log(JSON.stringify({ data, arguments: process.argv.slice(2), pid: process.pid, parent: process.ppid } satisfies object))
await new Promise<void>(resolve => setTimeout(resolve, 10))
settle('etl', 'FINISHED')`
    await writeFile(join(folder, 'settings.ts'), text)
    const options = [
      '-D',
      'parallelism.default=2',
      '-Dlog.format=json',
      '--log-level',
      'warn',
      '--fresh',
      '--allow-non-restored-state',
    ]
    const accepted = ['--accept-lost-transaction', 'tx-1', '--accept-lost-transaction=tx-2']
    const ended = await millrace('run', ...options, ...accepted, 'settings.ts', '--', '--day', '7')
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    const shown = JSON.parse(ended.stdout)
    expect(shown.data).toEqual({
      launchedByCli: true,
      flags: { 'parallelism.default': '2', 'log.format': 'json', 'log.level': 'warn' },
      dryRun: false,
      fresh: true,
      acceptLostTransactions: ['tx-1', 'tx-2'],
      allowNonRestoredState: true,
    })
    expect(shown.arguments).toEqual(['--day', '7'])
    expect(shown.parent).toBe(process.pid)
  })

  test('a job that FAILED exits 1 with one report', async () => {
    const ended = await run(
      'failed.ts',
      `${JOB}submit('a')\nconst error = new Error('it broke')\nsettle('a', 'FAILED', error)\nthrow error`,
    )
    expect(ended.code).toBe(1)
    expect(ended.stderr.match(/it broke/g)).toHaveLength(1)
    expect(ended.stderr).toContain('failed.ts:5:15')
  })

  test('a job that goes on after the module has loaded decides the exit code', async () => {
    const ended = await run(
      'later.ts',
      `${JOB}submit('a')\nsetTimeout(() => settle('a', 'FAILED', new Error('later')), 20)\nexport {}`,
    )
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('later') })
  })

  test('a module may submit its job after it has loaded', async () => {
    const text = `${JOB}async function main() { await null; submit('a'); settle('a', 'FINISHED') }\nmain()\nexport {}`
    expect(await run('main.ts', text)).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  test.each([
    [
      'throws',
      'const f = (x?: { y: number }): number => x!.y\nf()\nexport {}',
      /threw while loading[\s\S]*TypeError: Cannot read[\s\S]*throws\.ts:1:45/,
    ],
    [
      'rejects',
      'Promise.reject(new Error("nobody caught it"))\nexport {}',
      /was not caught[\s\S]*nobody caught it[\s\S]*rejects\.ts:1:16/,
    ],
    [
      'missing',
      'import "no-such-package"',
      /Cannot find package 'no-such-package' imported from .*missing\.ts/,
    ],
    ['enumeration', '\nenum A { B }', /enum is not supported[\s\S]*enumeration\.ts:2: enum A \{ B \}/],
    ['empty', 'export const x: number = 1', /ended without calling env\.execute\(\)/],
    ['stuck', 'await new Promise(() => {})', /can never happen/],
  ])('a module that %s is a MILLRACE_JOB_MODULE with exit code 1', async (name, text, report) => {
    const ended = await run(`${name}.ts`, text)
    expect(ended).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(report) })
    expect(ended.stderr).toContain('[MILLRACE_JOB_MODULE]')
    expect(ended.stderr).toContain(ERROR_CODES.MILLRACE_JOB_MODULE.remedy)
    expect(ended.stderr).not.toMatch(/node:internal|src\/cli/)
  })

  test('the line of a syntax error in JavaScript is shown, also in a module that the job imports', async () => {
    await writeFile(join(folder, 'broken.mjs'), '\nexport const a = ;')
    const ended = await run('imports.ts', 'import "./broken.mjs"')
    expect(ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/MILLRACE_JOB_MODULE[\s\S]*broken\.mjs:2\nexport const a = ;/),
    })
  })

  test('a dry run needs no job to settle', async () => {
    expect(
      await run('dry.ts', `${JOB}submit('a')\nconsole.log(launch.dryRun)\nexport {}`, '--dry-run'),
    ).toEqual({ code: 0, stdout: 'true\n', stderr: '' })
  })
})

test.each([
  ['--fresh', '--from-savepoint=s'],
  ['--from-savepoint=s', '--from-checkpoint=latest'],
  ['--fresh', '--from-checkpoint=7'],
])('a run has one beginning: %s and %s contradict each other', async (...options) => {
  await writeFile(join(folder, 'any.ts'), '')
  const nowhere = { write: () => undefined }
  const context = { folder, environment: {}, stdout: nowhere, stderr: nowhere, setExitCode: () => undefined }
  await expect(runCommand([...options, 'any.ts'], context)).rejects.toMatchObject({
    code: 'MILLRACE_USAGE',
    message: expect.stringContaining('contradict each other'),
  })
})
