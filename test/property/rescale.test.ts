import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { WindowSettings } from '../../src/api/window-specs.ts'
import { MAX_WATERMARK } from '../../src/core/element.ts'
import { type Collector, KeyedProcessFunction, type RuntimeContext } from '../../src/core/functions.ts'
import { keyedProcessOperator } from '../../src/core/operators/process.ts'
import type { OperatorFactory } from '../../src/core/operators/stream-operator.ts'
import { type ValueState, ValueStateDescriptor } from '../../src/core/state.ts'
import { SlidingEventTimeWindows } from '../../src/core/windows/assigners.ts'
import { EventTimeSessionWindows } from '../../src/core/windows/session-assigners.ts'
import { type HarnessSnapshot, OperatorHarness } from '../../src/testing/operator-harness.ts'

interface Row {
  readonly key: string
  readonly time: number
}
const keyOf = ({ key }: Row) => key

/** Every record sets a timer of each kind, and deletes the one of the record before; a timer tells what was counted. */
class Timers extends KeyedProcessFunction<string, Row, string> {
  private seen!: ValueState<{ count: number; last: number }>
  override open(context: RuntimeContext) {
    this.seen = context.getState(new ValueStateDescriptor<{ count: number; last: number }>('seen'))
  }
  override processElement(row: Row, context: this['Context']) {
    const before = this.seen.value()
    const timers = context.timerService()
    if (before !== null) timers.deleteEventTimeTimer(before.last + 15)
    timers.registerEventTimeTimer(row.time + 15)
    timers.registerProcessingTimeTimer(Math.ceil((timers.currentProcessingTime() + 1) / 100) * 100)
    this.seen.update({ count: (before?.count ?? 0) + 1, last: row.time })
  }
  override onTimer(time: number, context: this['OnTimerContext'], out: Collector<string>) {
    out.collect(`${context.getCurrentKey()} ${context.timeDomain()} ${time}: ${this.seen.value()?.count}`)
  }
}

const windows = (assigner: any): OperatorFactory => {
  const settings = new WindowSettings(assigner, keyOf as never, true)
  return settings.process((key: string, context: any, rows: readonly Row[], out: Collector<string>) =>
    out.collect(`${key} ${context.window().start}-${context.window().end}: ${rows.length}`),
  ).factory
}

const factories: Record<string, () => OperatorFactory> = {
  'open sessions': () => windows(EventTimeSessionWindows.withGap(12)),
  'open sliding windows': () => windows(SlidingEventTimeWindows.of(20, 7)),
  timers: () => keyedProcessOperator(new Timers(), keyOf as never),
}

/** All subtasks of one operator; records go to the owner of their key. */
class Subtasks {
  private harnesses: OperatorHarness<Row, string>[] = []
  readonly results: string[] = []
  private readonly factory: OperatorFactory

  constructor(factory: OperatorFactory) {
    this.factory = factory
  }
  async open(parallelism: number, restore: readonly HarnessSnapshot[] | undefined, now: number) {
    this.harnesses = await Promise.all(
      Array.from({ length: parallelism }, (_, subtaskIndex) =>
        OperatorHarness.of<Row, string>(this.factory, {
          keyed: true,
          maxParallelism: 16,
          parallelism,
          subtaskIndex,
          processingTime: now,
          ...(restore && { restore }),
        }),
      ),
    )
  }
  async record(row: Row) {
    await this.harnesses.find((harness) => harness.owns(row.key))!.processElement(row, row.time)
  }
  async all(step: (harness: OperatorHarness<Row, string>) => Promise<unknown>) {
    for (const harness of this.harnesses) {
      await step(harness)
      this.results.push(...harness.takeRecords().map(({ value }) => value))
    }
  }
  async snapshots(): Promise<HarnessSnapshot[]> {
    const taken: HarnessSnapshot[] = []
    await this.all(async (harness) => taken.push(await harness.snapshot()))
    return taken
  }
  left(): number[] {
    return this.harnesses.flatMap((harness) => [harness.timerCount()])
  }
}

const phase = fc.record({
  rows: fc.array(
    fc.record({
      key: fc.integer({ min: 0, max: 11 }).map((n) => `key-${n}`),
      time: fc.integer({ min: 0, max: 60 }),
    }),
    { maxLength: 25 },
  ),
  watermark: fc.integer({ min: 1, max: 20 }),
})

test.each(Object.keys(factories))(
  '%s are the same after a rescale from 1 to 4 to 2 subtasks as without one',
  async (name) => {
    await fc.assert(
      fc.asyncProperty(fc.tuple(phase, phase, phase), async (phases) => {
        const run = async (parallelisms: readonly number[]) => {
          const subtasks = new Subtasks(factories[name]!())
          let watermark = 0
          let now = 0
          await subtasks.open(parallelisms[0]!, undefined, now)
          for (const [i, { rows, watermark: by }] of phases.entries()) {
            if (i > 0) {
              await subtasks.open(parallelisms[i]!, await subtasks.snapshots(), now)
              await subtasks.all((harness) => harness.processWatermark(watermark))
            }
            for (const row of rows) await subtasks.record({ key: row.key, time: row.time + watermark })
            watermark += by
            now += 70
            await subtasks.all((harness) => harness.processWatermark(watermark))
            await subtasks.all((harness) => harness.setProcessingTime(now))
          }
          await subtasks.all((harness) => harness.processWatermark(MAX_WATERMARK))
          await subtasks.all((harness) => harness.setProcessingTime(now + 1_000))
          expect(subtasks.left().every((count) => count === 0)).toBe(true)
          return subtasks.results.sort()
        }
        expect(await run([1, 4, 2])).toEqual(await run([1, 1, 1]))
      }),
      { numRuns: 60 },
    )
  },
  60_000,
)
