/**
 * Writes one savepoint: a folder that holds all it needs and can be moved.
 *
 *   Writing ──seal──► Sealed (a commit point that names it may be written) ──finish──► Finished: `_metadata` is there, it can be restored
 *      │ ▲               │
 *      │ └───unseal──────┘
 *      └──abandon──► Abandoned: what was written is deleted again, also what is still being written
 *
 * A folder without `_metadata` is no savepoint: what a crash leaves can be deleted, unless a job's latest checkpoint names it.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from '@node-rs/crc32'
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import { portable } from '../checkpoint/savepoint.ts'
import { MillraceError } from '../errors.ts'
import { METADATA_FILE } from './directory-storage.ts'
import {
  checkFileName,
  proveWritable,
  removeIfEmpty,
  removeStored,
  storing,
  writeDurably,
} from './durable-file.ts'
import { inlineBytes, inlineHandle } from './inline-handle.ts'
import { readKept } from './kept-file.ts'
import { encodeMetadata } from './savepoint-metadata.ts'

/** Part of the names of files that are being written. A savepoint has one writer of each file. */
const WRITER = 'savepoint'

export interface SavepointFolderOptions {
  /** Where savepoints are collected, absolute. */
  readonly directory: string
  /** The job's name as `encodeJobName` gives it. */
  readonly job: string
  /** Unlike that of any other savepoint. */
  readonly id: string
  /** Bytes up to this many stay in the metadata. */
  readonly memoryThreshold: number
}

/** Writes the metadata of the savepoint in `folder`. Repeatable. @throws MILLRACE_CHECKPOINT_STORAGE */
export function finishSavepoint(checkpoint: CompletedCheckpoint, folder: string): Promise<void> {
  const bytes = encodeMetadata('savepoint', portable(checkpoint, folder))
  return writeDurably(join(folder, METADATA_FILE), bytes, WRITER)
}

export class SavepointFolder {
  /** The savepoint's folder, absolute: what a person restores from. */
  readonly path: string
  readonly blobs: BlobStore
  readonly #options: SavepointFolderOptions
  readonly #written = new Set<string>()
  #state: 'writing' | 'sealed' | 'finished' | 'abandoned' = 'writing'

  private constructor(options: SavepointFolderOptions) {
    this.#options = options
    this.path = join(options.directory, `savepoint-${options.job}-${options.id}`)
    this.blobs = {
      put: (name, bytes) => this.#put(name, bytes),
      get: async (handle) => (handle.kind === 'inline' ? inlineBytes(handle) : readKept(handle)),
      discard: (handle) => this.#discard(handle),
    }
  }

  /** Makes the folder, new. @throws MillraceError MILLRACE_CHECKPOINT_STORAGE if it cannot be written */
  static async create(options: SavepointFolderOptions): Promise<SavepointFolder> {
    checkFileName(options.job)
    checkFileName(options.id)
    const folder = new SavepointFolder(options)
    await storing(folder.path, async () => {
      await mkdir(options.directory, { recursive: true })
      await mkdir(folder.path)
    })
    await proveWritable(folder.path, WRITER)
    return folder
  }

  /** A commit point that names this folder may be written from now on: nothing of it is deleted any more. */
  seal(): void {
    if (this.#state === 'writing') this.#state = 'sealed'
  }

  /** That commit point never happened. */
  unseal(): void {
    if (this.#state === 'sealed') this.#state = 'writing'
  }

  /** Writes `_metadata`: all output up to the checkpoint is committed. Repeatable. @throws MILLRACE_CHECKPOINT_STORAGE */
  async finish(checkpoint: CompletedCheckpoint): Promise<void> {
    await finishSavepoint(checkpoint, this.path)
    this.#state = 'finished'
  }

  /** Deletes what was written, unless a checkpoint may name it. */
  async abandon(): Promise<void> {
    if (this.#state !== 'writing') return
    this.#state = 'abandoned'
    for (const name of this.#written) await removeStored(join(this.path, name), this.path)
    await storing(this.path, () => removeIfEmpty(this.path))
  }

  async #put(name: string, bytes: Uint8Array): Promise<StateHandle> {
    if (bytes.length <= this.#options.memoryThreshold) return inlineHandle(bytes)
    checkFileName(name)
    const path = join(this.path, name)
    this.#written.add(name)
    try {
      if (!this.#abandoned()) await writeDurably(path, bytes, WRITER)
    } catch (error) {
      // Given up meanwhile: the folder may go before the file is in it.
      if (!this.#abandoned()) throw error
    }
    if (this.#abandoned()) {
      await removeStored(path, this.#options.directory)
      throw new MillraceError('MILLRACE_CHECKPOINT_FAILED', `savepoint '${this.path}' was given up`)
    }
    return { kind: 'kept', folder: this.path, path: name, size: bytes.length, crc32: crc32(bytes) }
  }

  /** State changes while a file is being written. */
  #abandoned(): boolean {
    return this.#state === 'abandoned'
  }

  async #discard(handle: StateHandle): Promise<void> {
    if (handle.kind !== 'kept' || handle.folder !== this.path || this.#state === 'sealed') return
    this.#written.delete(handle.path)
    await removeStored(join(this.path, handle.path), this.path)
  }
}
