import { describe, expect, jest, test } from '@jest/globals'
import {
  AbstractRichFunction,
  type Collector,
  type DataStream,
  json,
  kafkaSink,
  kafkaSource,
  OutputTag,
  ProcessFunction,
  type RuntimeContext,
  type StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import { TestDriver } from 'millrace/testing'

jest.setTimeout(60_000)

const RECORDS = 24

/** Says which subtask made or got a value. */
class Place extends AbstractRichFunction {
  private subtask = 0
  private readonly mark: string
  constructor(mark: string) {
    super()
    this.mark = mark
  }
  override open(context: RuntimeContext) {
    this.subtask = context.getIndexOfThisSubtask()
  }
  map(value: number | string) {
    return `${value} ${this.mark}${this.subtask}`
  }
}

type Partition = (stream: DataStream<string>) => DataStream<string>

/** RECORDS values over four splits go from `up` subtasks to `down` subtasks. */
async function started(partition: Partition, up: number, down: number): Promise<TestDriver> {
  const driver = await TestDriver.start(
    (env: StreamExecutionEnvironment) => {
      const numbers = env
        .fromSource(
          kafkaSource<number>({ topics: ['in'], groupId: 'g', value: json() }),
          WatermarkStrategy.noWatermarks<number>(),
          'in',
        )
        .uid('in')
        .setParallelism(up)
      const from = numbers.map<string>(new Place('f')).setParallelism(up)
      partition(from)
        .map<string>(new Place('t'))
        .setParallelism(down)
        .sinkTo(kafkaSink<string>({ topic: 'out', value: json() }))
        .uid('out')
    },
    { topics: { in: 4, out: 1 }, checkpointIntervalMs: 1_000 },
  )
  await driver.produce(
    'in',
    Array.from({ length: RECORDS }, (_, i) => ({ value: i, partition: i % 4 })),
  )
  return driver
}

/** The values that came out, with the subtasks that they came from and went to. */
async function run(partition: Partition, up: number, down: number): Promise<[string, number, number][]> {
  const driver = await started(partition, up, down)
  await driver.catchUp()
  return (await driver.committed<string>('out')).map((text) => {
    const [value, from, to] = text.split(' ')
    return [value!, Number(from!.slice(1)), Number(to!.slice(1))]
  })
}

const counts = (rows: readonly [string, number, number][], down: number) =>
  Array.from({ length: down }, (_, subtask) => rows.filter(([, , to]) => to === subtask).length)

const PARALLELISMS = [
  [1, 3],
  [2, 4],
  [4, 2],
  [3, 2],
  [2, 3],
] as const

describe.each(PARALLELISMS)('from %i to %i subtasks', (up, down) => {
  test('rebalance gives every subtask as many records', async () => {
    const rows = await run((stream) => stream.rebalance(), up, down)
    const each = counts(rows, down)
    expect(rows).toHaveLength(RECORDS)
    // Each sender goes round by itself, so they differ by one for each sender at the most.
    expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(up)
  })

  test('an operator of another parallelism is behind a rebalance without being told to', async () => {
    const rows = await run((stream) => stream, up, down)
    expect(Math.min(...counts(rows, down))).toBeGreaterThan(0)
  })

  test('rescale keeps each sender to its share of the receivers', async () => {
    const rows = await run((stream) => stream.rescale(), up, down)
    expect(rows).toHaveLength(RECORDS)
    for (const [, from, to] of rows)
      if (up >= down) expect(to).toBe(Math.floor(((from + 1) * down - 1) / up))
      else expect(from).toBe(Math.floor((to * up) / down))
  })

  test('broadcast gives every subtask every record', async () => {
    const rows = await run((stream) => stream.broadcast(), up, down)
    expect(counts(rows, down)).toEqual(Array.from({ length: down }, () => RECORDS))
  })

  test('global gives all to the first subtask', async () => {
    const rows = await run((stream) => stream.global(), up, down)
    expect(counts(rows, down)).toEqual([RECORDS, ...Array.from({ length: down - 1 }, () => 0)])
  })

  test('partitionCustom does as it is told', async () => {
    const rows = await run(
      (stream) =>
        stream.partitionCustom(
          (key: number, partitions) => key % partitions,
          (text) => Number(text.split(' ')[0]),
        ),
      up,
      down,
    )
    for (const [value, , to] of rows) expect(to).toBe(Number(value) % down)
    expect(rows).toHaveLength(RECORDS)
  })
})

test('partitionCustom that chooses what is not there fails the job, with the record', async () => {
  const driver = await started(
    (stream) =>
      stream.partitionCustom(
        (key: number, partitions) => (key === 5 ? partitions : 0),
        (text) => Number(text.split(' ')[0]),
      ),
    1,
    3,
  )
  await expect(driver.advance(5_000)).rejects.toMatchObject({
    message: expect.stringMatching(
      /partitionCustom for the output of operator 'map'.*failed: it chose partition 3; there are 3 \(0 to 2\)/,
    ),
  })
})

test('forward between operators of one parallelism keeps records where they are', async () => {
  const rows = await run((stream) => stream.forward(), 3, 3)
  expect(rows.map(([, from, to]) => from - to)).toEqual(Array.from({ length: RECORDS }, () => 0))
})

test('a stream is split by tags: each side output is a stream of its own, at its own parallelism', async () => {
  const even = new OutputTag<number>('even')
  const third = new OutputTag<string>('third')
  class Split extends ProcessFunction<number, number> {
    override processElement(value: number, context: this['Context'], out: Collector<number>) {
      if (value % 2 === 0) context.output(even, value)
      if (value % 3 === 0) context.output(third, `third ${value}`)
      out.collect(value)
    }
  }
  const driver = await TestDriver.start(
    (env) => {
      const all = env.fromSequence(0, 11).process(new Split()).uid('split')
      all
        .getSideOutput(even)
        .rebalance()
        .map((value) => value * 10)
        .setParallelism(3)
        .sinkTo(kafkaSink<number>({ topic: 'even', value: json() }))
        .uid('even')
      all
        .getSideOutput(third)
        .sinkTo(kafkaSink<string>({ topic: 'third', value: json() }))
        .uid('third')
      all.sinkTo(kafkaSink<number>({ topic: 'all', value: json() })).uid('all')
    },
    { topics: { even: 1, third: 1, all: 1 }, checkpointIntervalMs: 100 },
  )
  expect(await driver.finished()).toBe('FINISHED')
  expect((await driver.committed<number>('even')).sort((a, b) => a - b)).toEqual([0, 20, 40, 60, 80, 100])
  expect(await driver.committed('third')).toEqual(['third 0', 'third 3', 'third 6', 'third 9'])
  expect(await driver.committed('all')).toHaveLength(12)
})
