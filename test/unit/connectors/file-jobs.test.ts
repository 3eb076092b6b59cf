/** Whole jobs with file sinks, killed and started again: each value is in one visible file, once. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import {
  collectSink,
  dateTimeBucket,
  fileFormats,
  fileSink,
  json,
  kafkaSource,
  OffsetsInitializer,
  RestartStrategies,
  type StreamExecutionEnvironment,
} from 'millrace'
import { TestDriver } from 'millrace/testing'
import { FAULT_POINTS, type FaultPoint } from '../../../src/runtime/fault-points.ts'
import { FileScene } from './file-scene.ts'

// Files take real time, and more on a busy machine.
jest.setTimeout(60_000)

let scene: FileScene
beforeEach(async () => {
  scene = await FileScene.open()
})
afterEach(() => scene.close())

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)
const records = (from: number, to: number) =>
  range(from, to).map((value) => ({ value, partition: value % 3 }))
const byNumber = (a: number, b: number) => a - b

/** Copies numbers to files; `rolling` decides how many checkpoints a file lives through. */
const copy = (maxAgeMs: number) => (env: StreamExecutionEnvironment) => {
  env
    .fromSource(
      kafkaSource<number>({
        topics: ['in'],
        groupId: 'copy',
        startingOffsets: OffsetsInitializer.earliest(),
        value: json(),
      }),
    )
    .uid('in')
    .rebalance()
    .map((n) => n)
    .uid('map')
    .sinkTo(
      fileSink<number>({
        path: scene.path,
        format: fileFormats.jsonLines(),
        bucket: (n) => `by-${n % 2}`,
        rolling: { maxAgeMs, inactivityMs: maxAgeMs },
      }),
    )
    .uid('files')
}

const settings = { topics: { in: 3 }, checkpointIntervalMs: 100, parallelism: 2 }

async function numbers(): Promise<number[]> {
  return ((await scene.values()) as number[]).sort(byNumber)
}

/** Moves the clock until that many values are visible; more are seen by whoever looks. */
async function visible(driver: TestDriver, count: number): Promise<number[]> {
  for (let waited = 0; waited < 10_000 && (await numbers()).length < count; waited += 100)
    await driver.advance(100)
  return numbers()
}

/** Places around the moves of a file: prepared, named by a snapshot, promised, renamed, confirmed. */
const MOVES: readonly FaultPoint[] = [
  'after-prepare',
  'before-ack',
  'after-commit-point',
  'after-end-txn',
  'before-confirm',
]

describe.each<[string, number, readonly FaultPoint[]]>([
  ['that live through checkpoints', 350, FAULT_POINTS],
  ['that end with every checkpoint', 1, MOVES],
])('files %s', (_name, maxAgeMs, points) => {
  test.each(points)('hold each value once after kill -9 at %s', async (point) => {
    const driver = await TestDriver.start(copy(maxAgeMs), settings)
    await driver.produce('in', records(0, 10))
    await driver.advance(250)
    await driver.produce('in', records(10, 20))
    await driver.crashAt(point, 2)
    await driver.restart({ parallelism: 3 })
    await driver.produce('in', records(20, 30))
    await driver.crashAt(point)
    await driver.restart({ parallelism: 1 })
    await driver.produce('in', records(30, 40))
    await driver.catchUp()
    expect(await visible(driver, 40)).toEqual(range(0, 40))
    // What the dead workers left is removed by the next start, if not before.
    await driver.crash()
    await driver.restart({ parallelism: 2 })
    await driver.advance(1_000)
    expect(await scene.hidden()).toEqual([])
    expect(await numbers()).toEqual(range(0, 40))
  })
})

test('with several seeds, faults and parallelisms the visible files hold each value once', async () => {
  for (let seed = 1; seed <= 4; seed++) {
    const own = await FileScene.open()
    try {
      scene = own
      const driver = await TestDriver.start(copy(seed * 60), { ...settings, seed })
      for (let i = 0; i < 4; i++) {
        await driver.produce('in', records(i * 10, (i + 1) * 10))
        await driver.advance(seed * 37)
        await driver.crash()
        await driver.restart({ parallelism: 1 + ((seed + i) % 4) })
      }
      await driver.catchUp()
      expect({ seed, numbers: await visible(driver, 40) }).toEqual({ seed, numbers: range(0, 40) })
      await driver.stop()
    } finally {
      await own.close()
    }
  }
})

test('a job that is stopped goes on with what was open then', async () => {
  const driver = await TestDriver.start(copy(3_600_000), settings)
  await driver.produce('in', records(0, 10))
  await driver.advance(500)
  await driver.stop()
  expect(await numbers()).toEqual([])
  await driver.restart()
  expect(await visible(driver, 10)).toEqual(range(0, 10))
})

test('bounded input is visible at its end, also without checkpoints and after restarts of the job itself', async () => {
  let failures = 2
  const seen = collectSink<number>()
  const driver = await TestDriver.start((env) => {
    env.setRestartStrategy(RestartStrategies.fixedDelay(3, 10))
    const values = env.fromSequence(1, 100).map((n) => {
      if (n === 50 && failures-- > 0) throw new Error('once more')
      return n
    })
    values.sinkTo(
      fileSink({
        path: scene.path,
        format: fileFormats.csv<number>({
          columns: [{ name: 'n', value: (n) => n }],
          header: false,
          lineEnd: '\n',
        }),
        bucket: dateTimeBucket({ pattern: 'yyyy' }),
      }),
    )
    values.sinkTo(seen)
  })
  expect(await driver.finished()).toBe('FINISHED')
  expect(await numbers()).toEqual(range(1, 101))
  expect(await scene.hidden()).toEqual([])
})

test('an unbounded job without checkpoints is refused: nothing would ever be visible', async () => {
  const start = TestDriver.start(copy(1), { topics: { in: 3 } })
  await expect(start.then((driver) => driver.advance(1_000))).rejects.toMatchObject({
    cause: { code: 'MILLRACE_CHECKPOINTING_REQUIRED' },
    message: expect.stringContaining('(file) commits its output with checkpoints'),
  })
})
