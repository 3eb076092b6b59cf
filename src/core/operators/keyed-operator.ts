/**
 * Base of operators behind keyBy.
 *
 *   vector ─► key of each record ─► prefetch of all keys (awaited if cold) ─► step by step: set key, run the function ─► settle
 *   watermark ─► timers that are due, by time, in batches whose keys are prefetched too ─► watermark goes on
 */
import { isMillraceError, MillraceError } from '../../errors.ts'
import type { RecordVector } from '../element.ts'
import { checkKey } from '../key-encoding.ts'
import type { DueTimer, Key, KeyedStateBackend } from '../state.ts'
import { andThen } from './continuation.ts'
import { FunctionOperator, type RecordStep } from './function-operator.ts'
import { KEYED } from './invocation-guard.ts'
import { KeyedTimers, type TimeDomain } from './keyed-timers.ts'
import type { KeyedContextParts } from './process-context.ts'
import { ownershipCheck } from './reinterpreted-key.ts'
import type { KeyOf, OperatorContext } from './stream-operator.ts'
import { invalidKey } from './user-error.ts'

/** An operator with keyed state and timers; `keyOf` by input. */
export abstract class KeyedOperator<F> extends FunctionOperator<F> {
  protected state!: KeyedStateBackend
  protected timers!: KeyedTimers
  private readonly keyOf: readonly KeyOf[]
  /** By input; undefined where keys need no check. */
  private checks: readonly (((key: Key, record: unknown) => void) | undefined)[] = []
  /** Keys of the vector that is being processed. */
  private keys: Key[] = []

  constructor(fn: F, keyOf: readonly KeyOf[]) {
    super(fn)
    this.keyOf = keyOf
  }

  override setup(context: OperatorContext): void {
    super.setup(context)
    const state = context.keyedState
    if (state === undefined)
      throw new MillraceError(
        'MILLRACE_INTERNAL',
        `Operator '${context.info.operatorName}' is keyed but got no keyed state`,
      )
    this.state = state
    this.checks = this.keyOf.map((keyOf) => ownershipCheck(keyOf, context))
    this.timers = new KeyedTimers(state.timers(), {
      currentKey: () => state.getCurrentKey(),
      requestProcessingTime: (time) => context.requestProcessingTime(time),
    })
  }

  override open(): void | Promise<void> {
    this.timers.requestNext()
    return super.open()
  }

  /** The parts that contexts of keyed functions are made of. */
  protected contextParts(): KeyedContextParts {
    return {
      guard: this.guard,
      collector: this.collector,
      clock: this.context.world.clock,
      watermark: () => this.watermark,
      state: this.state,
      timers: this.timers,
    }
  }

  /** Loads the keys of the vector, then runs `step` for each record. `step` must begin with `useKeyAt`. */
  protected driveKeyed(
    vector: RecordVector,
    input: number,
    step: RecordStep,
    method: string,
  ): void | Promise<void> {
    this.keys = this.keysOf(vector, this.keyOf[input]!)
    const check = this.checks[input]
    if (check !== undefined) for (let i = 0; i < this.keys.length; i++) check(this.keys[i]!, vector.values[i])
    const wait = this.state.prefetch(this.keys)
    if (wait === undefined) return this.driveSettled(vector, step, method)
    return wait.then(() => this.driveSettled(vector, step, method))
  }

  /** Runs `step` for each record of the vector, whose keys are loaded; then async maps bring their indexes up to date. */
  private driveSettled(vector: RecordVector, step: RecordStep, method: string): void | Promise<void> {
    return andThen(this.drive(vector, step, method, KEYED), this.settleState)
  }

  private readonly settleState = (): void | Promise<void> => {
    this.guard.requireSettled()
    return this.state.settle()
  }

  /** Makes the key of record `index` the current one. */
  protected useKeyAt(index: number): void {
    this.guard.requireSettled()
    this.state.setCurrentKey(this.keys[index]!)
  }

  /** Runs the function of one due timer; its key is the current one. Operators that register no timers never get one. */
  protected onTimer(_timer: DueTimer, _domain: TimeDomain): unknown {
    return undefined
  }

  override processWatermark(timestamp: number): void | Promise<void> {
    this.watermark = timestamp
    return andThen(this.fire('EVENT_TIME', timestamp), () => this.output.emitWatermark(timestamp))
  }

  onProcessingTime(time: number): void | Promise<void> {
    return andThen(this.fire('PROCESSING_TIME', time), () => this.timers.requestNext())
  }

  /** Fires all timers due at `time`, those included that are registered meanwhile. */
  private fire(domain: TimeDomain, time: number): void | Promise<void> {
    for (let batch = this.take(domain, time); batch !== undefined; batch = this.take(domain, time)) {
      const wait = this.fireBatch(batch, domain)
      if (wait !== undefined) return this.fireOn(domain, time, wait)
    }
  }

  private async fireOn(domain: TimeDomain, time: number, first: Promise<void>): Promise<void> {
    await first
    for (let batch = this.take(domain, time); batch !== undefined; batch = this.take(domain, time))
      await this.fireBatch(batch, domain)
  }

  private take(domain: TimeDomain, time: number): RecordVector<DueTimer> | undefined {
    return this.timers.take(domain, time, this.context.vectorSize)
  }

  private fireBatch(batch: RecordVector<DueTimer>, domain: TimeDomain): void | Promise<void> {
    const step = domain === 'EVENT_TIME' ? this.eventTimeStep : this.processingTimeStep
    const wait = this.state.prefetch(batch.values.map((timer) => timer.key))
    if (wait === undefined) return this.driveSettled(batch, step, 'onTimer')
    return wait.then(() => this.driveSettled(batch, step, 'onTimer'))
  }

  private readonly eventTimeStep = (timer: DueTimer, index: number): unknown =>
    this.fireOne(timer, index, 'EVENT_TIME')

  private readonly processingTimeStep = (timer: DueTimer, index: number): unknown =>
    this.fireOne(timer, index, 'PROCESSING_TIME')

  private fireOne(timer: DueTimer, index: number, domain: TimeDomain): unknown {
    this.timers.firing(index)
    this.guard.requireSettled()
    this.state.setCurrentKey(timer.key)
    this.collector.sideTimestamp = timer.time
    return this.onTimer(timer, domain)
  }

  private keysOf({ values }: RecordVector, keyOf: KeyOf): Key[] {
    const count = values.length
    const keys = new Array<Key>(count)
    let i = 0
    let key: Key | undefined
    try {
      for (; i < count; i++) {
        key = keyOf(values[i])
        if (typeof key !== 'string') checkKey(key, this.info.operatorName)
        keys[i] = key
      }
    } catch (error) {
      if (isMillraceError(error) && error.code === 'MILLRACE_INVALID_KEY')
        throw invalidKey(error, this.info, key, values[i])
      throw this.failure(error, 'The key selector', values[i])
    }
    return keys
  }
}
