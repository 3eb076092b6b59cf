/**
 * Checkpoints in a directory that all workers share (`state.checkpoints.dir`).
 *
 *   <root>/<encoded job>/<run>/chk-<n>/<name>-<writer>     blobs
 *   <root>/<encoded job>/<run>/chk-<n>/_metadata           written once, last, by the job master
 *
 * A file appears whole or not at all: it is written under a temporary name, synced, renamed, and the directory is synced. The name
 * carries the writer, so a zombie of an earlier attempt can neither overwrite nor discard what the present one stored.
 */
import {
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rmdir,
  stat,
  unlink,
} from 'node:fs/promises'
import { dirname, isAbsolute, join, normalize, sep } from 'node:path'
import { crc32 } from '@node-rs/crc32'
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import { inlineBytes, inlineHandle } from './inline-handle.ts'

/** Name of the file that makes a directory a checkpoint. */
export const METADATA_FILE = '_metadata'

const CHECKPOINT_FOLDER = /^chk-(\d+)$/
const SAFE_NAME = /^[a-zA-Z0-9._-]+$/

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
    for (const part of [options.job, options.run, options.writer]) checkName(part)
    this.#options = options
  }

  /**
   * Makes the job's directory and proves that it can be written: a wrong directory must fail the start, not the first checkpoint.
   * @throws MillraceError MILLRACE_CHECKPOINT_STORAGE naming the path
   */
  async prepare(): Promise<void> {
    const folder = join(this.#options.root, this.#options.job, this.#options.run)
    const probe = join(folder, `.probe-${this.#options.writer}`)
    await storing(folder, async () => {
      await mkdir(folder, { recursive: true })
      await (await open(probe, 'w')).close()
      await unlink(probe)
    })
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
    const path = this.#pathOf(handle)
    const bytes = await readStored(path)
    if (bytes.length !== handle.size)
      throw lost(path, `has ${bytes.length} bytes, the checkpoint names ${handle.size}`)
    if (crc32(bytes) !== handle.crc32)
      throw lost(path, 'is damaged: its checksum is not that of the checkpoint')
    return bytes
  }

  /** Deletes the file of a handle, then folders that this left empty, up to the root. */
  async discard(handle: StateHandle): Promise<void> {
    if (handle.kind === 'inline') return
    await this.#remove(this.#pathOf(handle))
  }

  /** Writes the metadata of checkpoint `n`. @throws MillraceError MILLRACE_CHECKPOINT_STORAGE, also if it has some already */
  async writeMetadata(n: number, bytes: Uint8Array): Promise<void> {
    const path = this.metadataPath(n)
    if (await exists(path))
      throw new MillraceError(
        'MILLRACE_CHECKPOINT_STORAGE',
        `'${path}' exists already: checkpoint ${n} was completed before`,
        {
          retriable: false,
          details: { path },
        },
      )
    await this.#writeFile(path, bytes)
  }

  /** The metadata of checkpoint `n` of this run. @throws StateLostError if there is none */
  readMetadata(n: number): Promise<Uint8Array> {
    return readStored(this.metadataPath(n))
  }

  /** Deletes the metadata of checkpoint `n`; its blobs are discarded by their handles. */
  discardMetadata(n: number): Promise<void> {
    return this.#remove(this.metadataPath(n))
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
      if (id !== undefined && (await exists(join(folder, name, METADATA_FILE)))) found.push(Number(id))
    }
    return found.sort((a, b) => a - b)
  }

  #folder(n: number): string {
    return join(this.#options.root, this.#options.job, this.#options.run, `chk-${n}`)
  }

  async #put(n: number, name: string, bytes: Uint8Array): Promise<StateHandle> {
    if (bytes.length <= this.#options.memoryThreshold) return inlineHandle(bytes)
    checkName(name)
    const { job, run, writer } = this.#options
    const file = `${name}-${writer}`
    await this.#writeFile(join(this.#folder(n), file), bytes)
    return {
      kind: 'file',
      path: [job, run, `chk-${n}`, file].join('/'),
      size: bytes.length,
      crc32: crc32(bytes),
    }
  }

  async #writeFile(path: string, bytes: Uint8Array): Promise<void> {
    const folder = dirname(path)
    const temporary = `${path}.${this.#options.writer}.tmp`
    await storing(path, async () => {
      await mkdir(folder, { recursive: true })
      try {
        await withFile(await open(temporary, 'w'), async (file) => {
          await file.writeFile(bytes)
          await file.sync()
        })
        await rename(temporary, path)
      } catch (error) {
        await unlink(temporary).catch(ignoreMissing)
        throw error
      }
      // The rename itself is durable only once the directory is.
      await withFile(await open(folder, 'r'), (directory) => directory.sync())
    })
  }

  async #remove(path: string): Promise<void> {
    await storing(path, async () => {
      await unlink(path).catch(ignoreMissing)
      for (
        let folder = dirname(path);
        folder.length > normalize(this.#options.root).length;
        folder = dirname(folder)
      )
        if (!(await removeIfEmpty(folder))) return
    })
  }

  /** The path of a file handle. A handle is stored data: it must not lead out of the root. */
  #pathOf(handle: StateHandle): string {
    if (handle.kind !== 'file')
      throw lost(
        this.#options.root,
        `cannot hold what a handle of kind '${handle.kind}' names; was the state backend changed?`,
      )
    const relative = normalize(handle.path)
    if (isAbsolute(relative) || relative.split(sep)[0] === '..')
      throw lost(this.#options.root, `is not where the handle leads: '${handle.path}'`)
    return join(this.#options.root, relative)
  }
}

function checkName(name: string): void {
  if (SAFE_NAME.test(name) && name !== '.' && name !== '..') return
  throw new MillraceError('MILLRACE_INTERNAL', `'${name}' cannot be part of a file name`)
}

function lost(path: string, why: string): StateLostError {
  return new StateLostError('MILLRACE_STATE_LOST', `'${path}' ${why}`, { details: { path } })
}

/** Runs work on stored files; what goes wrong is told with the path and the system's own code. */
async function storing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw new MillraceError(
      'MILLRACE_CHECKPOINT_STORAGE',
      `Checkpoint storage failed at '${path}': ${reasonOf(cause)}`,
      {
        cause,
        details: { path },
      },
    )
  }
}

function reasonOf(error: unknown): string {
  return codeOf(error) ?? String(error)
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

function ignoreMissing(error: unknown): void {
  if (codeOf(error) !== 'ENOENT') throw error
}

async function readStored(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path)
  } catch (cause) {
    const code = codeOf(cause)
    if (code === 'ENOENT' || code === 'ENOTDIR')
      throw new StateLostError('MILLRACE_STATE_LOST', `'${path}' does not exist`, {
        cause,
        details: { path },
      })
    return storing(path, () => Promise.reject(cause))
  }
}

async function exists(path: string): Promise<boolean> {
  return storing(path, async () => {
    try {
      await stat(path)
      return true
    } catch (error) {
      ignoreMissing(error)
      return false
    }
  })
}

async function namesIn(folder: string): Promise<string[]> {
  return storing(folder, async () => {
    try {
      return await readdir(folder)
    } catch (error) {
      ignoreMissing(error)
      return []
    }
  })
}

/** True if the folder is gone now. */
async function removeIfEmpty(folder: string): Promise<boolean> {
  try {
    await rmdir(folder)
    return true
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return true
    if (code === 'ENOTEMPTY' || code === 'EEXIST') return false
    throw error
  }
}

async function withFile<T>(file: FileHandle, use: (file: FileHandle) => Promise<T>): Promise<T> {
  try {
    return await use(file)
  } finally {
    await file.close()
  }
}
