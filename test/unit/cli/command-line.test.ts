import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { readArguments } from '../../../src/cli/arguments.ts'
import { runCommandLine } from '../../../src/cli/command-line.ts'
import { COMMANDS } from '../../../src/cli/command-table.ts'
import { JOB_VERBS, verbShape } from '../../../src/cli/job-command.ts'
import { LIST_SHAPE } from '../../../src/cli/list.ts'
import { RUN_OPTIONS } from '../../../src/cli/run.ts'

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
    [['logs', 'etl'], "Unknown command 'logs'; 'millrace events JOB --follow'"],
    [['run', '-p', '4', 'job.ts'], 'Unknown option -p; the parallelism is set with -D parallelism.default=N'],
    [['run', '-d', 'job.ts'], 'Unknown option -d; a job runs in the process of millrace run'],
    [['run', '-m', 'host:8081', 'job.ts'], '-D kafka.brokers=HOST:PORT'],
    [['list', '-a'], 'Unknown option -a; all jobs are listed anyway'],
    [['savepoint', '--dispose', '/s'], 'Unknown option --dispose; a savepoint is self-contained'],
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

describe('every command', () => {
  const names = Object.keys(COMMANDS)

  test.each(names)('%s has help with options and examples, within 140 columns, on stdout', async (name) => {
    const help = await millrace([name, '--help'])
    expect(help).toMatchObject({ code: 0, stderr: '' })
    expect(help.stdout).toMatch(
      new RegExp(`^Usage: millrace ${name}\\b[\\s\\S]*Options:[\\s\\S]*Examples?:\\n {2}\\S`),
    )
    for (const [option, { short }] of Object.entries(COMMANDS[name]?.shape.options ?? {}))
      expect(help.stdout).toContain(option === short ? `-${option}` : `--${option}`)
    expect(help.stdout.split('\n').filter((line) => line.length > 140)).toEqual([])
  })

  test.each(names)('%s refuses an option that it does not know, and suggests one', async (name) => {
    expect(await millrace([name, '--hlep'])).toEqual({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('Unknown option --hlep; did you mean --help?'),
    })
  })

  test('is in the list, and nothing else is', async () => {
    const { stdout } = await millrace(['--help'])
    const listed = [...stdout.matchAll(/^ {2}(\w+) {2,}\S/gm)].map(([, name]) => name)
    expect(listed).toEqual(names)
  })
})

describe('what was typed wrongly is said before anything is connected', () => {
  test.each<[string[], string]>([
    [['cancel'], 'millrace cancel needs the name of a job'],
    [['info'], 'millrace info needs the name of a job'],
    [['savepoint', 'a', 'b', 'c'], "millrace savepoint takes one job, but 'c' came too"],
    [['savepoint', 'a', 'b', '-p', 'c'], "takes one folder, but 'b' came with --savepoint-path"],
    [['stop', 'a', 'b'], "millrace stop takes one job, but 'b' came too"],
    [['stop', 'a', '--drian'], 'Unknown option --drian; did you mean --drain?'],
    [['stop', 'a', '--drain=yes'], '--drain takes no value'],
    [['stop', 'a', '--savepoint-path'], '--savepoint-path needs a value: --savepoint-path DIR'],
    [['savepoint', 'a', '--drain'], 'Unknown option --drain'],
    [['list', 'a'], "millrace list takes no job, but 'a' came; try millrace info"],
    [['events', 'a', '-D', 'x'], '-D x is no setting'],
    [['checkpoint', 'a', '-D', 'kafka.broker=x:1'], "did you mean 'kafka.brokers'"],
    [['checkpoint', 'a', '--conf', 'nope.yaml'], 'nope.yaml (ENOENT)'],
    [['checkpoints', 'lits', 'a'], 'millrace checkpoints needs one of list, show, gc'],
    [['transactions'], 'millrace transactions needs one of list, abort, commit'],
    [['completion'], 'millrace completion needs the name of a shell: bash, zsh, fish'],
    [['completion', 'tcsh'], 'needs the name of a shell'],
    [['completion', 'bash', 'zsh'], "takes one shell, but 'zsh' came too"],
    [['doctor'], 'millrace doctor needs a job module'],
    [['doctor', 'a.ts', 'b.ts'], "'b.ts' came too"],
    [['doctor', 'nope.ts'], 'There is no file'],
  ])('%j', async (args, message) => {
    expect(await millrace(args)).toEqual({ code: 2, stdout: '', stderr: expect.stringContaining(message) })
  })

  test('without brokers it says where they are named', async () => {
    expect(await millrace(['info', 'a'])).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/MILLRACE_KAFKA_NOT_CONFIGURED[\s\S]*KAFKA_BROKERS/),
    })
  })
})

describe("Flink's short options", () => {
  test('of run and list', () => {
    expect([...readArguments(['-s', '/s', '-n', 'a.ts'], RUN_OPTIONS).options.keys()]).toEqual([
      'from-savepoint',
      'allow-non-restored-state',
    ])
    expect(readArguments(['-r'], LIST_SHAPE.options).options.has('running')).toBe(true)
  })

  test.each([
    [['a', '/s'], { type: 'savepoint', path: '/s' }],
    [['a', '-p', '/s'], { type: 'savepoint', path: '/s' }],
    [['a'], { type: 'savepoint' }],
  ])('of savepoint: %j', (args, command) => {
    expect(JOB_VERBS.savepoint.command(readArguments(args, verbShape('savepoint').options))).toEqual(command)
  })
})
