/** Commands to a whole job that is not RUNNING, as `millrace` sends them. */
import { expect, test } from '@jest/globals'
import {
  json,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  RestartStrategies,
  type StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import { TestDriver } from 'millrace/testing'
import { commandOutcome } from './asked-job.ts'

const RESTART_MS = 20_000

/** Fails over the value 13 as long as `poisoned` says so. */
function failing(poisoned: () => boolean) {
  return (env: StreamExecutionEnvironment): void => {
    env.setRestartStrategy(RestartStrategies.fixedDelay(100, RESTART_MS))
    env
      .fromSource(
        kafkaSource<number>({
          topics: ['in'],
          groupId: 'g',
          startingOffsets: OffsetsInitializer.earliest(),
          value: json(),
        }),
        WatermarkStrategy.noWatermarks<number>(),
        'in',
      )
      .uid('in')
      .map((value) => {
        if (value === 13 && poisoned()) throw new Error('thirteen')
        return value
      })
      .uid('map')
      .sinkTo(kafkaSink({ topic: 'out', value: json() }))
      .uid('out')
  }
}

async function restarting(poisoned: () => boolean): Promise<TestDriver> {
  const driver = await TestDriver.start(failing(poisoned), {
    topics: { in: 1, out: 1 },
    checkpointIntervalMs: 1_000,
  })
  await driver.produce('in', [{ value: 13 }])
  await driver.until(() => driver.status === 'RESTARTING', 'the job restarts')
  return driver
}

test.each(['savepoint', 'checkpoint'] as const)(
  'a %s of a job that is RESTARTING is refused at once, with its last failure',
  async (type) => {
    const driver = await restarting(() => true)
    const before = driver.now()
    expect(await commandOutcome(driver, { type })).toMatchObject({
      type: 'refused',
      failure: {
        code: 'MILLRACE_CHECKPOINT_FAILED',
        message: expect.stringMatching(/is RESTARTING and does no '\w+'.*its last failure: .*thirteen/),
      },
    })
    expect(driver.now() - before).toBeLessThan(2_000)
  },
)

test('a stop of a job that is RESTARTING waits until it runs, and is answered', async () => {
  let poisoned = true
  const driver = await restarting(() => poisoned)
  poisoned = false
  const before = driver.now()
  // The driver's jobs have no place for savepoints: what the job says when it runs.
  expect(await commandOutcome(driver, { type: 'stop', drain: false })).toMatchObject({
    type: 'refused',
    failure: { code: 'MILLRACE_SAVEPOINT_DIRECTORY' },
  })
  expect(driver.now() - before).toBeGreaterThan(RESTART_MS / 2)
  expect(driver.status).toBe('RUNNING')
})
