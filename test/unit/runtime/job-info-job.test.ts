/** What `millrace info` tells of whole jobs whose tasks wait, each for something else. */
import { expect, jest, test } from '@jest/globals'
import {
  json,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  type StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import { TestDriver } from 'millrace/testing'
import type { JobInfo, TaskInfo } from '../../../src/core/job-info.ts'
import { askJob, send } from './asked-job.ts'

jest.setTimeout(60_000)

interface Order {
  readonly user: string
  readonly id: number
}

/** So much for each record that brokers which answer slowly are far too slow for it. */
const PAD = 'x'.repeat(20_000)

function slowSink(env: StreamExecutionEnvironment): void {
  env
    .fromSource(
      kafkaSource<Order>({
        topics: ['orders'],
        groupId: 'g',
        startingOffsets: OffsetsInitializer.earliest(),
        value: json(),
      }),
      WatermarkStrategy.forMonotonousTimestamps<Order>(),
      'orders',
    )
    .uid('orders')
    .keyBy(({ user }) => user)
    .map((order) => ({ ...order, pad: PAD }))
    .name('pad')
    .uid('pad')
    .sinkTo(kafkaSink({ topic: 'out', value: json() }))
    .name('out')
    .uid('out')
}

const info = async (driver: TestDriver): Promise<JobInfo> =>
  (await askJob(driver, { type: 'info' })).result as unknown as JobInfo

/** Asks again and again until it has seen a task of each kind. */
async function seen(
  driver: TestDriver,
  kinds: Readonly<Record<string, (task: TaskInfo) => boolean>>,
): Promise<Record<string, TaskInfo>> {
  const found: Record<string, TaskInfo> = {}
  for (let look = 0; look < 60 && Object.keys(found).length < Object.keys(kinds).length; look++) {
    const { tasks } = await info(driver)
    for (const [name, holds] of Object.entries(kinds)) {
      const task = tasks.find(holds)
      if (task !== undefined) found[name] ??= task
    }
    await driver.advance(300)
  }
  return found
}

test('a slow sink, a barrier that is held up, a silent partition and an open transaction: each task says what it waits for', async () => {
  const driver = await TestDriver.start(slowSink, {
    topics: { orders: 3, out: 1 },
    input: {
      // One source subtask has all there is to read, the other one waits.
      orders: Array.from({ length: 12_000 }, (_, id) => ({ value: { user: 'u', id }, partition: 1 })),
    },
    parallelism: 2,
    checkpointIntervalMs: 200_000,
    latency: { minMs: 250, maxMs: 350 },
  })
  await driver.until(() => driver.metric('backpressured_ms_per_second') > 900, 'there is backpressure')
  void send(driver, { type: 'checkpoint' })
  const found = await seen(driver, {
    pressed: ({ load, state }) => load.backpressured > 500 && state.startsWith('waiting for room'),
    busy: ({ load, state }) => load.busy > 500 && state.startsWith('in a function'),
    aligning: ({ alignment }) => alignment !== undefined,
    heldBack: ({ watermarkHeldBackBy }) => watermarkHeldBackBy.some((text) => text.includes('orders-2')),
    writing: ({ operators }) => operators.some((text) => /transaction .* is open/.test(text)),
  })
  expect(found['pressed']).toMatchObject({
    name: expect.stringMatching(/^orders/),
    state: expect.stringMatching(/^waiting for room in pad.* \([12]\/2\) for \d+\.\d s$/),
  })
  expect(found['busy']).toMatchObject({ state: expect.stringMatching(/^in a function for \d+\.\d s$/) })
  expect(found['aligning']?.alignment).toMatchObject({ missing: [expect.stringMatching(/^orders/)] })
  expect(found['heldBack']?.name).toMatch(/^orders/)
  expect(found['writing']).toMatchObject({ name: expect.stringMatching(/^pad/) })
})

function lookups(env: StreamExecutionEnvironment): void {
  env
    .fromSource(
      kafkaSource<Order>({ topics: ['orders'], groupId: 'g', value: json() }),
      WatermarkStrategy.noWatermarks<Order>(),
      'orders',
    )
    .uid('orders')
    .asyncMap(
      async () => {
        throw new Error('busy')
      },
      { capacity: 5, retry: { maxAttempts: 100, backoffMs: 5_000 } },
    )
    .uid('lookup')
    .sinkTo(kafkaSink({ topic: 'out', value: json() }))
    .uid('out')
}

test('a task whose asynchronous function takes no more records is busy, not idle', async () => {
  const driver = await TestDriver.start(lookups, {
    topics: { orders: 1, out: 1 },
    checkpointIntervalMs: 200_000,
  })
  await driver.produce(
    'orders',
    Array.from({ length: 300 }, (_, id) => ({ value: { user: 'u', id } })),
  )
  await driver.until(() => driver.metric('async_in_flight') === 5, 'requests are in flight')
  await driver.advance(2_000)
  await info(driver)
  await driver.advance(2_000)
  const [task] = (await info(driver)).tasks
  expect(task?.state).toBe('waiting until an asynchronous function takes records')
  expect(task?.load.busy).toBeGreaterThan(950)
})
