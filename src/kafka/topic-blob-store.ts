/**
 * Snapshot bytes in the checkpoint topic (`state.backend: jobmanager`), in chunks under unique names. At most 5 MB a subtask, as in Flink.
 */
import { crc32 } from '@node-rs/crc32'
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { World } from '../core/ports.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import { appendPlain } from './topic-log.ts'

/** Largest snapshot of one subtask (Flink's MemoryStateBackend limit). */
export const MAX_TOPIC_BLOB_BYTES = 5 * 1024 * 1024
const CHUNK_BYTES = 512 * 1024
/** Smaller snapshots ride in the checkpoint's own record. */
const INLINE_BYTES = 1024

/** Key of one chunk in the checkpoint topic. */
export function chunkKey(name: string, index: number): string {
  return `chunk/${name}/${index}`
}

/** True for keys that `chunkKey` made. */
export function isChunkKey(key: string): boolean {
  return key.startsWith('chunk/')
}

export class TopicBlobStore implements BlobStore {
  readonly #cluster: KafkaCluster
  readonly #topic: string
  readonly #world: World
  /** Chunks read at take-over, by key. */
  #chunks: ReadonlyMap<string, Buffer> = new Map()

  constructor(cluster: KafkaCluster, topic: string, world: World) {
    this.#cluster = cluster
    this.#topic = topic
    this.#world = world
  }

  /** Hands over what take-over read; dropped again by `forgetChunks`. */
  holdChunks(chunks: ReadonlyMap<string, Buffer>): void {
    this.#chunks = chunks
  }

  forgetChunks(): void {
    this.#chunks = new Map()
  }

  async put(name: string, bytes: Uint8Array): Promise<StateHandle> {
    if (bytes.length <= INLINE_BYTES)
      return { kind: 'inline', bytes: Buffer.from(bytes).toString('base64'), size: bytes.length }
    if (bytes.length > MAX_TOPIC_BLOB_BYTES)
      throw new MillraceError(
        'MILLRACE_STATE_TOO_LARGE',
        `snapshot ${name} has ${bytes.length} bytes; state.backend jobmanager keeps at most ${MAX_TOPIC_BLOB_BYTES} bytes a subtask`,
      )
    const chunks = Math.ceil(bytes.length / CHUNK_BYTES)
    for (let i = 0; i < chunks; i++)
      await appendPlain(
        this.#cluster,
        this.#topic,
        [{ key: chunkKey(name, i), value: bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES) }],
        this.#world.clock.now(),
      )
    return { kind: 'topic', name, chunks, size: bytes.length, crc32: crc32(bytes) }
  }

  async get(handle: StateHandle): Promise<Uint8Array> {
    if (handle.kind === 'inline') {
      const bytes = Buffer.from(handle.bytes, 'base64')
      if (bytes.length !== handle.size)
        throw new StateLostError(
          'MILLRACE_STATE_LOST',
          `an inline snapshot in topic ${this.#topic} is damaged: it has ${bytes.length} bytes instead of ${handle.size}`,
        )
      return bytes
    }
    if (handle.kind !== 'topic')
      throw new StateLostError(
        'MILLRACE_STATE_LOST',
        `state lies in ${handle.path} under state.checkpoints.dir, but state.backend is jobmanager`,
        {
          remedy: 'Start the job with the state.backend and state.checkpoints.dir that wrote the checkpoint.',
        },
      )
    const parts: Buffer[] = []
    for (let i = 0; i < handle.chunks; i++) {
      const part = this.#chunks.get(chunkKey(handle.name, i))
      if (part === undefined)
        throw new StateLostError(
          'MILLRACE_STATE_LOST',
          `chunk ${i} of ${handle.chunks} of snapshot ${handle.name} is missing in topic ${this.#topic}`,
        )
      parts.push(part)
    }
    const bytes = Buffer.concat(parts)
    if (bytes.length !== handle.size || crc32(bytes) !== handle.crc32)
      throw new StateLostError(
        'MILLRACE_STATE_LOST',
        `snapshot ${handle.name} in topic ${this.#topic} is damaged: its checksum or size is wrong`,
      )
    return bytes
  }

  async discard(handle: StateHandle): Promise<void> {
    if (handle.kind !== 'topic') return
    await appendPlain(
      this.#cluster,
      this.#topic,
      Array.from({ length: handle.chunks }, (_, i) => ({ key: chunkKey(handle.name, i), value: null })),
      this.#world.clock.now(),
    )
  }
}
