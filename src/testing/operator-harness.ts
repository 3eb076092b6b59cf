/**
 * One operator without a job: elements by hand, time by hand, results to look at.
 *
 *     const harness = await OperatorHarness.keyedProcess(new CountPerUser(), (order: Order) => order.user)
 *     await harness.processElement({ user: 'ann', amount: 3 }, 1_000)
 *     await harness.processWatermark(61_000)
 *     expect(harness.values()).toEqual([{ user: 'ann', count: 1, sum: 3 }])
 */

import { redistributeOperatorState } from '../checkpoint/rescale-plan.ts'
import { type RecordVector, recordVector } from '../core/element.ts'
import type {
  CoProcessFunction,
  FilterFunction,
  FlatMapFunction,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  MapFunction,
  ProcessFunction,
} from '../core/functions.ts'
import { keyGroupOf, keyGroupRangeOf, rangeContains, subtaskOfKey } from '../core/graph/key-groups.ts'
import { coProcessOperator, keyedCoProcessOperator } from '../core/operators/co-process.ts'
import { filterOperator, flatMapOperator, mapOperator } from '../core/operators/map.ts'
import { keyedProcessOperator, processOperator } from '../core/operators/process.ts'
import type {
  KeyOf,
  OperatorContext,
  OperatorFactory,
  OperatorRestore,
  OperatorStateSnapshot,
  StreamOperator,
} from '../core/operators/stream-operator.ts'
import type { OutputTag } from '../core/output-tag.ts'
import type { Clock, Logger, World } from '../core/ports.ts'
import type { Key, KeyedStateBackend, KeyGroupImage, KeyGroupRange } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import { MetricRegistry } from '../metrics/metrics.ts'
import { HeapKeyedStateBackend } from '../state/heap-backend.ts'
import { type BuildOperator, type BuildTwoInputOperator, declaredOperator } from './declared-operator.ts'
import { type EmittedRecord, RecordingOutput } from './recording-output.ts'
import { SeededRandom } from './seeded-random.ts'
import { StrictKeyedState } from './strict-keyed-state.ts'
import { VirtualTime } from './virtual-time.ts'

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
  /** Continue from here; several snapshots are those of all subtasks, in the order of their index. */
  readonly restore?: HarnessSnapshot | readonly HarnessSnapshot[]
  /** Subtasks of the operator: this one has its part of the key groups and of the state. 1 by default. */
  readonly parallelism?: number
  /** Which of them this one is, from 0. */
  readonly subtaskIndex?: number
  /** Clock at the start, epoch ms. Default 0. */
  readonly processingTime?: number
  readonly maxParallelism?: number
  /** Highest number of records in an emitted vector. Default 500. */
  readonly vectorSize?: number
  readonly name?: string
  /** Takes the place of the heap backend. */
  readonly keyedState?: (clock: Clock, range: KeyGroupRange) => KeyedStateBackend
}

const MAX_PARALLELISM = 128
const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => SILENT }

/** Drives one operator. Calls must be awaited one after the other. */
export class OperatorHarness<IN, OUT, IN2 = never> {
  private readonly operator: StreamOperator
  private readonly output = new RecordingOutput()
  private readonly time: VirtualTime
  private readonly state: StrictKeyedState | undefined
  private readonly options: HarnessOptions
  private readonly metrics = new MetricRegistry()
  /** What the operator wants to do in a call of its own. */
  private readonly posted: (() => void | Promise<void>)[] = []
  private wakeUpAt: number | undefined
  private failure: { readonly error: unknown } | undefined
  private busy = false

  private constructor(operator: StreamOperator, options: HarnessOptions) {
    this.operator = operator
    this.options = options
    this.time = new VirtualTime({ startMs: options.processingTime ?? 0 })
    this.state =
      options.keyed === true ? new StrictKeyedState(this.backend(), (key) => this.checkOwned(key)) : undefined
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

  /**
   * The operator that a job would have: `build` makes one operator of the stream, with any method that streams have. For windows, sums,
   * reduce, watermarks.
   * @example OperatorHarness.stream((orders: DataStream<Order>) => orders.keyBy(userOf).window(TumblingEventTimeWindows.of(10_000)).sum('amount'))
   */
  static async stream<IN, OUT>(
    build: BuildOperator<IN, OUT>,
    options?: HarnessOptions,
  ): Promise<OperatorHarness<IN, OUT>> {
    const { factory, declared } = await declaredOperator((first) => build(first))
    return OperatorHarness.of(factory, { ...declared, ...options })
  }

  /** The same for two inputs: connected streams, joins, broadcast state. Which is the first input is what `connect` says. */
  static async streams<IN, IN2, OUT>(
    build: BuildTwoInputOperator<IN, IN2, OUT>,
    options?: HarnessOptions,
  ): Promise<OperatorHarness<IN, OUT, IN2>> {
    const { factory, declared } = await declaredOperator(build)
    return OperatorHarness.of(factory, { ...declared, ...options })
  }

  /** The subtask that a key belongs to. */
  static subtaskOf(key: Key, parallelism: number, maxParallelism: number = MAX_PARALLELISM): number {
    return subtaskOfKey(key, maxParallelism, parallelism)
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
    await this.settle()
  }

  /** Lets promises settle that need no clock, and the operator do what it wants to do then (asynchronous functions). */
  async settle(): Promise<void> {
    await this.time.advance(0)
    if (this.busy) return
    if (this.posted.length > 0 || this.failure !== undefined) await this.call(() => undefined)
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
  /** Values that keyed state holds: one for each key, namespace and state; of an async map each entry and part of its index. */
  stateEntries(): number {
    return this.state?.entries ?? 0
  }
  /** True if the key's records come to this subtask. Those of other keys are refused. */
  owns(key: Key): boolean {
    return rangeContains(this.range(), keyGroupOf(key, this.maxParallelism()))
  }
  /** Keys that hold the named state. */
  keysOf(stateName: string): Key[] {
    return this.state === undefined ? [] : [...this.state.keys(stateName)]
  }

  private async start(): Promise<void> {
    const { restore } = this.options
    const snapshots = restore === undefined ? [] : 'keyGroups' in restore ? [restore] : restore
    this.operator.setup(this.context())
    const range = this.range()
    const owned = snapshots.flatMap(({ keyGroups }) =>
      keyGroups.filter(({ keyGroup }) => rangeContains(range, keyGroup)),
    )
    if (snapshots.length > 0) this.state?.restore(owned)
    await this.call(() => this.operator.initializeState?.(this.restored(snapshots)))
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
      for (let action = this.posted.shift(); action !== undefined; action = this.posted.shift())
        await action()
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
        subtaskIndex: this.options.subtaskIndex ?? 0,
        parallelism: this.options.parallelism ?? 1,
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
      post: (action) => {
        this.posted.push(action)
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
    return this.options.maxParallelism ?? MAX_PARALLELISM
  }

  private range(): KeyGroupRange {
    const { subtaskIndex = 0, parallelism = 1 } = this.options
    return keyGroupRangeOf(subtaskIndex, this.maxParallelism(), parallelism)
  }

  private checkOwned(key: Key): void {
    const { subtaskIndex = 0, parallelism = 1 } = this.options
    if (parallelism === 1 || this.owns(key)) return
    throw new MillraceError(
      'MILLRACE_STATE_ACCESS',
      `Key ${JSON.stringify(key, (_, part) => (typeof part === 'bigint' ? `${part}n` : part))} belongs to subtask ` +
        `${subtaskOfKey(key, this.maxParallelism(), parallelism)} of ${parallelism}, and this is subtask ${subtaskIndex}`,
      { remedy: 'Give the record to the harness of that subtask; OperatorHarness.subtaskOf says which.' },
    )
  }

  /** This subtask's part of the operator state. */
  private restored(snapshots: readonly HarnessSnapshot[]): OperatorRestore | undefined {
    if (snapshots.length === 0) return undefined
    const { subtaskIndex = 0, parallelism = 1 } = this.options
    const states = snapshots.map(({ operatorState }) => operatorState)
    const own = redistributeOperatorState(states, parallelism)[subtaskIndex] ?? {}
    return {
      checkpointId: snapshots[0]!.checkpointId,
      operatorState: Object.fromEntries(Object.entries(own).map(([name, { items }]) => [name, items])),
      redistributions: Object.fromEntries(
        Object.entries(own).map(([name, { redistribution }]) => [name, redistribution]),
      ),
      splits: undefined,
    }
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
