/** Unaligned checkpoints in whole jobs: what was in channels is in the checkpoint, and comes back once, at any parallelism. */
import { expect, jest, test } from '@jest/globals'
import {
  type Collector,
  json,
  KeyedProcessFunction,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  type RuntimeContext,
  type StreamExecutionEnvironment,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'
import { TestDriver } from 'millrace/testing'

interface Order {
  readonly user: string
  readonly id: number
}

interface Counted extends Order {
  readonly count: number
  readonly pad: string
}

const PAD = 'x'.repeat(16_000)
/** Of the brokers, one way, in ms. */
const LATENCY = { minMs: 5, maxMs: 15 }

/** What it writes is large and the brokers are slow: the writer waits for them, so that what is to be counted waits in channels. */
class Count extends KeyedProcessFunction<string, Order, Counted> {
  #count!: ValueState<number>
  override open(context: RuntimeContext): void {
    this.#count = context.getState(new ValueStateDescriptor<number>('count'))
  }
  override processElement({ user, id }: Order, _context: this['Context'], out: Collector<Counted>): void {
    const count = (this.#count.value() ?? 0) + 1
    this.#count.update(count)
    out.collect({ user, id, count, pad: PAD })
  }
}

function build(env: StreamExecutionEnvironment): void {
  env
    .fromSource(
      kafkaSource<Order>({
        topics: ['orders'],
        groupId: 'g',
        startingOffsets: OffsetsInitializer.earliest(),
        value: json(),
      }),
      WatermarkStrategy.noWatermarks(),
      'orders',
    )
    .uid('orders')
    .keyBy(({ user }) => user)
    .process(new Count())
    .uid('count')
    .sinkTo(kafkaSink({ topic: 'counts', value: json() }))
    .uid('counts')
}

jest.setTimeout(30_000)

const USERS = 7
const RECORDS = 2_000

test.each([
  [1, 2, 3, 0],
  [2, 3, 1, 0],
  [3, 2, 2, 20],
])(
  'seed %i: parallelism %i, crash, then %i: each record counts once, in the order of its partition (overtaking after %i ms)',
  async (seed, before, after, timeout) => {
    const driver = await TestDriver.start(build, {
      seed,
      latency: LATENCY,
      topics: { orders: 2, counts: 1 },
      parallelism: before,
      checkpointIntervalMs: 50,
      config: {
        'execution.checkpointing.unaligned': true,
        'execution.checkpointing.aligned-checkpoint-timeout': timeout,
      },
    })
    await driver.produce(
      'orders',
      Array.from({ length: RECORDS }, (_, id) => ({
        key: `u${id % USERS}`,
        value: { user: `u${id % USERS}`, id },
      })),
    )
    for (let crash = 0; crash < 2; crash++) {
      const seen = driver.checkpoints().at(-1) ?? 0
      await driver.until(
        () => (driver.checkpoints().at(-1) ?? 0) > seen + 1,
        'two more checkpoints are complete',
      )
      await driver.crash()
      await driver.restart({ parallelism: crash % 2 === 0 ? after : before })
    }
    await driver.catchUp()
    const committed = await driver.committed<{ user: string; id: number; count: number }>('counts')
    expect(committed).toHaveLength(RECORDS)
    for (let user = 0; user < USERS; user++) {
      const own = committed.filter((each) => each.user === `u${user}`)
      expect(own.map(({ count }) => count)).toEqual(own.map((_, i) => i + 1))
      expect(own.map(({ id }) => id)).toEqual(own.map(({ id }) => id).toSorted((a, b) => a - b))
    }
  },
)

test('something was in flight, or the tests above would show nothing', async () => {
  const driver = await TestDriver.start(build, {
    latency: LATENCY,
    topics: { orders: 2, counts: 1 },
    input: {
      orders: Array.from({ length: RECORDS }, (_, id) => ({ value: { user: `u${id % USERS}`, id } })),
    },
    parallelism: 2,
    checkpointIntervalMs: 50,
    config: { 'execution.checkpointing.unaligned': true },
  })
  await driver.catchUp()
  expect(driver.metric('in_flight_bytes')).toBeGreaterThan(1_000)
})
