/**
 * Savepoint folders in memory, shared by all simulated workers and by whoever asks for savepoints. As real ones they belong to a person:
 * what was sealed is never deleted, and without metadata a folder is no savepoint.
 *
 *   create ──put*──► seal ──finish──► can be opened
 *              └── abandon: the files are gone, unless they were sealed
 */
import { crc32 } from '@node-rs/crc32'
import type { StateHandle } from '../checkpoint/checkpoint-storage.ts'
import {
  type CompletedCheckpoint,
  decodeCheckpoint,
  encodeCheckpoint,
} from '../checkpoint/completed-checkpoint.ts'
import { keptIn, portable } from '../checkpoint/savepoint.ts'
import type { Timers } from '../core/ports.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import type { SavepointTarget, SnapshotFolders } from '../runtime/state-storage.ts'
import type { SeededRandom } from './seeded-random.ts'
import { SIMULATED_ROOT } from './simulated-directory.ts'

interface Folder {
  readonly files: Map<string, Uint8Array>
  metadata: string | undefined
  sealed: boolean
}

/** All savepoints of one simulated job. */
export class SimulatedSavepoints {
  readonly #folders = new Map<string, Folder>()
  readonly #writeMs: number

  /** `writeMs`: how long a write takes at the most. */
  constructor(options: { readonly writeMs: number }) {
    this.#writeMs = options.writeMs
  }

  /** Folders that are savepoints. */
  get finished(): readonly string[] {
    return [...this.#folders].flatMap(([path, { metadata }]) => (metadata === undefined ? [] : [path]))
  }

  has(path: string): boolean {
    return this.#folders.has(path)
  }

  holds({ folder, path }: Extract<StateHandle, { kind: 'kept' }>): boolean {
    return this.#folders.get(folder)?.files.has(path) === true
  }

  /** The savepoint, as a job that starts from it gets it. @throws StateLostError */
  open(path: string): CompletedCheckpoint {
    const metadata = this.#folders.get(path)?.metadata
    if (metadata === undefined) throw new StateLostError('MILLRACE_STATE_LOST', `${path} is no savepoint`)
    return keptIn(decodeCheckpoint(metadata, path), path)
  }

  /** The bytes of a kept file. @throws StateLostError */
  read(handle: Extract<StateHandle, { kind: 'kept' }>): Uint8Array {
    const bytes = this.#folders.get(handle.folder)?.files.get(handle.path)
    if (bytes === undefined || crc32(bytes) !== handle.crc32)
      throw new StateLostError('MILLRACE_STATE_LOST', `${handle.path} is not in savepoint ${handle.folder}`)
    return bytes
  }

  /** Folders as one worker works on them. `inDirectory`: its checkpoints are files. */
  view(timers: Timers, random: SeededRandom, inDirectory: boolean): SnapshotFolders {
    const takeAWhile = (): Promise<void> => timers.sleep(random.integer(0, this.#writeMs))
    return {
      create: async (directory, id) => {
        await takeAWhile()
        return this.#create(`${directory}/savepoint-${id}`, takeAWhile)
      },
      finish: async (checkpoint) => {
        if (!this.#isDue(checkpoint)) return
        await takeAWhile()
        if (checkpoint.savepoint !== undefined) this.#finish(checkpoint.savepoint.path, checkpoint)
      },
      open: async (path) => {
        await takeAWhile()
        return this.open(path)
      },
      keep: (checkpoint) => (inDirectory ? keptIn(checkpoint, SIMULATED_ROOT) : checkpoint),
    }
  }

  #create(path: string, takeAWhile: () => Promise<void>): SavepointTarget {
    if (this.#folders.has(path))
      throw new MillraceError('MILLRACE_CHECKPOINT_STORAGE', `${path} is there already`)
    const folder: Folder = { files: new Map(), metadata: undefined, sealed: false }
    this.#folders.set(path, folder)
    return {
      path,
      blobs: {
        put: async (name, bytes) => {
          await takeAWhile()
          folder.files.set(name, Uint8Array.from(bytes))
          return { kind: 'kept', folder: path, path: name, size: bytes.length, crc32: crc32(bytes) }
        },
        get: async (handle) => {
          await takeAWhile()
          return this.read(handle as Extract<StateHandle, { kind: 'kept' }>)
        },
        discard: async (handle) => {
          if (handle.kind === 'kept' && !folder.sealed) folder.files.delete(handle.path)
        },
      },
      seal: () => {
        folder.sealed = true
      },
      unseal: () => {
        folder.sealed = false
      },
      finish: async (checkpoint) => {
        await takeAWhile()
        this.#finish(path, checkpoint)
      },
      abandon: async () => {
        await takeAWhile()
        if (!folder.sealed) this.#folders.delete(path)
      },
    }
  }

  /** As in real folders: of a job that went on it may be finished already, or be elsewhere. */
  #isDue({ savepoint }: CompletedCheckpoint): boolean {
    if (savepoint === undefined || savepoint.stop === true) return true
    const folder = this.#folders.get(savepoint.path)
    return folder !== undefined && folder.metadata === undefined
  }

  #finish(path: string, checkpoint: CompletedCheckpoint): void {
    const folder = this.#folders.get(path)
    if (folder === undefined) throw new StateLostError('MILLRACE_STATE_LOST', `the files of ${path} are gone`)
    folder.metadata = encodeCheckpoint(portable(checkpoint, path))
  }
}
