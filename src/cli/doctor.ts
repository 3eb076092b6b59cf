/** `millrace doctor`: checks what a job needs before it is started. Loads the module, so that the graph is known, and starts nothing. */
import { setLaunchSettings } from '../api/launch-settings.ts'
import type { Diagnosis } from '../core/diagnosis.ts'
import { formatError } from '../core/error-report.ts'
import { type ArgumentSpec, type CommandShape, optionHelp, readArguments, usageError } from './arguments.ts'
import { ExitCode, JobWatch, type Verdict } from './job-watch.ts'
import { toJson } from './kafka-command.ts'
import { jobPath, loadJob, pairs, RUN_OPTIONS, type RunContext } from './run.ts'

const OPTIONS = {
  D: RUN_OPTIONS.D,
  config: RUN_OPTIONS.config,
  conf: RUN_OPTIONS.conf,
  json: { doc: 'Print JSON, one check a line.' },
  help: { short: 'h', doc: 'Show this text.' },
} as const satisfies Record<string, ArgumentSpec>

export const DOCTOR_SHAPE: CommandShape = { options: OPTIONS, operand: 'file' }

function help(): string {
  return `Usage: millrace doctor [options] JOB [-- arguments of the job]

Checks everything that the job module JOB needs, without starting or changing anything: options, graph, brokers, rights, topics,
transaction time-outs, Redis, schema registry, clocks, disks. A job that runs under the same name is not disturbed.

Options:
${optionHelp(OPTIONS)}

Examples:
  millrace doctor -D kafka.brokers=localhost:9092 etl.ts
  millrace doctor --config production.yaml --json etl.ts | jq 'select(.status == "fix")'

Exit codes: 0 nothing to fix, 1 something to fix, 2 wrong usage.
`
}

const LABELS = { ok: 'OK  ', fix: 'FIX ', skipped: 'SKIP' } as const satisfies Record<
  Diagnosis['status'],
  string
>

/** One job's checks for people: a line each, what to do below it. */
export function diagnosisText(jobName: string, found: readonly Diagnosis[]): string {
  const width = Math.max(...found.map(({ check }) => check.length))
  const lines = found.flatMap(({ status, check, message, remedy }) => [
    `${LABELS[status]}  ${check.padEnd(width)}  ${message.replaceAll('\n', `\n${' '.repeat(width + 8)}`)}`,
    ...(remedy === undefined ? [] : [`${' '.repeat(width + 8)}What to do: ${remedy}`]),
  ])
  const wrong = found.filter(({ status }) => status === 'fix').length
  const end = wrong === 0 ? 'nothing to fix' : `${wrong} thing${wrong === 1 ? '' : 's'} to fix`
  return `Job '${jobName}'\n${lines.join('\n')}\n${end}\n`
}

/** @throws ConfigError for wrong usage, before the module is loaded */
export async function doctor(args: readonly string[], context: RunContext): Promise<void> {
  const { options, positionals, rest } = readArguments(args, OPTIONS)
  if (options.has('help')) {
    context.stdout.write(help())
    return
  }
  const [job, extra] = positionals
  if (job === undefined) throw usageError('millrace doctor needs a job module: millrace doctor job.ts')
  if (extra !== undefined)
    throw usageError(
      `millrace doctor takes one job module, but '${extra}' came too; arguments of the job go after --`,
    )
  const path = jobPath(context.folder, job)
  const watch = new JobWatch(job, true)
  let worst: ExitCode = ExitCode.OK
  const end = (code: ExitCode): ExitCode => {
    worst = code > worst ? code : worst
    context.setExitCode(worst)
    return worst
  }
  const configFile = options.get('config')?.at(-1)
  const flinkFile = options.get('conf')?.at(-1)
  setLaunchSettings({
    launchedByCli: true,
    flags: pairs(options.get('D') ?? []),
    ...(configFile === undefined ? {} : { configFile }),
    ...(flinkFile === undefined ? {} : { flinkFile }),
    dryRun: true,
    fresh: false,
    acceptLostTransactions: [],
    allowNonRestoredState: false,
    onJobSubmitted: (jobName) => watch.jobSubmitted(jobName),
    onDiagnosed: (jobName, found) => {
      if (found.some(({ status }) => status === 'fix')) end(ExitCode.FAILED)
      context.stdout.write(
        options.has('json')
          ? found.map((each) => toJson({ job: jobName, ...each })).join('')
          : diagnosisText(jobName, found),
      )
    },
  })
  process.setSourceMapsEnabled(true)
  process.argv = [process.argv[0]!, path, ...rest]
  await loadJob(path, watch, (verdict: Verdict) => {
    if (verdict.error !== undefined) context.stderr.write(`${formatError(verdict.error)}\n`)
    return end(verdict.exitCode)
  })
}
