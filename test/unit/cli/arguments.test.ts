import { describe, expect, test } from '@jest/globals'
import { type ArgumentSpec, optionHelp, readArguments } from '../../../src/cli/arguments.ts'

const SPECS = {
  D: { short: 'D', value: 'key=value', doc: 'Set.' },
  config: { value: 'FILE', doc: 'File.' },
  fresh: { doc: 'Fresh.' },
  help: { short: 'h', doc: 'Help.' },
} as const satisfies Record<string, ArgumentSpec>

const read = (...args: string[]) => {
  const { options, ...others } = readArguments(args, SPECS)
  return { options: Object.fromEntries(options), ...others }
}

test('options may stand anywhere and be repeated', () => {
  expect(read('-D', 'a=1', 'job.ts', '--fresh', '-Db=2', '--config=x.yaml')).toEqual({
    options: { D: ['a=1', 'b=2'], fresh: [''], config: ['x.yaml'] },
    positionals: ['job.ts'],
    rest: [],
  })
})

test('what comes after -- belongs to the job', () => {
  expect(read('job.ts', '--', '--fresh', '-x', '--')).toEqual({
    options: {},
    positionals: ['job.ts'],
    rest: ['--fresh', '-x', '--'],
  })
})

describe('refused is', () => {
  test.each([
    [['--frehs'], 'Unknown option --frehs; did you mean --fresh?'],
    [['--workers', '2'], 'Unknown option --workers'],
    [['-x'], 'Unknown option -x'],
    [['-d'], 'Unknown option -d'],
    [['--toString'], 'Unknown option --toString'],
    [['--config'], '--config needs a value: --config FILE'],
    [['--config', '--fresh'], '--config needs a value: --config FILE'],
    [['--config='], '--config needs a value: --config FILE'],
    [['-D'], '-D needs a value: -D key=value'],
    [['--fresh=yes'], '--fresh takes no value'],
  ])('%j', (args, message) => {
    expect(() => read(...args)).toThrow(expect.objectContaining({ code: 'MILLRACE_USAGE', message }))
  })

  test('but a value may begin with a dash when it is joined to its option', () => {
    expect(read('--config=-x').options).toEqual({ config: ['-x'] })
  })
})

test('the help text lists each option once, in columns', () => {
  expect(optionHelp(SPECS)).toBe(
    [
      '  -D key=value   Set.',
      '  --config FILE  File.',
      '  --fresh        Fresh.',
      '  -h, --help     Help.',
    ].join('\n'),
  )
})
