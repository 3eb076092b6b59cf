/**
 * Brings values back into the program that declared the job, exactly once within this process.
 *
 *   with checkpointing:  write ─▶ open batch ──barrier n──▶ prepared batch (committable: its id) ──commit n──▶ visible
 *   without:             write ─▶ visible; a restart begins the job anew, and so takes back what earlier attempts made visible
 *
 * Values stay in memory: a committable holds only the id of a batch. A batch of a process that is gone went with it, as did the values
 * that this process had collected; committing it again does nothing.
 */

import type {
  Committer,
  SinkWriterContext,
  TwoPhaseCommittingSink,
  TwoPhaseSinkWriter,
} from '../core/connector.ts'
import type { RecordVector } from '../core/element.ts'
import { MillraceError } from '../errors.ts'

/** Names a prepared batch. */
export interface CollectCommittable {
  readonly batch: string
}

/** Values that became visible together. */
interface Visible<T> {
  /** Job, uid: one sink object may stand in a graph more than once. */
  readonly owner: string
  readonly attempt: number
  readonly values: readonly T[]
}

/** A sink that keeps its values in this process. */
export interface CollectSink<T> extends TwoPhaseCommittingSink<T, CollectCommittable> {
  /** All values that are visible so far: those of completed checkpoints, or all without checkpointing. In order for each subtask. */
  values(): T[]
}

/**
 * Collects a stream's values in this process, for tests and small results.
 * @example
 * const totals = collectSink<Total>()
 * stream.sinkTo(totals)
 * await env.execute('totals')
 * console.log(totals.values())
 */
export function collectSink<T>(): CollectSink<T> {
  return new CollectBuffer<T>(Number.POSITIVE_INFINITY)
}

/** The sink behind `executeAndCollect`: values are taken out, and writers wait while `room` of them are waiting to be taken. */
export function collectingSink<T>(options: { readonly room: number }): CollectBuffer<T> {
  return new CollectBuffer<T>(options.room)
}

/** The process's side of the sink, shared by its writers and committers. */
export class CollectBuffer<T> implements CollectSink<T> {
  readonly kind = 'collect'
  readonly twoPhase = true
  /** Values are visible at once then. */
  readonly worksWithoutCheckpoints = true
  declare readonly __type?: (value: T) => void
  #visible: Visible<T>[] = []
  readonly #prepared = new Map<string, Visible<T>>()
  #room: number
  #waiting = 0
  /** Owners whose values were taken while a restart could still take them back. */
  readonly #takenFrom = new Map<string, number>()
  #failure: MillraceError | undefined
  #change = Promise.withResolvers<void>()
  #drained = Promise.withResolvers<void>()

  constructor(room: number) {
    this.#room = room
  }

  /** `processLocal`: the subtasks must run in the process that reads the values. */
  describe(): Readonly<Record<string, unknown>> {
    return { processLocal: true }
  }

  createWriter(context: SinkWriterContext): TwoPhaseSinkWriter<T, CollectCommittable> {
    const { jobName, uid, attempt } = context.info
    const owner = JSON.stringify([jobName, uid])
    this.#beginAttempt(owner, attempt, context)
    return context.checkpointingEnabled
      ? new CheckpointedWriter(this, context, owner)
      : new DirectWriter(this, context, owner)
  }

  createCommitter(): Committer<CollectCommittable> {
    return {
      commit: async (_permit, committables) => {
        for (const { batch } of committables) this.#commit(batch)
      },
      close: async () => undefined,
    }
  }

  values(): T[] {
    return this.#visible.flatMap((part) => part.values)
  }

  take(): T[] {
    if (this.#failure !== undefined) throw this.#failure
    const parts = this.#visible
    this.#visible = []
    this.#waiting = 0
    for (const { owner, attempt } of parts) this.#takenFrom.set(owner, attempt)
    this.#drained.resolve()
    this.#drained = Promise.withResolvers<void>()
    return parts.flatMap((part) => part.values)
  }

  changed(): Promise<void> {
    return this.#waiting > 0 || this.#failure !== undefined ? Promise.resolve() : this.#change.promise
  }

  release(): void {
    this.#room = Number.POSITIVE_INFINITY
    this.#drained.resolve()
  }

  /** A promise while there is no room. */
  room(): Promise<void> | undefined {
    return this.#waiting < this.#room ? undefined : this.#drained.promise
  }

  /** Makes values visible. */
  publish(part: Visible<T>): void {
    this.#visible.push(part)
    this.#waiting += part.values.length
    this.#change.resolve()
    this.#change = Promise.withResolvers<void>()
  }

  /** Keeps values until their checkpoint is complete. */
  prepare(batch: string, part: Visible<T>): void {
    this.#prepared.set(batch, part)
  }

  /** A batch that is not there was committed before, or belonged to a process that is gone. */
  #commit(batch: string): void {
    const part = this.#prepared.get(batch)
    if (part === undefined) return
    this.#prepared.delete(batch)
    this.publish(part)
  }

  /**
   * What earlier attempts prepared and the restored checkpoint did not complete will be produced again. Without a restored checkpoint
   * and without checkpointing everything will.
   */
  #beginAttempt(owner: string, attempt: number, context: SinkWriterContext): void {
    for (const [batch, part] of this.#prepared)
      if (part.owner === owner && part.attempt !== attempt) this.#prepared.delete(batch)
    if (context.checkpointingEnabled) return
    this.#visible = this.#visible.filter((part) => part.owner !== owner || part.attempt === attempt)
    this.#waiting = this.#visible.reduce((sum, part) => sum + part.values.length, 0)
    const taken = this.#takenFrom.get(owner)
    if (taken !== undefined && taken !== attempt) {
      this.#failure = new MillraceError(
        'MILLRACE_CHECKPOINTING_REQUIRED',
        `job '${context.info.jobName}' started anew after a failure, and values that were already taken from ` +
          `'${context.info.operatorName}' would come again`,
      )
      this.#change.resolve()
    }
  }
}

/** Values become visible with the checkpoint that holds them. */
class CheckpointedWriter<T> implements TwoPhaseSinkWriter<T, CollectCommittable> {
  readonly #buffer: CollectBuffer<T>
  readonly #context: SinkWriterContext
  readonly #owner: string
  #open: T[] = []
  /** Prepared and undecided, by checkpoint; aborted ones wait for the next that completes. */
  #pending: { readonly checkpointId: number; readonly committable: CollectCommittable }[] = []

  constructor(buffer: CollectBuffer<T>, context: SinkWriterContext, owner: string) {
    this.#buffer = buffer
    this.#context = context
    this.#owner = owner
  }

  write(vector: RecordVector<T>): void | Promise<void> {
    for (const value of vector.values) this.#open.push(value)
    this.#context.recordsOut.inc(vector.values.length)
    return this.#buffer.room()
  }

  flush(): void {}

  prepareCommit(checkpointId: number): readonly CollectCommittable[] {
    if (this.#open.length > 0) {
      const batch = this.#context.world.random.uuid()
      this.#buffer.prepare(batch, {
        owner: this.#owner,
        attempt: this.#context.info.attempt,
        values: this.#open,
      })
      this.#pending.push({ checkpointId, committable: { batch } })
      this.#open = []
    }
    return this.#pending.map(({ committable }) => committable)
  }

  notifyCheckpointComplete(checkpointId: number): void {
    this.#pending = this.#pending.filter((part) => part.checkpointId > checkpointId)
  }

  close(): void {}
}

/** Values are visible at once. */
class DirectWriter<T> implements TwoPhaseSinkWriter<T, CollectCommittable> {
  readonly #buffer: CollectBuffer<T>
  readonly #context: SinkWriterContext
  readonly #owner: string

  constructor(buffer: CollectBuffer<T>, context: SinkWriterContext, owner: string) {
    this.#buffer = buffer
    this.#context = context
    this.#owner = owner
  }

  write(vector: RecordVector<T>): void | Promise<void> {
    this.#buffer.publish({ owner: this.#owner, attempt: this.#context.info.attempt, values: vector.values })
    this.#context.recordsOut.inc(vector.values.length)
    return this.#buffer.room()
  }

  flush(): void {}

  prepareCommit(): readonly CollectCommittable[] {
    return []
  }

  close(): void {}
}
