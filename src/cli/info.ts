/** `millrace info`: what a running job does, and what it waits for. */
import { sendCommand } from '../kafka/control-client.ts'
import { optionHelp, readArguments } from './arguments.ts'
import { doneOrThrow } from './job-command.ts'
import { KAFKA_OPTIONS, onlyJobName, sender, toJson, withKafka } from './kafka-command.ts'
import type { RunContext } from './run.ts'

/** A running leader answers at once. */
const ACCEPT_WITHIN_MS = 15_000

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
    context.stdout.write(parsed.options.has('json') ? toJson(result) : `${JSON.stringify(result, null, 2)}\n`)
  })
}
