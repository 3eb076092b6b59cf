import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { runCommandLine } from '../../../src/cli/command-line.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-command-'))
  // It would fail this test if it were ever loaded.
  await writeFile(join(folder, 'job.ts'), 'throw new Error("loaded")')
})
afterAll(() => rm(folder, { recursive: true }))

async function millrace(args: readonly string[], environment: Record<string, string> = {}) {
  const stdout: string[] = []
  const stderr: string[] = []
  const codes: number[] = []
  await runCommandLine(args, {
    folder,
    environment,
    stdout: { write: (text) => stdout.push(text) },
    stderr: { write: (text) => stderr.push(text) },
    setExitCode: (code) => codes.push(code),
  })
  return { code: codes.at(-1) ?? 0, stdout: stdout.join(''), stderr: stderr.join('') }
}

describe('help goes to stdout', () => {
  test('of the command: its commands and an example', async () => {
    for (const args of [['--help'], ['-h'], ['help']])
      expect(await millrace(args)).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/Commands:\n {2}run[\s\S]*Example:/),
        stderr: '',
      })
  })

  test('of run: options, examples, exit codes', async () => {
    const help = await millrace(['run', '--help'])
    expect(help).toMatchObject({ code: 0, stderr: '' })
    expect(help.stdout).toMatch(/--accept-lost-transaction ID[\s\S]*Examples:[\s\S]*Exit codes/)
    expect(await millrace(['help', 'run'])).toEqual(help)
  })

  test('lines fit a terminal of 120 columns', async () => {
    const help = await millrace(['run', '--help'])
    expect(help.stdout.split('\n').filter((line) => line.length > 120)).toEqual([])
  })
})

describe('wrong usage exits 2 and prints to stderr only', () => {
  test.each([
    [[], 'millrace needs a command'],
    [['rnu', 'job.ts'], "Unknown command 'rnu'; did you mean 'millrace run'?"],
    [['etl.ts'], "Unknown command 'etl.ts'; did you mean 'millrace run etl.ts'?"],
    [['toString'], "Unknown command 'toString'"],
    [['help', 'nothing'], "Unknown command 'nothing'"],
    [['--verison'], 'Unknown option --verison; did you mean --version?'],
    [['run'], 'millrace run needs a job module'],
    [['run', '--frehs', 'job.ts'], 'Unknown option --frehs; did you mean --fresh?'],
    [['run', 'nope.ts'], 'There is no file'],
    [['run', '.'], 'There is no file'],
    [['run', 'a.ts', 'b.ts'], "'b.ts' came too"],
    [['run', '-D', 'x', 'job.ts'], '-D x is no setting'],
    [['run', '-D', '=x', 'job.ts'], '-D =x is no setting'],
  ])('%j', async (args, message) => {
    expect(await millrace(args)).toEqual({ code: 2, stdout: '', stderr: expect.stringContaining(message) })
  })
})

describe('wrong settings exit 2 before the module is loaded', () => {
  test.each<[string, string[], Record<string, string>, string]>([
    ['an unknown flag', ['-D', 'state.bakend=filesystem'], {}, "did you mean 'state.backend'?"],
    ['a bad log level', ['--log-level', 'loud'], {}, "log.level cannot be 'loud'"],
    ['a bad variable', [], { MILLRACE_PARALLELISM_DEFAULT: 'many' }, 'variable MILLRACE_PARALLELISM_DEFAULT'],
    ['a file that is not there', ['--config', 'nope.yaml'], {}, 'nope.yaml (ENOENT)'],
  ])('%s', async (_, options, environment, message) => {
    const ended = await millrace(['run', ...options, 'job.ts'], environment)
    expect(ended).toEqual({ code: 2, stdout: '', stderr: expect.stringContaining(message) })
    expect(ended.stderr).not.toContain('loaded')
  })
})
