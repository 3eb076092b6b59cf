/**
 * Firing of timers. Due timers leave the queues in batches, so that the state of their keys can be loaded in one trip; what a firing timer
 * registers or deletes must act on the rest of the batch as if it still were in the queue:
 *
 *   queue ──take(≤ limit)──► batch [fired… | firing | waiting…] ──► onTimer
 *                              register t ≤ last of batch: goes into `waiting` at its place; a later t goes into the queue
 *                              delete: leaves `waiting`, else the queue
 */
import type { RecordVector } from '../element.ts'
import { NO_TIMESTAMP } from '../element.ts'
import { encodeKey } from '../key-encoding.ts'
import type { DueTimer, Key, Namespace, TimerQueues, TimerService } from '../state.ts'

export type TimeDomain = 'EVENT_TIME' | 'PROCESSING_TIME'

/** What the timers need of the operator. */
export interface TimerHost {
  currentKey(): Key
  /** Wakes the operator at `time`. */
  requestProcessingTime(time: number): void
}

/** A batch of due timers that changes while it fires. As a vector, so that the record loop drives it. */
class FiringBatch {
  readonly domain: TimeDomain
  readonly timers: DueTimer[]
  readonly timestamps: number[]
  readonly vector: RecordVector<DueTimer>
  /** Index of the timer that fires. */
  current = -1

  constructor(domain: TimeDomain, timers: DueTimer[]) {
    this.domain = domain
    this.timers = timers
    this.timestamps = timers.map((timer) => this.timestampOf(timer))
    this.vector = { kind: 'records', values: this.timers, timestamps: this.timestamps }
  }

  /** Results of an event-time timer have its time, those of a processing-time timer have none. */
  private timestampOf(timer: DueTimer): number {
    return this.domain === 'EVENT_TIME' ? timer.time : NO_TIMESTAMP
  }

  /** Index of the timer among those that wait, or -1. */
  find(key: Key, namespace: Namespace, time: number): number {
    for (let i = this.firstAtOrAfter(time); i < this.timers.length && this.timers[i]!.time === time; i++) {
      const timer = this.timers[i]!
      if (timer.namespace === namespace && sameKey(timer.key, key)) return i
    }
    return -1
  }

  /** True if the timer belongs before the end of this batch. */
  covers(time: number): boolean {
    return this.current + 1 < this.timers.length && time < this.timers.at(-1)!.time
  }

  insert(timer: DueTimer): void {
    let i = this.firstAtOrAfter(timer.time)
    while (i < this.timers.length && this.timers[i]!.time === timer.time) i++
    this.timers.splice(i, 0, timer)
    this.timestamps.splice(i, 0, this.timestampOf(timer))
  }

  remove(index: number): void {
    this.timers.splice(index, 1)
    this.timestamps.splice(index, 1)
  }

  private firstAtOrAfter(time: number): number {
    let low = this.current + 1
    let high = this.timers.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.timers[middle]!.time < time) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The timers of one keyed operator. */
export class KeyedTimers implements TimerService {
  private readonly queues: TimerQueues
  private readonly host: TimerHost
  private batch: FiringBatch | undefined
  /** Earliest processing time that the runtime was asked for. */
  private requested = Number.POSITIVE_INFINITY

  constructor(queues: TimerQueues, host: TimerHost) {
    this.queues = queues
    this.host = host
  }

  registerEventTimeTimer(namespace: Namespace, time: number): void {
    if (!this.joinBatch('EVENT_TIME', namespace, time)) this.queues.registerEventTimeTimer(namespace, time)
  }

  registerProcessingTimeTimer(namespace: Namespace, time: number): void {
    if (this.joinBatch('PROCESSING_TIME', namespace, time)) return
    this.queues.registerProcessingTimeTimer(namespace, time)
    this.request(time)
  }

  deleteEventTimeTimer(namespace: Namespace, time: number): void {
    if (!this.leaveBatch('EVENT_TIME', namespace, time)) this.queues.deleteEventTimeTimer(namespace, time)
  }

  deleteProcessingTimeTimer(namespace: Namespace, time: number): void {
    if (!this.leaveBatch('PROCESSING_TIME', namespace, time))
      this.queues.deleteProcessingTimeTimer(namespace, time)
  }

  /** Takes up to `limit` timers due at `time` out of the queues; undefined if none is. They fire as the records of the vector. */
  take(domain: TimeDomain, time: number, limit: number): RecordVector<DueTimer> | undefined {
    const due =
      domain === 'EVENT_TIME'
        ? this.queues.dueEventTimers(time, limit)
        : this.queues.dueProcessingTimers(time, limit)
    this.batch = due.length === 0 ? undefined : new FiringBatch(domain, due)
    return this.batch?.vector
  }

  /** Timer `index` of the batch fires now. */
  firing(index: number): void {
    this.batch!.current = index
  }

  /** Asks the runtime for the next processing-time timer; after a restore, and after each wake-up. */
  requestNext(): void {
    this.requested = Number.POSITIVE_INFINITY
    const next = this.queues.nextProcessingTime()
    if (next !== undefined) this.request(next)
  }

  private request(time: number): void {
    if (time >= this.requested) return
    this.requested = time
    this.host.requestProcessingTime(time)
  }

  private joinBatch(domain: TimeDomain, namespace: Namespace, time: number): boolean {
    const { batch } = this
    if (batch?.domain !== domain) return false
    const key = this.host.currentKey()
    if (batch.find(key, namespace, time) >= 0) return true
    if (!batch.covers(time)) return false
    batch.insert({ key, namespace, time })
    return true
  }

  private leaveBatch(domain: TimeDomain, namespace: Namespace, time: number): boolean {
    const { batch } = this
    if (batch?.domain !== domain) return false
    const index = batch.find(this.host.currentKey(), namespace, time)
    if (index < 0) return false
    batch.remove(index)
    return true
  }
}

/** True if two keys are one by their canonical encoding. */
function sameKey(a: Key, b: Key): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object') return false
  const left = encodeKey(a)
  const right = encodeKey(b)
  return left.length === right.length && left.every((byte, i) => byte === right[i])
}
