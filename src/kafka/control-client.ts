/**
 * The operator's end of a job's control topic: sends a command, waits for its answers, follows events. Needs Kafka access and nothing else.
 * A command that nobody can answer is withdrawn, so that it does not act later, when nobody expects it any more.
 */

import type { CommandOutcome, CommandProgress, JobCommand, JobEvent } from '../core/job-control.ts'
import type { World } from '../core/ports.ts'
import { isMillraceError, MillraceError } from '../errors.ts'
import { decodeControlRecord, writeControlRecords } from './control-records.ts'
import { membersIn } from './group-now.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import { endOffset, startOffset } from './topic-offsets.ts'
import { TopicTail } from './topic-tail.ts'
import { jobTopic, workerGroupId } from './transactional-id.ts'

/** How long a read waits for an answer, in ms. */
const POLL_MS = 100
/** How often the group is asked whether anybody is there, in ms. */
const PRESENCE_MS = 1_000
/** Longest answer of a group query before it counts as unanswered, in ms. */
const QUERY_MS = 10_000

export interface CommandWait {
  /** Names the sender to whoever reads the job's log: user@host. */
  readonly by: string
  /**
   * How long nothing may be heard of the command, in ms: until the leader has it, and between its signs of life. A leader that died is replaced
   * within a session time-out.
   */
  readonly acceptWithinMs: number
  /** Told once when the leader has heard it. */
  readonly onAccepted?: () => void
  /** Told again and again while the leader is doing it, if the leader tells how the job stands. */
  readonly onProgress?: (progress: CommandProgress) => void
  /** True when the sender does not want to wait any longer: what was not heard yet is withdrawn. */
  readonly interrupted?: () => boolean
  /** Told when the leader is silent for longer than it should, with the ms waited so far. */
  readonly onSilence?: (waitedMs: number) => void
}

/** Workers in the job's group. */
export function liveWorkers(cluster: KafkaCluster, jobName: string): Promise<number> {
  return membersIn(cluster, workerGroupId(jobName), { timeoutMs: QUERY_MS })
}

/**
 * Sends a command to the job's leader and resolves with what came of it.
 * @throws MillraceError MILLRACE_NO_SUCH_JOB if no worker of the job is alive, MILLRACE_COMMAND_UNANSWERED if its leader says nothing, or if
 * the sender was interrupted
 */
export async function sendCommand(
  cluster: KafkaCluster,
  jobName: string,
  command: JobCommand,
  world: World,
  wait: CommandWait,
): Promise<CommandOutcome> {
  const topic = jobTopic(jobName, 'control')
  const position = await commandTopicEnd(cluster, topic)
  if (position === undefined || (await liveWorkers(cluster, jobName)) === 0) throw noSuchJob(jobName)
  const id = world.random.uuid()
  const sentAt = world.clock.now()
  const tail = new TopicTail(cluster, topic, position)
  await writeControlRecords(
    cluster,
    topic,
    [{ kind: 'command', id, command, by: wait.by, at: sentAt }],
    sentAt,
  )
  let accepted = false
  let heardAt = sentAt
  let presenceAt = sentAt + PRESENCE_MS
  for (;;) {
    for (const { value } of await tail.next(POLL_MS)) {
      const record = decodeControlRecord(value)
      if (record?.kind !== 'answer' || record.id !== id) continue
      if (record.answer.type !== 'accepted') return record.answer
      const { status, pending } = record.answer
      if (!accepted) wait.onAccepted?.()
      else if (status !== undefined && pending !== undefined) wait.onProgress?.({ status, pending })
      accepted = true
      heardAt = world.clock.now()
    }
    const now = world.clock.now()
    if (wait.interrupted?.() === true) {
      if (!accepted) await writeControlRecords(cluster, topic, [{ kind: 'withdrawn', id }], now)
      throw interrupted(jobName, command, accepted)
    }
    if (now < presenceAt) continue
    presenceAt = now + PRESENCE_MS
    const workers = await liveWorkers(cluster, jobName)
    const waited = world.clock.now() - heardAt
    if (workers > 0 && waited < wait.acceptWithinMs) {
      if (!accepted) wait.onSilence?.(waited)
      continue
    }
    // The last words of a job that just ended may be on their way.
    for (const { value } of await tail.next(POLL_MS)) {
      const record = decodeControlRecord(value)
      if (record?.kind === 'answer' && record.id === id && record.answer.type !== 'accepted')
        return record.answer
    }
    await writeControlRecords(cluster, topic, [{ kind: 'withdrawn', id }], now)
    if (workers === 0) throw accepted ? diedMeanwhile(jobName, command) : noSuchJob(jobName)
    if (accepted) throw lostWithLeader(jobName, command, waited)
    throw new MillraceError(
      'MILLRACE_COMMAND_UNANSWERED',
      `job '${jobName}' has ${workers} live worker${workers === 1 ? '' : 's'}, but none answered '${command.type}' within ${Math.round(waited / 1000)} s; the command was withdrawn`,
    )
  }
}

async function commandTopicEnd(cluster: KafkaCluster, topic: string): Promise<bigint | undefined> {
  const [known] = await cluster.describeTopics([topic], { timeoutMs: QUERY_MS })
  return known === undefined ? undefined : endOffset(cluster, topic)
}

function noSuchJob(jobName: string): MillraceError {
  return new MillraceError(
    'MILLRACE_NO_SUCH_JOB',
    `no worker of a job '${jobName}' is alive; nothing was done`,
  )
}

function interrupted(jobName: string, command: JobCommand, accepted: boolean): MillraceError {
  return new MillraceError(
    'MILLRACE_COMMAND_UNANSWERED',
    accepted
      ? `job '${jobName}' goes on doing '${command.type}'; nobody waits for its answer any more`
      : `'${command.type}' was withdrawn before job '${jobName}' heard it; nothing was done`,
    {
      remedy: accepted ? `See what comes of it: millrace events ${jobName}` : 'Send it again when it suits.',
    },
  )
}

function diedMeanwhile(jobName: string, command: JobCommand): MillraceError {
  return new MillraceError(
    'MILLRACE_NO_SUCH_JOB',
    `the last worker of job '${jobName}' went away while it was doing '${command.type}'; what came of it is not known`,
    { remedy: `Look at the job: millrace checkpoints list ${jobName}` },
  )
}

function lostWithLeader(jobName: string, command: JobCommand, waitedMs: number): MillraceError {
  return new MillraceError(
    'MILLRACE_COMMAND_UNANSWERED',
    `the worker of job '${jobName}' that was doing '${command.type}' has not been heard of for ${Math.round(waitedMs / 1000)} s; what came of it is not known`,
    { remedy: `Look at the job: millrace checkpoints list ${jobName}` },
  )
}

export interface EventsWanted {
  readonly follow: boolean
  readonly fromNow: boolean
  /** Told once whenever no worker of the job is alive and none of its events is left, while following goes on. */
  readonly onNobody?: () => void
}

/**
 * Events of a job, oldest first; ends at the present end of the topic unless `follow` goes on for ever.
 * @throws MillraceError MILLRACE_NO_SUCH_JOB if the job has no control topic
 */
export async function* readEvents(
  cluster: KafkaCluster,
  jobName: string,
  { follow, fromNow, onNobody }: EventsWanted,
): AsyncGenerator<JobEvent, void, undefined> {
  const topic = jobTopic(jobName, 'control')
  const end = await commandTopicEnd(cluster, topic)
  if (end === undefined)
    throw new MillraceError('MILLRACE_NO_SUCH_JOB', `there is no job '${jobName}': it has no topic ${topic}`)
  const tail = new TopicTail(cluster, topic, fromNow ? end : await startOffset(cluster, topic))
  let nobody = false
  while (follow || tail.position < end) {
    const records = await tail.next(follow ? PRESENCE_MS : POLL_MS)
    for (const { value } of records) {
      const record = decodeControlRecord(value)
      if (record?.kind === 'event') yield record.event
    }
    if (!follow || records.length > 0 || tail.position < end) continue
    const gone = await nobodyIn(cluster, jobName)
    if (gone === undefined) continue
    if (gone && !nobody) onNobody?.()
    nobody = gone
  }
}

/** Undefined while brokers cannot tell. */
async function nobodyIn(cluster: KafkaCluster, jobName: string): Promise<boolean | undefined> {
  try {
    return (await liveWorkers(cluster, jobName)) === 0
  } catch (error) {
    // Who follows a job does so over a restart of brokers too.
    if (isMillraceError(error) && error.retriable) return undefined
    throw error
  }
}

/** Names of jobs that ever ran on this cluster, as they are written in topic names. */
export async function knownJobs(cluster: KafkaCluster): Promise<string[]> {
  const topics = await cluster.describeTopics(undefined, { timeoutMs: QUERY_MS })
  const names = topics.flatMap(({ topic }) => /^millrace\.([^.]+)\.checkpoints$/.exec(topic)?.[1] ?? [])
  return names.sort()
}

/** True if the job's own topics exist. */
export async function jobExists(cluster: KafkaCluster, jobName: string): Promise<boolean> {
  const found = await cluster.describeTopics([jobTopic(jobName, 'checkpoints')], { timeoutMs: QUERY_MS })
  return found.length > 0
}
