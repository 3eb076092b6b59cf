import { describe, expect, test } from '@jest/globals'
import {
  collectSink,
  DeliveryGuarantee,
  json,
  kafkaSink,
  RestartStrategies,
  StreamExecutionEnvironment,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from 'millrace'
import { TestDriver } from 'millrace/testing'
import { etl, type Order, options, order, RunningSum, read, sums, TOPICS, write } from './order-jobs.ts'

describe('a driven job', () => {
  test('reads what the test writes, and its output is seen when a checkpoint has committed it', async () => {
    const driver = await TestDriver.start(etl, { topics: TOPICS, checkpointIntervalMs: 1_000 })
    await driver.produce('orders', [order('ann', 3), order('bob', -1)])
    await driver.advance(500)
    expect(await driver.committed('totals')).toEqual([])
    expect(driver.openTransactions()).toHaveLength(1)
    await driver.advance(1_000)
    expect(await driver.committed('totals')).toEqual([{ user: 'ann', amount: 3 }])
    expect(driver.checkpoints()).toEqual([1])
    expect(driver.status).toBe('RUNNING')
  })

  test('goes on after a crash where its last checkpoint was, with another parallelism', async () => {
    const driver = await TestDriver.start(sums, options)
    await driver.produce('orders', [order('ann', 3), order('bob', 5), order('ann', 4)])
    await driver.catchUp()
    await driver.produce('orders', [order('ann', 10)])
    await driver.crash()
    expect(driver.status).toBe('CRASHED')
    await driver.produce('orders', [order('bob', 1)])
    await driver.restart({ parallelism: 3 })
    await driver.catchUp()
    const totals = await driver.committed<{ user: string; sum: number }>('totals')
    const of = (name: string) => totals.filter((total) => total?.user === name).map((total) => total?.sum)
    expect(of('ann')).toEqual([3, 7, 17])
    expect(of('bob')).toEqual([5, 6])
  })

  test.each([
    'after-freeze',
    'before-commit-point',
    'after-commit-point',
    'before-end-txn',
    'before-confirm',
  ] as const)('writes each result once when it crashes at %s', async (point) => {
    const driver = await TestDriver.start(sums, options)
    await driver.produce('orders', [order('ann', 3), order('ann', 4)])
    await driver.crashAt(point)
    expect(driver.status).toBe('CRASHED')
    await driver.restart()
    await driver.catchUp()
    expect(await driver.committed('totals')).toEqual([
      { user: 'ann', sum: 3 },
      { user: 'ann', sum: 7 },
    ])
  })

  test('stops with a last checkpoint, which the next start resumes from', async () => {
    const driver = await TestDriver.start(sums, { topics: TOPICS, checkpointIntervalMs: 240_000 })
    await driver.produce('orders', [order('ann', 3)])
    await driver.advance(1_000)
    await driver.stop()
    expect(driver.status).toBe('SUSPENDED')
    expect(await driver.committed('totals')).toEqual([{ user: 'ann', sum: 3 }])
    await driver.restart()
    await driver.produce('orders', [order('ann', 4)])
    await driver.catchUp()
    expect(await driver.committed('totals')).toEqual([
      { user: 'ann', sum: 3 },
      { user: 'ann', sum: 7 },
    ])
  })

  test('without checkpointing keeps its state in a checkpoint that somebody asks for', async () => {
    const driver = await TestDriver.start(
      (env) => {
        read(env)
          .keyBy(({ user }) => user)
          .process(new RunningSum())
          .uid('sum')
          .sinkTo(
            kafkaSink({
              topic: 'totals',
              value: json(),
              deliveryGuarantee: DeliveryGuarantee.AT_LEAST_ONCE,
            }),
          )
          .uid('totals')
      },
      { topics: TOPICS },
    )
    await driver.produce('orders', [order('ann', 3)])
    await driver.advance(1_000)
    await driver.triggerCheckpoint()
    await driver.crash()
    await driver.restart()
    await driver.produce('orders', [order('ann', 4)])
    await driver.advance(10_000)
    expect(await driver.committed('totals')).toEqual([
      { user: 'ann', sum: 3 },
      { user: 'ann', sum: 7 },
    ])
  })

  test('can be replaced by a new version of itself, which keeps the state', async () => {
    const driver = await TestDriver.start(sums, options)
    await driver.produce('orders', [order('ann', 3)])
    await driver.catchUp()
    await driver.stop()
    await driver.restart({
      job: (env) =>
        write(
          read(env)
            .keyBy(({ user }) => user)
            .process(new RunningSum())
            .uid('sum')
            .map(({ sum }) => sum)
            .uid('plain'),
        ),
    })
    await driver.produce('orders', [order('ann', 4)])
    await driver.catchUp()
    expect(await driver.committed('totals')).toEqual([{ user: 'ann', sum: 3 }, 7])
  })

  test('is cancelled without a last checkpoint, and leaves no transaction open', async () => {
    const driver = await TestDriver.start(etl, { topics: TOPICS, checkpointIntervalMs: 240_000 })
    await driver.produce('orders', [order('ann', 3)])
    await driver.advance(1_000)
    await driver.cancel()
    expect(driver.status).toBe('CANCELED')
    await driver.advance(1_000)
    expect(driver.openTransactions()).toEqual([])
    expect(await driver.committed('totals')).toEqual([])
  })

  test('takes a checkpoint when it is told to, and counts', async () => {
    const driver = await TestDriver.start(etl, { topics: TOPICS, checkpointIntervalMs: 240_000 })
    await driver.produce('orders', [order('ann', 3), order('bob', 4)])
    await driver.advance(1_000)
    expect(await driver.triggerCheckpoint()).toBe(1)
    expect(driver.checkpoints()).toEqual([1])
    expect(driver.metric('source_lag_records')).toBe(0)
    expect(driver.metric('records_in')).toBeGreaterThanOrEqual(2)
  })

  test('is the same to the millisecond for one seed', async () => {
    const run = async (seed: number) => {
      const driver = await TestDriver.start(sums, { ...options, seed, parallelism: 2 })
      await driver.produce('orders', [order('ann', 3), order('bob', 5), order('cid', 7)])
      await driver.crashAt('after-commit-point', 2)
      await driver.restart()
      await driver.catchUp()
      return JSON.stringify([driver.now(), driver.logs, await driver.committed('totals')])
    }
    const [first, again, other] = [await run(7), await run(7), await run(8)]
    expect(again).toBe(first)
    expect(other).not.toBe(first)
  })
})

describe('windows of a driven job', () => {
  test('of event time fire as the records and the idleness of partitions say', async () => {
    const driver = await TestDriver.start(
      (env) =>
        write(
          read(env)
            .keyBy(({ user }) => user)
            .window(TumblingEventTimeWindows.of(10_000))
            .sum('amount')
            .uid('sum'),
        ),
      options,
    )
    // Partitions without records are idle by now and hold nothing up.
    await driver.advance(2_000)
    await driver.produce('orders', [order('ann', 3, 1_000), order('ann', 4, 9_999), order('ann', 5, 10_000)])
    await driver.advance(1_000)
    const [total, ...more] = await driver.committedRecords<Order>('totals')
    expect(total).toMatchObject({ value: { user: 'ann', amount: 7 }, timestamp: 9_999 })
    expect(more).toEqual([])
  })

  test('of processing time go by the clock of the test', async () => {
    const driver = await TestDriver.start(
      (env) =>
        write(
          read(env)
            .keyBy(({ user }) => user)
            .window(TumblingProcessingTimeWindows.of(120_000))
            .sum('amount')
            .uid('sum'),
        ),
      { ...options, checkpointIntervalMs: 10_000, startAt: Date.UTC(2030, 4, 1) },
    )
    await driver.produce('orders', [order('ann', 3)])
    await driver.advance(60_000)
    await driver.produce('orders', [order('ann', 4)])
    expect(await driver.committed('totals')).toEqual([])
    await driver.advance(75_000)
    expect(await driver.committed('totals')).toEqual([{ user: 'ann', amount: 7 }])
    expect(driver.now()).toBeGreaterThanOrEqual(Date.UTC(2030, 4, 1) + 135_000)
  })
})

describe('a job that ends by itself', () => {
  test('is FINISHED when its bounded sources are read, and its output is committed', async () => {
    const driver = await TestDriver.start((env) => write(read(env, { bounded: true })), {
      topics: TOPICS,
      input: { orders: [order('ann', 3), order('bob', 4)] },
      checkpointIntervalMs: 100,
    })
    expect(await driver.finished()).toBe('FINISHED')
    expect(await driver.committed('totals')).toHaveLength(2)
    await driver.restart()
    expect(driver.status).toBe('FINISHED')
  })

  test('needs no Kafka, and hands its values to the program', async () => {
    const sink = collectSink<number>()
    const driver = await TestDriver.start((env) => {
      env
        .fromCollection([1, 2, 3])
        .map((n) => n * n)
        .sinkTo(sink)
    })
    await driver.finished()
    expect(sink.values()).toEqual([1, 4, 9])
  })

  test('keeps the checkpoints of a job without Kafka over a crash', async () => {
    const sink = collectSink<number>()
    const numbers = Array.from({ length: 2_000 }, (_, i) => i)
    const driver = await TestDriver.start(
      (env) => {
        env.fromCollection(numbers).uid('numbers').sinkTo(sink).uid('collect')
      },
      { checkpointIntervalMs: 10, latency: { minMs: 1, maxMs: 1 } },
    )
    await driver.crashAt('after-commit-point')
    await driver.restart()
    await driver.finished()
    expect(sink.values()).toEqual(numbers)
  })

  test('gives its values to whoever awaits them in the declaration', async () => {
    let collected: number[] = []
    const driver = await TestDriver.start(async (env) => {
      collected = []
      for await (const value of env.fromSequence(1, 5).executeAndCollect()) collected.push(value)
    })
    await driver.finished()
    expect(collected).toEqual([1, 2, 3, 4, 5])
  })
})

describe('a function that fails', () => {
  const failing = (env: StreamExecutionEnvironment): void =>
    write(
      read(env)
        .map((one) => {
          if (one.amount < 0) throw new RangeError(`negative: ${one.amount}`)
          return one
        })
        .uid('check'),
    )

  const openOutput = (driver: TestDriver): string[] =>
    driver.openTransactions().filter((id) => !id.endsWith('.coordinator'))

  test('leaves no transaction open: readers of its output do not wait for a time-out', async () => {
    const driver = await TestDriver.start(failing, { topics: TOPICS, checkpointIntervalMs: 240_000 })
    await driver.produce('orders', [order('ann', 3)])
    await driver.advance(1_000)
    expect(openOutput(driver)).toHaveLength(1)
    await driver.produce('orders', [order('ann', -3)])
    await expect(driver.advance(1_000)).rejects.toMatchObject({ code: 'MILLRACE_JOB_FAILED' })
    expect(openOutput(driver)).toEqual([])
    expect(await driver.committed('totals')).toEqual([])
  })

  test('and is stopped while it waits for its restart leaves none open either', async () => {
    const driver = await TestDriver.start(
      (env) => {
        env.setRestartStrategy(RestartStrategies.fixedDelay(3, 600_000))
        failing(env)
      },
      { topics: TOPICS, checkpointIntervalMs: 240_000 },
    )
    await driver.produce('orders', [order('ann', 3)])
    await driver.advance(1_000)
    await driver.produce('orders', [order('ann', -3)])
    await driver.until(() => driver.status === 'RESTARTING')
    expect(openOutput(driver)).toHaveLength(1)
    await driver.stop()
    expect(driver.status).toBe('SUSPENDED')
    await driver.advance(100)
    expect(openOutput(driver)).toEqual([])
  })

  test('that may not write its checkpoints FAILS, and is not tried again for ever', async () => {
    const driver = await TestDriver.start((env) => {
      env.setRestartStrategy(RestartStrategies.fixedDelay(1_000_000, 10))
      sums(env)
    }, options)
    await driver.crash()
    driver.kafka.intercept(({ api }) => (api === 'AddPartitionsToTxn' ? { errorCode: 29 } : 'pass'))
    await expect(driver.restart()).rejects.toMatchObject({
      code: 'MILLRACE_JOB_FAILED',
      cause: { code: 'MILLRACE_KAFKA_UNAUTHORIZED' },
    })
  })

  test('fails the call of the driver with the error of the user', async () => {
    const driver = await TestDriver.start(failing, options)
    await driver.produce('orders', [order('ann', -3)])
    await expect(driver.advance(1_000)).rejects.toMatchObject({
      code: 'MILLRACE_JOB_FAILED',
      message: expect.stringContaining('negative: -3'),
      cause: { code: 'MILLRACE_USER_FUNCTION', cause: { message: 'negative: -3' } },
    })
    expect(driver.status).toBe('FAILED')
    await expect(driver.triggerCheckpoint()).rejects.toThrow('negative: -3')
    await expect(driver.catchUp()).rejects.toThrow('negative: -3')
    await expect(driver.finished()).rejects.toThrow('negative: -3')
  })

  test('can be mended, and the job goes on from its last checkpoint', async () => {
    const driver = await TestDriver.start(failing, options)
    await driver.produce('orders', [order('ann', 1), order('ann', -3)])
    await expect(driver.advance(1_000)).rejects.toThrow('negative: -3')
    await driver.restart({ job: etl, allowNonRestoredState: true })
    await driver.catchUp()
    expect(await driver.committed('totals')).toEqual([{ user: 'ann', amount: 1 }])
  })

  test('is tried again when the job has a restart strategy', async () => {
    let failures = 2
    const driver = await TestDriver.start((env) => {
      env.setRestartStrategy(RestartStrategies.fixedDelay(3, 1_000))
      write(
        read(env)
          .map((one) => {
            if (failures-- > 0) throw new Error('not yet')
            return one
          })
          .uid('flaky'),
      )
    }, options)
    await driver.produce('orders', [order('ann', 3)])
    await driver.until(() =>
      driver.logs.some(({ message }) => message.includes('not yet') || message.includes('starts again')),
    )
    await driver.advance(5_000)
    expect(await driver.committed('totals')).toEqual([{ user: 'ann', amount: 3 }])
  })

  test('fails what awaits the execution in a module, too', async () => {
    let seen: unknown
    const driver = await TestDriver.start(
      async () => {
        const env = StreamExecutionEnvironment.getExecutionEnvironment()
        env.enableCheckpointing(100)
        failing(env)
        try {
          await env.execute('failing')
        } catch (error) {
          seen = error
        }
      },
      { topics: TOPICS },
    )
    await driver.produce('orders', [order('ann', -3)])
    await expect(driver.advance(1_000)).rejects.toThrow('negative: -3')
    expect(seen).toMatchObject({ code: 'MILLRACE_JOB_FAILED' })
  })
})

describe('mistakes in a test', () => {
  test('an error of the declaration rejects the start', async () => {
    const broken = TestDriver.start(() => {
      throw new TypeError('no such column')
    })
    await expect(broken).rejects.toThrow('no such column')
    await expect(TestDriver.start(() => undefined)).rejects.toMatchObject({ code: 'MILLRACE_INVALID_GRAPH' })
  })

  test('a topic that the test does not name is missing for the job, too', async () => {
    await expect(
      TestDriver.start(etl, { topics: { orders: 1 }, checkpointIntervalMs: 100 }),
    ).rejects.toMatchObject({
      code: 'MILLRACE_TOPIC_MISSING',
    })
    const driver = await TestDriver.start(etl, options)
    await expect(driver.produce('order', [])).rejects.toThrow("topic 'order' does not exist")
    await expect(driver.committed('total')).rejects.toThrow("topic 'total' does not exist")
    await expect(driver.produce('orders', [{ value: 1, partition: 3 }])).rejects.toThrow('no partition 3')
  })

  test('two calls at once, and calls that do not fit what the job does', async () => {
    const driver = await TestDriver.start(etl, options)
    const first = driver.advance(100)
    await expect(driver.advance(100)).rejects.toThrow('await one call before the next')
    await first
    await expect(driver.restart()).rejects.toThrow('crash() or stop() it first')
    await driver.crash()
    await expect(driver.crash()).rejects.toThrow('the job is CRASHED and cannot crash')
    await expect(driver.triggerCheckpoint()).rejects.toThrow('cannot take a checkpoint')
    await expect(driver.crashAt('nowhere' as 'before-ack')).rejects.toThrow("no place 'nowhere'")
  })

  test('a wait that is in vain says what the job waits for', async () => {
    const driver = await TestDriver.start(etl, options)
    await expect(driver.until(() => false, 'pigs fly', 1_000)).rejects.toThrow(
      /until pigs fly, for at most 1000 ms of the test's clock; the job is RUNNING \(/,
    )
    await expect(driver.finished(1_000)).rejects.toThrow('until the job ends')
  })
})

describe('what befalls the brokers of a test', () => {
  test('a restart of a broker is survived', async () => {
    const driver = await TestDriver.start(sums, options)
    await driver.produce('orders', [order('ann', 3)])
    driver.kafka.moveCoordinators(2_000)
    await driver.advance(5_000)
    await driver.produce('orders', [order('ann', 4)])
    await driver.catchUp()
    expect(await driver.committed('totals')).toEqual([
      { user: 'ann', sum: 3 },
      { user: 'ann', sum: 7 },
    ])
  })
})
