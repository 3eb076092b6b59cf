/** Finds the command that was typed and runs it. */
import { readFileSync } from 'node:fs'
import { nearestName } from '../config/nearest-name.ts'
import { formatError } from '../core/error-report.ts'
import { type ArgumentSpec, optionHelp, readArguments, usageError } from './arguments.ts'
import { COMMANDS, type Command } from './command-table.ts'
import { commandHere } from './flink-spellings.ts'
import { exitCodeOf } from './job-watch.ts'
import type { RunContext } from './run.ts'

const OPTIONS = {
  help: { short: 'h', doc: 'Show this text; millrace COMMAND --help tells more.' },
  version: { short: 'v', doc: 'Show the version.' },
} as const satisfies Record<string, ArgumentSpec>

function help(): string {
  const commands = Object.entries(COMMANDS).map(([name, { doc }]) => `  ${name.padEnd(12)}  ${doc}`)
  return `Usage: millrace COMMAND [options]

Exactly-once stream processing on Kafka.

Commands:
${commands.join('\n')}

Options:
${optionHelp(OPTIONS)}

Example:
  millrace run -D kafka.brokers=localhost:9092 etl.ts
`
}

/** The version in package.json, which lies two folders above both src/cli and dist/cli. */
function version(): string {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version
}

async function dispatch(args: readonly string[], context: RunContext): Promise<void> {
  const [first, ...rest] = args
  if (first === undefined || first.startsWith('-')) {
    const { options } = readArguments(args, OPTIONS)
    if (first === undefined) throw usageError('millrace needs a command: millrace run job.ts')
    context.stdout.write(options.has('version') ? `${version()}\n` : help())
    return
  }
  if (first === 'help') {
    const named = rest[0] === undefined ? undefined : commandOf(rest[0])
    if (named === undefined) context.stdout.write(help())
    else await named.run(['--help'], context)
    return
  }
  await commandOf(first).run(rest, context)
}

function commandOf(name: string): Command {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command !== undefined) return command
  const here = commandHere(name)
  if (here !== undefined) throw usageError(`Unknown command '${name}'; ${here}`)
  const nearest = nearestName(name, Object.keys(COMMANDS))
  const jobFile = /\.[cm]?[jt]s$/.test(name) ? `; did you mean 'millrace run ${name}'?` : ''
  throw usageError(
    `Unknown command '${name}'${nearest === undefined ? jobFile : `; did you mean 'millrace ${nearest}'?`}`,
  )
}

/** The context of this process. */
function processContext(): RunContext {
  return {
    folder: process.cwd(),
    environment: process.env,
    stdout: process.stdout,
    stderr: process.stderr,
    setExitCode: (code) => {
      process.exitCode = code
    },
  }
}

/** Runs what was typed. Sets the exit code; never rejects. */
export async function runCommandLine(
  args: readonly string[],
  context: RunContext = processContext(),
): Promise<void> {
  try {
    await dispatch(args, context)
  } catch (error) {
    context.stderr.write(`${formatError(error)}\n`)
    context.setExitCode(exitCodeOf(error))
  }
}
