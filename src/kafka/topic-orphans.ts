/** Snapshot chunks in a job's checkpoint topic, read and removed from outside. */
import { type CheckpointFacts, orphansAmong, type StoredBlob } from '../checkpoint/orphans.ts'
import type { World } from '../core/ports.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import { chunkKey, isChunkKey } from './topic-blob-store.ts'
import { appendPlain, readLog } from './topic-log.ts'

const CHUNK = /^chunk\/(.*)\/(\d+)$/
/** `<run>/<attempt>/<n>/<name>` */
const OWNER = /^[^/]+\/(\d+)\//

/** A blob and its chunks. */
export interface TopicBlob extends StoredBlob {
  readonly chunks: readonly number[]
}

/** Every blob in the topic `millrace.<job>.checkpoints`; `job` as it is written in topic names. */
export async function listTopicBlobs(cluster: KafkaCluster, job: string, world: World): Promise<TopicBlob[]> {
  const blobs = new Map<string, Map<number, number>>()
  await readLog(cluster, topicOf(job), world, (key, value) => {
    const [, name, index] = isChunkKey(key) ? (CHUNK.exec(key) ?? []) : []
    if (name === undefined) return
    const chunks = blobs.get(name) ?? new Map<number, number>()
    if (value === null) chunks.delete(Number(index))
    else chunks.set(Number(index), value.length)
    blobs.set(name, chunks)
  })
  return [...blobs]
    .filter(([, chunks]) => chunks.size > 0)
    .map(([name, chunks]) => {
      const attempt = OWNER.exec(name)?.[1]
      return {
        name,
        bytes: [...chunks.values()].reduce((sum, bytes) => sum + bytes, 0),
        ageMs: undefined,
        attempt: attempt === undefined ? undefined : Number(attempt),
        chunks: [...chunks.keys()],
      }
    })
}

/** Those of the blobs that nobody needs; `facts` were read after the blobs. */
export function orphanBlobs(blobs: readonly TopicBlob[], facts: CheckpointFacts): TopicBlob[] {
  const orphans = new Set(orphansAmong(blobs, facts, 0))
  return blobs.filter((blob) => orphans.has(blob))
}

/** Writes tombstones for the chunks; compaction removes them. */
export async function removeTopicBlobs(
  cluster: KafkaCluster,
  job: string,
  orphans: readonly TopicBlob[],
  world: World,
): Promise<void> {
  for (const { name, chunks } of orphans)
    await appendPlain(
      cluster,
      topicOf(job),
      chunks.map((index) => ({ key: chunkKey(name, index), value: null })),
      world.clock.now(),
    )
}

function topicOf(job: string): string {
  return `millrace.${job}.checkpoints`
}
