/**
 * A directory that all simulated workers share: snapshots take a while to write, and writing fails now and then.
 */
import { crc32 } from '@node-rs/crc32'
import type { BlobStore, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { Timers } from '../core/ports.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import type { SeededRandom } from './seeded-random.ts'

/** Where it is, as every worker sees it: what a person chose to start from is found below it. */
export const SIMULATED_ROOT = '/checkpoints'

/** What a directory is made for. */
export interface SimulatedDirectoryOptions {
  /** Chance that a write fails. */
  readonly failures: number
  /** How long a write takes at the most. */
  readonly writeMs: number
  /** Hears of a name that is written again: no two attempts may share one. */
  readonly onOverwrite?: (name: string) => void
  /** Hears of each file that was there and is not any more. */
  readonly onDiscard?: (path: string) => void
}

/** The directory; each worker works on it through a view with its own timers, so that it stops with the worker. */
export class SimulatedDirectory {
  readonly #options: SimulatedDirectoryOptions
  readonly #files = new Map<string, Uint8Array>()
  /** Every name that was ever given; files have longer ones, so nothing is lost by a name that comes twice. */
  readonly #written = new Set<string>()

  constructor(options: SimulatedDirectoryOptions) {
    this.#options = options
  }

  has(path: string): boolean {
    return this.#files.has(path)
  }

  view(timers: Timers, random: SeededRandom): BlobStore {
    const { failures, writeMs, onOverwrite, onDiscard } = this.#options
    const takeAWhile = (): Promise<void> => timers.sleep(random.integer(0, writeMs))
    return {
      put: async (name, bytes): Promise<StateHandle> => {
        await takeAWhile()
        if (random.chance(failures))
          throw new MillraceError('MILLRACE_CHECKPOINT_STORAGE', `no space left to write ${name}`)
        if (this.#written.has(name)) onOverwrite?.(name)
        this.#written.add(name)
        const path = `${name}-${this.#written.size}`
        this.#files.set(path, Uint8Array.from(bytes))
        return { kind: 'file', path, size: bytes.length, crc32: crc32(bytes) }
      },
      get: async (handle) => {
        await takeAWhile()
        return this.#read(handle)
      },
      discard: async (handle) => {
        await takeAWhile()
        if (handle.kind === 'file' && this.#files.delete(handle.path)) onDiscard?.(handle.path)
      },
    }
  }

  #read(handle: StateHandle): Uint8Array {
    const isHere = handle.kind === 'file' || (handle.kind === 'kept' && handle.folder === SIMULATED_ROOT)
    const bytes = isHere ? this.#files.get(handle.path) : undefined
    if (!isHere || bytes === undefined || crc32(bytes) !== handle.crc32)
      throw new StateLostError(
        'MILLRACE_STATE_LOST',
        `the directory does not hold what ${JSON.stringify(handle)} names`,
      )
    return bytes
  }
}
