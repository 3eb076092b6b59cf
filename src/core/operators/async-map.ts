/**
 * Asynchronous map: many requests at a time, in a task that runs one call at a time.
 *
 *   vector ─► backlog ──capacity──► requests in flight ─► results, by order ─► output
 *                                        │ a promise settles: the operator is called in the task's loop (`post`),
 *                                        │ or, while a call waits here, that call goes on
 *
 * Records come only while the backlog is empty (`room`), so it never holds more than one vector, and a barrier never waits for a request:
 * the inputs of the backlog and of all requests whose results were not emitted are the operator's state. After a restore they are asked for
 * again. Watermarks and idleness keep their place among the records. The end of the input waits for all results.
 */
import type { RecordVector, WatermarkStatus } from '../element.ts'
import { subtaskOfKey } from '../graph/key-groups.ts'
import { type ListState, ListStateDescriptor } from '../state.ts'
import { AsyncCall, type AsyncCallHost, type AsyncOutcome } from './async-call.ts'
import {
  type AsyncRequest,
  type AsyncResults,
  OrderedResults,
  type PassedEvent,
  UnorderedResults,
} from './async-results.ts'
import type { AsyncContext, AsyncMapFunction, AsyncMapSettings } from './async-settings.ts'
import { andThen } from './continuation.ts'
import { FunctionOperator, functionOperator } from './function-operator.ts'
import type {
  KeyOf,
  OperatorContext,
  OperatorFactory,
  OperatorRestore,
  OperatorSnapshot,
} from './stream-operator.ts'
import { keepForeign, structuredCopy } from './structured-copy.ts'

/**
 * Calls `fn` for each record without waiting for the one before. Right behind keyBy `keyOf` tells which subtask a record in flight belongs to
 * at another parallelism.
 */
export function asyncMapOperator(
  fn: AsyncMapFunction<any, any>,
  settings: AsyncMapSettings,
  keyOf?: KeyOf,
): OperatorFactory {
  return functionOperator(fn, (copy) => new AsyncMapOperator(copy, settings, keyOf))
}

/** A record in flight as a snapshot holds it; `value` is bytes if there is a serde. */
interface StoredInput {
  readonly value: unknown
  readonly timestamp: number
}

const IN_FLIGHT = new ListStateDescriptor<StoredInput>('records-in-flight')
/** Each subtask gets all of them, and takes those of its keys. */
const KEYED_IN_FLIGHT = new ListStateDescriptor<StoredInput>('keyed-records-in-flight')

class AsyncMapOperator extends FunctionOperator<AsyncMapFunction<any, any>> {
  private readonly settings: AsyncMapSettings
  private readonly keyOf: KeyOf | undefined
  private host!: AsyncCallHost
  private readonly results: AsyncResults
  private readonly calls = new Map<AsyncRequest, AsyncCall>()
  /** What was taken and not yet begun. */
  private backlog: (AsyncRequest | PassedEvent)[] = []
  /** Resolves when the backlog is empty. */
  private emptied: { readonly promise: Promise<void>; resolve(): void } | undefined
  private inFlight!: ListState<StoredInput>
  /** What was in flight at the restored checkpoint, until it is asked for again. */
  private restored: StoredInput[] = []
  /** True while results are emitted: what completes meanwhile is seen by it. */
  private draining = false
  /** True while the task was asked for a call. */
  private posted = false
  /** Wakes the call that waits here. */
  private wake: (() => void) | undefined
  private closed = false

  constructor(fn: AsyncMapFunction<any, any>, settings: AsyncMapSettings, keyOf: KeyOf | undefined) {
    super(fn)
    this.settings = settings
    this.keyOf = keyOf
    this.results = settings.ordered ? new OrderedResults() : new UnorderedResults()
  }

  override setup(context: OperatorContext): void {
    super.setup(context)
    const { info, world } = context
    const retries = world.metrics.counter('async_retries')
    const timeouts = world.metrics.counter('async_timeouts')
    world.metrics.gauge('async_in_flight', () => this.results.size)
    this.host = {
      info,
      world,
      settings: this.settings,
      invoke: (value, call) => this.invoke(value, call),
      retried: () => retries.inc(),
      timedOut: () => timeouts.inc(),
    }
  }

  private invoke(value: unknown, call: AsyncContext): unknown {
    return typeof this.fn === 'function' ? this.fn(value, call) : this.fn.asyncMap(value, call)
  }

  override initializeState(restored: OperatorRestore | undefined): void | Promise<void> {
    return andThen(super.initializeState(restored), () => {
      this.inFlight = this.listOf(IN_FLIGHT, 'split')
      // A job may have got its keyBy, or lost it, since the checkpoint.
      const isKeyed = this.keyOf !== undefined
      if (!isKeyed && restored?.operatorState[KEYED_IN_FLIGHT.name] === undefined) return
      const keyed = this.listOf(KEYED_IN_FLIGHT, 'union')
      if (isKeyed) this.inFlight = keyed
    })
  }

  /** The list, empty; what was in it is this subtask's to ask for again, as far as it is its own. */
  private listOf(
    descriptor: ListStateDescriptor<StoredInput>,
    redistribution: 'split' | 'union',
  ): ListState<StoredInput> {
    const { operatorState } = this
    const isUnion = redistribution === 'union'
    const list = isUnion
      ? operatorState.getUnionListState(descriptor)
      : operatorState.getListState(descriptor)
    for (const [index, stored] of list.get().entries())
      if (!isUnion || this.isOwn(stored, index)) this.restored.push(stored)
    list.clear()
    return list
  }

  /** Of the records that all subtasks get each takes those of its keys; without keys they take turns. */
  private isOwn({ value }: StoredInput, index: number): boolean {
    const { keyOf, context } = this
    const { maxParallelism, info } = context
    if (keyOf === undefined) return index % info.parallelism === info.subtaskIndex
    const record = this.decode(value)
    try {
      return subtaskOfKey(keyOf(record), maxParallelism, info.parallelism) === info.subtaskIndex
    } catch (error) {
      throw this.failure(error, 'The key selector', record)
    }
  }

  /** What was in flight at the checkpoint is asked for again, before any new record. */
  override open(): void | Promise<void> {
    return andThen(super.open(), () => {
      for (const { value, timestamp } of this.restored.splice(0))
        this.backlog.push(this.requestOf(this.decode(value), timestamp))
      this.start()
      this.signal()
    })
  }

  /** Undefined: records may come. */
  room(): Promise<void> | undefined {
    if (this.backlog.length === 0) return undefined
    if (this.emptied === undefined) this.emptied = Promise.withResolvers()
    return this.emptied.promise
  }

  /** A sender that did not ask for room (an operator of the same chain that makes many records of one) waits here. */
  override processVector(vector: RecordVector): void | Promise<void> {
    if (this.backlog.length === 0) return this.accept(vector)
    return this.until(() => this.backlog.length === 0).then(() => this.accept(vector))
  }

  private accept({ values, timestamps }: RecordVector): void | Promise<void> {
    for (let i = 0; i < values.length; i++) this.backlog.push(this.requestOf(values[i], timestamps[i]!))
    return this.drain()
  }

  override processWatermark(timestamp: number): void | Promise<void> {
    this.watermark = timestamp
    return this.passInTurn({ kind: 'watermark', timestamp })
  }

  override processStatus(status: WatermarkStatus): void | Promise<void> {
    return this.passInTurn(status)
  }

  private passInTurn(event: PassedEvent): void | Promise<void> {
    if (this.backlog.length === 0) this.results.addEvent(event)
    else this.backlog.push(event)
    return this.drain()
  }

  /** All results are out before the end goes on. */
  endInput(_input: number): void | Promise<void> {
    if (this.isEmpty()) return
    return this.until(() => this.isEmpty())
  }

  override snapshot(checkpointId: number): OperatorSnapshot {
    const waiting = this.backlog.filter((item): item is AsyncRequest => item.kind === 'request')
    this.inFlight.update(
      [...this.results.requests(), ...waiting].map(({ input, timestamp }) => ({
        value: this.encode(input),
        timestamp,
      })),
    )
    const snapshot = super.snapshot(checkpointId)
    this.inFlight.clear()
    return snapshot
  }

  override close(): void | Promise<void> {
    this.closed = true
    for (const call of this.calls.values()) call.close()
    this.calls.clear()
    this.wake?.()
    return super.close()
  }

  private isEmpty(): boolean {
    return this.results.size === 0 && this.backlog.length === 0
  }

  private requestOf(value: unknown, timestamp: number): AsyncRequest {
    const { serde } = this.settings
    const input = serde === undefined ? structuredCopy(value, keepForeign) : value
    return { kind: 'request', value, input, timestamp, result: undefined }
  }

  private encode(input: unknown): unknown {
    const { serde } = this.settings
    return serde === undefined ? input : serde.serialize(input)
  }

  private decode(stored: unknown): unknown {
    const { serde } = this.settings
    return serde === undefined || stored === null ? stored : serde.deserialize(stored as Uint8Array)
  }

  /** Begins as many requests as there is room for. */
  private start(): void {
    let begun = 0
    for (; begun < this.backlog.length && !this.closed; begun++) {
      const item = this.backlog[begun]!
      if (item.kind !== 'request') this.results.addEvent(item)
      else if (this.results.size >= this.settings.capacity) break
      else this.begin(item)
    }
    if (begun === 0) return
    this.backlog = this.backlog.slice(begun)
    if (this.backlog.length > 0) return
    this.emptied?.resolve()
    this.emptied = undefined
  }

  private begin(request: AsyncRequest): void {
    this.results.add(request)
    const call = new AsyncCall(this.host, request.value, request.timestamp, (outcome) =>
      this.settled(request, outcome),
    )
    this.calls.set(request, call)
    call.start()
  }

  private settled(request: AsyncRequest, outcome: AsyncOutcome): void {
    this.calls.delete(request)
    if (this.closed) return
    if ('failure' in outcome) {
      this.context.fail(outcome.failure)
      return
    }
    request.result = outcome.result
    this.results.completed(request)
    this.signal()
  }

  /** Results may be ready: somebody has to emit them. */
  private signal(): void {
    if (this.draining || !this.results.ready) return
    if (this.wake !== undefined) {
      this.wake()
    } else if (!this.posted) {
      this.posted = true
      this.context.post(() => {
        this.posted = false
        return this.drain()
      })
    }
  }

  /** Waits, inside of a call, until `done`; emits meanwhile. */
  private async until(done: () => boolean): Promise<void> {
    await this.drain()
    while (!done() && !this.closed) {
      await new Promise<void>((resolve) => {
        this.wake = resolve
        this.signal()
      })
      this.wake = undefined
      await this.drain()
    }
  }

  /** Emits what is ready, and begins what there is room for then. */
  private drain(): void | Promise<void> {
    this.draining = true
    this.start()
    if (this.results.ready) return this.emitReady()
    this.draining = false
  }

  private async emitReady(): Promise<void> {
    const { results, collector } = this
    try {
      while (results.ready && !this.closed) {
        for (let item = results.take(); item !== undefined; item = results.take()) {
          if (item.kind === 'request') {
            collector.add(item.result, item.timestamp)
            if (collector.full) await collector.flush()
          } else await this.emitEvent(item)
        }
        await collector.flush()
        this.start()
      }
    } finally {
      this.draining = false
    }
  }

  private async emitEvent(event: PassedEvent): Promise<void> {
    await this.collector.flush()
    if (event.kind === 'watermark') await this.output.emitWatermark(event.timestamp)
    else await this.output.emitStatus(event)
  }
}
