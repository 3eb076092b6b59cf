/** Finds the command that was typed and runs it. */
import { readFileSync } from 'node:fs'
import { nearestName } from '../config/nearest-name.ts'
import { formatError } from '../core/error-report.ts'
import { type ArgumentSpec, optionHelp, readArguments, usageError } from './arguments.ts'
import { checkpoints } from './checkpoints.ts'
import { events } from './events.ts'
import { info } from './info.ts'
import { type JobVerb, jobVerb } from './job-command.ts'
import { exitCodeOf } from './job-watch.ts'
import { list } from './list.ts'
import { type RunContext, run } from './run.ts'
import { state } from './state.ts'
import { transactions } from './transactions.ts'

/** A command that the running job answers. */
function verb(name: JobVerb): (args: readonly string[], context: RunContext) => Promise<void> {
  return (args, context) => jobVerb(name, args, context)
}

const COMMANDS: Readonly<
  Record<string, { readonly doc: string; run(args: readonly string[], context: RunContext): Promise<void> }>
> = {
  run: { doc: 'Run a job module.', run },
  list: { doc: 'List jobs.', run: list },
  info: { doc: 'Show what a job does and what it waits for.', run: info },
  events: { doc: "Show the events of a job's life, or follow them.", run: events },
  cancel: { doc: 'End a job without a last checkpoint.', run: verb('cancel') },
  stop: { doc: 'End a job with a savepoint.', run: verb('stop') },
  savepoint: { doc: 'Take a savepoint.', run: verb('savepoint') },
  checkpoint: { doc: 'Take a checkpoint now.', run: verb('checkpoint') },
  checkpoints: { doc: 'Show the checkpoints of a job, or remove what crashes left.', run: checkpoints },
  state: { doc: 'Read the state in a savepoint or checkpoint.', run: state },
  transactions: { doc: 'Show or end transactions of jobs.', run: transactions },
}

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

function commandOf(name: string): (typeof COMMANDS)[string] {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command !== undefined) return command
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
