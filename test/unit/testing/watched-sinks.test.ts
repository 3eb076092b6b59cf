import { PassThrough } from 'node:stream'
import { describe, expect, test } from '@jest/globals'
import { printSink, type Sink, type StreamExecutionEnvironment, type TwoPhaseCommittingSink } from 'millrace'
import { TestDriver } from 'millrace/testing'
import { type Order, options, order, read, write } from './order-jobs.ts'

describe('functions that wait for real time', () => {
  const waiting = (wait: () => Promise<unknown>) => (env: StreamExecutionEnvironment) => {
    write(
      read(env)
        .map(async (one) => {
          await wait()
          return one
        })
        .uid('wait'),
    )
  }

  test('are waited for while the clock of the test stands still', async () => {
    const driver = await TestDriver.start(
      waiting(() => new Promise((resolve) => setTimeout(resolve, 20))),
      options,
    )
    await driver.produce('orders', [order('ann', 3), order('bob', 4)])
    await driver.advance(500)
    expect(await driver.committed('totals')).toHaveLength(2)
  })

  test('are named when they never come to an end', async () => {
    const driver = await TestDriver.start(
      waiting(() => new Promise(() => undefined)),
      { ...options, realWaitMs: 20 },
    )
    const written = driver.produce('orders', [order('ann', 3)]).then(() => driver.advance(1_000))
    await expect(written).rejects.toMatchObject({
      code: 'MILLRACE_TEST_DRIVER',
      message: expect.stringMatching(/20 ms of real time .* map of operator 'map'/),
    })
  })

  test('are waited for in sinks, too, also in the two phases of a commit', async () => {
    const written: string[] = []
    const real = (what: string) =>
      new Promise<void>((resolve) => setTimeout(() => resolve(void written.push(what)), 50))
    const sink: TwoPhaseCommittingSink<Order, string> = {
      kind: 'database',
      twoPhase: true,
      describe: () => ({}),
      createWriter: () => ({
        write: ({ values }) => real(`insert ${values.length}`),
        flush: () => real('flush'),
        prepareCommit: async () => ['a transaction'],
        close: () => undefined,
      }),
      createCommitter: () => ({ commit: async () => real('commit'), close: async () => undefined }),
    }
    const driver = await TestDriver.start((env) => void read(env).sinkTo(sink).uid('database'), {
      ...options,
      checkpointIntervalMs: 240_000,
    })
    await driver.produce('orders', [order('ann', 3)])
    const before = driver.now()
    await driver.triggerCheckpoint()
    expect(written).toEqual(['insert 1', 'flush', 'commit'])
    expect(driver.now() - before).toBeLessThan(200)
  })

  test('of a killed worker are not called any more: what it did not begin is left to its successor', async () => {
    const done: string[] = []
    let worker = 0
    const job = (env: StreamExecutionEnvironment) => {
      const name = `worker ${++worker}`
      const sink: TwoPhaseCommittingSink<Order, string> = {
        kind: 'database',
        twoPhase: true,
        describe: () => ({}),
        createWriter: () => ({
          write: () => undefined,
          flush: () => undefined,
          prepareCommit: () => ['a transaction'],
          close: () => undefined,
        }),
        createCommitter: () => ({
          // Its first step is taken at once, without waiting for anything.
          commit: async () => void done.push(`${name} commits`),
          close: async () => undefined,
        }),
      }
      read(env).sinkTo(sink).uid('database')
    }
    const driver = await TestDriver.start(job, options)
    await driver.crashAt('before-end-txn')
    expect(done).toEqual([])
    await driver.restart()
    await driver.advance(5_000)
    expect(done[0]).toBe('worker 2 commits')
  })

  test('may sleep on timers of the job in a sink, which the clock of the test moves', async () => {
    const sink: Sink<Order> = {
      kind: 'slow',
      describe: () => ({}),
      createWriter: ({ world }) => ({
        write: () => world.timers.sleep(60_000),
        flush: () => undefined,
        close: () => undefined,
      }),
    }
    const driver = await TestDriver.start((env) => void read(env).sinkTo(sink).uid('slow'), {
      ...options,
      checkpointIntervalMs: 240_000,
    })
    await driver.produce('orders', [order('ann', 3)])
    const before = driver.now()
    await driver.triggerCheckpoint()
    expect(driver.now() - before).toBeGreaterThanOrEqual(59_000)
  })

  test('may print', async () => {
    const output = new PassThrough()
    const driver = await TestDriver.start((env) => {
      env.fromCollection([1, 2]).sinkTo(printSink({ output }))
    })
    await driver.finished()
    expect(String(output.read())).toBe('1\n2\n')
  })

  test('may wait for room downstream, which the clock of the test brings', async () => {
    const driver = await TestDriver.start(
      (env) =>
        write(
          read(env)
            .flatMap(function* ({ amount }) {
              for (let i = 0; i < amount; i++) yield { i }
            })
            .uid('many')
            .rebalance()
            .map((value) => value)
            .uid('slow'),
        ),
      { ...options, parallelism: 2 },
    )
    await driver.produce('orders', [order('ann', 20_000)])
    await driver.catchUp()
    expect(await driver.committed('totals')).toHaveLength(20_000)
  })
})
