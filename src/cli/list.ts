/** `millrace list`: the jobs of a cluster. */
import type { World } from '../core/ports.ts'
import { knownJobs } from '../kafka/control-client.ts'
import { type LastWord, lastWord } from '../kafka/job-records.ts'
import type { KafkaCluster } from '../kafka/kafka-cluster.ts'
import { workerGroupOf } from '../kafka/transactional-id.ts'
import { type ArgumentSpec, type CommandShape, optionHelp, readArguments, usageError } from './arguments.ts'
import { KAFKA_OPTIONS, textTable, toJson, withKafka } from './kafka-command.ts'
import type { RunContext } from './run.ts'

/** Jobs that are asked about at one time. */
const AT_ONE_TIME = 8

const OPTIONS = {
  ...KAFKA_OPTIONS,
  running: { short: 'r', doc: 'Only jobs with live workers.' },
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

/** A job as it is listed. */
interface ListedJob extends LastWord {
  readonly job: string
  readonly workers: number
}

/** The jobs by name. Some are asked about at one time, so that many jobs do not make it long. */
export async function listJobs(
  cluster: KafkaCluster,
  world: World,
  onlyLive: boolean,
): Promise<readonly ListedJob[]> {
  const names = await knownJobs(cluster)
  const rows: (ListedJob | undefined)[] = names.map(() => undefined)
  let next = 0
  const askAll = async (): Promise<void> => {
    for (let i = next++; i < names.length; i = next++) {
      const job = names[i] as string
      const group = await cluster.describeGroup(workerGroupOf(job))
      const workers = group.errorCode === 0 ? group.members.length : 0
      if (!onlyLive || workers > 0)
        rows[i] = { job, workers, ...(await lastWord(cluster, job, world, workers > 0)) }
    }
  }
  await Promise.all(Array.from({ length: AT_ONE_TIME }, askAll))
  return rows.filter((row) => row !== undefined)
}

export async function list(args: readonly string[], context: RunContext): Promise<void> {
  const parsed = readArguments(args, OPTIONS, 'list')
  if (parsed.options.has('help')) {
    context.stdout.write(help())
    return
  }
  if (parsed.positionals[0] !== undefined)
    throw usageError(`millrace list takes no job, but '${parsed.positionals[0]}' came; try millrace info`)
  await withKafka('list', parsed, context, async (cluster, world) => {
    const rows = await listJobs(cluster, world, parsed.options.has('running'))
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
