/** Simulated jobs that bring records together by their times: sessions, a window join, an interval join. */
import type { Collector } from '../../src/core/functions.ts'
import { ProcessJoinFunction } from '../../src/core/operators/join-context.ts'
import { TumblingEventTimeWindows } from '../../src/core/windows/assigners.ts'
import { EventTimeSessionWindows } from '../../src/core/windows/session-assigners.ts'
import type { RecordsByTopic, SimulatedJob } from '../../src/testing/simulated-job.ts'
import type { Origin } from '../../src/testing/simulation-units.ts'
import {
  END,
  END_MS,
  type Event,
  events,
  isNoEnd,
  origins,
  outOfOrder,
  sink,
  sorted,
  source,
  timedRecord,
  values,
  WindowSum,
} from './job-ends.ts'
import { difference } from './oracle.ts'

/** A record and its time. */
interface Timed extends Event {
  readonly at: number
}

/** Two records that met. */
interface Pair {
  readonly from: readonly [left: Origin, right: Origin]
  /** They count as one: either may be part of other pairs, too. */
  readonly pair: true
  readonly key: string
  readonly sum: number
}

const closing = (now: number) => ({
  key: END,
  value: JSON.stringify({ key: END, amount: 0 }),
  timestamp: now + END_MS,
})

/** The records of an input with their times, without those that only close it. */
function timed(input: RecordsByTopic, topic: string): Timed[] {
  const stamps = new Map(
    (input.get(topic) ?? []).map(({ partition, offset, timestamp }) => [`${partition}/${offset}`, timestamp]),
  )
  return events(input, topic)
    .filter(isNoEnd)
    .map((event) => ({ ...event, at: stamps.get(`${event.from.partition}/${event.from.offset}`) as number }))
}

const GAP_MS = 30

/** Sessions of a key, which merge as records come in between. */
export const sessions: SimulatedJob = {
  name: 'sessions',
  inputs: ['sessions-in'],
  outputs: ['sessions-out'],
  groupId: 'sessions-readers',
  limits: { fixedPartitions: true, waitsForTime: true },
  record: timedRecord,
  closing,
  declare: (scenario) => (env, world) => {
    const sums = source(env, scenario, 'sessions', 'sessions-in', outOfOrder)
      .filter(isNoEnd)
      .uid('no-end')
      .keyBy(({ key }) => key)
      .window(EventTimeSessionWindows.withGap(GAP_MS))
      .process(new WindowSum())
      .uid('sums')
    sink(sums, scenario, 'sessions-out', world)
  },
  expected: (input) => origins({ 'sessions-out': timed(input, 'sessions-in') }),
  verify: (input, output) => {
    const expected = [...Map.groupBy(timed(input, 'sessions-in'), ({ key }) => key)].flatMap(([key, all]) => {
      const found: Timed[][] = []
      for (const event of all.toSorted((a, b) => a.at - b.at)) {
        const session = found.at(-1)
        if (session !== undefined && event.at - session.at(-1)!.at <= GAP_MS) session.push(event)
        else found.push([event])
      }
      return found.map((session) => ({
        from: sorted(session.map(({ from }) => from)),
        key,
        sum: session.reduce((sum, { amount }) => sum + amount, 0),
        start: session[0]!.at,
      }))
    })
    const actual = values(output, 'sessions-out').map((value) => ({ ...value, from: sorted(value.from) }))
    return difference('sessions-out', expected, actual)
  },
}

/** Pairs of the two inputs that meet. */
function pairs(input: RecordsByTopic, a: string, b: string, meet: (a: Timed, b: Timed) => boolean): Pair[] {
  const right = Map.groupBy(timed(input, b), ({ key }) => key)
  return timed(input, a).flatMap((left) =>
    (right.get(left.key) ?? []).filter((other) => meet(left, other)).map((other) => paired(left, other)),
  )
}

function paired(left: Event, right: Event): Pair {
  return { from: [left.from, right.from], pair: true, key: left.key, sum: left.amount + right.amount }
}

const JOIN_MS = 100

function isSameWindow(a: Timed, b: Timed): boolean {
  return Math.floor(a.at / JOIN_MS) === Math.floor(b.at / JOIN_MS)
}

/** Pairs of two topics in tumbling windows. */
export const windowJoin: SimulatedJob = {
  name: 'window-join',
  inputs: ['window-join-a', 'window-join-b'],
  outputs: ['window-join-out'],
  groupId: 'window-join-readers',
  limits: { fixedPartitions: true, waitsForTime: true },
  record: timedRecord,
  closing,
  declare: (scenario) => (env, world) => {
    const a = source(env, scenario, 'window-join', 'window-join-a', outOfOrder)
      .filter(isNoEnd)
      .uid('no-end-a')
    const b = source(env, scenario, 'window-join', 'window-join-b', outOfOrder)
      .filter(isNoEnd)
      .uid('no-end-b')
    const joined = a
      .join(b)
      .where(({ key }) => key)
      .equalTo(({ key }) => key)
      .window(TumblingEventTimeWindows.of(JOIN_MS))
      .apply((left, right) => paired(left, right))
      .uid('join')
    sink(joined, scenario, 'window-join-out', world)
  },
  expected: (input) =>
    new Map([
      [
        'window-join-out',
        pairs(input, 'window-join-a', 'window-join-b', isSameWindow).map(({ from }) => from),
      ],
    ]),
  verify: (input, output) =>
    difference(
      'window-join-out',
      pairs(input, 'window-join-a', 'window-join-b', isSameWindow),
      values(output, 'window-join-out'),
    ),
}

const BEFORE_MS = 30
const AFTER_MS = 60

/** The upper bound is left out. */
function isNear(left: Timed, right: Timed): boolean {
  return right.at >= left.at - BEFORE_MS && right.at < left.at + AFTER_MS
}

class Near extends ProcessJoinFunction<Event, Event, Pair> {
  override processElement(left: Event, right: Event, _context: unknown, out: Collector<Pair>): void {
    out.collect(paired(left, right))
  }
}

/** Pairs of two topics that are close in time. */
export const intervalJoin: SimulatedJob = {
  name: 'interval-join',
  inputs: ['interval-join-a', 'interval-join-b'],
  outputs: ['interval-join-out'],
  groupId: 'interval-join-readers',
  limits: { fixedPartitions: true, waitsForTime: true },
  record: timedRecord,
  closing,
  declare: (scenario) => (env, world) => {
    const a = source(env, scenario, 'interval-join', 'interval-join-a', outOfOrder)
    const b = source(env, scenario, 'interval-join', 'interval-join-b', outOfOrder)
    const joined = a
      .filter(isNoEnd)
      .uid('no-end-a')
      .keyBy(({ key }) => key)
      .intervalJoin(
        b
          .filter(isNoEnd)
          .uid('no-end-b')
          .keyBy(({ key }) => key),
      )
      .between(-BEFORE_MS, AFTER_MS)
      .upperBoundExclusive()
      .process(new Near())
      .uid('join')
    sink(joined, scenario, 'interval-join-out', world)
  },
  expected: (input) =>
    new Map([
      [
        'interval-join-out',
        pairs(input, 'interval-join-a', 'interval-join-b', isNear).map(({ from }) => from),
      ],
    ]),
  verify: (input, output) =>
    difference(
      'interval-join-out',
      pairs(input, 'interval-join-a', 'interval-join-b', isNear),
      values(output, 'interval-join-out'),
    ),
}
