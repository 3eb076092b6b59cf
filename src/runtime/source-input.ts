/**
 * Input of a task that reads a source: between two vectors it stamps watermarks and answers triggers.
 *
 *   Reading ──all splits read, or drain──► Ended      Reading ──trigger thenStop──► Stopped (a last barrier was sent; no more records)
 *
 * While the chain has no room, or the source is ahead of its alignment group, it goes on Reading but polls nothing. Time in which it could
 * not poll, or its reader waits for what it needs to decode records, is no silence of its splits.
 */

import type { SourceReader, SourceSplit, SplitRecords } from '../core/connector.ts'
import { MAX_WATERMARK, type RecordVector, recordVector } from '../core/element.ts'
import { withPosition } from '../core/operators/user-error.ts'
import type { World } from '../core/ports.ts'
import { type SourceWatermarker, WATERMARK_INTERVAL_MS } from '../core/time/watermarks.ts'
import type { ChainDriver } from './chain-driver.ts'
import type { SourceAlignment } from './source-alignment.ts'
import type { StepResult, TaskInput } from './task-input.ts'
import type { VectorLimit } from './vector-limit.ts'

export class SourceInput implements TaskInput {
  readonly reader: SourceReader<unknown, SourceSplit>
  readonly #watermarker: SourceWatermarker | undefined
  readonly #driver: ChainDriver
  readonly #world: World
  readonly #wake: () => void
  readonly #alignment: SourceAlignment | undefined
  readonly #limit: VectorLimit | undefined
  #state: 'reading' | 'ended' | 'stopped' = 'reading'
  #waiting = false
  #waitingForRoom = false
  /** Since when it could not poll, as far as that was not told to the watermarker. */
  #blockedSince: number | undefined
  #watermark = Number.MIN_SAFE_INTEGER
  #idle = false
  #nextPeriodic = 0

  constructor(
    reader: SourceReader<unknown, SourceSplit>,
    watermarker: SourceWatermarker | undefined,
    driver: ChainDriver,
    world: World,
    wake: () => void,
    alignment?: SourceAlignment,
    limit?: VectorLimit,
  ) {
    this.reader = reader
    this.#watermarker = watermarker
    this.#driver = driver
    this.#world = world
    this.#wake = wake
    this.#alignment = alignment
    this.#limit = limit
  }

  start(): void | Promise<void> {
    this.#nextPeriodic = this.#world.clock.now() + WATERMARK_INTERVAL_MS
    return this.reader.start()
  }

  step(): StepResult | Promise<StepResult> {
    if (this.#state !== 'reading') return 'idle'
    if (!this.#mayPoll()) return this.#waitingForRoom ? 'held' : 'idle'
    const records = this.reader.poll()
    if (records !== undefined) {
      const began = this.#world.clock.now()
      const sent = this.#hand(records)
      const count = records.vector.values.length
      return typeof sent === 'string'
        ? this.#took(sent, count, began)
        : sent.then((result) => this.#took(result, count, began))
    }
    if (this.reader.isFinished()) return this.#end()
    if (this.reader.isPreparing?.() === true) this.#blockedSince ??= this.#world.clock.now()
    if (!this.#waiting) {
      this.#waiting = true
      this.reader.available().then(
        () => {
          this.#waiting = false
          this.#wake()
        },
        // poll() throws the same error in the task's own loop, where it is handled.
        () => {
          this.#waiting = false
          this.#wake()
        },
      )
    }
    return 'idle'
  }

  #hand({ vector, splitId, side }: SplitRecords<unknown>): StepResult | Promise<StepResult> {
    if (side !== undefined) {
      const sent = this.#driver.side(side.tagId, side.vector)
      if (sent !== undefined) return this.#blocking(sent).then(() => this.#emit(splitId, vector))
    }
    return this.#emit(splitId, vector)
  }

  #took(result: StepResult, records: number, began: number): StepResult {
    this.#limit?.took(records, this.#world.clock.now() - began)
    return result
  }

  /** False while records would have to wait; who waits is woken by the chain, or by the next watermark interval. */
  #mayPoll(): boolean {
    const room = this.#driver.room()
    if (room === undefined && this.#alignment?.pausesReader !== true) {
      this.#unblocked()
      return true
    }
    this.#blockedSince ??= this.#world.clock.now()
    if (room !== undefined && !this.#waitingForRoom) {
      this.#waitingForRoom = true
      void room.then(() => {
        this.#waitingForRoom = false
        this.#wake()
      })
    }
    return false
  }

  /** Tells how long nothing could be polled until now. */
  #unblocked(): void {
    if (this.#blockedSince === undefined) return
    this.#watermarker?.blockedFor(this.#world.clock.now() - this.#blockedSince)
    this.#blockedSince = undefined
  }

  /** The time that `pending` takes is time in which nothing could be polled. */
  async #blocking(pending: Promise<void>): Promise<void> {
    this.#blockedSince ??= this.#world.clock.now()
    await pending
    this.#unblocked()
  }

  /** A failure of a function that is called here is told with the place of its records. */
  #emit(splitId: string, vector: RecordVector): StepResult | Promise<StepResult> {
    try {
      const emitted = this.#deliver(splitId, vector)
      if (typeof emitted === 'string') return emitted
      return emitted.catch((error: unknown) => {
        throw this.#placed(error, splitId)
      })
    } catch (error) {
      throw this.#placed(error, splitId)
    }
  }

  #placed(error: unknown, splitId: string): unknown {
    return withPosition(error, this.reader.describeLastRecords?.(splitId))
  }

  #deliver(splitId: string, vector: RecordVector): StepResult | Promise<StepResult> {
    if (vector.values.length === 0) return 'worked'
    if (this.#watermarker === undefined) {
      const pending = this.#driver.records(0, vector)
      return pending === undefined ? 'worked' : pending.then(worked)
    }
    return this.#deliverFrom(0, splitId, this.#watermarker.stamped(vector), this.#watermarker)
  }

  /** Whatever the watermark generator says on a record goes out right behind that record, wherever vectors end. */
  #deliverFrom(
    start: number,
    splitId: string,
    vector: RecordVector,
    watermarker: SourceWatermarker,
  ): StepResult | Promise<StepResult> {
    const { length } = vector.values
    for (let from = start; ; ) {
      const to = watermarker.onRecords(splitId, vector, from)
      const pending = this.#driver.records(0, sliceOf(vector, from, to))
      const sent =
        pending === undefined ? this.#advance() : this.#blocking(pending).then(() => this.#advance())
      if (to >= length) return sent
      if (typeof sent !== 'string')
        return sent.then(() => this.#deliverFrom(to, splitId, vector, watermarker))
      from = to
    }
  }

  /** Sends a watermark or status when it changed. */
  #advance(): StepResult | Promise<StepResult> {
    const watermarker = this.#watermarker as SourceWatermarker
    const now = this.#world.clock.now()
    if (now >= this.#nextPeriodic) {
      this.#nextPeriodic = now + WATERMARK_INTERVAL_MS
      for (const splitId of this.reader.finishedSplits?.() ?? []) watermarker.splitFinished(splitId)
      if (this.#blockedSince !== undefined) {
        watermarker.blockedFor(now - this.#blockedSince)
        this.#blockedSince = now
      }
      watermarker.onPeriodic(now)
      const { watermark, idle } = watermarker.current()
      this.#alignment?.update(watermark, idle, now)
    }
    const { watermark, idle } = watermarker.current()
    if (watermark <= this.#watermark && idle === this.#idle) return 'worked'
    return this.#send(watermark, idle)
  }

  async #send(watermark: number, idle: boolean): Promise<StepResult> {
    if (idle !== this.#idle && !idle) {
      this.#idle = false
      await this.#driver.status({ kind: 'watermark-status', idle: false })
    }
    if (watermark > this.#watermark) {
      this.#watermark = watermark
      await this.#driver.watermark(watermark)
    }
    if (idle !== this.#idle) {
      this.#idle = true
      await this.#driver.status({ kind: 'watermark-status', idle: true })
    }
    return 'worked'
  }

  /** Called by the task every WATERMARK_INTERVAL_MS, also when no records come. */
  async periodic(): Promise<void> {
    if (this.#state === 'reading' && this.#watermarker !== undefined) await this.#advance()
  }

  get hasWatermarks(): boolean {
    return this.#watermarker !== undefined
  }

  async #end(): Promise<StepResult> {
    this.#state = 'ended'
    this.#alignment?.leave()
    if (this.#idle) await this.#driver.status({ kind: 'watermark-status', idle: false })
    await this.#driver.watermark(MAX_WATERMARK)
    await this.#driver.endInput(0)
    await this.#driver.endOfData()
    return 'worked'
  }

  /** The end as if all splits were read: every window and event-time timer fires, end hooks run. No record is read after this. */
  async drain(): Promise<void> {
    if (this.#state === 'reading') await this.#end()
  }

  /** No record is read after this; barriers still flow. */
  stop(): void {
    if (this.#state === 'reading') this.#state = 'stopped'
    this.#alignment?.leave()
  }

  abortCheckpoint(): void {}

  close(): Promise<void> {
    this.#alignment?.leave()
    return this.reader.close()
  }

  waiting(): boolean {
    return (
      this.#driver.room() !== undefined ||
      this.#alignment?.pausesReader === true ||
      this.reader.isPreparing?.() === true
    )
  }

  watermarkHeldBackBy(): readonly string[] {
    return this.#watermarker?.holdingBack() ?? []
  }

  get hasEventTime(): boolean {
    return this.#watermarker !== undefined && !this.#watermarker.silent
  }

  alignment(): undefined {}

  describe(): string {
    if (this.#state === 'ended') return 'the source is read to its end'
    if (this.#state === 'stopped') return 'the source is stopped'
    const waiting = this.#alignment?.describe()
    if (waiting !== undefined) return waiting
    return this.#waitingForRoom
      ? 'waiting until an asynchronous function takes records'
      : 'waiting for records of the source'
  }
}

function sliceOf(vector: RecordVector, from: number, to: number): RecordVector {
  const { values, timestamps } = vector
  if (from === 0 && to === values.length) return vector
  return recordVector(values.slice(from, to), timestamps.slice(from, to))
}

function worked(): StepResult {
  return 'worked'
}
