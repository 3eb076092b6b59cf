/**
 * `millrace completion`: what the shells need to complete commands, options and keys of -D. Made from the tables that the commands read
 * their arguments by, so that the two cannot disagree.
 */
import { OPTION_KEYS } from '../config/option-table.ts'
import { LOG_LEVELS } from '../runtime/logging.ts'
import { type ArgumentSpec, type CommandShape, optionHelp, readArguments, usageError } from './arguments.ts'
import type { RunContext } from './run.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

const OPTIONS = { help: { short: 'h', doc: 'Show this text.' } } as const satisfies Record<string, ArgumentSpec>

export const COMPLETION_SHAPE: CommandShape = { options: OPTIONS, actions: SHELLS }

function help(): string {
  return `Usage: millrace completion ${SHELLS.join(' | ')}

Prints the completion of a shell.

Options:
${optionHelp(OPTIONS)}

Examples:
  source <(millrace completion bash)                                  # in ~/.bashrc
  source <(millrace completion zsh)                                   # in ~/.zshrc, after compinit
  millrace completion fish > ~/.config/fish/completions/millrace.fish
`
}

/** Commands by name, as far as completion needs them. */
export type Completed = Readonly<Record<string, { readonly doc: string; readonly shape: CommandShape }>>

export async function completion(
  args: readonly string[],
  context: RunContext,
  commands: Completed,
): Promise<void> {
  const { options, positionals } = readArguments(args, OPTIONS)
  if (options.has('help')) {
    context.stdout.write(help())
    return
  }
  const [shell, extra] = positionals
  if (shell === undefined || !isShell(shell))
    throw usageError(`millrace completion needs the name of a shell: ${SHELLS.join(', ')}`)
  if (extra !== undefined) throw usageError(`millrace completion takes one shell, but '${extra}' came too`)
  context.stdout.write(completionScript(shell, commands))
}

function isShell(name: string): name is Shell {
  return (SHELLS as readonly string[]).includes(name)
}

/** The script of one shell. */
export function completionScript(shell: Shell, commands: Completed): string {
  switch (shell) {
    case 'bash':
      return bash(commands)
    case 'zsh':
      // zsh runs completions of bash; its own would be a second set of rules for the same tables.
      return `autoload -U +X bashcompinit && bashcompinit\n${bash(commands)}`
    case 'fish':
      return fish(commands)
  }
}

/** What may follow an option that takes a value. */
type Value = { readonly words: readonly string[] } | 'file' | 'folder' | undefined

function valueOf({ value }: ArgumentSpec): Value {
  switch (value) {
    case 'FILE':
      return 'file'
    case 'DIR':
    case 'PATH':
      return 'folder'
    case 'LEVEL':
      return { words: LOG_LEVELS }
    case 'key=value':
      return { words: OPTION_KEYS.map((key) => `${key}=`) }
    default:
      return undefined
  }
}

/** `-h --help` of each option. */
function written(name: string, { short }: ArgumentSpec): string[] {
  return [...(short === undefined ? [] : [`-${short}`]), ...(name === short ? [] : [`--${name}`])]
}

function bash(commands: Completed): string {
  const names = Object.keys(commands)
  const cases = Object.entries(commands).map(([name, { shape }]) => {
    const options = Object.entries(shape.options)
    const values = options.flatMap(([option, spec]) => {
      if (spec.value === undefined) return []
      const pattern = written(option, spec).join('|')
      const value = valueOf(spec)
      const reply =
        value === 'file'
          ? '_millrace_files -f'
          : value === 'folder'
            ? '_millrace_files -d'
            : value === undefined
              ? ':'
              : `_millrace_words '${value.words.join(' ')}'`
      return [`        ${pattern}) ${reply}; return ;;`]
    })
    const words = options.flatMap(([option, spec]) => written(option, spec)).join(' ')
    const actions = shape.actions === undefined ? '' : shape.actions.join(' ')
    const operand =
      shape.operand === undefined ? ':' : `_millrace_files ${shape.operand === 'file' ? '-f' : '-d'}`
    return `    ${name})
      case "$prev" in
${values.join('\n')}${values.length === 0 ? '        --) ;;' : ''}
      esac
      if [[ $cur == -* ]]; then _millrace_words '${words}'; return; fi
      ${actions === '' ? '' : `if [[ $words -eq 2 ]]; then _millrace_words '${actions}'; return; fi\n      `}${operand}
      ;;`
  })
  return `# Completion of millrace for bash. Load it with: source <(millrace completion bash)
_millrace_words() { COMPREPLY=($(compgen -W "$1" -- "$cur")); }
_millrace_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen "$1" -- "$cur")); }
_millrace() {
  # The line is cut at blanks only: COMP_WORDS is cut at = and : too.
  local line=\${COMP_LINE:0:COMP_POINT} cur prev words command all
  read -ra all <<< "$line"
  [[ $line == *[[:space:]] ]] && all+=('')
  words=$((\${#all[@]} - 1)) cur=\${all[words]} prev=\${all[words - 1]} command=\${all[1]}
  COMPREPLY=()
  if [[ $words -le 1 ]]; then _millrace_words '${names.join(' ')} help --help --version'; return; fi
  case "$command" in
    help) _millrace_words '${names.join(' ')}' ;;
${cases.join('\n')}
  esac
  # What bash replaces begins behind the last = or :.
  if [[ $cur == *=* ]]; then local cut="\${cur%"\${cur##*=}"}"; COMPREPLY=("\${COMPREPLY[@]#"$cut"}"); fi
  [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _millrace millrace
`
}

const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

function fish(commands: Completed): string {
  const lines = [
    '# Completion of millrace for fish. Put it into ~/.config/fish/completions/millrace.fish',
    'complete -c millrace -f',
    ...Object.entries(commands).map(
      ([name, { doc }]) => `complete -c millrace -n __fish_use_subcommand -a ${name} -d ${quoted(doc)}`,
    ),
  ]
  for (const [name, { shape }] of Object.entries(commands)) {
    const where = `-n ${quoted(`__fish_seen_subcommand_from ${name}`)}`
    for (const [option, spec] of Object.entries(shape.options)) {
      const value = valueOf(spec)
      const names = [
        ...(spec.short === undefined ? [] : [`-s ${spec.short}`]),
        ...(option === spec.short ? [] : [`-l ${option}`]),
      ].join(' ')
      const takes =
        spec.value === undefined
          ? ''
          : value === undefined
            ? ' -x'
            : typeof value === 'string'
              ? ' -r -F'
              : ` -x -a ${quoted(value.words.join(' '))}`
      lines.push(`complete -c millrace ${where} ${names}${takes} -d ${quoted(spec.doc)}`)
    }
    if (shape.actions !== undefined)
      lines.push(`complete -c millrace ${where} -a ${quoted(shape.actions.join(' '))}`)
    if (shape.operand !== undefined) lines.push(`complete -c millrace ${where} -F`)
  }
  return `${lines.join('\n')}\n`
}
