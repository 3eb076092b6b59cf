import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { OperatorSpec } from '../../src/api/graph-builder.ts'
import { WindowSettings } from '../../src/api/window-specs.ts'
import { MAX_WATERMARK } from '../../src/core/element.ts'
import { OutputTag } from '../../src/core/output-tag.ts'
import {
  GlobalWindows,
  SlidingEventTimeWindows,
  SlidingProcessingTimeWindows,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from '../../src/core/windows/assigners.ts'
import { CountEvictor } from '../../src/core/windows/evictors.ts'
import {
  EventTimeSessionWindows,
  ProcessingTimeSessionWindows,
} from '../../src/core/windows/session-assigners.ts'
import { CountTrigger, PurgingTrigger } from '../../src/core/windows/triggers.ts'
import type { WindowAssigner } from '../../src/core/windows/window-assigner.ts'
import { OperatorHarness } from '../../src/testing/operator-harness.ts'
import { type Arrival, ClockOracle, EventTimeOracle, windowsByTrial } from './window-oracle.ts'

/** Event sequences for each kind of window; scripts/test sets 10,000. */
const RUNS = Number(process.env['WINDOW_SEQUENCES'] ?? 500)
const TIMEOUT_MS = 20_000 + RUNS * 50

const late = new OutputTag<Arrival>('late')

/** How the contents are kept; all must tell the same ids. */
type Kept = 'list' | 'aggregate' | 'reduce' | 'evicted'
const kept = fc.constantFrom<Kept>('list', 'aggregate', 'reduce', 'evicted')

/** 'key start-end: ids', whatever the contents are kept as. */
function specOf(windows: WindowSettings, how: Kept): OperatorSpec {
  const emit = (key: string, context: any, [ids]: readonly (readonly number[])[], out: any) => {
    const { start, end } = context.window()
    const bounds = start === undefined ? 'all' : `${start}-${end}`
    out.collect(`${key} ${bounds}: ${ids!.toSorted((a, b) => a - b).join(' ')}`)
  }
  switch (how) {
    case 'list':
      return windows.process((key: string, context: any, rows: readonly Arrival[], out: any) =>
        emit(key, context, [rows.map(({ id }) => id)], out),
      )
    case 'evicted':
      windows.setEvictor(CountEvictor.of(1_000))
      return specOf(windows, 'aggregate')
    case 'aggregate':
      return windows.aggregate(
        {
          createAccumulator: (): number[] => [],
          add: (row: Arrival, ids: number[]) => {
            ids.push(row.id)
            return ids
          },
          getResult: (ids: number[]) => ids,
          merge: (a: number[], b: number[]) => [...a, ...b],
        },
        emit,
      )
    case 'reduce':
      return windows.reduce(
        (a: any, b: any) => ({ key: a.key, ids: [...(a.ids ?? [a.id]), ...(b.ids ?? [b.id])] }),
        (key: string, context: any, [row]: readonly any[], out: any) =>
          emit(key, context, [row.ids ?? [row.id]], out),
      )
  }
}

const settingsOf = (assigner: WindowAssigner<any, any>) =>
  new WindowSettings(assigner, (row: Arrival) => row.key, true)

type Step =
  | { readonly kind: 'record'; readonly key: string; readonly time: number }
  | { readonly kind: 'watermark'; readonly by: number }
  | { readonly kind: 'restore' }
const key = fc.constantFrom('a', 'b')
const steps = fc.array(
  fc.oneof(
    {
      weight: 12,
      arbitrary: fc.record({
        kind: fc.constant('record' as const),
        key,
        time: fc.integer({ min: -20, max: 60 }),
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

/** Runs a sequence through the operator and the oracle; after each step both must have fired the same. */
async function compareEventTime(
  spec: OperatorSpec,
  oracle: EventTimeOracle,
  sequence: readonly Step[],
): Promise<void> {
  const open = (restore?: any) =>
    OperatorHarness.of<Arrival, string>(spec.factory, {
      keyed: true,
      vectorSize: 3,
      ...(restore && { restore }),
    })
  let harness = await open()
  let watermark = -30
  const lateIds: number[] = []
  for (const [id, step] of [...sequence, { kind: 'watermark', by: 0 } as const].entries()) {
    const isLast = id === sequence.length
    const before = oracle.fired.length
    if (step.kind === 'record') {
      const arrival = { key: step.key, time: step.time, id }
      await harness.processElement(arrival, step.time)
      oracle.record(arrival)
    } else if (step.kind === 'watermark') {
      watermark = isLast ? MAX_WATERMARK : watermark + step.by
      await harness.processWatermark(watermark)
      oracle.advance(watermark)
    } else {
      lateIds.push(...harness.sideRecords(late).map(({ value }) => value.id))
      harness = await open(await harness.snapshot(id))
      oracle.restore()
      // The source goes on where it stood, so that its watermark is behind what was reached.
      watermark -= 10
    }
    const fired = harness.takeRecords()
    // By time; of windows that end together any may be first. A late record fires its windows at once, the latest first.
    const ends = fired.map(({ timestamp }) => timestamp!)
    expect(ends).toEqual(ends.toSorted((a, b) => (step.kind === 'watermark' ? a - b : b - a)))
    expect(fired.map(({ value }) => value).sort()).toEqual(oracle.fired.slice(before).sort())
  }
  lateIds.push(...harness.sideRecords(late).map(({ value }) => value.id))
  expect(lateIds).toEqual(oracle.late)
  expect(oracle.open).toBe(0)
  expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
}

function eventTime(assigner: WindowAssigner<any, any>, lateness: number, how: Kept): OperatorSpec {
  const windows = settingsOf(assigner)
  windows.setAllowedLateness(lateness)
  windows.setLateTag(late)
  return specOf(windows, how)
}
const lateness = fc.constantFrom(0, 0, 3, 20, 1_000)

test(
  'tumbling windows fire what the oracle fires, for every order of records, watermarks and restores',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        steps,
        fc.integer({ min: 1, max: 25 }),
        fc.nat(24),
        lateness,
        kept,
        async (sequence, size, shift, allowed, how) => {
          const offset = shift % size
          await compareEventTime(
            eventTime(TumblingEventTimeWindows.of(size, offset), allowed, how),
            new EventTimeOracle(
              (time) => windowsByTrial(time, { size, slide: size, offset }),
              allowed,
              false,
            ),
            sequence,
          )
        },
      ),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)

test(
  'sliding windows fire what the oracle fires, overlapping or with gaps',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        steps,
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 12 }),
        fc.nat(11),
        lateness,
        kept,
        async (sequence, size, slide, shift, allowed, how) => {
          const offset = -(shift % slide)
          await compareEventTime(
            eventTime(SlidingEventTimeWindows.of(size, slide, offset), allowed, how),
            new EventTimeOracle((time) => windowsByTrial(time, { size, slide, offset }), allowed, false),
            sequence,
          )
        },
      ),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)

test(
  'sessions fire what the oracle fires, however they merge',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        steps,
        fc.integer({ min: 1, max: 12 }),
        lateness,
        kept,
        async (sequence, gap, allowed, how) => {
          await compareEventTime(
            eventTime(EventTimeSessionWindows.withGap(gap), allowed, how),
            new EventTimeOracle((time) => [{ start: time, end: time + gap }], allowed, true),
            sequence,
          )
        },
      ),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)

test(
  'sessions with a gap of their own for each record fire what the oracle fires',
  async () => {
    const gapOf = (time: number) => 1 + ((((time * 7) % 13) + 13) % 13)
    await fc.assert(
      fc.asyncProperty(steps, lateness, kept, async (sequence, allowed, how) => {
        await compareEventTime(
          eventTime(
            EventTimeSessionWindows.withDynamicGap((row: Arrival) => gapOf(row.time)),
            allowed,
            how,
          ),
          new EventTimeOracle((time) => [{ start: time, end: time + gapOf(time) }], allowed, true),
          sequence,
        )
      }),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)

test(
  'the last result of each window is that of all records in order, if the lateness is long enough',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        steps,
        fc.integer({ min: 1, max: 12 }),
        fc.boolean(),
        async (sequence, length, merges) => {
          const assigner = merges
            ? EventTimeSessionWindows.withGap(length)
            : TumblingEventTimeWindows.of(length)
          const harness = await OperatorHarness.of<Arrival, string>(
            eventTime(assigner, 1_000, 'list').factory,
            { keyed: true },
          )
          const all: Arrival[] = []
          let watermark = -30
          for (const [id, step] of sequence.entries()) {
            if (step.kind === 'record') {
              const arrival = { key: step.key, time: step.time, id }
              all.push(arrival)
              await harness.processElement(arrival, step.time)
            } else if (step.kind === 'watermark') {
              watermark += step.by
              await harness.processWatermark(watermark)
            }
          }
          await harness.processWatermark(500)
          const groups: { key: string; start: number; end: number; ids: number[] }[] = []
          for (const { key, time, id } of all.toSorted((a, b) => a.time - b.time)) {
            const last = groups.findLast((group) => group.key === key)
            if (last !== undefined && (merges ? time <= last.end : time < last.end)) {
              last.ids.push(id)
              if (merges) last.end = time + length
            } else {
              const start = merges ? time : Math.floor(time / length) * length
              groups.push({ key, start, end: start + length, ids: [id] })
            }
          }
          const ids = new Map<string, string>()
          // A session's later results replace those of the sessions that it came from.
          for (const text of harness.values()) {
            const [name, members] = text.split(': ') as [string, string]
            const numbers = new Set(members.split(' '))
            for (const [other, before] of ids)
              if (other[0] === name[0] && before.split(' ').every((each) => numbers.has(each)))
                ids.delete(other)
            ids.set(name, members)
          }
          expect(Object.fromEntries(ids)).toEqual(
            Object.fromEntries(
              groups.map(({ key, start, end, ids }) => [
                `${key} ${start}-${end}`,
                ids.toSorted((a, b) => a - b).join(' '),
              ]),
            ),
          )
        },
      ),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)

const clockSteps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('record' as const), key }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('tick' as const), by: fc.nat(9) }) },
    { weight: 1, arbitrary: fc.constant({ kind: 'restore' as const }) },
  ),
  { minLength: 1, maxLength: 40 },
)

test(
  'windows of the clock fire what the oracle fires, tumbling, sliding and sessions',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        clockSteps,
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 6 }),
        fc.constantFrom('tumbling', 'sliding', 'sessions'),
        kept,
        async (sequence, size, slide, kind, how) => {
          const [assigner, windowsOf] =
            kind === 'tumbling'
              ? [
                  TumblingProcessingTimeWindows.of(size),
                  (time: number) => windowsByTrial(time, { size, slide: size, offset: 0 }),
                ]
              : kind === 'sliding'
                ? [
                    SlidingProcessingTimeWindows.of(size, slide),
                    (time: number) => windowsByTrial(time, { size, slide, offset: 0 }),
                  ]
                : [
                    ProcessingTimeSessionWindows.withGap(size),
                    (time: number) => [{ start: time, end: time + size }],
                  ]
          const spec = specOf(settingsOf(assigner), how)
          const oracle = new ClockOracle(windowsOf, kind === 'sessions')
          const options = { keyed: true } as const
          let harness = await OperatorHarness.of<Arrival, string>(spec.factory, options)
          let now = 0
          const fired: string[] = []
          for (const [id, step] of [...sequence, { kind: 'tick', by: 100 } as const].entries()) {
            if (step.kind === 'record') {
              await harness.processElement({ key: step.key, time: 0, id })
              oracle.record(step.key, id)
            } else if (step.kind === 'tick') {
              now += step.by
              await harness.setProcessingTime(now)
              oracle.tick(now)
            } else {
              fired.push(...harness.values())
              const restore = await harness.snapshot(id)
              harness = await OperatorHarness.of<Arrival, string>(spec.factory, {
                ...options,
                restore,
                processingTime: now,
              })
            }
          }
          fired.push(...harness.values())
          expect(fired.sort()).toEqual(oracle.fired.sort())
          expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
        },
      ),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)

test(
  'count windows fire each `size` records, or each `slide` records the last `size` of them',
  async () => {
    const sequences = fc.array(
      fc.oneof({ weight: 8, arbitrary: key }, { weight: 1, arbitrary: fc.constant('restore' as const) }),
      {
        maxLength: 40,
      },
    )
    await fc.assert(
      fc.asyncProperty(
        sequences,
        fc.integer({ min: 1, max: 6 }),
        fc.option(fc.integer({ min: 1, max: 6 })),
        async (sequence, size, slide) => {
          const windows = settingsOf(GlobalWindows.create())
          windows.setTrigger(
            slide === null ? PurgingTrigger.of(CountTrigger.of(size)) : CountTrigger.of(slide),
          )
          if (slide !== null) windows.setEvictor(CountEvictor.of(size))
          const spec = specOf(windows, 'list')
          let harness = await OperatorHarness.of<Arrival, string>(spec.factory, { keyed: true })
          const seen = new Map<string, number[]>()
          const expected: string[] = []
          const fired: string[] = []
          for (const [id, step] of sequence.entries()) {
            if (step === 'restore') {
              fired.push(...harness.values())
              const restore = await harness.snapshot(id)
              harness = await OperatorHarness.of<Arrival, string>(spec.factory, { keyed: true, restore })
              continue
            }
            await harness.processElement({ key: step, time: 0, id })
            const ids = [...(seen.get(step) ?? []), id]
            seen.set(step, ids)
            if (ids.length % (slide ?? size) === 0)
              expected.push(`${step} all: ${ids.slice(-size).join(' ')}`)
          }
          expect([...fired, ...harness.values()]).toEqual(expected)
        },
      ),
      { numRuns: RUNS },
    )
  },
  TIMEOUT_MS,
)
