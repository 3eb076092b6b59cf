/** Which records wait for barriers, and which count twice after a failure: by the mode, and with unaligned barriers. */
import { describe, expect, test } from '@jest/globals'
import {
  CheckpointingMode,
  type Collector,
  type DataStream,
  DeliveryGuarantee,
  json,
  KeyedProcessFunction,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  type RuntimeContext,
  type Sink,
  type StreamExecutionEnvironment,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'
import { TestDriver } from 'millrace/testing'

/** The barrier of the slow branch comes so much later than that of the fast one. */
const BARRIER_LATE_MS = 500
/** When the fast branch has records, after its barrier. */
const RECORDS_AFTER_MS = 200
/** Messages between job and brokers, all together. */
const SLACK_MS = 30

interface Counted {
  readonly word: string
  readonly count: number
}

class Count extends KeyedProcessFunction<string, string, Counted> {
  #count!: ValueState<number>
  override open(context: RuntimeContext): void {
    this.#count = context.getState(new ValueStateDescriptor<number>('count'))
  }
  override processElement(word: string, _context: this['Context'], out: Collector<Counted>): void {
    const count = (this.#count.value() ?? 0) + 1
    this.#count.update(count)
    out.collect({ word, count })
  }
}

/** Takes its time at each barrier, which waits for it. */
const late: Sink<string> = {
  kind: 'late',
  describe: () => ({}),
  createWriter: ({ world }) => ({
    write: () => undefined,
    flush: () => world.timers.sleep(BARRIER_LATE_MS),
    close: () => undefined,
  }),
}

function read(env: StreamExecutionEnvironment, topic: string): DataStream<string> {
  const startingOffsets = OffsetsInitializer.earliest()
  return env
    .fromSource(
      kafkaSource<string>({ topics: [topic], groupId: 'g', startingOffsets, value: json() }),
      WatermarkStrategy.noWatermarks(),
      topic,
    )
    .uid(topic)
}

/** Two branches come together in a count; the output of each record is seen at once. */
function build(env: StreamExecutionEnvironment): void {
  const slow = read(env, 'slow')
    .map((word) => word)
    .uid('step')
    .startNewChain()
  slow.sinkTo(late).uid('late')
  read(env, 'fast')
    .union(slow)
    .keyBy((word) => word)
    .process(new Count())
    .uid('count')
    .sinkTo(kafkaSink({ topic: 'out', value: json(), deliveryGuarantee: DeliveryGuarantee.AT_LEAST_ONCE }))
    .uid('out')
}

/** Records come behind the fast barrier, and the job dies after the checkpoint. */
async function run(
  configure: (env: StreamExecutionEnvironment) => void,
  config: Record<string, number> = {},
) {
  const driver = await TestDriver.start(
    (env) => {
      env.enableCheckpointing(1_000)
      configure(env)
      build(env)
    },
    { topics: { slow: 1, fast: 1, out: 1 }, config },
  )
  await driver.advance(1_000 + RECORDS_AFTER_MS)
  await driver.produce('fast', [{ value: 'a' }, { value: 'b' }])
  const produced = driver.now()
  let shown: Counted[] = []
  while (shown.length === 0) {
    await driver.advance(5)
    shown = await driver.committed<Counted>('out')
  }
  const waitedMs = driver.now() - produced
  expect(shown.map(({ count }) => count)).toEqual([1, 1])
  await driver.until(() => driver.checkpoints().includes(1), 'the checkpoint is complete')
  await driver.crash()
  await driver.restart()
  await driver.catchUp()
  const counts = (await driver.committed<Counted>('out')).filter(({ word }) => word === 'a')
  return { waitedMs, highest: Math.max(...counts.map(({ count }) => count)) }
}

const REST_MS = BARRIER_LATE_MS - RECORDS_AFTER_MS

describe('the mode', () => {
  test('EXACTLY_ONCE: records behind a barrier wait for the other barriers, and count once after a failure', async () => {
    const { waitedMs, highest } = await run((env) => env.enableCheckpointing(1_000))
    expect(waitedMs).toBeGreaterThan(REST_MS - SLACK_MS)
    expect(highest).toBe(1)
  })

  test('AT_LEAST_ONCE: they wait for nothing, and count twice after a failure', async () => {
    const { waitedMs, highest } = await run((env) =>
      env.enableCheckpointing(1_000, CheckpointingMode.AT_LEAST_ONCE),
    )
    expect(waitedMs).toBeLessThan(SLACK_MS)
    expect(highest).toBe(2)
  })
})

describe('unaligned barriers', () => {
  test('overtake at once: records behind a barrier wait for nothing, and count once after a failure', async () => {
    const { waitedMs, highest } = await run((env) => env.getCheckpointConfig().enableUnalignedCheckpoints())
    expect(waitedMs).toBeLessThan(SLACK_MS)
    expect(highest).toBe(1)
  })

  test.each([
    ['while it lasts', 300, 300 - RECORDS_AFTER_MS],
    ['and no longer than the last barrier takes', 60_000, REST_MS],
  ])('with a time to align, records wait %s: %i ms', async (_how, alignMs, expected) => {
    const { waitedMs, highest } = await run((env) => env.getCheckpointConfig().enableUnalignedCheckpoints(), {
      'execution.checkpointing.aligned-checkpoint-timeout': alignMs,
    })
    expect(waitedMs).toBeGreaterThan(expected - SLACK_MS)
    expect(waitedMs).toBeLessThan(expected + SLACK_MS)
    expect(highest).toBe(1)
  })
})
