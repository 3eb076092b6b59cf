import { beforeEach, describe, expect, test } from '@jest/globals'
import {
  CountTrigger,
  collectSink,
  type DataStream,
  DeltaTrigger,
  EventTimeSessionWindows,
  NeverTrigger,
  OutputTag,
  ProcessAllWindowFunction,
  StreamExecutionEnvironment,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from 'millrace'
import type { OperatorNode } from '../../../src/core/graph/stream-graph.ts'
import { OperatorHarness } from '../../../src/testing/operator-harness.ts'
import { RecordingExecutor } from './recording-executor.ts'

interface Order {
  user: string
  amount: number
}
const tumbling = TumblingEventTimeWindows.of(10)
const sum = {
  createAccumulator: () => 0,
  add: (order: Order, total: number) => total + order.amount,
  getResult: (total: number) => total,
}

let executor: RecordingExecutor
let orders: DataStream<Order>
let env: StreamExecutionEnvironment

beforeEach(() => {
  executor = new RecordingExecutor()
  env = StreamExecutionEnvironment.getExecutionEnvironment()
  orders = env.fromCollection<Order>([])
})

/** The operator before the sink. */
async function operatorOf(stream: DataStream<any>): Promise<OperatorNode> {
  stream.sinkTo(collectSink())
  await env.executeAsync('job')
  return executor.last.graph.nodes.findLast((node) => node.kind === 'operator') as OperatorNode
}

/** What comes out of the operator for orders of 1 s, 2 s, …, with a watermark at the end. */
async function resultsOf(stream: DataStream<any>, ...amounts: number[]): Promise<unknown[]> {
  const node = await operatorOf(stream)
  const harness = await OperatorHarness.of<Order, unknown>(node.factory, { keyed: true })
  for (const [i, amount] of amounts.entries()) await harness.processElement({ user: 'ann', amount }, i)
  await harness.processWatermark(1_000_000)
  return harness.values()
}

const byUser = () => orders.keyBy((order) => order.user)

describe('windows of a keyed stream', () => {
  test.each<[string, () => DataStream<any>]>([
    ['aggregate(TumblingEventTimeWindows(10))', () => byUser().window(tumbling).aggregate(sum)],
    [
      'reduce(TumblingEventTimeWindows(10))',
      () =>
        byUser()
          .window(tumbling)
          .reduce((a) => a),
    ],
    [
      'process(TumblingEventTimeWindows(10))',
      () =>
        byUser()
          .window(tumbling)
          .process(() => {}),
    ],
    [
      'apply(TumblingEventTimeWindows(10))',
      () =>
        byUser()
          .window(tumbling)
          .apply(() => {}),
    ],
    ['maxBy(TumblingEventTimeWindows(10))', () => byUser().window(tumbling).maxBy('amount')],
    ['sum(GlobalWindows)', () => byUser().countWindow(5).sum('amount')],
  ])('%s is one operator that keeps state by key', async (name, build) => {
    const node = await operatorOf(build())
    expect(node).toMatchObject({ name, operatorKind: 'window', stateful: true, parallelism: undefined })
    expect(node.keyOf!.map((keyOf) => keyOf!({ user: 'ann', amount: 1 }))).toEqual(['ann'])
  })

  test('aggregate, reduce and process as their functions say', async () => {
    expect(await resultsOf(byUser().window(tumbling).aggregate(sum), 1, 2, 3)).toEqual([6])
    const joined = (user: string, _context: unknown, values: readonly unknown[], out: any) =>
      out.collect(`${user} ${JSON.stringify(values)}`)
    expect(await resultsOf(byUser().window(tumbling).aggregate(sum, joined), 1, 2)).toEqual(['ann [3]'])
    const largest = { reduce: (a: Order, b: Order) => (a.amount >= b.amount ? a : b) }
    expect(await resultsOf(byUser().window(tumbling).reduce(largest, joined), 1, 2)).toEqual([
      'ann [{"user":"ann","amount":2}]',
    ])
    expect(await resultsOf(byUser().window(tumbling).min('amount'), 4, 2)).toEqual([
      { user: 'ann', amount: 2 },
    ])
  })

  test('of counts fire each so many records, or slide', async () => {
    const amounts = (_user: string, _context: unknown, values: readonly Order[], out: any) =>
      out.collect(values.map((order) => order.amount).join(' '))
    expect(await resultsOf(byUser().countWindow(2).process(amounts), 1, 2, 3, 4, 5)).toEqual(['1 2', '3 4'])
    expect(await resultsOf(byUser().countWindow(3, 2).process(amounts), 1, 2, 3, 4, 5)).toEqual([
      '1 2',
      '2 3 4',
    ])
  })

  test('send late records to the side output of their result', async () => {
    const late = new OutputTag<Order>('late')
    const totals = byUser().window(tumbling).allowedLateness(5).sideOutputLateData(late).aggregate(sum)
    totals.getSideOutput(late).sinkTo(collectSink())
    const node = await operatorOf(totals)
    const harness = await OperatorHarness.of<Order, number>(node.factory, { keyed: true })
    await harness.processWatermark(12)
    await harness.processElement({ user: 'ann', amount: 1 }, 3)
    await harness.processWatermark(14)
    await harness.processElement({ user: 'ann', amount: 2 }, 3)
    expect(harness.values()).toEqual([1])
    expect(harness.sideRecords(late).map(({ value }) => value.amount)).toEqual([2])
  })
})

describe('windows of a whole stream', () => {
  test('are one subtask, whose functions get no key', async () => {
    class Count extends ProcessAllWindowFunction<Order, string> {
      override process(context: this['Context'], all: readonly Order[], out: any) {
        out.collect(`${context.window().start}: ${all.length}`)
      }
    }
    const all = orders.windowAll(tumbling)
    expect(await operatorOf(all.process(new Count()))).toMatchObject({ parallelism: 1, maxParallelism: 1 })
    expect(await resultsOf(all.process(new Count()), 1, 2)).toEqual(['0: 2'])
    expect(
      await resultsOf(
        all.apply((window, values, out: any) => out.collect(`${window} ${values.length}`)),
        1,
      ),
    ).toEqual(['TimeWindow(0, 10) 1'])
    expect(await resultsOf(all.aggregate(sum), 1, 2)).toEqual([3])
    expect(
      await resultsOf(
        all.aggregate(sum, (_context, totals, out: any) => out.collect({ total: totals[0] })),
        1,
        2,
      ),
    ).toEqual([{ total: 3 }])
    expect(
      await resultsOf(
        all.reduce((a, b) => ({ user: a.user, amount: a.amount + b.amount })),
        1,
        2,
      ),
    ).toEqual([{ user: 'ann', amount: 3 }])
    expect(await resultsOf(all.maxBy('amount'), 1, 2)).toEqual([{ user: 'ann', amount: 2 }])
  })
})

describe('windows that cannot work are refused when the job is built', () => {
  test.each<[string, () => unknown, RegExp]>([
    [
      'an aggregate that cannot merge, for sessions',
      () => byUser().window(EventTimeSessionWindows.withGap(5)).aggregate(sum),
      /EventTimeSessionWindows\(5\) merges windows, so the aggregate function needs merge/,
    ],
    [
      'a trigger that cannot merge, for sessions',
      () =>
        byUser()
          .window(EventTimeSessionWindows.withGap(5))
          .trigger(DeltaTrigger.of(1, () => 0)),
      /DeltaTrigger\(1\) does not work with EventTimeSessionWindows\(5\)/,
    ],
    [
      'an aggregate with a life cycle',
      () =>
        byUser()
          .window(tumbling)
          .aggregate({ ...sum, open: () => {} } as typeof sum),
      /cannot have open\(\)/,
    ],
    [
      'a class in place of an object',
      () => byUser().window(TumblingEventTimeWindows as never),
      /window\(\) was given the class/,
    ],
    [
      'no function',
      () =>
        byUser()
          .window(tumbling)
          .process(undefined as never),
      /process/,
    ],
    [
      'a process window function without process',
      () =>
        byUser()
          .window(tumbling)
          .aggregate(sum, { proces: () => {} } as never),
      /has no method process/,
    ],
  ])('%s', (_what, build, message) => {
    expect(build).toThrow(message)
    expect(build).toThrow(expect.objectContaining({ code: 'MILLRACE_INVALID_GRAPH' }))
  })

  test('a negative lateness', () => {
    expect(() => byUser().window(tumbling).allowedLateness(-1)).toThrow(
      expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }),
    )
  })

  test('but triggers of other time are fine', () => {
    byUser()
      .window(TumblingProcessingTimeWindows.of(5))
      .trigger(CountTrigger.of(3))
      .trigger(NeverTrigger.create())
  })
})
