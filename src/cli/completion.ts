/**
 * `millrace completion`: what the shells need to complete commands, options and keys of -D. Made from the tables that the commands read
 * their arguments by, so that the two cannot disagree.
 */
import { OPTIONS as CONFIG_OPTIONS, OPTION_KEYS } from '../config/option-table.ts'
import { type ArgumentSpec, type CommandShape, optionHelp, readArguments, usageError } from './arguments.ts'
import type { RunContext } from './run.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

const OPTIONS = { help: { short: 'h', doc: 'Show this text.' } } as const satisfies Record<
  string,
  ArgumentSpec
>

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
      return zsh(commands)
    case 'fish':
      return fish(commands)
  }
}

/** What may follow an option that takes a value. */
type Value = { readonly words: readonly string[] } | 'file' | 'folder' | undefined

function followedBy({ value }: ArgumentSpec): Value {
  switch (value) {
    case 'FILE':
      return 'file'
    case 'DIR':
    case 'PATH':
      return 'folder'
    case 'LEVEL':
      return { words: CONFIG_OPTIONS['log.level'].values }
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

/**
 * The part that bash and zsh share: what is offered for the word $cur behind $prev, the word number $at, as calls of _millrace_words and
 * _millrace_files.
 */
function cases(commands: Completed): string {
  const call = (value: Value): string =>
    value === undefined
      ? ':'
      : typeof value === 'string'
        ? `_millrace_files ${value}`
        : `_millrace_words ${value.words.join(' ')}`
  return Object.entries(commands)
    .map(([name, { shape }]) => {
      const options = Object.entries(shape.options)
      const values = options.flatMap(([option, spec]) =>
        spec.value === undefined
          ? []
          : [`        ${written(option, spec).join('|')}) ${call(followedBy(spec))}; return ;;`],
      )
      const all = options.flatMap(([option, spec]) => written(option, spec)).join(' ')
      return [
        `    ${name})`,
        ...(values.length === 0 ? [] : ['      case "$prev" in', ...values, '      esac']),
        `      if [[ $cur == -* ]]; then _millrace_words ${all}; return; fi`,
        ...(shape.actions === undefined
          ? []
          : [`      if [[ $at -eq 2 ]]; then _millrace_words ${shape.actions.join(' ')}; return; fi`]),
        `      ${call(shape.operand)}`,
        '      ;;',
      ].join('\n')
    })
    .join('\n')
}

function bash(commands: Completed): string {
  const names = Object.keys(commands).join(' ')
  return `# Completion of millrace for bash. Load it with: source <(millrace completion bash)
_millrace_words() { COMPREPLY=($(compgen -W "$*" -- "$cur")); }
_millrace_files() {
  compopt -o filenames 2>/dev/null
  if [[ $1 == folder ]]; then COMPREPLY=($(compgen -d -- "$cur")); else COMPREPLY=($(compgen -f -- "$cur")); fi
}
_millrace_choose() {
  if [[ $at -le 1 ]]; then _millrace_words ${names} help --help --version; return; fi
  case "$command" in
    help) _millrace_words ${names} ;;
${cases(commands)}
  esac
}
_millrace() {
  # The line is cut at blanks only: COMP_WORDS is cut at = and : too.
  local line=\${COMP_LINE:0:COMP_POINT} cur prev at command all
  read -ra all <<< "$line"
  [[ $line == *[[:space:]] ]] && all+=('')
  at=$((\${#all[@]} - 1))
  cur=\${all[at]} prev=\${all[at - 1]} command=\${all[1]}
  COMPREPLY=()
  _millrace_choose
  # What bash replaces begins behind the last =.
  if [[ $cur == *=* ]]; then local cut="\${cur%"\${cur##*=}"}"; COMPREPLY=("\${COMPREPLY[@]#"$cut"}"); fi
  if [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
  return 0
}
complete -F _millrace millrace
`
}

function zsh(commands: Completed): string {
  const names = Object.keys(commands).join(' ')
  return `#compdef millrace
# Completion of millrace for zsh. Load it with: source <(millrace completion zsh)
_millrace_words() {
  local -a open=(\${(M)@:#*=}) whole=(\${@:#*=})
  (( $#open )) && compadd -S '' -- $open
  (( $#whole )) && compadd -- $whole
}
_millrace_files() { if [[ $1 == folder ]]; then _files -/; else _files; fi }
_millrace() {
  local at=$((CURRENT - 1)) cur=\${words[CURRENT]} prev=\${words[CURRENT-1]} command=\${words[2]}
  if [[ $at -le 1 ]]; then _millrace_words ${names} help --help --version; return; fi
  case "$command" in
    help) _millrace_words ${names} ;;
${cases(commands)}
  esac
}
compdef _millrace millrace
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
      const value = followedBy(spec)
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
