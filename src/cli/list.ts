/** `millrace list`: the jobs of a cluster. */
import { knownJobs } from '../kafka/control-client.ts'
import { lastWord } from '../kafka/job-records.ts'
import { workerGroupOf } from '../kafka/transactional-id.ts'
import { type ArgumentSpec, type CommandShape, optionHelp, readArguments, usageError } from './arguments.ts'
import { KAFKA_OPTIONS, textTable, toJson, withKafka } from './kafka-command.ts'
import type { RunContext } from './run.ts'

const OPTIONS = {
  ...KAFKA_OPTIONS,
  running: { doc: 'Only jobs with live workers.' },
} as const satisfies Record<string, ArgumentSpec>

export const LIST_SHAPE: CommandShape = { options: OPTIONS }

function help(): string {
  return `Usage: millrace list [options]

Lists the jobs that ever ran on these brokers: live workers, how the last run stands, latest checkpoint.
A name that Kafka does not allow is shown as it is written in topic names.

Options:
${optionHelp(OPTIONS)}

Examples:
  millrace list -D kafka.brokers=localhost:9092
  millrace list --running --json
`
}

export async function list(args: readonly string[], context: RunContext): Promise<void> {
  const parsed = readArguments(args, OPTIONS)
  if (parsed.options.has('help')) {
    context.stdout.write(help())
    return
  }
  if (parsed.positionals[0] !== undefined)
    throw usageError(`millrace list takes no job, but '${parsed.positionals[0]}' came; try millrace info`)
  await withKafka('list', parsed, context, async (cluster, world) => {
    const rows = []
    for (const job of await knownJobs(cluster)) {
      const group = await cluster.describeGroup(workerGroupOf(job))
      const workers = group.errorCode === 0 ? group.members.length : 0
      if (parsed.options.has('running') && workers === 0) continue
      rows.push({ job, workers, ...(await lastWord(cluster, job, world, workers > 0)) })
    }
    if (parsed.options.has('json')) {
      context.stdout.write(rows.map(toJson).join(''))
      return
    }
    if (rows.length === 0) {
      context.stdout.write('no jobs\n')
      return
    }
    context.stdout.write(
      textTable(
        ['JOB', 'STATE', 'WORKERS', 'CHECKPOINT', 'COMPLETED'],
        rows.map(({ job, state, workers, checkpoint, completedAt }) => [
          job,
          state,
          String(workers),
          checkpoint === undefined ? '' : String(checkpoint),
          completedAt === undefined ? '' : new Date(completedAt).toISOString(),
        ]),
      ),
    )
  })
}
