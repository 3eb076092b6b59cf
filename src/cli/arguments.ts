/** Reads a command's arguments by a table, so that parsing, help and suggestions cannot disagree. */
import { parseArgs } from 'node:util'
import { nearestName } from '../config/nearest-name.ts'
import { ConfigError } from '../errors.ts'
import { optionHere } from './flink-spellings.ts'

/** One option of a command. */
export interface ArgumentSpec {
  /** Name of its value in the help text; without it the option is a switch. */
  readonly value?: string
  readonly short?: string
  /** One line for the help text. */
  readonly doc: string
}

/** What can be typed after a command, for whoever completes it. */
export interface CommandShape {
  readonly options: Readonly<Record<string, ArgumentSpec>>
  /** Words that may come first. */
  readonly actions?: readonly string[]
  /** What comes then, if it lies in this machine's file system. */
  readonly operand?: 'file' | 'folder'
}

/** What somebody typed. */
export interface ParsedArguments {
  /** Values of each option, in order; a switch that is on has one empty value. */
  readonly options: ReadonlyMap<string, readonly string[]>
  readonly positionals: readonly string[]
  /** Everything after `--`. */
  readonly rest: readonly string[]
}

/** A command that was typed wrongly. */
export function usageError(message: string): ConfigError {
  return new ConfigError('MILLRACE_USAGE', message)
}

/**
 * Reads arguments. `command`: whose they are, for those who type as in Flink.
 * @throws ConfigError MILLRACE_USAGE naming the nearest option, or the missing value.
 */
export function readArguments(
  args: readonly string[],
  specs: Readonly<Record<string, ArgumentSpec>>,
  command = '',
): ParsedArguments {
  const end = args.indexOf('--')
  const { tokens } = parseArgs({
    args: end === -1 ? [...args] : args.slice(0, end),
    options: Object.fromEntries(
      Object.entries(specs).map(([name, { value, short }]) => [
        name,
        {
          type: value === undefined ? ('boolean' as const) : ('string' as const),
          ...(short === undefined ? {} : { short }),
        },
      ]),
    ),
    strict: false,
    tokens: true,
  })
  const options = new Map<string, string[]>()
  const positionals: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const spec = Object.hasOwn(specs, token.name) ? specs[token.name] : undefined
    if (spec === undefined) throw usageError(unknownOption(token.rawName, token.name, specs, command))
    const { value } = token
    if (spec.value === undefined && value !== undefined) throw usageError(`${token.rawName} takes no value`)
    if (
      spec.value !== undefined &&
      (value === undefined || value === '' || (!token.inlineValue && value.startsWith('-')))
    )
      throw usageError(`${token.rawName} needs a value: ${token.rawName} ${spec.value}`)
    options.set(token.name, [...(options.get(token.name) ?? []), value ?? ''])
  }
  return { options, positionals, rest: end === -1 ? [] : args.slice(end + 1) }
}

function unknownOption(
  written: string,
  name: string,
  specs: Readonly<Record<string, ArgumentSpec>>,
  command: string,
): string {
  const here = optionHere(command, name)
  if (here !== undefined) return `Unknown option ${written}; ${here}`
  // A letter is like every other letter.
  const nearest = nearestName(
    name,
    Object.keys(specs).filter((known) => known.length > 1),
  )
  return `Unknown option ${written}${nearest === undefined ? '' : `; did you mean --${nearest}?`}`
}

/** The options as lines of a help text. */
export function optionHelp(specs: Readonly<Record<string, ArgumentSpec>>): string {
  const rows = Object.entries(specs).map(([name, { value, short, doc }]) => {
    const names = [
      ...(short === undefined ? [] : [`-${short}`]),
      ...(short !== undefined && name === short ? [] : [`--${name}`]),
    ]
    return [`${names.join(', ')}${value === undefined ? '' : ` ${value}`}`, doc] as const
  })
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, doc]) => `  ${left.padEnd(width)}  ${doc}`).join('\n')
}
