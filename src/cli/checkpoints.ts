/** `millrace checkpoints`: shows the completed checkpoints of a job, and removes what crashes left in its storage. */
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import { orphansAmong, type StoredBlob } from '../checkpoint/orphans.ts'
import { formatDuration, parseDuration } from '../config/values.ts'
import { loadConfig } from '../config.ts'
import type { World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { jobExists } from '../kafka/control-client.ts'
import { type JobRecords, readJobRecords } from '../kafka/job-records.ts'
import type { KafkaCluster } from '../kafka/kafka-cluster.ts'
import { listTopicBlobs, removeTopicBlobs } from '../kafka/topic-orphans.ts'
import { workerGroupId } from '../kafka/transactional-id.ts'
import { withCluster } from '../runtime/deployment.ts'
import { listJobFiles, removeJobFiles } from '../state/directory-orphans.ts'
import { jobFolder, jobSnapshots } from '../state/job-directory.ts'
import {
  type ArgumentSpec,
  optionHelp,
  type ParsedArguments,
  readArguments,
  usageError,
} from './arguments.ts'
import { ExitCode } from './job-watch.ts'
import { KAFKA_OPTIONS, textTable } from './kafka-command.ts'
import { pairs, type RunContext } from './run.ts'
import { jsonValue, shownValue } from './shown-value.ts'

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
  const config = await loadConfig({
    flags: pairs(parsed.options.get('D') ?? []),
    configFile: parsed.options.get('config')?.at(-1),
    folder: context.folder,
    environment: context.environment,
  })
  const directory = parsed.options.get('dir')?.at(-1)
  if (directory !== undefined && action !== 'gc') {
    const found = (await jobSnapshots(directory, job)).map((each) => ({ ...each, confirmed: undefined }))
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
    const records = await readJobRecords(cluster, name, world)
    print(
      action as Action,
      records.completed.map((each) => shownRecord(each, records)),
      which,
      parsed,
      context,
      job,
    )
  })
}

/** A checkpoint, and whether its output is known to be committed. */
interface Shown {
  readonly checkpoint: CompletedCheckpoint
  readonly confirmed: boolean | undefined
  /** Its folder, where it has one. */
  readonly folder?: string
}

function shownRecord(checkpoint: CompletedCheckpoint, { attempt, confirmed }: JobRecords): Shown {
  return {
    checkpoint,
    confirmed: checkpoint.run === attempt?.run ? checkpoint.n <= confirmed : undefined,
    ...(checkpoint.savepoint === undefined ? {} : { folder: checkpoint.savepoint.path }),
  }
}

function print(
  action: Action,
  found: readonly Shown[],
  which: string | undefined,
  { options }: ParsedArguments,
  context: RunContext,
  where: string,
): void {
  const ordered = found.toSorted((a, b) => a.checkpoint.completedAt - b.checkpoint.completedAt)
  if (action === 'list') {
    context.stdout.write(options.has('json') ? ordered.map(listLine).join('') : table(ordered, where))
    return
  }
  const shown =
    which === undefined || which === 'latest'
      ? ordered.at(-1)
      : ordered.findLast(({ checkpoint }) => String(checkpoint.n) === which)
  if (shown === undefined) {
    context.stderr.write(`no completed checkpoint ${which ?? ''} of ${where}\n`)
    context.setExitCode(ExitCode.NOT_FOUND)
    return
  }
  context.stdout.write(
    options.has('json') ? `${JSON.stringify(jsonValue(shown.checkpoint))}\n` : details(shown),
  )
}

function listLine({ checkpoint, confirmed, folder }: Shown): string {
  const { n, run, attempt, kind, triggeredAt, completedAt, stateBytes } = checkpoint
  return `${JSON.stringify({ n, kind, run, attempt, triggeredAt, completedAt, stateBytes, confirmed, folder })}\n`
}

function table(found: readonly Shown[], where: string): string {
  if (found.length === 0) return `no completed checkpoints of ${where}\n`
  return textTable(
    ['N', 'KIND', 'RUN', 'ATTEMPT', 'COMPLETED', 'TOOK', 'BYTES', 'OUTPUT', 'FOLDER'],
    found.map(({ checkpoint, confirmed, folder }) => [
      String(checkpoint.n),
      checkpoint.kind,
      checkpoint.run.slice(0, 8),
      String(checkpoint.attempt),
      new Date(checkpoint.completedAt).toISOString(),
      `${checkpoint.completedAt - checkpoint.triggeredAt} ms`,
      String(checkpoint.stateBytes),
      confirmed === undefined ? '' : confirmed ? 'committed' : 'to commit',
      folder ?? '',
    ]),
  )
}

function details({ checkpoint, confirmed, folder }: Shown): string {
  const { n, kind, run, attempt, completedAt, operators, states } = checkpoint
  const output =
    confirmed === undefined ? '' : confirmed ? ', its output is committed' : ', its output is to be committed'
  const lines = [
    `${kind === 'checkpoint' ? 'checkpoint' : `${kind}, checkpoint`} ${n} of run ${run}, attempt ${attempt}`,
    `completed ${new Date(completedAt).toISOString()} in ${completedAt - checkpoint.triggeredAt} ms, ${checkpoint.stateBytes} bytes${output}`,
    ...(folder === undefined ? [] : [folder]),
  ]
  for (const { uid, name, parallelism, maxParallelism } of operators) {
    lines.push('', `${name}  (uid ${uid}, parallelism ${parallelism} of ${maxParallelism})`)
    for (const state of states.filter((each) => each.uid === uid).toSorted((a, b) => a.subtask - b.subtask)) {
      const parts = [
        ...(state.keyed === undefined ? [] : [`keyed state: ${state.keyed.kind ?? 'images'}`]),
        ...(state.operator === undefined ? [] : [`operator state: ${state.operator.size} bytes`]),
        ...(state.inFlight === undefined ? [] : [`records in channels: ${state.inFlight.size} bytes`]),
        ...(state.committables === undefined ? [] : [`transactions: ${state.committables.length}`]),
        ...(state.splits ?? []).map((split) => `position ${shownValue(split)}`),
        ...(state.endOfInput === true ? ['its input has ended'] : []),
      ]
      for (const part of parts) lines.push(`  subtask ${state.subtask}  ${part}`)
    }
  }
  return `${lines.join('\n')}\n`
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
  const facts = await readJobRecords(cluster, name, world)
  const orphanFiles = orphansAmong(files, facts, minAgeMs)
  const orphanNames = new Set(orphansAmong(blobs, facts, minAgeMs).map((blob) => blob.name))
  const orphanBlobs = blobs.filter((blob) => orphanNames.has(blob.name))
  const isDry = options.has('dry-run')
  if (!isDry) {
    if (root !== undefined) await removeJobFiles(root, orphanFiles)
    await removeTopicBlobs(cluster, name, orphanBlobs, world)
  }
  const lines = [
    ...orphanFiles.map((each) => ({ where: 'directory', ...each })),
    ...orphanBlobs.map((each) => ({ where: 'topic', ...each })),
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

function sizeAndAge({ bytes, ageMs }: StoredBlob): string {
  const age =
    ageMs === undefined ? '' : `, ${formatDuration(Math.max(0, Math.round(ageMs / 1_000) * 1_000))} old`
  return `${bytes} bytes${age}`
}
