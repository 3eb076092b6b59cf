/** What the checkpoint topic of a job says, read from outside: without fencing anybody, so that a running job notices nothing. */
import type { AttemptRecord, JobRecord } from '../checkpoint/checkpoint-store.ts'
import { type CompletedCheckpoint, decodeCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { World } from '../core/ports.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import { isChunkKey } from './topic-blob-store.ts'
import { readLog } from './topic-log.ts'

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

/** `job` is the name as it is written in topic names. */
export async function readJobRecords(cluster: KafkaCluster, job: string, world: World): Promise<JobRecords> {
  const topic = `millrace.${job}.checkpoints`
  let attempt: AttemptRecord | undefined
  let end: JobRecord | undefined
  let confirmed: { run: string; n: number } | undefined
  const completed = new Map<string, CompletedCheckpoint>()
  await readLog(cluster, topic, world, (key, value) => {
    if (isChunkKey(key)) return
    if (key === 'attempt') attempt = value === null ? undefined : JSON.parse(value.toString())
    else if (key === 'job') end = value === null ? undefined : JSON.parse(value.toString())
    else if (key === 'confirmed') confirmed = value === null ? undefined : JSON.parse(value.toString())
    else if (key.startsWith('completed/')) {
      if (value === null) completed.delete(key)
      else completed.set(key, decodeCheckpoint(value.toString(), `${topic} (${key})`))
    }
  })
  const run = attempt?.run
  return {
    attempt,
    job: end,
    completed: [...completed.values()].sort((a, b) => a.n - b.n),
    confirmed: Math.max(
      confirmed !== undefined && confirmed.run === run ? confirmed.n : -1,
      ...[...completed.values()].filter((each) => each.run === run).map((each) => each.confirmed),
    ),
  }
}

/** `live`: workers of the job are there. */
export async function lastWord(
  cluster: KafkaCluster,
  job: string,
  world: World,
  live: boolean,
): Promise<LastWord> {
  const { attempt, job: end, completed } = await readJobRecords(cluster, job, world)
  const latest = completed.filter(({ run }) => run === attempt?.run).at(-1)
  const ended = end !== undefined && end.run === attempt?.run ? end.status : undefined
  return {
    // A record of the end may be older than the attempt that goes on from it.
    state: live ? 'RUNNING' : (ended ?? 'DOWN'),
    ...(latest === undefined ? {} : { checkpoint: latest.n, completedAt: latest.completedAt }),
  }
}
