import { expect, test } from '@jest/globals'
import { readArguments } from '../../../src/cli/arguments.ts'
import { RUN_OPTIONS } from '../../../src/cli/run.ts'
import { startCommand } from '../../../src/cli/start-command.ts'

const again = (...args: string[]) => startCommand(readArguments(args, RUN_OPTIONS), RUN_OPTIONS)

test('what was typed comes again, quoted for a shell', () => {
  expect(
    again(
      '-D',
      'kafka.client-id=it is',
      '--config',
      'p.yaml',
      '--log-level=warn',
      "o'job.ts",
      '--',
      '--day',
      '7',
    ),
  ).toEqual({
    start: "millrace run -D 'kafka.client-id=it is' --config p.yaml --log-level warn",
    job: "'o'\\''job.ts' -- --day 7",
  })
})

test('what was meant for one start is left out: it would begin another run', () => {
  const once = [
    '--fresh',
    '--from-savepoint',
    '/s',
    '--from-checkpoint',
    '3',
    '--accept-lost-transaction',
    'a',
    '--allow-non-restored-state',
  ]
  expect(again(...once, 'job.ts')).toEqual({ start: 'millrace run', job: 'job.ts' })
})

test('secrets are not repeated', () => {
  const { start } = again(
    '-D',
    'kafka.sasl.password=geheim',
    '-D',
    'state.backend.redis.url=redis://u:geheim@h:1',
    'job.ts',
  )
  expect(start).not.toContain('geheim')
  expect(start).toContain('kafka.sasl.password=******')
})
