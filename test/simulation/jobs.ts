/**
 * The jobs that are simulated: declared with the public API and run unchanged, each with the oracle that knows its output.
 */

import type { DataStream } from '../../src/api/data-stream.ts'
import type { StreamExecutionEnvironment } from '../../src/api/environment.ts'
import { DeliveryGuarantee } from '../../src/core/constants.ts'
import {
  type Collector,
  type KeyedContext,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  type OnTimerContext,
  type RuntimeContext,
} from '../../src/core/functions.ts'
import type { ListState, ValueState } from '../../src/core/state.ts'
import { ListStateDescriptor, ValueStateDescriptor } from '../../src/core/state.ts'
import { WatermarkStrategy } from '../../src/core/time/watermarks.ts'
import { TumblingEventTimeWindows } from '../../src/core/windows/assigners.ts'
import type { TimeWindow } from '../../src/core/windows/time-window.ts'
import { type ProcessWindowContext, ProcessWindowFunction } from '../../src/core/windows/window-function.ts'
import { kafkaSink } from '../../src/kafka/kafka-sink.ts'
import { kafkaSource } from '../../src/kafka/kafka-source.ts'
import { OffsetsInitializer } from '../../src/kafka/offsets.ts'
import { json } from '../../src/serdes/serdes.ts'
import type { PlainRecordInput } from '../../src/testing/plain-batch.ts'
import type { SeededRandom } from '../../src/testing/seeded-random.ts'
import type { RecordsByTopic, SimulatedJob } from '../../src/testing/simulated-job.ts'
import type { Origin, SeenRecord } from '../../src/testing/simulation-invariants.ts'
import type { Scenario } from '../../src/testing/simulation-scenario.ts'
import { describeFirst, difference, perKeyCounts } from './oracle.ts'

interface Event {
  readonly from: Origin
  readonly key: string
  readonly amount: number
}

/** What was gathered of a key, with all it was made of. */
interface Gathered {
  readonly from: readonly Origin[]
  readonly key: string
  readonly sum: number
  /** Of a window. */
  readonly start?: number
}

interface Total {
  readonly from: Origin
  readonly key: string
  readonly count: number
  readonly sum: number
}

function source(
  env: StreamExecutionEnvironment,
  scenario: Scenario,
  job: string,
  topic: string,
  watermarks: WatermarkStrategy<Event> = WatermarkStrategy.noWatermarks(),
): DataStream<Event> {
  return env
    .fromSource(
      kafkaSource<Event>({
        topics: [topic],
        groupId: `${job}-readers`,
        startingOffsets:
          scenario.startAt === 'latest' ? OffsetsInitializer.latest() : OffsetsInitializer.earliest(),
        discoveryIntervalMs: scenario.discoveryMs,
        ...(scenario.bounded ? { bounded: OffsetsInitializer.latest() } : {}),
        deserializer: ({ partition, offset, value }) => ({
          ...(JSON.parse(Buffer.from(value!).toString()) as { key: string; amount: number }),
          from: { topic, partition, offset: Number(offset) },
        }),
      }),
      watermarks,
      `read ${topic}`,
    )
    .uid(`read-${topic}`)
}

function sink<T extends { readonly key: string }>(
  stream: DataStream<T>,
  scenario: Scenario,
  topic: string,
): void {
  stream
    .sinkTo(
      kafkaSink<T>({
        topic,
        key: ({ key }) => key,
        value: json<T>(),
        deliveryGuarantee: scenario.transactional
          ? DeliveryGuarantee.EXACTLY_ONCE
          : DeliveryGuarantee.AT_LEAST_ONCE,
        ...(scenario.transactionTimeoutMs === undefined
          ? {}
          : { transactionTimeoutMs: scenario.transactionTimeoutMs }),
      }),
    )
    .uid(`write-${topic}`)
}

/** Adds a record to the totals of its key. */
function add(state: ValueState<{ count: number; sum: number }>, event: Event): Total {
  const total = state.value() ?? { count: 0, sum: 0 }
  // The same object, changed in place: a snapshot that is still being written must not see it.
  total.count++
  total.sum += event.amount
  state.update(total)
  return { from: event.from, key: event.key, count: total.count, sum: total.sum }
}

const TOTAL = new ValueStateDescriptor<{ count: number; sum: number }>('total')

/** Counts and sums per key. */
class Totals extends KeyedProcessFunction<string, Event, Total> {
  #total!: ValueState<{ count: number; sum: number }>
  override open(context: RuntimeContext): void {
    this.#total = context.getState(TOTAL)
  }
  override processElement(event: Event, _context: KeyedContext<string>, out: Collector<Total>): void {
    out.collect(add(this.#total, event))
  }
}

/** The same over two inputs. */
class SharedTotals extends KeyedCoProcessFunction<string, Event, Event, Total> {
  #total!: ValueState<{ count: number; sum: number }>
  override open(context: RuntimeContext): void {
    this.#total = context.getState(TOTAL)
  }
  override processElement1(event: Event, _context: KeyedContext<string>, out: Collector<Total>): void {
    out.collect(add(this.#total, event))
  }
  override processElement2(event: Event, _context: KeyedContext<string>, out: Collector<Total>): void {
    out.collect(add(this.#total, event))
  }
}

const isKept = ({ amount }: { readonly amount: number }): boolean => amount % 10 !== 3

/** The records of an input as the source makes them. */
function events(input: RecordsByTopic, topic: string): Event[] {
  return (input.get(topic) ?? []).map((record) => ({
    ...(record.value as { key: string; amount: number }),
    from: { topic, partition: record.partition, offset: Number(record.offset) },
  }))
}

/** Where the records of each output come from. */
function origins(outputs: Readonly<Record<string, readonly Event[]>>): Map<string, readonly Origin[]> {
  return new Map(Object.entries(outputs).map(([topic, made]) => [topic, made.map(({ from }) => from)]))
}

const values = (output: RecordsByTopic, topic: string): any[] =>
  (output.get(topic) ?? []).map(({ value }) => value)

function record(random: { integer(min: number, max: number): number }, { keys }: Scenario) {
  const key = `k${random.integer(1, keys)}`
  return { key, value: JSON.stringify({ key, amount: random.integer(0, 99) }) }
}

/** Filter and map, chained into one task. */
export const etl: SimulatedJob = {
  name: 'etl',
  inputs: ['etl-in'],
  outputs: ['etl-out'],
  groupId: 'etl-readers',
  record,
  declare: (scenario) => (env) => {
    const kept = source(env, scenario, 'etl', 'etl-in').filter(isKept).uid('keep')
    sink(kept.map((event) => ({ ...event, cents: event.amount * 100 })).uid('cents'), scenario, 'etl-out')
  },
  expected: (input) => origins({ 'etl-out': events(input, 'etl-in').filter(isKept) }),
  verify: (input, output) =>
    difference(
      'etl-out',
      events(input, 'etl-in')
        .filter(isKept)
        .map((event) => ({ ...event, cents: event.amount * 100 })),
      values(output, 'etl-out'),
    ),
}

/** Running count and sum per key: exact, and in order per key. */
export const keyed: SimulatedJob = {
  name: 'keyed',
  inputs: ['keyed-in'],
  outputs: ['keyed-out'],
  groupId: 'keyed-readers',
  record,
  declare: (scenario) => (env) => {
    const totals = source(env, scenario, 'keyed', 'keyed-in')
      .keyBy(({ key }) => key)
      .process(new Totals())
      .uid('totals')
    sink(totals, scenario, 'keyed-out')
  },
  expected: (input) => origins({ 'keyed-out': events(input, 'keyed-in') }),
  verify: (input, output, healed) => [
    ...describeFirst('keyed-out', events(input, 'keyed-in'), values(output, 'keyed-out')),
    ...perKeyCounts(
      'keyed-out',
      healed,
      output.get('keyed-out') ?? [],
      new Map(events(input, 'keyed-in').map((event) => [JSON.stringify(event.from), event.amount])),
    ),
  ],
}

/** Two sources, one stream, through a shuffle. */
export const union: SimulatedJob = {
  name: 'union',
  inputs: ['union-a', 'union-b'],
  outputs: ['union-out'],
  groupId: 'union-readers',
  record,
  declare: (scenario) => (env) => {
    const a = source(env, scenario, 'union', 'union-a')
    const b = source(env, scenario, 'union', 'union-b')
    sink(
      a
        .union(b)
        .rebalance()
        .map((event) => ({ ...event, both: true }))
        .uid('both'),
      scenario,
      'union-out',
    )
  },
  expected: (input) => origins({ 'union-out': [...events(input, 'union-a'), ...events(input, 'union-b')] }),
  verify: (input, output) =>
    difference(
      'union-out',
      [...events(input, 'union-a'), ...events(input, 'union-b')].map((event) => ({ ...event, both: true })),
      values(output, 'union-out'),
    ),
}

/** Two keyed sources that share their state. */
export const connected: SimulatedJob = {
  name: 'connected',
  inputs: ['connected-a', 'connected-b'],
  outputs: ['connected-out'],
  groupId: 'connected-readers',
  record,
  declare: (scenario) => (env) => {
    const a = source(env, scenario, 'connected', 'connected-a').keyBy(({ key }) => key)
    const b = source(env, scenario, 'connected', 'connected-b').keyBy(({ key }) => key)
    sink(a.connect(b).process(new SharedTotals()).uid('totals'), scenario, 'connected-out')
  },
  expected: (input) =>
    origins({ 'connected-out': [...events(input, 'connected-a'), ...events(input, 'connected-b')] }),
  verify: (input, output, healed) => {
    const all = [...events(input, 'connected-a'), ...events(input, 'connected-b')]
    return [
      ...describeFirst('connected-out', all, values(output, 'connected-out')),
      ...perKeyCounts(
        'connected-out',
        healed,
        output.get('connected-out') ?? [],
        new Map(all.map((event) => [JSON.stringify(event.from), event.amount])),
      ),
    ]
  },
}

/** One stream into two topics, one of them behind a keyed aggregate. */
export const twoSinks: SimulatedJob = {
  name: 'two-sinks',
  inputs: ['two-in'],
  outputs: ['two-plain', 'two-totals'],
  groupId: 'two-sinks-readers',
  record,
  declare: (scenario) => (env) => {
    const all = source(env, scenario, 'two-sinks', 'two-in')
    sink(all.filter(isKept).uid('keep'), scenario, 'two-plain')
    sink(
      all
        .keyBy(({ key }) => key)
        .process(new Totals())
        .uid('totals'),
      scenario,
      'two-totals',
    )
  },
  expected: (input) => {
    const all = events(input, 'two-in')
    return origins({ 'two-plain': all.filter(isKept), 'two-totals': all })
  },
  verify: (input, output, healed) => {
    const all = events(input, 'two-in')
    return [
      ...difference('two-plain', all.filter(isKept), values(output, 'two-plain')),
      ...describeFirst('two-totals', all, values(output, 'two-totals')),
      ...perKeyCounts(
        'two-totals',
        healed,
        output.get('two-totals') ?? [],
        new Map(all.map((event) => [JSON.stringify(event.from), event.amount])),
      ),
    ]
  },
}

/** Records are written up to so many ms out of order. */
const DISORDER_MS = 200
const WINDOW_MS = 50
/** Key of the record that raises the watermark of its partition above all windows. */
const END = 'end'
const END_MS = 1_000_000

function timedRecord(random: SeededRandom, scenario: Scenario, now: number): PlainRecordInput {
  return { ...record(random, scenario), timestamp: now - random.integer(0, DISORDER_MS) }
}

const outOfOrder = WatermarkStrategy.forBoundedOutOfOrderness<Event>(DISORDER_MS)

/** In the order of the log, so that two lists of one content are one text. */
function sorted(from: readonly Origin[]): Origin[] {
  return from.toSorted(
    (a, b) => a.topic.localeCompare(b.topic) || a.partition - b.partition || a.offset - b.offset,
  )
}

/** Sum of a key in a window. */
class WindowSum extends ProcessWindowFunction<Event, Gathered, string> {
  override process(
    key: string,
    context: ProcessWindowContext<TimeWindow>,
    elements: readonly Event[],
    out: Collector<Gathered>,
  ): void {
    out.collect({
      from: elements.map(({ from }) => from),
      key,
      sum: elements.reduce((sum, { amount }) => sum + amount, 0),
      start: context.window().start,
    })
  }
}

/** Tumbling windows of event time, whose watermarks come from all partitions. */
export const windows: SimulatedJob = {
  name: 'windows',
  inputs: ['windows-in'],
  outputs: ['windows-out'],
  groupId: 'windows-readers',
  limits: { fixedPartitions: true, waitsForTime: true },
  record: timedRecord,
  closing: (now) => ({
    key: END,
    value: JSON.stringify({ key: END, amount: 0 }),
    timestamp: now + END_MS,
  }),
  declare: (scenario) => (env) => {
    const sums = source(env, scenario, 'windows', 'windows-in', outOfOrder)
      .keyBy(({ key }) => key)
      .window(TumblingEventTimeWindows.of(WINDOW_MS))
      .process(new WindowSum())
      .uid('sums')
    sink(sums.filter(({ key }) => key !== END).uid('no-end'), scenario, 'windows-out')
  },
  expected: (input) => origins({ 'windows-out': events(input, 'windows-in').filter(isNoEnd) }),
  verify: (input, output) => {
    const stamped = new Map(
      (input.get('windows-in') ?? []).map((seen) => [`${seen.partition}/${seen.offset}`, seen.timestamp]),
    )
    const start = ({ from }: Event): number => {
      const timestamp = stamped.get(`${from.partition}/${from.offset}`)!
      return timestamp - (timestamp % WINDOW_MS)
    }
    const byWindow = Map.groupBy(
      events(input, 'windows-in').filter(isNoEnd),
      (event) => `${start(event)} ${event.key}`,
    )
    const expected = [...byWindow.values()].map((contents) => ({
      from: sorted(contents.map(({ from }) => from)),
      key: contents[0]!.key,
      sum: contents.reduce((sum, { amount }) => sum + amount, 0),
      start: start(contents[0]!),
    }))
    const actual = values(output, 'windows-out').map((value) => ({ ...value, from: sorted(value.from) }))
    return difference('windows-out', expected, actual)
  },
}

const isNoEnd = ({ key }: Event): boolean => key !== END

const GATHER_MS = 40
const PENDING = new ListStateDescriptor<Event>('pending')

/** Gathers the records of a key until a timer comes. */
abstract class Gather extends KeyedProcessFunction<string, Event, Gathered> {
  #pending!: ListState<Event>

  override open(context: RuntimeContext): void {
    this.#pending = context.getListState(PENDING)
  }

  override processElement(event: Event, context: KeyedContext<string>): void {
    const isFirst = [...this.#pending.get()].length === 0
    this.#pending.add(event)
    if (isFirst) this.register(context)
  }

  protected abstract register(context: KeyedContext<string>): void

  override onTimer(_at: number, context: OnTimerContext<string>, out: Collector<Gathered>): void {
    const gathered = [...this.#pending.get()]
    this.#pending.clear()
    out.collect({
      from: gathered.map(({ from }) => from),
      key: context.getCurrentKey(),
      sum: gathered.reduce((sum, { amount }) => sum + amount, 0),
    })
  }
}

class GatherByEventTime extends Gather {
  protected override register(context: KeyedContext<string>): void {
    context.timerService().registerEventTimeTimer((context.timestamp() as number) + GATHER_MS)
  }
}

class GatherByProcessingTime extends Gather {
  protected override register(context: KeyedContext<string>): void {
    const timers = context.timerService()
    timers.registerProcessingTimeTimer(timers.currentProcessingTime() + GATHER_MS)
  }
}

/** State that waits for timers, of event time where the input ends and of processing time where it does not: which records come together is chance, but each comes once. */
export const timers: SimulatedJob = {
  name: 'timers',
  inputs: ['timers-in'],
  outputs: ['timers-out'],
  groupId: 'timers-readers',
  limits: { waitsForTime: true },
  record: timedRecord,
  declare: (scenario) => (env) => {
    const gathered = source(env, scenario, 'timers', 'timers-in', outOfOrder)
      .keyBy(({ key }) => key)
      .process(scenario.bounded ? new GatherByEventTime() : new GatherByProcessingTime())
      .uid('gather')
    sink(gathered, scenario, 'timers-out')
  },
  expected: (input) => origins({ 'timers-out': events(input, 'timers-in') }),
  verify: (input, output) => {
    const all = events(input, 'timers-in')
    const known = new Map(all.map((event) => [JSON.stringify(event.from), event]))
    const gathered = values(output, 'timers-out') as Gathered[]
    const wrong = gathered.filter(({ from, key, sum }) => {
      const made = from.map((origin) => known.get(JSON.stringify(origin)))
      return (
        sum !== made.reduce((total, event) => total + (event?.amount ?? Number.NaN), 0) ||
        made.some((event) => event?.key !== key)
      )
    })
    return [
      ...describeFirst(
        'timers-out',
        all,
        gathered.flatMap(({ from }) => from.map((origin) => ({ from: origin }))),
      ),
      ...wrong
        .slice(0, 1)
        .map((value) => `timers-out: ${JSON.stringify(value)} is not the sum of its records`),
    ]
  },
}

/** All of them; a seed picks one. */
export const JOBS: readonly SimulatedJob[] = [etl, keyed, union, connected, twoSinks, windows, timers]

export type { SeenRecord }
