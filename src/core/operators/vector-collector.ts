/**
 * Gathers what user functions emit, record by record, into vectors.
 */

import { NO_TIMESTAMP, recordVector } from '../element.ts'
import type { Collector } from '../functions.ts'
import { both, inOrder, overshadowed } from './continuation.ts'
import { CLOSED, type InvocationGuard } from './invocation-guard.ts'
import type { Output } from './stream-operator.ts'

/** Records for one output that were not emitted yet. */
class PendingRecords {
  values: unknown[] = []
  timestamps: number[] = []
}

/**
 * A collector of one operator. `collect` only appends; the operator calls `flush` between two invocations, because a synchronous user
 * function cannot wait for a slow receiver but the operator can. Results carry `timestamp`, which the operator sets before each invocation.
 */
export class VectorCollector<T = any> implements Collector<T> {
  /** Event time of results, NaN = none. */
  timestamp: number = NO_TIMESTAMP
  /** Event time of side results. */
  sideTimestamp: number = NO_TIMESTAMP
  /** True when a full vector waits: `flush` should come before the next invocation. */
  full = false
  /** True while results of one invocation wait for the output. */
  waiting = false
  private readonly output: Output
  private readonly vectorSize: number
  private readonly guard: InvocationGuard
  private main = new PendingRecords()
  private sides: Map<string, PendingRecords> | undefined

  constructor(output: Output, vectorSize: number, guard: InvocationGuard) {
    this.output = output
    this.vectorSize = vectorSize
    this.guard = guard
  }

  /** @throws MILLRACE_STATE_ACCESS outside of an invocation. */
  collect(value: T): void {
    if (this.guard.phase === CLOSED) this.guard.requireOpen('The collector')
    this.add(value, this.timestamp)
  }

  /** Appends on behalf of the operator itself. */
  add(value: unknown, timestamp: number): void {
    const { main } = this
    main.timestamps.push(timestamp)
    if (main.values.push(value) >= this.vectorSize) this.full = true
  }

  /** @throws MILLRACE_STATE_ACCESS outside of an invocation. */
  collectSide(tagId: string, value: unknown): void {
    this.guard.requireOpen('The context')
    this.sides ??= new Map()
    let side = this.sides.get(tagId)
    if (side === undefined) {
      side = new PendingRecords()
      this.sides.set(tagId, side)
    }
    side.timestamps.push(this.sideTimestamp)
    if (side.values.push(value) >= this.vectorSize) this.full = true
  }

  /** Emits everything that waits, in vectors of at most the vector size; a promise means: not another invocation before it resolves. */
  flush(): void | Promise<void> {
    this.full = false
    const main = this.main.values.length === 0 ? undefined : this.flushMain()
    if (this.sides === undefined) return main
    try {
      return both(main, this.flushSides(this.sides))
    } catch (error) {
      overshadowed(main)
      throw error
    }
  }

  private flushMain(): void | Promise<void> {
    const pending = this.main
    this.main = new PendingRecords()
    return this.emit(undefined, pending)
  }

  private flushSides(sides: ReadonlyMap<string, PendingRecords>): void | Promise<void> {
    this.sides = undefined
    let waiting: Promise<void> | undefined
    for (const [tagId, pending] of sides) waiting = both(waiting, this.emit(tagId, pending))
    return waiting
  }

  private emit(tagId: string | undefined, { values, timestamps }: PendingRecords): void | Promise<void> {
    const { output, vectorSize: size } = this
    if (values.length <= size) {
      const vector = recordVector(values, timestamps)
      return tagId === undefined ? output.emit(vector) : output.emitSide(tagId, vector)
    }
    return inOrder(Math.ceil(values.length / size), (part) => {
      const from = part * size
      const vector = recordVector(values.slice(from, from + size), timestamps.slice(from, from + size))
      return tagId === undefined ? output.emit(vector) : output.emitSide(tagId, vector)
    })
  }
}
