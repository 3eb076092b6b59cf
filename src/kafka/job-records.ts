/** What the checkpoint topic of a job says, read from outside: without fencing anybody, so that a running job notices nothing. */
import type { AttemptRecord, JobRecord } from '../checkpoint/checkpoint-store.ts'
import { type CompletedCheckpoint, decodeCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { World } from '../core/ports.ts'
import { liveState } from './job-standing.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import { LargeEntries } from './large-entries.ts'
import { isChunkKey } from './topic-blob-store.ts'
import { type LogExtent, readLog } from './topic-log.ts'

/** The facts of a job. */
export interface JobRecords {
  readonly attempt: AttemptRecord | undefined
  readonly job: JobRecord | undefined
  /** Of all runs, by number. */
  readonly completed: readonly CompletedCheckpoint[]
  /** Highest checkpoint of the latest run whose commits are durable; -1 = none. */
  readonly confirmed: number
}

/** How the latest run of a job stands. */
export interface LastWord {
  readonly state: string
  readonly checkpoint?: number
  /** Epoch ms. */
  readonly completedAt?: number
}

/** Completed checkpoints of all runs among a log's entries, by number. @throws StateLostError for one that cannot be read */
export function completedIn(entries: ReadonlyMap<string, string>, topic: string): CompletedCheckpoint[] {
  const completed: CompletedCheckpoint[] = []
  for (const [key, text] of entries)
    if (key.startsWith('completed/')) completed.push(decodeCheckpoint(text, `${topic} key ${key}`))
  return completed.sort((a, b) => a.n - b.n)
}

/** The JSON of one entry; undefined if there is none. */
export function parsedEntry<T>(entries: ReadonlyMap<string, string>, key: string): T | undefined {
  const text = entries.get(key)
  return text === undefined ? undefined : (JSON.parse(text) as T)
}

/** Highest checkpoint of a run whose commits are durable: its own record says so, or it rode in a later commit point. -1 = none. */
export function confirmedOf(
  entries: ReadonlyMap<string, string>,
  run: string | undefined,
  completed: readonly CompletedCheckpoint[],
): number {
  const record = parsedEntry<{ run: string; n: number }>(entries, 'confirmed')
  let confirmed = record !== undefined && record.run === run ? record.n : -1
  for (const checkpoint of completed)
    if (checkpoint.run === run) confirmed = Math.max(confirmed, checkpoint.confirmed)
  return confirmed
}

/** `job` is the name as it is written in topic names. */
export async function readJobRecords(
  cluster: KafkaCluster,
  job: string,
  world: World,
  extent: LogExtent,
): Promise<JobRecords> {
  const topic = `millrace.${job}.checkpoints`
  const entries = new Map<string, string>()
  const visit = (key: string, value: Buffer | null): void => {
    if (isChunkKey(key)) return
    if (value === null) entries.delete(key)
    else entries.set(key, value.toString('utf8'))
  }
  await readLog(cluster, topic, world, new LargeEntries().joining(visit), extent)
  const attempt = parsedEntry<AttemptRecord>(entries, 'attempt')
  const completed = completedIn(entries, topic)
  return {
    attempt,
    job: parsedEntry<JobRecord>(entries, 'job'),
    completed,
    confirmed: confirmedOf(entries, attempt?.run, completed),
  }
}

/** `live`: workers of the job are there. Waits for nothing. */
export async function lastWord(
  cluster: KafkaCluster,
  job: string,
  world: World,
  live: boolean,
): Promise<LastWord> {
  const { attempt, job: end, completed } = await readJobRecords(cluster, job, world, 'decided')
  const latest = completed.filter(({ run }) => run === attempt?.run).at(-1)
  const ended = end !== undefined && end.run === attempt?.run ? end.status : undefined
  return {
    // A record of the end may be older than the attempt that goes on from it.
    state: live ? await liveState(cluster, job) : (ended ?? 'DOWN'),
    ...(latest === undefined ? {} : { checkpoint: latest.n, completedAt: latest.completedAt }),
  }
}
