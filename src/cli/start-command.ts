/** The command with which a job is started again: what was typed, without what was meant for one start only, and without secrets. */
import { showInput } from '../config/option-reader.ts'
import { isOptionKey, specOf } from '../config/option-table.ts'
import type { StartCommand } from '../core/failure-report.ts'
import type { ArgumentSpec, ParsedArguments } from './arguments.ts'

/** Options that begin a run, or answer one failure; typed again they would do it again. */
const ONCE: ReadonlySet<string> = new Set([
  'fresh',
  'from-savepoint',
  'from-checkpoint',
  'accept-lost-transaction',
  'allow-non-restored-state',
])

export function startCommand(
  { options, positionals, rest }: ParsedArguments,
  specs: Readonly<Record<string, ArgumentSpec>>,
): StartCommand {
  const words = [...options].flatMap(([name, values]) => {
    if (ONCE.has(name)) return []
    const written = specs[name]?.short === name ? `-${name}` : `--${name}`
    return values.flatMap((value) =>
      specs[name]?.value === undefined ? [written] : [written, quoted(name === 'D' ? masked(value) : value)],
    )
  })
  return {
    start: ['millrace run', ...words].join(' '),
    job: [...positionals, ...(rest.length === 0 ? [] : ['--', ...rest])].map(quoted).join(' '),
  }
}

/** A password on the screen is in the log of whoever keeps screens. */
function masked(pair: string): string {
  const equals = pair.indexOf('=')
  const key = pair.slice(0, equals)
  if (!isOptionKey(key) || specOf(key).secret === undefined) return pair
  return `${key}=${showInput(specOf(key), pair.slice(equals + 1)).replace(/^'(.*)'$/, '$1')}`
}

/** A word as a shell reads it. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
