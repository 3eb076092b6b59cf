/** A sink that is slower than its source: barriers wait behind what is queued (case 17). */
import { expect, test } from '@jest/globals'
import type { Sink, StreamExecutionEnvironment } from 'millrace'
import { TestDriver } from 'millrace/testing'
import { order, RunningSum, read } from './order-jobs.ts'

const MS_A_RECORD = 20

test('records are exact and checkpoints complete though a slow sink holds everything up', async () => {
  const seen: { user: string; sum: number }[] = []
  const slow: Sink<{ user: string; sum: number }> = {
    kind: 'slow',
    describe: () => ({}),
    createWriter: ({ world }) => ({
      write: async ({ values }) => {
        await world.timers.sleep(values.length * MS_A_RECORD)
        seen.push(...values)
      },
      flush: () => undefined,
      close: () => undefined,
    }),
  }
  const driver = await TestDriver.start(
    (env: StreamExecutionEnvironment) => {
      read(env)
        .keyBy(({ user }) => user)
        .process(new RunningSum())
        .uid('sum')
        .sinkTo(slow)
        .uid('slow')
    },
    {
      topics: { orders: 3 },
      checkpointIntervalMs: 1_000,
      parallelism: 2,
      config: {
        'execution.checkpointing.timeout': '5 s',
        'execution.checkpointing.tolerable-failed-checkpoints': 3,
      },
    },
  )
  for (let i = 0; i < 10; i++)
    await driver.produce(
      'orders',
      Array.from({ length: 600 }, (_, n) => order(`u${n % 50}`, 1)),
    )
  await driver.advance(70_000)
  expect(driver.status).toBe('RUNNING')
  // About one a second: none had to be given up, whatever was queued before its barriers.
  expect(driver.checkpoints().length).toBeGreaterThan(40)
  expect(seen).toHaveLength(6_000)
  const totals = new Map(seen.map(({ user, sum }) => [user, sum]))
  expect([...totals.values()]).toEqual(Array.from({ length: 50 }, () => 120))
})
