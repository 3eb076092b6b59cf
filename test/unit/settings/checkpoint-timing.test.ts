/** When checkpoints begin, how many run at a time, and what becomes of those that take too long: seen on a running job. */
import { describe, expect, test } from '@jest/globals'
import { RestartStrategies, type StreamExecutionEnvironment } from 'millrace'
import { CheckpointScene, numbers } from './checkpoint-scene.ts'

/** Messages between job and brokers take this long at most. */
const SLACK_MS = 60

const at = (scene: CheckpointScene): number[] => scene.triggers.map((trigger) => trigger.at)
/** Whole tenths of a second, so that messages on their way do not show. */
const tenths = (times: readonly number[]): number[] => times.map((time) => Math.round(time / 100) / 10)

describe('the interval', () => {
  test('is the time from the start of a checkpoint to the start of the next one', async () => {
    const scene = await CheckpointScene.start((env) => env.enableCheckpointing(1_000))
    scene.holds.push(300, 300, 300, 300, 300)
    await scene.driver.advance(5_500)
    expect(tenths(at(scene))).toEqual([1, 2, 3, 4, 5])
    expect(scene.driver.checkpoints()).toEqual([1, 2, 3, 4, 5])
  })

  test('that passes several times while a checkpoint is in flight gives one that starts when it ends', async () => {
    const scene = await CheckpointScene.start((env) => env.enableCheckpointing(1_000))
    scene.holds.push(3_500)
    await scene.driver.advance(6_400)
    expect(tenths(at(scene))).toEqual([1, 4.5, 5, 6])
  })

  test('of 0 takes none, and output is seen without waiting for any', async () => {
    const scene = await CheckpointScene.start((env) => env.enableCheckpointing(1_000), {
      config: { 'execution.checkpointing.interval': 0 },
    })
    await scene.driver.produce('in', numbers(3))
    await scene.driver.advance(500)
    expect(await scene.output()).toEqual([1, 2, 3])
    await scene.driver.advance(5_000)
    expect(scene.triggers).toEqual([])
  })
})

describe('the time-out', () => {
  test('ends a checkpoint that hangs; what it prepared is in the next one that completes, once', async () => {
    const scene = await CheckpointScene.start((env) => {
      env.enableCheckpointing(1_000)
      env.getCheckpointConfig().setCheckpointTimeout(500).setTolerableCheckpointFailureNumber(9)
    })
    scene.holds.push(1_900)
    await scene.driver.produce('in', numbers(3))
    await scene.driver.advance(1_700)
    expect(scene.driver.checkpoints()).toEqual([])
    expect(scene.driver.logs.filter(({ message }) => /checkpoint 1\b.*500 ms/.test(message))).not.toEqual([])
    await scene.driver.produce('in', [{ value: 4 }])
    await scene.driver.advance(2_000)
    expect(await scene.output()).toEqual([1, 2, 3, 4])
    expect(scene.slow).toEqual([1, 2, 3, 4])
    expect(scene.driver.checkpoints()[0]).toBeGreaterThan(1)
    expect(scene.restarts()).toEqual([])
  })

  test('that is longer lets it complete', async () => {
    const scene = await CheckpointScene.start((env) => {
      env.enableCheckpointing(1_000)
      env.getCheckpointConfig().setCheckpointTimeout(2_500)
    })
    scene.holds.push(1_900)
    await scene.driver.advance(3_000)
    expect(scene.driver.checkpoints()[0]).toBe(1)
  })
})

describe('the min pause', () => {
  test('is kept between the end of a checkpoint and the start of the next one', async () => {
    const scene = await CheckpointScene.start((env) => {
      env.enableCheckpointing(100)
      env.getCheckpointConfig().setMinPauseBetweenCheckpoints(1_000)
    })
    const holds = [300, 700, 0, 400]
    scene.holds.push(...holds)
    await scene.driver.until(() => scene.triggers.length === 5, 'five checkpoints have begun')
    const times = at(scene)
    for (const [i, hold] of holds.entries()) {
      const pause = times[i + 1]! - times[i]! - hold
      expect(pause).toBeGreaterThanOrEqual(1_000)
      expect(pause).toBeLessThan(1_000 + 2 * SLACK_MS)
    }
  })

  test('leaves one checkpoint at a time, whatever else is set', async () => {
    const scene = await CheckpointScene.start((env) => {
      env.enableCheckpointing(100)
      env.getCheckpointConfig().setMaxConcurrentCheckpoints(3).setMinPauseBetweenCheckpoints(10)
    })
    scene.holds.push(2_000)
    await scene.driver.advance(1_900)
    expect(scene.triggers).toHaveLength(1)
    expect(scene.driver.logs.map(({ message }) => message).join('\n')).toContain(
      'execution.checkpointing.max-concurrent-checkpoints is 1 instead of 3',
    )
  })
})

describe('the number of concurrent checkpoints', () => {
  test.each([1, 3])('%i: so many are in flight, each with its output prepared, and no more', async (most) => {
    const scene = await CheckpointScene.start((env) => {
      env.enableCheckpointing(1_000)
      env.getCheckpointConfig().setMaxConcurrentCheckpoints(most)
    })
    scene.holds.push(8_000)
    for (let i = 1; i <= 8; i++) {
      await scene.driver.produce('in', [{ value: i }])
      await scene.driver.advance(1_000)
    }
    expect(scene.triggers.map(({ n }) => n)).toEqual([1, 2, 3].slice(0, most))
    expect(scene.driver.checkpoints()).toEqual([])
    // One prepared for each checkpoint in flight, and the one that takes records now.
    const open = scene.driver.openTransactions().filter((id) => !id.endsWith('coordinator'))
    expect(open).toHaveLength(most + 1)
    await scene.driver.catchUp()
    expect(await scene.output()).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
  })
})

describe('failed checkpoints', () => {
  const restarting = (env: StreamExecutionEnvironment): void => {
    env.enableCheckpointing(1_000)
    env.setRestartStrategy(RestartStrategies.fixedDelay(9, 100))
    env.getCheckpointConfig().setCheckpointTimeout(200)
  }

  test.each([0, 1, 3])('%i in a row are tolerated, and the next one restarts the job', async (tolerable) => {
    const scene = await CheckpointScene.start((env) => {
      restarting(env)
      env.getCheckpointConfig().setTolerableCheckpointFailureNumber(tolerable)
    })
    await scene.driver.produce('in', numbers(3))
    for (let i = 0; i < tolerable; i++) scene.holds.push(300)
    scene.holds.push(0)
    // One that completes forgives those before it.
    await scene.driver.until(() => scene.driver.checkpoints().length > 0, 'a checkpoint is complete')
    expect(scene.restarts()).toEqual([])
    for (let i = 0; i < tolerable + 1; i++) scene.holds.push(300)
    await scene.driver.advance((tolerable + 2) * 1_000)
    expect(scene.restarts()).toEqual([100])
    await scene.driver.catchUp()
    expect(await scene.output()).toEqual([1, 2, 3])
  })

  test.each<
    [string, (config: ReturnType<StreamExecutionEnvironment['getCheckpointConfig']>) => unknown, boolean]
  >([
    ['nothing', () => undefined, true],
    ['true', (config) => config.setFailOnCheckpointingErrors(true), true],
    ['false', (config) => config.setFailOnCheckpointingErrors(false), false],
    [
      'false, then true',
      (c) => c.setFailOnCheckpointingErrors(false).setFailOnCheckpointingErrors(true),
      true,
    ],
    [
      'true, then false',
      (c) => c.setFailOnCheckpointingErrors(true).setFailOnCheckpointingErrors(false),
      false,
    ],
    [
      'false, then 0 tolerable',
      (c) => c.setFailOnCheckpointingErrors(false).setTolerableCheckpointFailureNumber(0),
      true,
    ],
    [
      '0 tolerable, then false',
      (c) => c.setTolerableCheckpointFailureNumber(0).setFailOnCheckpointingErrors(false),
      false,
    ],
  ])(
    'setFailOnCheckpointingErrors %s: the last call decides whether the job restarts',
    async (_calls, set, restarts) => {
      const scene = await CheckpointScene.start((env) => {
        restarting(env)
        set(env.getCheckpointConfig())
      })
      scene.holds.push(300, 300, 300, 300)
      await scene.driver.advance(5_500)
      expect(scene.restarts().length > 0).toBe(restarts)
    },
  )
})
