import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { COMMANDS } from '../../../src/cli/command-table.ts'
import { completionScript, type Shell } from '../../../src/cli/completion.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-completion-'))
  await writeFile(join(folder, 'job.ts'), '')
  await mkdir(join(folder, 'jobs'))
  for (const shell of ['bash', 'zsh', 'fish'] as Shell[])
    await writeFile(join(folder, `script.${shell}`), completionScript(shell, COMMANDS))
})
afterAll(() => rm(folder, { recursive: true }))

/** What bash offers behind `line`. */
function offered(line: string): string[] {
  const program = `source ./script.bash; COMP_LINE=$1; COMP_POINT=\${#1}; _millrace; printf '%s\\n' "\${COMPREPLY[@]}"`
  const out = execFileSync('bash', ['--norc', '-c', program, 'bash', line], { cwd: folder, encoding: 'utf8' })
  return out.split('\n').filter((word) => word !== '')
}

describe('completion in bash', () => {
  test('offers every command', () => {
    expect(offered('millrace ')).toEqual([...Object.keys(COMMANDS), 'help', '--help', '--version'])
    expect(offered('millrace chec')).toEqual(['checkpoint', 'checkpoints'])
    expect(offered('millrace help sa')).toEqual(['savepoint'])
  })

  test.each(Object.keys(COMMANDS))('offers every option of %s', (name) => {
    const long = Object.keys(COMMANDS[name]?.shape.options ?? {}).filter((option) => option.length > 1)
    expect(offered(`millrace ${name} --`)).toEqual(long.map((option) => `--${option}`))
  })

  test.each([
    ['millrace checkpoints ', ['list', 'show', 'gc']],
    ['millrace transactions a', ['abort']],
    ['millrace completion z', ['zsh']],
    ['millrace run --log-level w', ['warn']],
    ['millrace run -D kafka.bro', ['kafka.brokers=']],
    ['millrace run j', ['job.ts', 'jobs']],
    ['millrace run --config jo', ['job.ts', 'jobs']],
    ['millrace stop totals --savepoint-path j', ['jobs']],
    ['millrace cancel tot', []],
  ])('%j', (line, words) => {
    expect(offered(line).toSorted()).toEqual(words.toSorted())
  })

  test('stops at the cursor', () => {
    const program = `source ./script.bash; COMP_LINE='millrace sav --json'; COMP_POINT=12; _millrace; echo "\${COMPREPLY[*]}"`
    expect(execFileSync('bash', ['--norc', '-c', program], { cwd: folder, encoding: 'utf8' })).toBe(
      'savepoint\n',
    )
  })
})

const shells = ['zsh', 'fish'].filter((shell) => existsSync(`/usr/bin/${shell}`))
const declared = shells.length > 0 ? test : test.skip

declared('the scripts of other shells that are installed here are read without complaint', () => {
  for (const shell of shells)
    expect(execFileSync(shell, ['-n', `script.${shell}`], { cwd: folder, encoding: 'utf8' })).toBe('')
})

test('zsh and fish get every command and its options', () => {
  for (const shell of ['zsh', 'fish'] as const) {
    const script = completionScript(shell, COMMANDS)
    for (const name of Object.keys(COMMANDS)) expect(script).toContain(name)
    expect(script).toContain('savepoint-path')
    expect(script).toContain('state.checkpoints.dir=')
  }
})
