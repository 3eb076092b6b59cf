/**
 * Writes the files of one sink subtask.
 *
 *                 roll: too large · too old or unused at a barrier ·
 *                 whole files · savepoint · end of input                 prepareCommit(n)            commit n (file-committer)
 *   open part ──────────────────────────────────────────► finished ──────────────────► prepared ──────────────────────► visible
 *       │  ▲                                                                  ▲
 *       │  └─ barrier n: synced; its length so far is in snapshot n           │ its first `length` bytes, copied
 *       └── the attempt ends ─────────────► restored at another attempt ──────┘
 *
 * A restored part is not written on but finished as it was at the barrier: what its writer added later belongs to no checkpoint, and that writer
 * may still be alive and add more, so the file is copied and not cut. Age is looked at only when something is written and at barriers: a file
 * becomes visible with a checkpoint, and so not sooner by a timer.
 */
import { join } from 'node:path'
import type { SinkWriterContext, TwoPhaseSinkWriter } from '../core/connector.ts'
import type { RecordVector } from '../core/element.ts'
import { userError } from '../core/operators/user-error.ts'
import { isMillraceError, SerializationError } from '../errors.ts'
import { type BucketFunction, checkBucket } from './file-buckets.ts'
import { FILE_FORMAT, type FileCommittable, type OpenPart } from './file-committable.ts'
import { makeFolder, syncFolder } from './file-disk.ts'
import type { FileFormat } from './file-format.ts'
import { PartFile } from './file-part.ts'
import { LeftParts } from './file-restore.ts'
import { stagedName, stagingFolder } from './file-staging.ts'

export interface FileWriterOptions<T> {
  readonly path: string
  readonly format: FileFormat<T>
  readonly maxBytes: number
  readonly maxAgeMs: number
  readonly inactivityMs: number
  readonly maxOpenFiles: number
  readonly bucket: BucketFunction<T> | undefined
  readonly prefix: string
  /** Ends the names of files. */
  readonly suffix: string
  readonly gzip: boolean
  readonly acceptLostFiles: boolean
}

/** Bytes that a file holds back before they are written. */
const DRAIN_BYTES = 256 * 1024

/** A file that is whole, before it has a checkpoint. */
type Finished = Omit<FileCommittable, 'n'>

/** A part and its names, relative to the sink's path. */
interface NamedPart<T> {
  readonly part: PartFile<T>
  readonly bucket: string
  readonly staged: string
  readonly path: string
}

export class FileWriter<T> implements TwoPhaseSinkWriter<T, FileCommittable> {
  readonly #options: FileWriterOptions<T>
  readonly #context: SinkWriterContext
  readonly #staging: string
  /** Distinguishes the names of this writer's files from those of any other writer. */
  readonly #id: string
  #count = 0
  /** By bucket, the one that was written last at the end. */
  readonly #parts = new Map<string, NamedPart<T>>()
  #last: NamedPart<T> | undefined
  /** Parts that get no more values and are not finished yet. */
  #rolled: NamedPart<T>[] = []
  readonly #full = new Set<PartFile<T>>()
  #finished: Finished[] = []
  #prepared: FileCommittable[] = []
  #state: readonly OpenPart[] = []
  #left: LeftParts | undefined

  constructor(options: FileWriterOptions<T>, context: SinkWriterContext) {
    this.#options = options
    this.#context = context
    this.#staging = stagingFolder(context.info.jobName, context.info.uid)
    this.#id = context.world.random.uuid()
  }

  describe(): string | undefined {
    const open = this.#parts.size
    const waiting = this.#prepared.length + this.#finished.length
    if (open + waiting === 0) return undefined
    const bytes = [...this.#parts.values()].reduce((sum, { part }) => sum + part.size, 0)
    return `${open} files of ${bytes} bytes are open; ${waiting} files wait for a checkpoint`
  }

  async open(): Promise<void> {
    const { path, format, acceptLostFiles } = this.#options
    await format.open?.()
    await makeFolder(join(path, this.#staging))
    const left = new LeftParts({
      base: path,
      staging: this.#staging,
      context: this.#context,
      acceptLostFiles,
    })
    await left.removeOrphans()
    this.#finished = await left.finishRestored()
    this.#left = left
  }

  write(vector: RecordVector<T>): void | Promise<void> {
    const { values, timestamps } = vector
    const { maxBytes } = this.#options
    const now = this.#context.world.clock.now()
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as T
      const named = this.#partOf(this.#bucketOf(value, timestamps[i] as number, now), now)
      const { part } = named
      try {
        part.add(value, now)
      } catch (cause) {
        throw this.#unwritable(cause, named.path)
      }
      if (part.size >= maxBytes) this.#roll(named)
      else if (part.held >= DRAIN_BYTES) this.#full.add(part)
    }
    this.#context.recordsOut.inc(values.length)
    return this.#rolled.length > 0 || this.#full.size > 0 ? this.#work() : undefined
  }

  /** A part holds back what it has until a barrier; the last ones are finished. */
  flush(endOfInput: boolean): void | Promise<void> {
    if (!endOfInput) return
    for (const named of [...this.#parts.values()]) this.#roll(named)
    return this.#work()
  }

  async prepareCommit(checkpointId: number, savepoint = false): Promise<readonly FileCommittable[]> {
    const now = this.#context.world.clock.now()
    // A savepoint must not depend on a hidden file, which later attempts remove.
    const all = savepoint || this.#options.format.wholeFiles
    for (const named of [...this.#parts.values()]) if (all || this.#isDue(named.part, now)) this.#roll(named)
    await this.#work()
    const open = [...this.#parts.values()]
    await Promise.all(open.map(({ part }) => part.sync()))
    // The hidden names, too, must be durable before a checkpoint names them.
    if (open.length + this.#finished.length > 0) await syncFolder(join(this.#options.path, this.#staging))
    for (const part of this.#finished) this.#prepared.push({ ...part, n: checkpointId })
    this.#finished = []
    this.#state = open.map((named) => {
      const { size, ...facts } = named.part.facts
      return { ...this.#stored(named), ...facts, length: size }
    })
    return [...this.#prepared]
  }

  snapshotState(): readonly OpenPart[] {
    return this.#state
  }

  notifyCheckpointComplete(checkpointId: number): void | Promise<void> {
    this.#prepared = this.#prepared.filter(({ n }) => n > checkpointId)
    const left = this.#left
    this.#left = undefined
    // Whoever restarts now goes by this checkpoint or a later one.
    return left?.removeRestored()
  }

  async close(): Promise<void> {
    const parts = [...this.#parts.values(), ...this.#rolled]
    this.#parts.clear()
    this.#rolled = []
    this.#full.clear()
    this.#last = undefined
    for (const { part } of parts) await part.close()
  }

  #bucketOf(value: T, timestamp: number, now: number): string {
    const { bucket: choose } = this.#options
    if (choose === undefined) return ''
    try {
      return choose(value, { timestamp: Number.isNaN(timestamp) ? undefined : timestamp, now })
    } catch (error) {
      throw userError(error, this.#context.info, 'bucket', value)
    }
  }

  #partOf(bucket: string, now: number): NamedPart<T> {
    const last = this.#last
    const known = last?.bucket === bucket ? last : this.#parts.get(bucket)
    if (known !== undefined) {
      if (!this.#isDue(known.part, now)) {
        if (known !== last) {
          this.#parts.delete(bucket)
          this.#parts.set(bucket, known)
          this.#last = known
        }
        return known
      }
      this.#roll(known)
    }
    const opened = this.#begin(bucket, now)
    this.#parts.set(bucket, opened)
    this.#last = opened
    return opened
  }

  #begin(bucket: string, now: number): NamedPart<T> {
    checkBucket(bucket)
    const { path, format, prefix, suffix, gzip, maxOpenFiles } = this.#options
    const { attempt, subtaskIndex: subtask } = this.#context.info
    const [oldest] = this.#parts.values()
    if (oldest !== undefined && this.#parts.size >= maxOpenFiles) this.#roll(oldest)
    const name = `${prefix}-${subtask}-${this.#id}-${this.#count++}${suffix}`
    const staged = join(this.#staging, stagedName({ attempt, subtask }, name))
    const part = new PartFile<T>({
      file: join(path, staged),
      encoder: format.createEncoder(),
      gzip,
      openedAt: now,
    })
    return { part, bucket, staged, path: bucket === '' ? name : `${bucket}/${name}` }
  }

  #isDue(part: PartFile<T>, now: number): boolean {
    const { maxAgeMs, inactivityMs } = this.#options
    return now - part.openedAt >= maxAgeMs || now - part.writtenAt >= inactivityMs
  }

  #roll(named: NamedPart<T>): void {
    this.#parts.delete(named.bucket)
    this.#full.delete(named.part)
    if (this.#last === named) this.#last = undefined
    this.#rolled.push(named)
  }

  /** Brings files up to what `write` and the barrier found: nothing is written meanwhile, since the runtime waits for it. */
  async #work(): Promise<void> {
    for (const part of this.#full) await part.drain()
    this.#full.clear()
    for (let named = this.#rolled[0]; named !== undefined; named = this.#rolled[0]) {
      await named.part.finish()
      this.#finished.push({ ...this.#stored(named), ...named.part.facts })
      this.#rolled.shift()
    }
  }

  #stored({
    staged,
    path,
  }: NamedPart<T>): Pick<Finished, 'format' | 'base' | 'staged' | 'path' | 'attempt' | 'subtask'> {
    const { attempt, subtaskIndex: subtask } = this.#context.info
    return { format: FILE_FORMAT, base: this.#options.path, staged, path, attempt, subtask }
  }

  #unwritable(cause: unknown, path: string): unknown {
    if (isMillraceError(cause) && cause.code !== 'MILLRACE_SERIALIZATION') return cause
    const { format } = this.#options
    return new SerializationError(
      'MILLRACE_SERIALIZATION',
      `${this.#context.info.operatorName}: cannot write a value to '${path}' as ${format.name}: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause, details: { path } },
    )
  }
}
