/** A folder, a clock that stands still, and the writers and committers of a file sink as the runtime would drive them. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FileCommittable, OpenPart } from '../../../src/connectors/file-committable.ts'
import {
  type FileSink,
  type FileSinkOptions,
  fileFormats,
  fileSink,
} from '../../../src/connectors/file-sink.ts'
import type { FileWriter } from '../../../src/connectors/file-writer.ts'
import type { CommitPermit, SinkWriterContext } from '../../../src/core/connector.ts'
import { NO_TIMESTAMP, recordVector } from '../../../src/core/element.ts'
import type { Logger } from '../../../src/core/ports.ts'
import { countingCounter } from './sink-context.ts'

/** What a checkpoint holds of all subtasks. */
export interface Checkpoint {
  readonly n: number
  readonly committables: readonly FileCommittable[]
  readonly state: readonly OpenPart[]
}

interface Start {
  readonly attempt?: number
  readonly parallelism?: number
  readonly from?: Checkpoint
  readonly job?: string
}

let uuids = 0

export class FileScene {
  readonly folder: string
  readonly log: string[] = []
  readonly #attempts: Attempt<any>[] = []
  now = Date.UTC(2026, 0, 1)

  private constructor(folder: string) {
    this.folder = folder
  }

  static async open(): Promise<FileScene> {
    return new FileScene(await mkdtemp(join(tmpdir(), 'millrace-files-')))
  }

  async close(): Promise<void> {
    for (const attempt of this.#attempts) await attempt.die()
    // A worker that died in a test may still be at work on files.
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 })
  }

  get path(): string {
    return join(this.folder, 'out')
  }

  /** JSON lines into `path`, unless the options say otherwise. */
  sink<T = string>(options: Partial<FileSinkOptions<T>> = {}): FileSink<T> {
    return fileSink<T>({ path: this.path, format: fileFormats.jsonLines(), ...options })
  }

  /** One attempt: its writers, open. */
  async start<T>(sink: FileSink<T>, start: Start = {}): Promise<Attempt<T>> {
    const { attempt = 1, parallelism = 1, from, job = 'job' } = start
    const writers = Array.from({ length: parallelism }, (_, subtaskIndex) =>
      sink.createWriter({
        info: { jobName: job, operatorName: 'out', uid: 'out', subtaskIndex, parallelism, attempt },
        world: {
          clock: { now: () => this.now },
          random: { next: () => 0.5, uuid: () => `u${++uuids}` },
          logger: this.#logger,
        },
        recordsOut: countingCounter(),
        checkpointingEnabled: true,
        restoredCheckpointId: from?.n,
        restoredState: from?.state,
        logger: this.#logger,
      } as unknown as SinkWriterContext),
    )
    // All at once, as tasks open.
    await Promise.all(writers.map((writer) => writer.open()))
    const started = new Attempt(writers)
    this.#attempts.push(started)
    return started
  }

  commit(sink: FileSink<any>, checkpoint: Checkpoint, how: 'commit' | 'recover' = 'commit'): Promise<void> {
    const world = { logger: this.#logger }
    const committer = sink.createCommitter({ jobName: 'job', uid: 'out', world } as never)
    return committer[how](permitFor(checkpoint.n), checkpoint.committables)
  }

  /** Texts of the files that readers see, by path; those of a folder in the order of their names. */
  async visible(path = this.path): Promise<Record<string, string>> {
    const names = (await this.#names(path)).filter((name) => !name.startsWith('.')).sort()
    return Object.fromEntries(
      await Promise.all(names.map(async (name) => [name, await readFile(join(path, name), 'utf8')])),
    )
  }

  /** Values of all visible files of JSON lines, sorted. */
  async values(path = this.path): Promise<unknown[]> {
    const texts = Object.values(await this.visible(path))
    const lines = texts.flatMap((text) => text.split('\n').filter((line) => line !== ''))
    return lines.map((line) => JSON.parse(line)).sort()
  }

  /** Names of hidden files, with their folders. */
  async hidden(path = this.path): Promise<string[]> {
    return (await this.#names(path)).filter((name) => name.startsWith('.')).sort()
  }

  get #logger(): Logger {
    const note = (message: string): void => void this.log.push(message)
    return { debug: note, info: note, warn: note, error: note, child: () => this.#logger }
  }

  async #names(path: string): Promise<string[]> {
    const entries = await readdir(path, { recursive: true, withFileTypes: true })
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
  }
}

export class Attempt<T> {
  readonly writers: readonly FileWriter<T>[]

  constructor(writers: readonly FileWriter<T>[]) {
    this.writers = writers
  }

  async write(subtask: number, ...values: T[]): Promise<void> {
    await this.writers[subtask]?.write(
      recordVector(values, new Array<number>(values.length).fill(NO_TIMESTAMP)),
    )
  }

  async checkpoint(n: number, { end = false, savepoint = false } = {}): Promise<Checkpoint> {
    const committables: FileCommittable[] = []
    const state: OpenPart[] = []
    for (const writer of this.writers) {
      await writer.flush(end)
      committables.push(...(await writer.prepareCommit(n, savepoint)))
      state.push(...writer.snapshotState())
    }
    // As stored and read again.
    return JSON.parse(JSON.stringify({ n, committables, state }))
  }

  async complete(n: number): Promise<void> {
    for (const writer of this.writers) await writer.notifyCheckpointComplete(n)
  }

  /** The files are let go of as they are; what a killed process leaves. */
  async die(): Promise<void> {
    for (const writer of this.writers) await writer.close()
  }
}

/** `confirmed`: the newest checkpoint whose commits are known to be done. */
export const permitFor = (checkpointId: number, confirmed = -1): CommitPermit =>
  ({ checkpointId, confirmed }) as CommitPermit
