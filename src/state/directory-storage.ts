/**
 * Checkpoints in a directory that all workers share (`state.checkpoints.dir`).
 *
 *   <root>/<encoded job>/<run>/chk-<n>/<name>-<writer>     blobs
 *   <root>/<encoded job>/<run>/chk-<n>/_metadata           written once, last, by the job master
 *
 * A file appears whole or not at all (durable-file.ts). The name carries the writer, so a zombie of an earlier attempt can neither overwrite
 * nor discard what the present one stored.
 */
import { join } from 'node:path'
import { crc32 } from '@node-rs/crc32'
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import { MillraceError } from '../errors.ts'
import {
  checkFileName,
  existsStored,
  lostFile,
  namesIn,
  pathBelow,
  proveWritable,
  readStored,
  readVerified,
  removeStored,
  writeDurably,
} from './durable-file.ts'
import { inlineBytes, inlineHandle } from './inline-handle.ts'
import { readKept } from './kept-file.ts'

/** Name of the file that makes a directory a checkpoint. */
export const METADATA_FILE = '_metadata'

const CHECKPOINT_FOLDER = /^chk-(\d+)$/

/** Where and as whom to write. */
export interface DirectoryStorageOptions {
  /** `state.checkpoints.dir`. */
  readonly root: string
  /** The job's name as `encodeJobName` gives it. */
  readonly job: string
  /** Id of the run. */
  readonly run: string
  /** Names who writes, e.g. attempt and incarnation; part of each file name. */
  readonly writer: string
  /** `state.backend.fs.memory-threshold`: bytes up to this many stay in the handle. */
  readonly memoryThreshold: number
}

/** Checkpoint storage in a directory: a blob store for each checkpoint, and its metadata. */
export class DirectoryCheckpointStorage {
  readonly #options: DirectoryStorageOptions

  constructor(options: DirectoryStorageOptions) {
    for (const part of [options.job, options.run, options.writer]) checkFileName(part)
    this.#options = options
  }

  /**
   * Makes the job's directory and proves that it can be written: a wrong directory must fail the start, not the first checkpoint.
   * @throws MillraceError MILLRACE_CHECKPOINT_STORAGE naming the path
   */
  async prepare(): Promise<void> {
    const { root, job, run, writer } = this.#options
    await proveWritable(join(root, job, run), writer)
  }

  /** The blobs of checkpoint `n`. */
  blobStore(n: number): BlobStore {
    return {
      put: (name, bytes) => this.#put(n, name, bytes),
      get: (handle) => this.read(handle),
      discard: (handle) => this.discard(handle),
    }
  }

  /** The verified bytes of any handle of this root, whichever run wrote it. @throws StateLostError if missing or damaged */
  async read(handle: StateHandle): Promise<Uint8Array> {
    if (handle.kind === 'inline') return inlineBytes(handle)
    if (handle.kind === 'kept') return readKept(handle)
    const file = this.#fileOf(handle)
    return readVerified(pathBelow(this.#options.root, file.path), file)
  }

  /** Deletes the file of a handle, then folders that this left empty, up to the root. */
  async discard(handle: StateHandle): Promise<void> {
    if (handle.kind === 'inline' || handle.kind === 'kept') return
    const { root } = this.#options
    await removeStored(pathBelow(root, this.#fileOf(handle).path), root)
  }

  /** Writes the metadata of checkpoint `n`. @throws MillraceError MILLRACE_CHECKPOINT_STORAGE, also if it has some already */
  async writeMetadata(n: number, bytes: Uint8Array): Promise<void> {
    const path = this.metadataPath(n)
    if (await existsStored(path))
      throw new MillraceError(
        'MILLRACE_CHECKPOINT_STORAGE',
        `'${path}' exists already: checkpoint ${n} was completed before`,
        {
          retriable: false,
          details: { path },
        },
      )
    await writeDurably(path, bytes, this.#options.writer)
  }

  /** The metadata of checkpoint `n` of this run. @throws StateLostError if there is none */
  readMetadata(n: number): Promise<Uint8Array> {
    return readStored(this.metadataPath(n))
  }

  /** Deletes the metadata of checkpoint `n`; its blobs are discarded by their handles. */
  discardMetadata(n: number): Promise<void> {
    return removeStored(this.metadataPath(n), this.#options.root)
  }

  /** Where the metadata of checkpoint `n` lies: what a person passes to restore from it. */
  metadataPath(n: number): string {
    return join(this.#folder(n), METADATA_FILE)
  }

  /** Ids of the checkpoints of this run that have metadata, in order. */
  async list(): Promise<number[]> {
    const folder = join(this.#options.root, this.#options.job, this.#options.run)
    const found: number[] = []
    for (const name of await namesIn(folder)) {
      const id = CHECKPOINT_FOLDER.exec(name)?.[1]
      if (id !== undefined && (await existsStored(join(folder, name, METADATA_FILE)))) found.push(Number(id))
    }
    return found.sort((a, b) => a - b)
  }

  #folder(n: number): string {
    return join(this.#options.root, this.#options.job, this.#options.run, `chk-${n}`)
  }

  async #put(n: number, name: string, bytes: Uint8Array): Promise<StateHandle> {
    if (bytes.length <= this.#options.memoryThreshold) return inlineHandle(bytes)
    checkFileName(name)
    const { job, run, writer } = this.#options
    const file = `${name}-${writer}`
    await writeDurably(join(this.#folder(n), file), bytes, writer)
    return {
      kind: 'file',
      path: [job, run, `chk-${n}`, file].join('/'),
      size: bytes.length,
      crc32: crc32(bytes),
    }
  }

  #fileOf(handle: StateHandle): Extract<StateHandle, { kind: 'file' }> {
    if (handle.kind !== 'file')
      throw lostFile(
        this.#options.root,
        `cannot hold what a handle of kind '${handle.kind}' names; was the state backend changed?`,
      )
    return handle
  }
}
