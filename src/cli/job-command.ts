/** `millrace cancel`, `stop`, `savepoint` and `checkpoint`: commands that a running job answers over its control topic. */
import type { CommandOutcome, CommandProgress, JobCommand } from '../core/job-control.ts'
import { ERROR_CODES, type ErrorCode, MillraceError } from '../errors.ts'
import { sendCommand } from '../kafka/control-client.ts'
import {
  type ArgumentSpec,
  type CommandShape,
  optionHelp,
  type ParsedArguments,
  readArguments,
  usageError,
} from './arguments.ts'
import { KAFKA_OPTIONS, onlyJobName, sender, toJson, withKafka } from './kafka-command.ts'
import type { RunContext } from './run.ts'

/** A dead leader's successor has taken over by then. */
const ACCEPT_WITHIN_MS = 30_000

/** One verb. */
interface Verb {
  readonly options: Readonly<Record<string, ArgumentSpec>>
  readonly usage: string
  readonly about: string
  readonly examples: readonly string[]
  /** The folder of the savepoint may come after the job. */
  readonly takesFolder?: boolean
  command(parsed: ParsedArguments): JobCommand
  /** What to print when it was done. */
  done(job: string, result: Readonly<Record<string, unknown>>): string
}

const PATH_OPTION = {
  'savepoint-path': {
    short: 'p',
    value: 'DIR',
    doc: 'Folder for the savepoint; state.savepoints.dir of the job without it.',
  },
} as const satisfies Record<string, ArgumentSpec>

function pathOf({ options, positionals }: ParsedArguments): { readonly path?: string } {
  const path = options.get('savepoint-path')?.at(-1) ?? positionals[1]
  return path === undefined ? {} : { path }
}

/** The verbs by name. */
export const JOB_VERBS = {
  cancel: {
    options: {},
    usage: 'cancel JOB',
    about:
      'Ends the job without a last checkpoint. What its completed checkpoints promised stays; open transactions are aborted.',
    examples: ['millrace cancel totals -D kafka.brokers=localhost:9092'],
    command: () => ({ type: 'cancel' }),
    done: (job, { status }) => `job '${job}' is ${String(status)}`,
  },
  stop: {
    options: {
      ...PATH_OPTION,
      drain: {
        doc: 'Fire all timers and windows first, as at the end of input. Not for a job that goes on later.',
      },
    },
    usage: 'stop JOB',
    about: 'Takes a savepoint, commits everything up to it, and ends the job.',
    examples: [
      'millrace stop totals --savepoint-path /savepoints',
      'millrace stop totals --savepoint-path /savepoints --drain',
    ],
    command: (parsed) => ({ type: 'stop', drain: parsed.options.has('drain'), ...pathOf(parsed) }),
    done: (job, { path }) => `job '${job}' has stopped; savepoint ${String(path)}`,
  },
  savepoint: {
    options: PATH_OPTION,
    usage: 'savepoint JOB [DIR]',
    takesFolder: true,
    about: 'Takes a savepoint; the job goes on.',
    examples: [
      'millrace savepoint totals /savepoints',
      'millrace savepoint totals --savepoint-path /savepoints',
    ],
    command: (parsed) => ({ type: 'savepoint', ...pathOf(parsed) }),
    done: (_job, { path }) => `savepoint ${String(path)}`,
  },
  checkpoint: {
    options: {},
    usage: 'checkpoint JOB',
    about: 'Takes a checkpoint now.',
    examples: ['millrace checkpoint totals'],
    command: () => ({ type: 'checkpoint' }),
    done: (_job, { checkpoint }) => `checkpoint ${String(checkpoint)} is complete`,
  },
} as const satisfies Record<string, Verb>

export type JobVerb = keyof typeof JOB_VERBS

export function verbShape(name: JobVerb): CommandShape {
  return { options: { ...JOB_VERBS[name].options, ...KAFKA_OPTIONS } }
}

function help({ usage, about, options, examples }: Verb): string {
  return `Usage: millrace ${usage} [options]

${about}
Reaches the job through Kafka, from any machine.

Options:
${optionHelp({ ...options, ...KAFKA_OPTIONS })}

Examples:
${examples.map((line) => `  ${line}`).join('\n')}

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 no worker of such a job is alive.
`
}

/** How the job stands while it does a command, on one line. */
export function progressText(job: string, { status, pending }: CommandProgress): string {
  const checkpoints = pending.map(
    ({ n, ms, missing }) =>
      `checkpoint ${n} has been under way for ${Math.round(ms / 1_000)} s${missing.length === 0 ? '' : ` and waits for ${missing.join(', ')}`}`,
  )
  return [`job '${job}' is ${status}`, ...checkpoints].join('; ')
}

/** What was typed, without the folder behind the job. @throws ConfigError MILLRACE_USAGE if it was named twice */
function withoutFolder(name: JobVerb, parsed: ParsedArguments): ParsedArguments {
  const [job, folder, ...more] = parsed.positionals
  if (job === undefined || folder === undefined) return parsed
  if (parsed.options.has('savepoint-path'))
    throw usageError(`millrace ${name} takes one folder, but '${folder}' came with --savepoint-path`)
  return { ...parsed, positionals: [job, ...more] }
}

/** Runs one verb. */
export async function jobVerb(name: JobVerb, args: readonly string[], context: RunContext): Promise<void> {
  const verb: Verb = JOB_VERBS[name]
  const parsed = readArguments(args, { ...verb.options, ...KAFKA_OPTIONS }, name)
  if (parsed.options.has('help')) {
    context.stdout.write(help(verb))
    return
  }
  const job = onlyJobName(name, verb.takesFolder === true ? withoutFolder(name, parsed) : parsed)
  let interrupted = false
  // A second one ends the process as always.
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      interrupted = true
    })
  await withKafka(name, parsed, context, async (cluster, world) => {
    const outcome = await sendCommand(cluster, job, verb.command(parsed), world, {
      by: sender(),
      interrupted: () => interrupted,
      acceptWithinMs: ACCEPT_WITHIN_MS,
      onAccepted: () => context.stderr.write(`job '${job}' has heard '${name}'\n`),
      onProgress: (progress) => context.stderr.write(`${progressText(job, progress)}\n`),
      onSilence: (ms) =>
        context.stderr.write(`no answer from job '${job}' for ${Math.round(ms / 1_000)} s; still waiting\n`),
    })
    const { result } = doneOrThrow(outcome)
    context.stdout.write(parsed.options.has('json') ? toJson(result) : `${verb.done(job, result)}\n`)
  })
}

/** @throws MillraceError with the job's own code and words if it refused. */
export function doneOrThrow(outcome: CommandOutcome): Extract<CommandOutcome, { type: 'done' }> {
  if (outcome.type === 'done') return outcome
  const { code, message, remedy } = outcome.failure
  // A job of another version may have codes that this one does not know.
  throw new MillraceError(code in ERROR_CODES ? (code as ErrorCode) : 'MILLRACE_INTERNAL', message, {
    ...(remedy === undefined ? {} : { remedy }),
  })
}
