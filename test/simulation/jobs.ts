/**
 * The jobs that are simulated: declared with the public API and run unchanged, each with the oracle that knows its output.
 */

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
import { TumblingEventTimeWindows } from '../../src/core/windows/assigners.ts'
import type { SimulatedJob } from '../../src/testing/simulated-job.ts'
import type { SeenRecord } from '../../src/testing/simulation-units.ts'
import { asyncOrdered, asyncUnordered } from './async-jobs.ts'
import {
  END,
  END_MS,
  type Event,
  events,
  type Gathered,
  isNoEnd,
  origins,
  outOfOrder,
  record,
  sink,
  sorted,
  source,
  type Total,
  timedRecord,
  values,
  WindowSum,
} from './job-ends.ts'
import { intervalJoin, sessions, windowJoin } from './join-jobs.ts'
import { describeFirst, difference, perKeyCounts } from './oracle.ts'

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

/** Filter and map, chained into one task. */
export const etl: SimulatedJob = {
  name: 'etl',
  inputs: ['etl-in'],
  outputs: ['etl-out'],
  groupId: 'etl-readers',
  record,
  declare: (scenario) => (env, world) => {
    const kept = source(env, scenario, 'etl', 'etl-in').filter(isKept).uid('keep')
    sink(
      kept.map((event) => ({ ...event, cents: event.amount * 100 })).uid('cents'),
      scenario,
      'etl-out',
      world,
    )
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
  declare: (scenario) => (env, world) => {
    const totals = source(env, scenario, 'keyed', 'keyed-in')
      .keyBy(({ key }) => key)
      .process(new Totals())
      .uid('totals')
    sink(totals, scenario, 'keyed-out', world)
  },
  expected: (input) => origins({ 'keyed-out': events(input, 'keyed-in') }),
  verify: (input, output, { healed }) => [
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
  declare: (scenario) => (env, world) => {
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
      world,
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
  declare: (scenario) => (env, world) => {
    const a = source(env, scenario, 'connected', 'connected-a').keyBy(({ key }) => key)
    const b = source(env, scenario, 'connected', 'connected-b').keyBy(({ key }) => key)
    sink(a.connect(b).process(new SharedTotals()).uid('totals'), scenario, 'connected-out', world)
  },
  expected: (input) =>
    origins({ 'connected-out': [...events(input, 'connected-a'), ...events(input, 'connected-b')] }),
  verify: (input, output, { healed }) => {
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
  declare: (scenario) => (env, world) => {
    const all = source(env, scenario, 'two-sinks', 'two-in')
    sink(all.filter(isKept).uid('keep'), scenario, 'two-plain', world)
    sink(
      all
        .keyBy(({ key }) => key)
        .process(new Totals())
        .uid('totals'),
      scenario,
      'two-totals',
      world,
    )
  },
  expected: (input) => {
    const all = events(input, 'two-in')
    return origins({ 'two-plain': all.filter(isKept), 'two-totals': all })
  },
  verify: (input, output, { healed }) => {
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

const WINDOW_MS = 50

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
  declare: (scenario) => (env, world) => {
    const sums = source(env, scenario, 'windows', 'windows-in', outOfOrder)
      .keyBy(({ key }) => key)
      .window(TumblingEventTimeWindows.of(WINDOW_MS))
      .process(new WindowSum())
      .uid('sums')
    sink(sums.filter(({ key }) => key !== END).uid('no-end'), scenario, 'windows-out', world)
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
  declare: (scenario) => (env, world) => {
    const gathered = source(env, scenario, 'timers', 'timers-in', outOfOrder)
      .keyBy(({ key }) => key)
      .process(scenario.bounded ? new GatherByEventTime() : new GatherByProcessingTime())
      .uid('gather')
    sink(gathered, scenario, 'timers-out', world)
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
export const JOBS: readonly SimulatedJob[] = [
  etl,
  keyed,
  union,
  connected,
  twoSinks,
  windows,
  timers,
  sessions,
  windowJoin,
  intervalJoin,
  asyncOrdered,
  asyncUnordered,
]

export type { SeenRecord }
