/**
 * Base of operators that run a user function: its life cycle, its errors, and one invocation after the other.
 *
 *   drive ─► advance (synchronous loop over records)
 *              │ function returned a promise, or output asks to wait
 *              ▼
 *            driveOn (asynchronous: waits, then advance again) ─► … ─► flush
 *
 * The loop makes no promise and no closure per record as long as nobody asks to wait.
 */

import type { RecordVector } from '../element.ts'
import type { RichFunction } from '../functions.ts'
import { isThenable } from './continuation.ts'
import { perSubtask } from './function-instance.ts'
import { CLOSED, InvocationGuard, type InvocationPhase, OPEN } from './invocation-guard.ts'
import { AbstractOperator } from './operator-base.ts'
import { DefaultOperatorStateStore } from './operator-state-store.ts'
import { SubtaskRuntimeContext } from './runtime-context.ts'
import type {
  OperatorContext,
  OperatorFactory,
  OperatorRestore,
  OperatorSnapshot,
  StreamOperator,
} from './stream-operator.ts'
import { userError } from './user-error.ts'
import { VectorCollector } from './vector-collector.ts'

/** Runs the function for record `index` of a vector. A returned promise is awaited before the next record. */
export type RecordStep = (value: any, index: number) => unknown

/** While waiting for promises of a function, results are passed on when this many ms went by since the last ones. */
const ASYNC_FLUSH_MS = 10

/** A factory whose operators each get their own copy of `fn`. */
export function functionOperator<F>(fn: F, create: (fn: F) => StreamOperator): OperatorFactory {
  const copy = perSubtask(fn)
  return () => create(copy())
}

/** `F` is a plain function, or an object with a life cycle. */
export abstract class FunctionOperator<F> extends AbstractOperator {
  protected readonly fn: F
  protected guard!: InvocationGuard
  protected collector!: VectorCollector
  protected runtimeContext!: SubtaskRuntimeContext
  protected operatorState!: DefaultOperatorStateStore
  /** A promise of the function that `advance` came upon. */
  private pending: PromiseLike<unknown> | undefined
  private opened = false

  constructor(fn: F) {
    super()
    this.fn = fn
  }

  override setup(context: OperatorContext): void {
    super.setup(context)
    this.guard = new InvocationGuard(context.info.operatorName)
    this.collector = new VectorCollector(context.output, context.vectorSize, this.guard)
    this.runtimeContext = new SubtaskRuntimeContext(context, this.guard)
    this.operatorState = new DefaultOperatorStateStore(context.info.operatorName, undefined)
  }

  initializeState(restored: OperatorRestore | undefined): void | Promise<void> {
    const { operatorName, subtaskIndex } = this.info
    this.operatorState = new DefaultOperatorStateStore(
      operatorName,
      restored && {
        items: restored.operatorState,
        redistributions: restored.redistributions ?? {},
        subtaskIndex,
      },
    )
    const initialize = this.rich?.initializeState
    if (initialize === undefined) return
    const context = {
      isRestored: () => restored !== undefined,
      getOperatorStateStore: () => this.operatorState,
    }
    return this.call('initializeState', () => initialize.call(this.rich, context))
  }

  open(): void | Promise<void> {
    this.opened = true
    const open = this.rich?.open
    if (open !== undefined) return this.call('open', () => open.call(this.rich, this.runtimeContext))
  }

  prepareSnapshot(checkpointId: number, _endOfInput: boolean): void | Promise<void> {
    const snapshotState = this.rich?.snapshotState
    if (snapshotState === undefined) return
    const context = { getCheckpointId: () => checkpointId }
    return this.call('snapshotState', () => snapshotState.call(this.rich, context))
  }

  snapshot(_checkpointId: number): OperatorSnapshot {
    const operatorState = this.operatorState.snapshot()
    return Object.keys(operatorState).length === 0 ? {} : { operatorState }
  }

  close(): void | Promise<void> {
    const close = this.rich?.close
    if (!this.opened || close === undefined) return
    this.opened = false
    return this.call('close', () => close.call(this.rich))
  }

  /** The function as an object with a life cycle, undefined for a plain function. */
  protected get rich(): RichFunction | undefined {
    return typeof this.fn === 'object' ? (this.fn as RichFunction) : undefined
  }

  /** Runs one method of the function once, in the given phase, and names the operator in its error. */
  protected call(method: string, invoke: () => unknown, phase: InvocationPhase = OPEN): void | Promise<void> {
    let result: unknown
    this.guard.phase = phase
    try {
      result = invoke()
    } catch (error) {
      this.guard.phase = CLOSED
      throw this.failure(error, method)
    }
    if (isThenable(result)) return this.settle(result, method, undefined)
    this.guard.phase = CLOSED
  }

  protected failure(error: unknown, method: string, record?: unknown): unknown {
    return userError(error, this.info, method, record)
  }

  /** Runs `step` for all records of the vector in order, then emits what was collected. */
  protected drive(
    vector: RecordVector,
    step: RecordStep,
    method: string,
    phase: InvocationPhase = OPEN,
  ): void | Promise<void> {
    for (let next = 0; ; ) {
      next = this.advance(vector, step, next, method, phase)
      if (this.pending !== undefined) return this.driveOn(vector, step, next, method, phase, this.pending)
      const wait = this.collector.flush()
      if (next >= vector.values.length) return wait
      if (wait !== undefined)
        return wait.then(() => this.driveOn(vector, step, next, method, phase, undefined))
    }
  }

  /** Waits for `first`, a promise of the function for the record before `from`, then goes on from there. */
  protected async driveOn(
    vector: RecordVector,
    step: RecordStep,
    from: number,
    method: string,
    phase: InvocationPhase,
    first: PromiseLike<unknown> | undefined,
  ): Promise<void> {
    const { clock } = this.context.world
    let next = from
    let flushedAt = clock.now()
    for (let promise = first; ; promise = this.pending) {
      this.pending = undefined
      if (promise !== undefined) await this.settle(promise, method, vector.values[next - 1])
      if (next >= vector.values.length) break
      if (this.collector.full || clock.now() - flushedAt >= ASYNC_FLUSH_MS) {
        await this.collector.flush()
        flushedAt = clock.now()
      }
      next = this.advance(vector, step, next, method, phase)
    }
    await this.collector.flush()
  }

  /**
   * Calls `step` from record `from` on until the end, a promise (kept in `pending`), or a full collector.
   * Returns the index of the next record. The vector may grow behind it while it runs (timers).
   */
  private advance(
    vector: RecordVector,
    step: RecordStep,
    from: number,
    method: string,
    phase: InvocationPhase,
  ): number {
    const { values, timestamps } = vector
    const { guard, collector } = this
    let i = from
    guard.phase = phase
    try {
      while (i < values.length) {
        collector.timestamp = collector.sideTimestamp = timestamps[i]!
        const result = step(values[i], i)
        i++
        if (isThenable(result)) {
          this.pending = result
          return i
        }
        if (collector.full) break
      }
    } catch (error) {
      guard.phase = CLOSED
      throw this.failure(error, method, values[i])
    }
    guard.phase = CLOSED
    return i
  }

  /** Waits for the function's promise; the invocation lasts until it settles. */
  protected async settle(promise: PromiseLike<unknown>, method: string, record: unknown): Promise<void> {
    this.context.world.onUserPromise?.(
      promise,
      `${method} of operator '${this.info.operatorName}'`,
      () => this.collector.waiting,
    )
    try {
      await promise
    } catch (error) {
      throw this.failure(error, method, record)
    } finally {
      this.guard.phase = CLOSED
    }
  }
}
