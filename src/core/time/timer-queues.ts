/**
 * Timers of one operator subtask: two heaps by time (event and processing time), and for each key the timers it owns. Pure: where keys
 * live, and what must happen before a key's timers change (an exact freeze copies them first), is the owner port's business.
 */
import { MillraceError } from '../../errors.ts'
import type { DueTimer, Key, Namespace, TimerQueues } from '../state.ts'

/** The two clocks that timers follow. */
export type TimeDomain = 'event' | 'processing'

/** One registered timer. Fields are kept by the queues; others read `namespace`, `time` and `sequence`. */
export class Timer {
  readonly owner: TimerOwner
  readonly namespace: Namespace
  /** Epoch ms. */
  readonly time: number
  /** Order of registration within the domain; ties of `time` fire in this order. */
  readonly sequence: number
  /** Index in the heap. */
  heapPlace = 0
  /** Index in the owner's list. */
  ownerPlace = 0

  constructor(owner: TimerOwner, namespace: Namespace, time: number, sequence: number) {
    this.owner = owner
    this.namespace = namespace
    this.time = time
    this.sequence = sequence
  }
}

/** From this many timers of one key on, they are found by a map instead of a scan. */
const INDEX_FROM = 16

const indexKey = (namespace: Namespace, time: number): string =>
  typeof namespace === 'number' ? `#${namespace} ${time}` : `${time} ${namespace}`

/** Several timers of one key in one domain, without duplicates. */
class TimerSet {
  readonly timers: Timer[]
  #index: Map<string, Timer> | undefined

  constructor(...timers: Timer[]) {
    this.timers = timers
    for (const [place, timer] of timers.entries()) timer.ownerPlace = place
  }

  find(namespace: Namespace, time: number): Timer | undefined {
    if (this.#index !== undefined) return this.#index.get(indexKey(namespace, time))
    for (const timer of this.timers) if (is(timer, namespace, time)) return timer
    return undefined
  }

  add(timer: Timer): void {
    timer.ownerPlace = this.timers.length
    this.timers.push(timer)
    if (this.#index !== undefined) this.#index.set(indexKey(timer.namespace, timer.time), timer)
    else if (this.timers.length > INDEX_FROM)
      this.#index = new Map(this.timers.map((each) => [indexKey(each.namespace, each.time), each]))
  }

  remove(timer: Timer): void {
    const last = this.timers.pop()!
    if (last !== timer) {
      this.timers[timer.ownerPlace] = last
      last.ownerPlace = timer.ownerPlace
    }
    this.#index?.delete(indexKey(timer.namespace, timer.time))
  }
}

function is(timer: Timer, namespace: Namespace, time: number): boolean {
  return timer.time === time && timer.namespace === namespace
}

/**
 * The timers of one key. Made and read by the queues; `undefined` on the owner when it has none. Most keys have one timer, and there are many
 * keys: one timer lies here by itself, several in a set that is never empty.
 */
export class OwnedTimers {
  #event: Timer | TimerSet | undefined = undefined
  #processing: Timer | TimerSet | undefined = undefined

  /** Timers of one domain in the order in which they were registered. */
  inOrder(domain: TimeDomain): Timer[] {
    return [...this.all(domain)].sort((a, b) => a.sequence - b.sequence)
  }

  /** Timers of one domain, in no order. */
  all(domain: TimeDomain): readonly Timer[] {
    const held = this.#held(domain)
    if (held === undefined) return []
    return held instanceof Timer ? [held] : held.timers
  }

  find(domain: TimeDomain, namespace: Namespace, time: number): Timer | undefined {
    const held = this.#held(domain)
    if (held === undefined) return undefined
    if (held instanceof TimerSet) return held.find(namespace, time)
    return is(held, namespace, time) ? held : undefined
  }

  add(domain: TimeDomain, timer: Timer): void {
    const held = this.#held(domain)
    if (held === undefined) this.#hold(domain, timer)
    else if (held instanceof TimerSet) held.add(timer)
    else this.#hold(domain, new TimerSet(held, timer))
  }

  remove(domain: TimeDomain, timer: Timer): void {
    const held = this.#held(domain)
    if (held instanceof TimerSet) {
      held.remove(timer)
      if (held.timers.length > 0) return
    }
    this.#hold(domain, undefined)
  }

  get isEmpty(): boolean {
    return this.#event === undefined && this.#processing === undefined
  }

  #held(domain: TimeDomain): Timer | TimerSet | undefined {
    return domain === 'event' ? this.#event : this.#processing
  }

  #hold(domain: TimeDomain, timers: Timer | TimerSet | undefined): void {
    if (domain === 'event') this.#event = timers
    else this.#processing = timers
  }
}

/** Whatever holds a key's state: it holds its timers too, so that both are frozen, stored and dropped together. */
export interface TimerOwner {
  readonly key: Key
  timers: OwnedTimers | undefined
}

/** What the queues need of the keyed state. */
export interface TimerOwners {
  /** The owner of the current key, made if there is none. It may be changed afterwards. */
  currentForWrite(): TimerOwner
  /** The owner of the current key, if there is one. It may be changed afterwards. */
  current(): TimerOwner | undefined
  /** Called before a timer of `owner` is taken out because it is due. */
  beforeChange(owner: TimerOwner): void
  /** `owner` has no timers any more. */
  released(owner: TimerOwner): void
}

/** A binary heap by (time, sequence); each timer knows its place, so that deleting one costs O(log n). */
class TimerHeap {
  readonly timers: Timer[] = []

  push(timer: Timer): void {
    this.timers.push(timer)
    this.#up(this.timers.length - 1, timer)
  }

  remove(timer: Timer): void {
    const last = this.timers.pop()!
    if (last === timer) return
    const place = timer.heapPlace
    if (place > 0 && before(last, this.timers[(place - 1) >> 1]!)) this.#up(place, last)
    else this.#down(place, last)
  }

  #up(from: number, timer: Timer): void {
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 1
      const above = this.timers[parent]!
      if (!before(timer, above)) break
      this.timers[place] = above
      above.heapPlace = place
      place = parent
    }
    this.timers[place] = timer
    timer.heapPlace = place
  }

  #down(from: number, timer: Timer): void {
    const count = this.timers.length
    let place = from
    for (let child = 2 * place + 1; child < count; child = 2 * place + 1) {
      if (child + 1 < count && before(this.timers[child + 1]!, this.timers[child]!)) child++
      const below = this.timers[child]!
      if (!before(below, timer)) break
      this.timers[place] = below
      below.heapPlace = place
      place = child
    }
    this.timers[place] = timer
    timer.heapPlace = place
  }
}

function before(a: Timer, b: Timer): boolean {
  return a.time < b.time || (a.time === b.time && a.sequence < b.sequence)
}

/**
 * Timer queues on the heap. Registering a timer that exists changes nothing. A timer at or below the asked time is due; timers of one
 * time come in the order of their registration, also after a restore at the same parallelism.
 */
export class HeapTimerQueues implements TimerQueues {
  readonly #owners: TimerOwners
  readonly #heaps = { event: new TimerHeap(), processing: new TimerHeap() }
  #nextSequence = 0

  constructor(owners: TimerOwners) {
    this.#owners = owners
  }

  get size(): number {
    return this.#heaps.event.timers.length + this.#heaps.processing.timers.length
  }

  registerEventTimeTimer(namespace: Namespace, time: number): void {
    this.#register('event', namespace, time)
  }

  deleteEventTimeTimer(namespace: Namespace, time: number): void {
    this.#delete('event', namespace, time)
  }

  registerProcessingTimeTimer(namespace: Namespace, time: number): void {
    this.#register('processing', namespace, time)
  }

  deleteProcessingTimeTimer(namespace: Namespace, time: number): void {
    this.#delete('processing', namespace, time)
  }

  dueEventTimers(time: number, limit: number): DueTimer[] {
    return this.#due('event', time, limit)
  }

  dueProcessingTimers(time: number, limit: number): DueTimer[] {
    return this.#due('processing', time, limit)
  }

  nextProcessingTime(): number | undefined {
    return this.#heaps.processing.timers[0]?.time
  }

  /** Puts back a stored timer with its old place in the order. */
  restore(domain: TimeDomain, owner: TimerOwner, namespace: Namespace, time: number, sequence: number): void {
    if (owner.timers?.find(domain, namespace, time) !== undefined) return
    this.#add(domain, new Timer(owner, namespace, time, sequence))
    this.#nextSequence = Math.max(this.#nextSequence, sequence + 1)
  }

  /** Takes all timers of an owner out, without asking: what is restored later replaces them. */
  drop(owner: TimerOwner): void {
    for (const domain of ['event', 'processing'] as const) {
      for (const timer of owner.timers?.all(domain) ?? []) this.#heaps[domain].remove(timer)
    }
    owner.timers = undefined
  }

  #register(domain: TimeDomain, namespace: Namespace, time: number): void {
    if (Number.isNaN(time))
      throw new MillraceError('MILLRACE_STATE_ACCESS', 'A timer was registered for the time NaN', {
        remedy: 'Register timers for a time in epoch milliseconds; a record without a timestamp gives NaN.',
      })
    const owner = this.#owners.currentForWrite()
    if (owner.timers?.find(domain, namespace, time) !== undefined) return
    this.#add(domain, new Timer(owner, namespace, time, this.#nextSequence++))
  }

  #add(domain: TimeDomain, timer: Timer): void {
    timer.owner.timers ??= new OwnedTimers()
    timer.owner.timers.add(domain, timer)
    this.#heaps[domain].push(timer)
  }

  #delete(domain: TimeDomain, namespace: Namespace, time: number): void {
    const timer = this.#owners.current()?.timers?.find(domain, namespace, time)
    if (timer !== undefined) this.#remove(domain, timer)
  }

  #remove(domain: TimeDomain, timer: Timer): void {
    const owner = timer.owner
    const owned = owner.timers!
    this.#heaps[domain].remove(timer)
    owned.remove(domain, timer)
    if (!owned.isEmpty) return
    owner.timers = undefined
    this.#owners.released(owner)
  }

  #due(domain: TimeDomain, time: number, limit: number): DueTimer[] {
    const due: DueTimer[] = []
    const heap = this.#heaps[domain].timers
    while (due.length < limit && heap.length > 0 && heap[0]!.time <= time) {
      const timer = heap[0]!
      this.#owners.beforeChange(timer.owner)
      this.#remove(domain, timer)
      due.push({ key: timer.owner.key, namespace: timer.namespace, time: timer.time })
    }
    return due
  }
}
