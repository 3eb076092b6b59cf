/** `millrace run`: runs a job module in this process, with settings from the command line. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { setLaunchSettings } from '../api/launch-settings.ts'
import { validateSettings } from '../config.ts'
import { errorChain, formatError } from '../core/error-report.ts'
import { failureReport } from '../core/failure-report.ts'
import { type ArgumentSpec, optionHelp, readArguments, usageError } from './arguments.ts'
import { CONFIG_FILE_OPTIONS } from './config-options.ts'
import { type ExitCode, JobWatch, type Verdict } from './job-watch.ts'
import { startCommand } from './start-command.ts'

/** The options of `millrace run`. */
export const RUN_OPTIONS = {
  D: {
    short: 'D',
    value: 'key=value',
    doc: 'Set an option; may be repeated. docs/configuration.md lists all keys.',
  },
  ...CONFIG_FILE_OPTIONS,
  'log-level': { value: 'LEVEL', doc: 'debug, info, warn or error; short for -D log.level=LEVEL.' },
  'dry-run': { doc: "Print the job's graph to stdout and start nothing." },
  fresh: { doc: 'Begin without the state and positions of earlier runs.' },
  'from-savepoint': {
    short: 's',
    value: 'PATH',
    doc: "Begin a new run with a savepoint's state; output that followed it is written again.",
  },
  'from-checkpoint': {
    value: 'WHICH',
    doc: "The same with a completed checkpoint: latest, its number, or a retained one's folder.",
  },
  'allow-non-restored-state': {
    short: 'n',
    doc: 'Drop state of the savepoint or checkpoint that no operator claims.',
  },
  'accept-lost-transaction': {
    value: 'ID',
    doc: 'Go on although records of this transaction are lost; may be repeated.',
  },
  help: { short: 'h', doc: 'Show this text.' },
} as const satisfies Record<string, ArgumentSpec>

/** The text of `millrace run --help`. */
export function runHelp(): string {
  return `Usage: millrace run [options] JOB [-- arguments of the job]

Runs the job module JOB (.ts, .js, .mts or .mjs) until it is finished or stopped.

Options:
${optionHelp(RUN_OPTIONS)}

Settings, the strongest first: -D, MILLRACE_… variables, the configuration file, the file of Flink's, the job's code.

Examples:
  KAFKA_BROKERS=localhost:9092 millrace run etl.ts
  millrace run -D kafka.brokers=localhost:9092 -D execution.checkpointing.interval=10s etl.ts
  millrace run --config production.yaml --log-level debug etl.ts
  millrace run --conf /opt/flink/conf/config.yaml etl.ts
  millrace run --dry-run etl.ts
  millrace run --from-savepoint /savepoints/savepoint-etl-4f1d09c2a7be etl.ts
  millrace run --from-savepoint /savepoints/savepoint-etl-4f1d09c2a7be --allow-non-restored-state etl.ts
  millrace run --from-checkpoint latest etl.ts

Exit codes: 0 finished or stopped, 1 failed, 2 wrong usage or configuration, 130 ended by a second signal.
`
}

/** What the command needs of its process. */
export interface RunContext {
  readonly folder: string
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly stdout: { write(text: string): unknown }
  readonly stderr: { write(text: string): unknown }
  /** The code with which the process will end. */
  setExitCode(code: ExitCode): void
}

/**
 * Runs the module; resolves when it has loaded, while its job may still be running. The exit code follows the job's end.
 * @throws ConfigError for wrong usage or settings, before the module is loaded.
 */
export async function run(args: readonly string[], context: RunContext): Promise<void> {
  const parsed = readArguments(args, RUN_OPTIONS, 'run')
  const { options, positionals, rest } = parsed
  const on = (name: keyof typeof RUN_OPTIONS): boolean => options.has(name)
  if (on('help')) {
    context.stdout.write(runHelp())
    return
  }
  const configFile = options.get('config')?.at(-1)
  const flinkFile = options.get('conf')?.at(-1)
  const flags = { ...logLevel(options.get('log-level')?.at(-1)), ...pairs(options.get('D') ?? []) }
  const job = onlyJob(positionals)
  const path = jobPath(context.folder, job)
  const { folder, environment } = context
  await validateSettings({ flags, configFile, flinkFile, folder, environment })

  const watch = new JobWatch(job, on('dry-run'))
  const report = ({ error, failed }: Verdict): string =>
    failed === undefined
      ? formatError(error)
      : failureReport(error, failed.jobName, failed.facts, startCommand(parsed, RUN_OPTIONS))
  const obey = (verdict: Verdict): ExitCode => {
    if (verdict.error !== undefined) context.stderr.write(`${report(verdict)}\n`)
    context.setExitCode(verdict.exitCode)
    return verdict.exitCode
  }
  setLaunchSettings({
    launchedByCli: true,
    flags,
    ...(configFile === undefined ? {} : { configFile }),
    ...(flinkFile === undefined ? {} : { flinkFile }),
    dryRun: on('dry-run'),
    fresh: on('fresh'),
    acceptLostTransactions: options.get('accept-lost-transaction') ?? [],
    allowNonRestoredState: on('allow-non-restored-state'),
    ...restoreFrom(options),
    onJobSubmitted: (jobName) => watch.jobSubmitted(jobName),
    onJobSettled: (outcome) => void obey(watch.jobSettled(outcome)),
  })
  process.setSourceMapsEnabled(true)
  // The job sees its own arguments where it would under node.
  process.argv = [process.argv[0]!, path, ...rest]
  await loadJob(path, watch, obey)
}

/** @throws ConfigError MILLRACE_USAGE when several beginnings are named. */
function restoreFrom(options: ReadonlyMap<string, readonly string[]>): {
  readonly fromSavepoint?: string
  readonly fromCheckpoint?: string
} {
  const named = ['from-savepoint', 'from-checkpoint', 'fresh'].filter((name) => options.has(name))
  if (named.length > 1)
    throw usageError(`--${named[0]} and --${named[1]} contradict each other: a run has one beginning`)
  const fromSavepoint = options.get('from-savepoint')?.at(-1)
  const fromCheckpoint = options.get('from-checkpoint')?.at(-1)
  return {
    ...(fromSavepoint === undefined ? {} : { fromSavepoint }),
    ...(fromCheckpoint === undefined ? {} : { fromCheckpoint }),
  }
}

/** Imports the module into this process and keeps watch over it until the process ends. */
export async function loadJob(
  path: string,
  watch: JobWatch,
  obey: (verdict: Verdict) => ExitCode,
): Promise<void> {
  // As under plain node, an error that nobody caught ends the process; only its report is better.
  const uncaught = (error: unknown): never => process.exit(obey(watch.moduleThrew(error)))
  process.on('uncaughtException', uncaught)
  process.once('beforeExit', () => obey(watch.eventLoopEmpty()))
  try {
    await import(pathToFileURL(path).href)
  } catch (error) {
    if (!hasHiddenPlace(error)) uncaught(error)
    obey(watch.moduleThrew(error))
    process.off('uncaughtException', uncaught)
    // Nobody catches it there, so that Node.js prints it and ends the process.
    setImmediate(() => {
      throw error
    })
    return
  }
  watch.moduleLoaded()
}

function onlyJob(positionals: readonly string[]): string {
  const [job, extra] = positionals
  if (job === undefined) throw usageError('millrace run needs a job module: millrace run job.ts')
  if (extra === undefined) return job
  throw usageError(
    `millrace run takes one job module, but '${extra}' came too; arguments of the job go after --`,
  )
}

/** Node.js tells the line of a syntax error in JavaScript only when it prints the error itself. */
function hasHiddenPlace(error: unknown): boolean {
  const [link] = errorChain(error)
  return link?.name === 'SyntaxError' && link.frames.length === 0
}

/** @throws ConfigError MILLRACE_USAGE if there is no such file */
export function jobPath(folder: string, job: string): string {
  const path = resolve(folder, job)
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true)
    throw usageError(`There is no file ${path}`)
  return path
}

function logLevel(level: string | undefined): Record<string, string> {
  return level === undefined ? {} : { 'log.level': level }
}

/** `key=value` settings as they were typed. @throws ConfigError MILLRACE_USAGE for a word without '='. */
export function pairs(written: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    written.map((pair) => {
      const equals = pair.indexOf('=')
      if (equals < 1) throw usageError(`-D ${pair} is no setting: write -D key=value`)
      return [pair.slice(0, equals).trim(), pair.slice(equals + 1)]
    }),
  )
}
