/** `millrace info`: what a running job does, and what it waits for. */
import type { JobInfo } from '../core/job-info.ts'
import { sendCommand } from '../kafka/control-client.ts'
import { type CommandShape, optionHelp, readArguments } from './arguments.ts'
import { doneOrThrow } from './job-command.ts'
import { KAFKA_OPTIONS, onlyJobName, sender, textTable, toJson, withKafka } from './kafka-command.ts'
import type { RunContext } from './run.ts'

/** A running leader answers at once. */
const ACCEPT_WITHIN_MS = 15_000

export const INFO_SHAPE: CommandShape = { options: KAFKA_OPTIONS }

function help(): string {
  return `Usage: millrace info JOB [options]

Shows a running job: state, attempt, checkpoints, tasks and what each waits for.

Options:
${optionHelp(KAFKA_OPTIONS)}

Examples:
  millrace info totals -D kafka.brokers=localhost:9092
  millrace info totals --json | jq .tasks

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no worker of such a job is alive.
`
}

/** The facts as a page. */
export function infoText(info: JobInfo): string {
  const { job, status, run, attempt, upMs, workers, restarts, lastFailure, lastCheckpoint, pending } = info
  const up = upMs === undefined ? '' : `, up ${duration(upMs)}`
  const lines = [
    `${job}: ${status}${up}`,
    `run ${run || 'none'}, attempt ${attempt ?? 'none'}, ${restarts} restart${restarts === 1 ? '' : 's'}, ${workers} worker${workers === 1 ? '' : 's'}`,
    lastCheckpoint === undefined
      ? 'no checkpoint yet'
      : `checkpoint ${lastCheckpoint.n} completed ${duration(lastCheckpoint.agoMs)} ago`,
    ...pending.map(
      ({ n, phase, ms, missing }) =>
        `checkpoint ${n} under way for ${duration(ms)} (${phase})${missing.length === 0 ? '' : `: waits for ${missing.join(', ')}`}`,
    ),
    ...(lastFailure === undefined
      ? []
      : [`last failure ${new Date(lastFailure.at).toISOString()}: ${lastFailure.message}`]),
  ]
  const rows = info.tasks.map(({ name, load, state, alignment, operators }) => [
    name,
    String(load.busy),
    String(load.backpressured),
    String(load.idle),
    // A job of an earlier version tells less.
    [state, ...(alignment?.blocked ?? []).map(blockedText), ...operators].join('; '),
  ])
  const page = `${lines.join('\n')}\n\n${textTable(['TASK', 'BUSY ms/s', 'BACKPRESSURED', 'IDLE', 'WAITS FOR'], rows)}`
  if (info.findings.length === 0) return page
  return `${page}\nLook at:\n${info.findings.map((finding) => `  ${finding}\n`).join('')}`
}

function blockedText({ from, ms }: { readonly from: string; readonly ms: number }): string {
  return `${from} is blocked for ${duration(ms)}`
}

/** From this many of a unit on the next larger one is used. */
const UNITS = [
  { ms: 1_000, name: 's', upTo: 120 },
  { ms: 60_000, name: 'min', upTo: 120 },
  { ms: 3_600_000, name: 'h', upTo: 48 },
  { ms: 86_400_000, name: 'd', upTo: Number.POSITIVE_INFINITY },
] as const

/** For people, in one unit; below ten seconds with tenths. */
function duration(ms: number): string {
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`
  const unit = UNITS.find((each) => Math.round(ms / each.ms) < each.upTo) ?? UNITS[3]
  return `${Math.round(ms / unit.ms)} ${unit.name}`
}

export async function info(args: readonly string[], context: RunContext): Promise<void> {
  const parsed = readArguments(args, KAFKA_OPTIONS)
  if (parsed.options.has('help')) {
    context.stdout.write(help())
    return
  }
  const job = onlyJobName('info', parsed)
  await withKafka('info', parsed, context, async (cluster, world) => {
    const outcome = await sendCommand(cluster, job, { type: 'info' }, world, {
      by: sender(),
      acceptWithinMs: ACCEPT_WITHIN_MS,
    })
    const { result } = doneOrThrow(outcome)
    context.stdout.write(parsed.options.has('json') ? toJson(result) : infoText(result as unknown as JobInfo))
  })
}
