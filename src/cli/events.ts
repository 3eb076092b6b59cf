/** `millrace events`: what happened to a job, and goes on happening. */
import { readEvents } from '../kafka/control-client.ts'
import { type ArgumentSpec, type CommandShape, optionHelp, readArguments } from './arguments.ts'
import { KAFKA_OPTIONS, onlyJobName, toJson, withKafka } from './kafka-command.ts'
import type { RunContext } from './run.ts'

const OPTIONS = {
  ...KAFKA_OPTIONS,
  follow: { short: 'f', doc: 'Wait for more, until Ctrl-C.' },
  new: { doc: 'Only events from now on; with --follow.' },
} as const satisfies Record<string, ArgumentSpec>

export const EVENTS_SHAPE: CommandShape = { options: OPTIONS }

function help(): string {
  return `Usage: millrace events JOB [options]

Prints the events of a job's life, oldest first: states, attempts, checkpoints, failures. They are kept for a week.

Options:
${optionHelp(OPTIONS)}

Examples:
  millrace events totals
  millrace events totals --follow --new
  millrace events totals --json | jq 'select(.type == "failure")'

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no such job.
`
}

export async function events(args: readonly string[], context: RunContext): Promise<void> {
  const parsed = readArguments(args, OPTIONS)
  if (parsed.options.has('help')) {
    context.stdout.write(help())
    return
  }
  const job = onlyJobName('events', parsed)
  await withKafka('events', parsed, context, async (cluster) => {
    const stream = readEvents(cluster, job, {
      follow: parsed.options.has('follow'),
      fromNow: parsed.options.has('new'),
      onNobody: () => context.stderr.write(`no worker of job '${job}' is alive; waiting for one\n`),
    })
    for await (const event of stream)
      context.stdout.write(
        parsed.options.has('json')
          ? toJson(event)
          : `${new Date(event.at).toISOString()}  ${event.type.padEnd(20)}  ${event.message}\n`,
      )
  })
}
