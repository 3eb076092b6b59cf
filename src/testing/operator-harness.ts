/**
 * One operator without a job: elements by hand, time by hand, results to look at.
 *
 *     const harness = await OperatorHarness.keyedProcess(new CountPerUser(), (order: Order) => order.user)
 *     await harness.processElement({ user: 'ann', amount: 3 }, 1_000)
 *     await harness.processWatermark(61_000)
 *     expect(harness.values()).toEqual([{ user: 'ann', count: 1, sum: 3 }])
 */

import { type RecordVector, recordVector, type WatermarkStatus } from '../core/element.ts'
import type {
  CoProcessFunction,
  FilterFunction,
  FlatMapFunction,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  MapFunction,
  ProcessFunction,
} from '../core/functions.ts'
import { coProcessOperator, keyedCoProcessOperator } from '../core/operators/co-process.ts'
import { filterOperator, flatMapOperator, mapOperator } from '../core/operators/map.ts'
import { keyedProcessOperator, processOperator } from '../core/operators/process.ts'
import type {
  KeyOf,
  OperatorContext,
  OperatorFactory,
  OperatorRestore,
  OperatorStateSnapshot,
  Output,
  StreamOperator,
} from '../core/operators/stream-operator.ts'
import type { OutputTag } from '../core/output-tag.ts'
import type { Clock, Logger, World } from '../core/ports.ts'
import type { Key, KeyedStateBackend, KeyGroupImage, KeyGroupRange } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import { MetricRegistry } from '../metrics/metrics.ts'
import { HeapKeyedStateBackend } from '../state/heap-backend.ts'
import { SeededRandom } from './seeded-random.ts'
import { StrictKeyedState } from './strict-keyed-state.ts'
import { VirtualTime } from './virtual-time.ts'

/** A record that the operator emitted; the timestamp is null if it has none. */
export interface EmittedRecord<T> {
  readonly value: T
  readonly timestamp: number | null
}

/** State of the operator at one moment; give it to another harness to go on from there. */
export interface HarnessSnapshot {
  readonly checkpointId: number
  readonly operatorState: OperatorStateSnapshot
  readonly keyGroups: readonly KeyGroupImage[]
  readonly committables: readonly unknown[]
}

/** Settings of a harness. */
export interface HarnessOptions {
  /** True for operators with keyed state. */
  readonly keyed?: boolean
  /** Continue from here. */
  readonly restore?: HarnessSnapshot
  /** Clock at the start, epoch ms. Default 0. */
  readonly processingTime?: number
  readonly maxParallelism?: number
  /** Highest number of records in an emitted vector. Default 500. */
  readonly vectorSize?: number
  readonly name?: string
  /** Takes the place of the heap backend. */
  readonly keyedState?: (clock: Clock, range: KeyGroupRange) => KeyedStateBackend
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => SILENT }

/** Notes what the operator emits. */
class RecordingOutput implements Output {
  readonly main: EmittedRecord<any>[] = []
  readonly sides = new Map<string, EmittedRecord<any>[]>()
  readonly watermarks: number[] = []
  readonly statuses: boolean[] = []

  emit(vector: RecordVector): void {
    append(this.main, vector)
  }
  emitSide(tagId: string, vector: RecordVector): void {
    const side = this.sides.get(tagId) ?? []
    this.sides.set(tagId, side)
    append(side, vector)
  }
  emitWatermark(timestamp: number): void {
    this.watermarks.push(timestamp)
  }
  emitStatus(status: WatermarkStatus): void {
    this.statuses.push(status.idle)
  }
}

function append(records: EmittedRecord<unknown>[], { values, timestamps }: RecordVector): void {
  values.forEach((value, i) => {
    const timestamp = timestamps[i]!
    records.push({ value, timestamp: Number.isNaN(timestamp) ? null : timestamp })
  })
}

/** Drives one operator. Calls must be awaited one after the other. */
export class OperatorHarness<IN, OUT, IN2 = never> {
  private readonly operator: StreamOperator
  private readonly output = new RecordingOutput()
  private readonly time: VirtualTime
  private readonly state: StrictKeyedState | undefined
  private readonly options: HarnessOptions
  private readonly metrics = new MetricRegistry()
  private wakeUpAt: number | undefined
  private failure: { readonly error: unknown } | undefined
  private busy = false

  private constructor(operator: StreamOperator, options: HarnessOptions) {
    this.operator = operator
    this.options = options
    this.time = new VirtualTime({ startMs: options.processingTime ?? 0 })
    this.state = options.keyed === true ? new StrictKeyedState(this.backend()) : undefined
  }

  /** Sets up, restores and opens one operator. */
  static async of<IN, OUT, IN2 = never>(
    factory: OperatorFactory,
    options: HarnessOptions = {},
  ): Promise<OperatorHarness<IN, OUT, IN2>> {
    const harness = new OperatorHarness<IN, OUT, IN2>(factory(), options)
    await harness.start()
    return harness
  }

  static map<IN, OUT>(
    f: MapFunction<IN, OUT>,
    options?: HarnessOptions,
  ): Promise<OperatorHarness<IN, Awaited<OUT>>> {
    return OperatorHarness.of(mapOperator(f), options)
  }
  static filter<IN>(f: FilterFunction<IN>, options?: HarnessOptions): Promise<OperatorHarness<IN, IN>> {
    return OperatorHarness.of(filterOperator(f), options)
  }
  static flatMap<IN, OUT>(
    f: FlatMapFunction<IN, OUT>,
    options?: HarnessOptions,
  ): Promise<OperatorHarness<IN, OUT>> {
    return OperatorHarness.of(flatMapOperator(f), options)
  }
  static process<IN, OUT>(
    fn: ProcessFunction<IN, OUT>,
    options?: HarnessOptions,
  ): Promise<OperatorHarness<IN, OUT>> {
    return OperatorHarness.of(processOperator(fn), options)
  }
  static keyedProcess<K extends Key, IN, OUT>(
    fn: KeyedProcessFunction<K, IN, OUT>,
    keyOf: (value: IN) => K,
    options?: HarnessOptions,
  ): Promise<OperatorHarness<IN, OUT>> {
    return OperatorHarness.of(keyedProcessOperator(fn, keyOf as KeyOf), { ...options, keyed: true })
  }
  static coProcess<IN, IN2, OUT>(
    fn: CoProcessFunction<IN, IN2, OUT>,
    options?: HarnessOptions,
  ): Promise<OperatorHarness<IN, OUT, IN2>> {
    return OperatorHarness.of(coProcessOperator(fn), options)
  }
  static keyedCoProcess<K extends Key, IN, IN2, OUT>(
    fn: KeyedCoProcessFunction<K, IN, IN2, OUT>,
    keyOf1: (value: IN) => K,
    keyOf2: (value: IN2) => K,
    options?: HarnessOptions,
  ): Promise<OperatorHarness<IN, OUT, IN2>> {
    const factory = keyedCoProcessOperator(fn, keyOf1 as KeyOf, keyOf2 as KeyOf)
    return OperatorHarness.of(factory, { ...options, keyed: true })
  }

  /** One record of the first input. */
  processElement(value: IN, timestamp: number | null = null): Promise<void> {
    return this.processElements([value], timestamp === null ? undefined : [timestamp])
  }

  /** Several records of the first input in one vector. */
  processElements(values: readonly IN[], timestamps?: readonly number[]): Promise<void> {
    return this.call(() => this.operator.processVector(vectorOf(values, timestamps)))
  }

  /** One record of the second input. */
  processElement2(value: IN2, timestamp: number | null = null): Promise<void> {
    return this.call(() =>
      this.operator.processVector2!(vectorOf([value], timestamp === null ? undefined : [timestamp])),
    )
  }

  /** The watermark of all inputs rises to `timestamp`: due event-time timers fire. */
  processWatermark(timestamp: number): Promise<void> {
    return this.call(() => this.operator.processWatermark(timestamp))
  }

  processStatus(idle: boolean): Promise<void> {
    return this.call(() => this.operator.processStatus({ kind: 'watermark-status', idle }))
  }

  /** Moves the clock to `time` (epoch ms), stopping wherever the operator asked to be called. */
  async setProcessingTime(time: number): Promise<void> {
    if (time < this.time.now())
      throw new RangeError(`The clock stands at ${this.time.now()} and cannot go back to ${time}`)
    while (this.wakeUpAt !== undefined && this.wakeUpAt <= time) {
      const at = Math.max(this.wakeUpAt, this.time.now())
      this.wakeUpAt = undefined
      await this.time.advance(at - this.time.now())
      await this.call(() => this.operator.onProcessingTime?.(at))
    }
    await this.time.advance(time - this.time.now())
  }

  /** Moves the clock by `ms`. */
  advance(ms: number): Promise<void> {
    return this.setProcessingTime(this.time.now() + ms)
  }

  /** No more records on `input` (0 or 1). */
  endInput(input = 0): Promise<void> {
    return this.call(() => this.operator.endInput?.(input))
  }

  /** Takes checkpoint `checkpointId`. The operator may go on afterwards. */
  async snapshot(checkpointId = 1, endOfInput = false): Promise<HarnessSnapshot> {
    await this.call(() => this.operator.prepareSnapshot?.(checkpointId, endOfInput))
    const { operatorState = {}, committables = [] } = this.operator.snapshot?.(checkpointId) ?? {}
    const frozen = this.state?.freeze(checkpointId)
    const keyGroups = (await frozen?.materialize(() => Promise.resolve())) ?? []
    frozen?.release()
    return { checkpointId, operatorState, committables, keyGroups }
  }

  notifyCheckpointComplete(checkpointId: number): Promise<void> {
    return this.call(() => this.operator.notifyCheckpointComplete?.(checkpointId))
  }

  async close(): Promise<void> {
    await this.call(() => this.operator.close?.())
    await this.state?.close()
  }

  /** Values emitted so far. */
  values(): OUT[] {
    return this.output.main.map(({ value }) => value)
  }
  /** Records emitted so far, with timestamps. */
  records(): readonly EmittedRecord<OUT>[] {
    return this.output.main
  }
  /** Records emitted since the last call. */
  takeRecords(): EmittedRecord<OUT>[] {
    return this.output.main.splice(0)
  }
  /** Records of a side output so far. */
  sideRecords<X>(tag: OutputTag<X>): readonly EmittedRecord<X>[] {
    return this.output.sides.get(tag.id) ?? []
  }
  /** Watermarks passed on so far. */
  watermarks(): readonly number[] {
    return this.output.watermarks
  }
  /** Statuses passed on so far: true for idle. */
  statuses(): readonly boolean[] {
    return this.output.statuses
  }
  /** The operator's counter of that name. */
  counter(name: string): number {
    return this.metrics.total(name)
  }
  /** Timers that wait. */
  timerCount(): number {
    return this.state?.timers().size ?? 0
  }
  /** Values that keyed state holds: one for each key, namespace and state. */
  stateEntries(): number {
    return this.state?.entries ?? 0
  }
  /** Keys that hold the named state. */
  keysOf(stateName: string): Key[] {
    return this.state === undefined ? [] : [...this.state.keys(stateName)]
  }

  private async start(): Promise<void> {
    const { restore } = this.options
    this.operator.setup(this.context())
    if (restore !== undefined) this.state?.restore(restore.keyGroups)
    await this.call(() =>
      this.operator.initializeState?.(restore === undefined ? undefined : restoreOf(restore)),
    )
    await this.call(() => this.operator.open?.())
  }

  /** One call of the operator at a time; afterwards the state is checked. */
  private async call(run: () => void | Promise<void>): Promise<void> {
    if (this.busy)
      throw new MillraceError(
        'MILLRACE_STATE_ACCESS',
        'The operator is still busy: await one call of the harness before the next',
      )
    this.busy = true
    try {
      await run()
    } finally {
      this.busy = false
    }
    if (this.failure !== undefined) throw this.failure.error
    this.state?.endCall()
  }

  private context(): OperatorContext {
    const name = this.options.name ?? 'operator'
    return {
      info: {
        jobName: 'harness',
        operatorName: name,
        uid: name,
        subtaskIndex: 0,
        parallelism: 1,
        attempt: 1,
      },
      world: this.world(),
      output: this.output,
      vectorSize: this.options.vectorSize ?? 500,
      keyedState: this.state,
      keyGroups: this.state === undefined ? undefined : this.range(),
      maxParallelism: this.maxParallelism(),
      requestProcessingTime: (time) => {
        if (this.wakeUpAt === undefined || time < this.wakeUpAt) this.wakeUpAt = time
      },
      fail: (error) => {
        this.failure ??= { error }
      },
    }
  }

  private world(): World {
    return {
      clock: this.time,
      timers: this.time,
      random: new SeededRandom(1),
      logger: SILENT,
      metrics: this.metrics,
    }
  }

  private maxParallelism(): number {
    return this.options.maxParallelism ?? 128
  }

  private range(): KeyGroupRange {
    return { start: 0, end: this.maxParallelism() - 1 }
  }

  private backend(): KeyedStateBackend {
    const { keyedState, name } = this.options
    if (keyedState !== undefined) return keyedState(this.time, this.range())
    return new HeapKeyedStateBackend({
      range: this.range(),
      maxParallelism: this.maxParallelism(),
      operatorName: name ?? 'operator',
      clock: this.time,
    })
  }
}

function vectorOf(values: readonly unknown[], timestamps: readonly number[] | undefined): RecordVector {
  return recordVector(values, timestamps ?? values.map(() => Number.NaN))
}

function restoreOf({ checkpointId, operatorState }: HarnessSnapshot): OperatorRestore {
  return {
    checkpointId,
    operatorState: Object.fromEntries(
      Object.entries(operatorState).map(([name, { items }]) => [name, items]),
    ),
    splits: undefined,
  }
}
