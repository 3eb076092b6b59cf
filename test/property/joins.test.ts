import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { OperatorSpec } from '../../src/api/graph-builder.ts'
import { IntervalJoin } from '../../src/api/interval-join.ts'
import { CoGroupedStreams, JoinedStreams } from '../../src/api/joined-streams.ts'
import type { OpenStream } from '../../src/api/open-stream.ts'
import { MAX_WATERMARK } from '../../src/core/element.ts'
import { OutputTag } from '../../src/core/output-tag.ts'
import { SlidingEventTimeWindows, TumblingEventTimeWindows } from '../../src/core/windows/assigners.ts'
import { EventTimeSessionWindows } from '../../src/core/windows/session-assigners.ts'
import type { WindowAssigner } from '../../src/core/windows/window-assigner.ts'
import { OperatorHarness } from '../../src/testing/operator-harness.ts'
import { type Arrival, EventTimeOracle, windowsByTrial } from './window-oracle.ts'

/** Event sequences for each kind of join; scripts/test sets 10,000. */
const RUNS = Number(process.env['WINDOW_SEQUENCES'] ?? 500)
const TIMEOUT_MS = 20_000 + RUNS * 50

/** Where a spec goes instead of a graph. */
interface SpecStream extends OpenStream {
  readonly stream: OperatorSpec
}
const pair = { add: (spec: OperatorSpec) => spec }
const keyOf = ({ key }: Arrival) => key

type Step =
  | { readonly kind: 'record'; readonly side: 1 | 2; readonly key: string; readonly time: number }
  | { readonly kind: 'watermark'; readonly by: number }
  | { readonly kind: 'restore' }

const steps = fc.array(
  fc.oneof(
    {
      weight: 14,
      arbitrary: fc.record({
        kind: fc.constant('record' as const),
        side: fc.constantFrom<1 | 2>(1, 2),
        key: fc.constantFrom('a', 'b'),
        time: fc.integer({ min: -20, max: 50 }),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ kind: fc.constant('watermark' as const), by: fc.integer({ min: 1, max: 15 }) }),
    },
    { weight: 1, arbitrary: fc.constant({ kind: 'restore' as const }) },
  ),
  { minLength: 1, maxLength: 40 },
)

interface Driven {
  readonly harness: () => OperatorHarness<Arrival, any, Arrival>
  /** What came out in the last step. */
  readonly out: readonly { readonly value: any; readonly timestamp: number | null }[]
}

/**
 * Runs a sequence; a restore in the middle changes nothing, as the watermark is the old one again before the next record.
 * The last step is the end of all event time: nothing is left then.
 */
async function run(
  spec: OperatorSpec,
  sequence: readonly Step[],
  check: (step: Step, id: number, watermark: number, driven: Driven) => void,
): Promise<void> {
  const open = (restore?: any) =>
    OperatorHarness.of<Arrival, any, Arrival>(spec.factory, {
      keyed: true,
      vectorSize: 3,
      ...(restore && { restore }),
    })
  let harness = await open()
  let watermark = -30
  for (const [id, step] of [...sequence, { kind: 'watermark', by: 0 } as const].entries()) {
    if (step.kind === 'record') {
      const arrival = { key: step.key, time: step.time, id }
      if (step.side === 1) await harness.processElement(arrival, step.time)
      else await harness.processElement2(arrival, step.time)
    } else if (step.kind === 'watermark') {
      watermark = id === sequence.length ? MAX_WATERMARK : watermark + step.by
      await harness.processWatermark(watermark)
    } else {
      harness = await open(await harness.snapshot(id))
      await harness.processWatermark(watermark)
    }
    check(step, id, watermark, { harness: () => harness, out: harness.takeRecords() })
  }
  expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
}

interface Bounds {
  readonly lower: number
  readonly upper: number
  readonly lowerExclusive: boolean
  readonly upperExclusive: boolean
}
const bounds = fc
  .record({
    lower: fc.integer({ min: -15, max: 10 }),
    length: fc.integer({ min: 0, max: 20 }),
    lowerExclusive: fc.boolean(),
    upperExclusive: fc.boolean(),
  })
  .filter(
    ({ length, lowerExclusive, upperExclusive }) => length >= Number(lowerExclusive) + Number(upperExclusive),
  )
  .map(({ lower, length, ...rest }): Bounds => ({ lower, upper: lower + length, ...rest }))

/** All records are kept; a pair is told by looking at every one of them. */
class IntervalOracle {
  private readonly bounds: Bounds
  private readonly seen: (Arrival & { readonly side: 1 | 2 })[] = []
  readonly late: number[] = []

  constructor(of: Bounds) {
    this.bounds = of
  }

  record(arrival: Arrival, side: 1 | 2, watermark: number): string[] {
    if (arrival.time < watermark) {
      this.late.push(arrival.id)
      return []
    }
    const pairs = this.seen
      .filter((other) => other.side !== side && other.key === arrival.key)
      .filter((other) => other.time + this.keptFor(other.side) > watermark)
      .map((other) => (side === 1 ? ([arrival, other] as const) : ([other, arrival] as const)))
      .filter(([left, right]) => this.isWithin(right.time - left.time))
    this.seen.push({ ...arrival, side })
    return pairs.map(([left, right]) => `${left.id}+${right.id}@${Math.max(left.time, right.time)}`)
  }

  private isWithin(distance: number): boolean {
    const { lower, upper, lowerExclusive, upperExclusive } = this.bounds
    return (
      (lowerExclusive ? distance > lower : distance >= lower) &&
      (upperExclusive ? distance < upper : distance <= upper)
    )
  }

  /** Flink removes a record when the watermark says that nothing can meet it. */
  private keptFor(side: 1 | 2): number {
    const { lower, upper, lowerExclusive, upperExclusive } = this.bounds
    return side === 1
      ? Math.max(upper - Number(upperExclusive), 0)
      : Math.max(-(lower + Number(lowerExclusive)), 0)
  }
}

test(
  'an interval join gives the pairs that looking at every record gives',
  async () => {
    const late = new OutputTag<Arrival>('late')
    await fc.assert(
      fc.asyncProperty(bounds, steps, async (of, sequence) => {
        const joined = new IntervalJoin<Arrival, Arrival, SpecStream>(pair, [keyOf, keyOf]).between(
          of.lower,
          of.upper,
        )
        if (of.lowerExclusive) joined.lowerBoundExclusive()
        if (of.upperExclusive) joined.upperBoundExclusive()
        const spec = joined
          .sideOutputLeftLateData(late)
          .sideOutputRightLateData(late)
          .process((left, right, _context, out) => out.collect(`${left.id}+${right.id}`))
        const oracle = new IntervalOracle(of)
        await run(spec, sequence, (step, id, watermark, { out, harness }) => {
          const lateBefore = oracle.late.length
          const expected =
            step.kind === 'record'
              ? oracle.record({ key: step.key, time: step.time, id }, step.side, watermark)
              : []
          expect(out.map(({ value, timestamp }) => `${value}@${timestamp}`).sort()).toEqual(expected.sort())
          if (oracle.late.length > lateBefore)
            expect(harness().sideRecords(late).at(-1)?.value.id).toBe(oracle.late.at(-1))
        })
      }),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)

const sized = fc.record({ size: fc.integer({ min: 1, max: 25 }), slide: fc.integer({ min: 1, max: 25 }) })
interface Windows {
  readonly assigner: WindowAssigner<any, any>
  readonly windowsOf: (time: number) => { start: number; end: number }[]
  readonly merges: boolean
}
const windows = fc.oneof(
  sized.map(
    ({ size }): Windows => ({
      assigner: TumblingEventTimeWindows.of(size),
      windowsOf: (time) => windowsByTrial(time, { size, slide: size, offset: 0 }),
      merges: false,
    }),
  ),
  sized.map(
    ({ size, slide }): Windows => ({
      assigner: SlidingEventTimeWindows.of(size, slide),
      windowsOf: (time) => windowsByTrial(time, { size, slide, offset: 0 }),
      merges: false,
    }),
  ),
  sized.map(
    ({ size }): Windows => ({
      assigner: EventTimeSessionWindows.withGap(size),
      windowsOf: (time) => [{ start: time, end: time + size }],
      merges: true,
    }),
  ),
)
const lateness = fc.constantFrom(0, 0, 3, 20, 1_000)

/** What the window oracle fired since `from`: the ids of each window and its last millisecond. */
function firedSince(oracle: EventTimeOracle, from: number): { ids: number[]; end: number }[] {
  return oracle.fired.slice(from).map((text) => {
    const [, end, ids] = /^\S+ -?\d+-(-?\d+): (.*)$/.exec(text)!
    return { ids: ids!.split(' ').map(Number), end: Number(end) - 1 }
  })
}

/** Compares what fires with the oracle's firings, told by `tell` from the ids of both sides. */
async function compareWindows(
  spec: OperatorSpec,
  { windowsOf, merges }: Windows,
  late: number,
  sequence: readonly Step[],
  tell: (first: number[], second: number[]) => string[],
): Promise<void> {
  const oracle = new EventTimeOracle(windowsOf, late, merges)
  const sideOf = new Map<number, 1 | 2>()
  await run(spec, sequence, (step, id, watermark, { out }) => {
    const before = oracle.fired.length
    if (step.kind === 'record') {
      sideOf.set(id, step.side)
      oracle.record({ key: step.key, time: step.time, id })
    } else oracle.advance(watermark)
    const expected = firedSince(oracle, before).flatMap(({ ids, end }) =>
      tell(
        ids.filter((each) => sideOf.get(each) === 1),
        ids.filter((each) => sideOf.get(each) === 2),
      ).map((text) => `${text}@${end}`),
    )
    expect(out.map(({ value, timestamp }) => `${value}@${timestamp}`).sort()).toEqual(expected.sort())
  })
}

test(
  'a window join gives the pairs of each window that the oracle finds',
  async () => {
    await fc.assert(
      fc.asyncProperty(windows, lateness, steps, async (kind, late, sequence) => {
        const spec = new JoinedStreams<Arrival, Arrival, SpecStream>(pair)
          .where(keyOf)
          .equalTo(keyOf)
          .window(kind.assigner)
          .allowedLateness(late)
          .apply((a, b) => `${a.id}+${b.id}`)
        await compareWindows(spec, kind, late, sequence, (first, second) =>
          first.flatMap((a) => second.map((b) => `${a}+${b}`)),
        )
      }),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)

test(
  'a coGroup gives both sides of each window that the oracle finds',
  async () => {
    const ids = (rows: readonly Arrival[]) =>
      rows
        .map(({ id }) => id)
        .sort((a, b) => a - b)
        .join(' ')
    await fc.assert(
      fc.asyncProperty(windows, lateness, steps, async (kind, late, sequence) => {
        const spec = new CoGroupedStreams<Arrival, Arrival, SpecStream>(pair)
          .where(keyOf)
          .equalTo(keyOf)
          .window(kind.assigner)
          .allowedLateness(late)
          .apply((first, second) => [`${ids(first)}|${ids(second)}`])
        await compareWindows(spec, kind, late, sequence, (first, second) => [
          `${first.join(' ')}|${second.join(' ')}`,
        ])
      }),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)
