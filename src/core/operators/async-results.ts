/**
 * The requests of an asynchronous map, and in which order their results may go on.
 *
 *   ordered     a result waits for those of all records before it
 *   unordered   a result goes on as soon as it is there, but never past a watermark or an idleness mark:
 *
 *     records ─► [ segment 1 … ] watermark [ segment 2 … ] watermark [ segment 3 …
 *                results of segment 1 only; the watermark follows when all of them are out; then segment 2, …
 *
 * If results overtook a watermark they would be late behind it; if a watermark overtook results they would be late as well.
 */
import type { Watermark, WatermarkStatus } from '../element.ts'

/** What keeps its place among records. */
export type PassedEvent = Watermark | WatermarkStatus

/** One record whose result is waited for, or waits for its turn. */
export interface AsyncRequest {
  readonly kind: 'request'
  /** As it came: what the function gets. */
  readonly value: unknown
  /** A copy: what a snapshot keeps, whatever the function does with the value meanwhile. */
  readonly input: unknown
  /** Event time, NaN = none. */
  readonly timestamp: number
  /** There when `completed` was told. */
  result: unknown
}

/** Requests in the order of their records. `take` gives each result once. */
export interface AsyncResults {
  /** Requests whose results were not taken. */
  readonly size: number
  /** True if `take` has something to give. */
  readonly ready: boolean
  add(request: AsyncRequest): void
  addEvent(event: PassedEvent): void
  /** The result of a request is there. */
  completed(request: AsyncRequest): void
  /** The next request with its result, or the next event, whose turn it is. */
  take(): AsyncRequest | PassedEvent | undefined
  /** Requests whose results were not taken, in the order of their records. */
  requests(): Iterable<AsyncRequest>
}

/** Results in the order of their records. */
export class OrderedResults implements AsyncResults {
  readonly #items: (AsyncRequest | PassedEvent | undefined)[] = []
  readonly #done = new Set<AsyncRequest>()
  #head = 0
  #requests = 0

  get size(): number {
    return this.#requests
  }

  get ready(): boolean {
    const item = this.#items[this.#head]
    return item !== undefined && (item.kind !== 'request' || this.#done.has(item))
  }

  add(request: AsyncRequest): void {
    this.#items.push(request)
    this.#requests++
  }

  addEvent(event: PassedEvent): void {
    const last = this.#items.length - 1
    if (last >= this.#head && replaces(event, this.#items[last])) this.#items[last] = event
    else this.#items.push(event)
  }

  completed(request: AsyncRequest): void {
    this.#done.add(request)
  }

  take(): AsyncRequest | PassedEvent | undefined {
    if (!this.ready) return undefined
    const item = this.#items[this.#head]!
    this.#items[this.#head++] = undefined
    if (this.#head === this.#items.length) {
      this.#items.length = 0
      this.#head = 0
    } else if (this.#head >= COMPACT_FROM && this.#head * 2 >= this.#items.length) {
      this.#items.splice(0, this.#head)
      this.#head = 0
    }
    if (item.kind === 'request') {
      this.#done.delete(item)
      this.#requests--
    }
    return item
  }

  *requests(): Iterable<AsyncRequest> {
    for (let i = this.#head; i < this.#items.length; i++) {
      const item = this.#items[i]!
      if (item.kind === 'request') yield item
    }
  }
}

/** Places that were given up stay in the list until there are this many. */
const COMPACT_FROM = 1024

/** The requests between two events. */
interface Segment {
  open: number
  readonly done: AsyncRequest[]
  /** What ends it; undefined for the last one. */
  end: PassedEvent | undefined
}

const newSegment = (): Segment => ({ open: 0, done: [], end: undefined })

/** Results as they come, between two watermarks. */
export class UnorderedResults implements AsyncResults {
  /** In the order of their records, with the segment of each. */
  readonly #requests = new Map<AsyncRequest, Segment>()
  readonly #segments: Segment[] = [newSegment()]

  get size(): number {
    return this.#requests.size
  }

  get ready(): boolean {
    const { open, done, end } = this.#segments[0]!
    return done.length > 0 || (open === 0 && end !== undefined)
  }

  add(request: AsyncRequest): void {
    const segment = this.#segments.at(-1)!
    segment.open++
    this.#requests.set(request, segment)
  }

  addEvent(event: PassedEvent): void {
    const last = this.#segments.at(-1)!
    const before = this.#segments.at(-2)
    if (before !== undefined && last.open === 0 && last.done.length === 0 && replaces(event, before.end)) {
      before.end = event
      return
    }
    last.end = event
    this.#segments.push(newSegment())
  }

  completed(request: AsyncRequest): void {
    const segment = this.#requests.get(request)!
    segment.open--
    segment.done.push(request)
  }

  take(): AsyncRequest | PassedEvent | undefined {
    const segment = this.#segments[0]!
    const request = segment.done.shift()
    if (request !== undefined) {
      this.#requests.delete(request)
      return request
    }
    if (segment.open > 0 || segment.end === undefined) return undefined
    this.#segments.shift()
    return segment.end
  }

  requests(): Iterable<AsyncRequest> {
    return this.#requests.keys()
  }
}

/** A watermark with no record between it and the one before says all that the other said. */
function replaces(event: PassedEvent, last: AsyncRequest | PassedEvent | undefined): boolean {
  return event.kind === 'watermark' && last?.kind === 'watermark'
}
