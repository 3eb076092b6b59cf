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
  type RuntimeContext,
} from '../../src/core/functions.ts'
import type { ValueState } from '../../src/core/state.ts'
import { ValueStateDescriptor } from '../../src/core/state.ts'
import { WatermarkStrategy } from '../../src/core/time/watermarks.ts'
import { kafkaSink } from '../../src/kafka/kafka-sink.ts'
import { kafkaSource } from '../../src/kafka/kafka-source.ts'
import { OffsetsInitializer } from '../../src/kafka/offsets.ts'
import { json } from '../../src/serdes/serdes.ts'
import type { RecordsByTopic, SimulatedJob } from '../../src/testing/simulation.ts'
import type { Origin, SeenRecord } from '../../src/testing/simulation-invariants.ts'
import type { Scenario } from '../../src/testing/simulation-scenario.ts'
import { describeFirst, difference, perKeyCounts } from './oracle.ts'

interface Event {
  readonly from: Origin
  readonly key: string
  readonly amount: number
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
): DataStream<Event> {
  return env
    .fromSource(
      kafkaSource<Event>({
        topics: [topic],
        groupId: `${job}-readers`,
        startingOffsets: OffsetsInitializer.earliest(),
        ...(scenario.bounded ? { bounded: OffsetsInitializer.latest() } : {}),
        deserializer: ({ partition, offset, value }) => ({
          ...(JSON.parse(Buffer.from(value!).toString()) as { key: string; amount: number }),
          from: { topic, partition, offset: Number(offset) },
        }),
      }),
      WatermarkStrategy.noWatermarks(),
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
        deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
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
  expected: (input) => events(input, 'etl-in').filter(isKept).length,
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
  expected: (input) => events(input, 'keyed-in').length,
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
  expected: (input) => events(input, 'union-a').length + events(input, 'union-b').length,
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
  expected: (input) => events(input, 'connected-a').length + events(input, 'connected-b').length,
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
    return all.length + all.filter(isKept).length
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

/** All of them; a seed picks one. */
export const JOBS: readonly SimulatedJob[] = [etl, keyed, union, connected, twoSinks]

export type { SeenRecord }
