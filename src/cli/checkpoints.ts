/** `millrace checkpoints`: shows the completed checkpoints of a job, and removes what crashes left in its storage. */
import { type CheckpointStats, statsOf } from '../checkpoint/checkpoint-stats.ts'
import { formatDuration, parseDuration } from '../config/values.ts'
import type { World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { jobExists } from '../kafka/control-client.ts'
import { readJobRecords } from '../kafka/job-records.ts'
import type { KafkaCluster } from '../kafka/kafka-cluster.ts'
import { listTopicBlobs, orphanBlobs, removeTopicBlobs } from '../kafka/topic-orphans.ts'
import { workerGroupId } from '../kafka/transactional-id.ts'
import { withCluster } from '../runtime/deployment.ts'
import { listJobFiles, orphanFiles, removeJobFiles } from '../state/directory-orphans.ts'
import { jobFolder, jobSnapshots } from '../state/job-directory.ts'
import {
  type ArgumentSpec,
  type CommandShape,
  optionHelp,
  type ParsedArguments,
  readArguments,
  usageError,
} from './arguments.ts'
import { ExitCode } from './job-watch.ts'
import { configOf, KAFKA_OPTIONS, textTable, toJson } from './kafka-command.ts'
import type { RunContext } from './run.ts'
import { shownValue } from './shown-value.ts'

const ACTIONS = ['list', 'show', 'gc'] as const
type Action = (typeof ACTIONS)[number]

const OPTIONS = {
  dir: {
    value: 'DIR',
    doc: 'list, show: read the checkpoints of this state.checkpoints.dir, without Kafka. gc: clean this one.',
  },
  'dry-run': { doc: 'gc: only show what would be removed.' },
  'older-than': { value: 'DURATION', doc: 'gc: leave files alone that are younger; 1 h without it.' },
  ...KAFKA_OPTIONS,
} as const satisfies Record<string, ArgumentSpec>

export const CHECKPOINTS_SHAPE: CommandShape = { options: OPTIONS, actions: ACTIONS }

const DEFAULT_AGE = '1 h'

function help(): string {
  return `Usage: millrace checkpoints list JOB | show JOB [N] | gc JOB

list and show tell what the job's checkpoint topic says, or with --dir what lies in a directory.
gc removes snapshots that no completed checkpoint names: what crashes left. It is safe beside a running job: what the latest attempt wrote,
what is young, and what any completed checkpoint names stays. Savepoints are never touched.

Options:
${optionHelp(OPTIONS)}

Examples:
  millrace checkpoints list totals -D kafka.brokers=localhost:9092
  millrace checkpoints list totals --dir /checkpoints
  millrace checkpoints show totals latest --json
  millrace checkpoints gc totals --dry-run -D state.checkpoints.dir=/checkpoints

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no such job or checkpoint.
`
}

/** Runs the command. @throws MillraceError for wrong usage, unreachable brokers or storage */
export async function checkpoints(args: readonly string[], context: RunContext): Promise<void> {
  const parsed = readArguments(args, OPTIONS)
  if (parsed.options.has('help')) {
    context.stdout.write(help())
    return
  }
  const [action, job, which, extra] = parsed.positionals
  if (!ACTIONS.some((each) => each === action))
    throw usageError(`millrace checkpoints needs one of ${ACTIONS.join(', ')}`)
  if (job === undefined) throw usageError(`millrace checkpoints ${action} needs the name of a job`)
  const unexpected = action === 'show' ? extra : which
  if (unexpected !== undefined)
    throw usageError(`millrace checkpoints ${action} does not know what '${unexpected}' means here`)
  const config = await configOf(parsed, context)
  const directory = parsed.options.get('dir')?.at(-1)
  if (directory !== undefined && action !== 'gc') {
    const found = (await jobSnapshots(directory, job)).map(({ checkpoint, folder }) =>
      statsOf(checkpoint, { folder }),
    )
    print(action as Action, found, which, parsed, context, `${job} in ${directory}`)
    return
  }
  await withCluster(config, 'checkpoints', async (cluster, world) => {
    if (!(await jobExists(cluster, job)))
      throw new MillraceError('MILLRACE_NO_SUCH_JOB', `no job '${job}' ever ran on these brokers`)
    const name = topicName(job)
    if (action === 'gc') {
      await collectOrphans(
        { cluster, world, job, name, root: directory ?? config.get('state.checkpoints.dir') },
        parsed,
        context,
      )
      return
    }
    const { attempt, confirmed, completed } = await readJobRecords(cluster, name, world, 'decided')
    // Whether earlier runs' output is committed is not kept.
    const found = completed.map((each) =>
      statsOf(each, { confirmed: each.run === attempt?.run ? each.n <= confirmed : undefined }),
    )
    print(action as Action, found, which, parsed, context, job)
  })
}

function print(
  action: Action,
  found: readonly CheckpointStats[],
  which: string | undefined,
  { options }: ParsedArguments,
  context: RunContext,
  where: string,
): void {
  const ordered = found.toSorted((a, b) => a.completedAt - b.completedAt)
  if (action === 'list') {
    const lines = ordered.map(({ operators: _, ...stats }) => toJson(stats))
    context.stdout.write(options.has('json') ? lines.join('') : table(ordered, where))
    return
  }
  const shown =
    which === undefined || which === 'latest'
      ? ordered.at(-1)
      : ordered.findLast(({ n }) => String(n) === which)
  if (shown === undefined) {
    context.stderr.write(`no completed checkpoint ${which ?? ''} of ${where}\n`)
    context.setExitCode(ExitCode.NOT_FOUND)
    return
  }
  context.stdout.write(options.has('json') ? toJson(shown) : details(shown))
}

function table(found: readonly CheckpointStats[], where: string): string {
  if (found.length === 0) return `no completed checkpoints of ${where}\n`
  return textTable(
    ['N', 'KIND', 'RUN', 'ATTEMPT', 'COMPLETED', 'TOOK', 'BYTES', 'OUTPUT', 'FOLDER'],
    found.map((each) => [
      String(each.n),
      each.kind,
      each.run.slice(0, 8),
      String(each.attempt),
      new Date(each.completedAt).toISOString(),
      `${each.completedAt - each.triggeredAt} ms`,
      String(each.stateBytes),
      each.confirmed === undefined ? '' : each.confirmed ? 'committed' : 'to commit',
      each.folder ?? '',
    ]),
  )
}

function details(stats: CheckpointStats): string {
  const { n, kind, run, attempt, completedAt, triggeredAt, confirmed, folder } = stats
  const output =
    confirmed === undefined ? '' : confirmed ? ', its output is committed' : ', its output is to be committed'
  const lines = [
    `${kind === 'checkpoint' ? 'checkpoint' : `${kind}, checkpoint`} ${n} of run ${run}, attempt ${attempt}`,
    `completed ${new Date(completedAt).toISOString()} in ${completedAt - triggeredAt} ms, ${stats.stateBytes} bytes${output}`,
    ...(folder === undefined ? [] : [folder]),
  ]
  for (const { uid, name, parallelism, maxParallelism, subtasks } of stats.operators) {
    lines.push('', `${name}  (uid ${uid}, parallelism ${parallelism} of ${maxParallelism})`)
    for (const subtask of subtasks)
      for (const part of partsOf(subtask)) lines.push(`  subtask ${subtask.subtask}  ${part}`)
  }
  return `${lines.join('\n')}\n`
}

function partsOf(stats: CheckpointStats['operators'][number]['subtasks'][number]): string[] {
  const { keyed, keyedBytes, operatorStateBytes, inFlightBytes, transactions, positions, endOfInput } = stats
  return [
    ...(keyed === undefined ? [] : [`keyed state: ${keyed}, ${keyedBytes} bytes`]),
    ...(operatorStateBytes === undefined ? [] : [`operator state: ${operatorStateBytes} bytes`]),
    ...(inFlightBytes === undefined ? [] : [`records in channels: ${inFlightBytes} bytes`]),
    ...(transactions === undefined ? [] : [`transactions: ${transactions}`]),
    ...(positions ?? []).map((position) => `position ${shownValue(position)}`),
    ...(endOfInput === true ? ['its input has ended'] : []),
  ]
}

/** The job's name as it is written in topic names. */
function topicName(job: string): string {
  return workerGroupId(job).split('.')[1] as string
}

interface Collection {
  readonly cluster: KafkaCluster
  readonly world: World
  readonly job: string
  readonly name: string
  /** `state.checkpoints.dir`. */
  readonly root: string | undefined
}

async function collectOrphans(
  { cluster, world, job, name, root }: Collection,
  { options }: ParsedArguments,
  context: RunContext,
): Promise<void> {
  const written = options.get('older-than')?.at(-1) ?? DEFAULT_AGE
  const minAgeMs = parseDuration(written)
  if (minAgeMs === undefined) throw usageError(`--older-than ${written} is no duration: write 30 min, 1 h, …`)
  const folder = jobFolder(job)
  // Before the facts: what a checkpoint names that completes now was written before.
  const files = root === undefined ? [] : await listJobFiles(root, folder, world.clock.now())
  const blobs = await listTopicBlobs(cluster, name, world)
  const facts = await readJobRecords(cluster, name, world, 'everything')
  const unneeded = { files: orphanFiles(files, facts, minAgeMs), blobs: orphanBlobs(blobs, facts) }
  const isDry = options.has('dry-run')
  if (!isDry) {
    if (root !== undefined) await removeJobFiles(root, unneeded.files)
    await removeTopicBlobs(cluster, name, unneeded.blobs, world)
  }
  const lines = [
    ...unneeded.files.map((each) => ({ where: 'directory', ...each })),
    ...unneeded.blobs.map((each) => ({ where: 'topic', ...each })),
  ]
  if (options.has('json')) {
    for (const { where, name: what, bytes, ageMs } of lines)
      context.stdout.write(`${JSON.stringify({ where, name: what, bytes, ageMs, removed: !isDry })}\n`)
    return
  }
  for (const each of lines)
    context.stdout.write(`${isDry ? 'would remove' : 'removed'} ${each.name} (${sizeAndAge(each)})\n`)
  const bytes = lines.reduce((sum, each) => sum + each.bytes, 0)
  const looked = root === undefined ? 'the checkpoint topic' : `the checkpoint topic and ${root}`
  context.stdout.write(`${lines.length} orphans, ${bytes} bytes, in ${looked}\n`)
}

function sizeAndAge({
  bytes,
  ageMs,
}: {
  readonly bytes: number
  readonly ageMs: number | undefined
}): string {
  const age =
    ageMs === undefined ? '' : `, ${formatDuration(Math.max(0, Math.round(ageMs / 1_000) * 1_000))} old`
  return `${bytes} bytes${age}`
}
