/**
 * Snapshot bytes kept in the process: for jobs that have neither Kafka nor a directory to write to, and for tests. They survive a
 * restart of the job's tasks, not of the process.
 */
import { crc32 } from '@node-rs/crc32'
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import { StateLostError } from '../errors.ts'
import { inlineBytes, inlineHandle } from './inline-handle.ts'

/** A blob store in memory. Handles are 'inline' up to the threshold, otherwise 'topic' handles of its own. */
export class MemoryBlobStore implements BlobStore {
  readonly #threshold: number
  readonly #blobs = new Map<string, Uint8Array>()
  #stored = 0

  /** Bytes up to `memoryThreshold` stay in the handle. */
  constructor(options: { readonly memoryThreshold?: number } = {}) {
    this.#threshold = options.memoryThreshold ?? 0
  }

  /** Names of the blobs held, for tests. */
  get names(): string[] {
    return [...this.#blobs.keys()]
  }

  async put(name: string, bytes: Uint8Array): Promise<StateHandle> {
    if (bytes.length <= this.#threshold) return inlineHandle(bytes)
    // The store serves many checkpoints, names are unique within one.
    const unique = `${name}-${++this.#stored}`
    this.#blobs.set(unique, Uint8Array.prototype.slice.call(bytes))
    return { kind: 'topic', name: unique, chunks: 1, size: bytes.length, crc32: crc32(bytes) }
  }

  async get(handle: StateHandle): Promise<Uint8Array> {
    if (handle.kind === 'inline') return inlineBytes(handle)
    const bytes = handle.kind === 'topic' ? this.#blobs.get(handle.name) : undefined
    if (bytes === undefined || handle.kind !== 'topic')
      throw new StateLostError(
        'MILLRACE_STATE_LOST',
        `The process holds no blob for ${describeHandle(handle)}`,
      )
    if (bytes.length !== handle.size || crc32(bytes) !== handle.crc32)
      throw new StateLostError(
        'MILLRACE_STATE_LOST',
        `The blob of ${describeHandle(handle)} is not the one that was stored`,
      )
    return bytes
  }

  async discard(handle: StateHandle): Promise<void> {
    if (handle.kind === 'topic') this.#blobs.delete(handle.name)
  }
}

function describeHandle(handle: StateHandle): string {
  if (handle.kind === 'file' || handle.kind === 'kept') return `the file '${handle.path}'`
  return handle.kind === 'topic' ? `'${handle.name}'` : 'inline bytes'
}
