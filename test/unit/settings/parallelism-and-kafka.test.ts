/** What parallelism, slots, and the settings of fetches and job topics do to a running job. */
import { describe, expect, test } from '@jest/globals'
import { json, kafkaSink, kafkaSource, OffsetsInitializer, type StreamExecutionEnvironment } from 'millrace'
import { TestDriver, type TestDriverOptions } from 'millrace/testing'
import type { FetchRequest } from '../../../src/kafka/kafka-cluster.ts'

const TOPICS = { in: 4, out: 1 }

/** Copies; `onOpen` hears of each subtask of the copying operator. */
const copy =
  (onOpen: (subtask: number) => void = () => undefined, parallelism?: number) =>
  (env: StreamExecutionEnvironment): void => {
    const copies = env
      .fromSource(
        kafkaSource<number | string>({
          topics: ['in'],
          groupId: 'g',
          startingOffsets: OffsetsInitializer.earliest(),
          value: json(),
        }),
      )
      .uid('in')
      .map({
        open: (context) => onOpen(context.getIndexOfThisSubtask()),
        map: (value: number | string) => value,
      })
      .uid('copy')
    if (parallelism !== undefined) copies.setParallelism(parallelism)
    copies.sinkTo(kafkaSink({ topic: 'out', value: json() })).uid('out')
  }

async function subtasks(config: TestDriverOptions['config'], parallelism?: number): Promise<number> {
  const opened: number[] = []
  const driver = await TestDriver.start(
    copy((subtask) => opened.push(subtask), parallelism),
    { topics: TOPICS, checkpointIntervalMs: 100, config: { ...config } },
  )
  await driver.produce('in', [{ value: 1 }, { value: 2 }, { value: 3 }, { value: 4 }])
  await driver.catchUp()
  expect((await driver.committed('out')).toSorted()).toEqual([1, 2, 3, 4])
  return opened.length
}

describe('parallelism', () => {
  test('auto is as many subtasks as there are slots', async () => {
    expect(await subtasks({ 'parallelism.default': 'auto', 'taskmanager.numberOfTaskSlots': 3 })).toBe(3)
    expect(await subtasks({ 'parallelism.default': 'auto' })).toBe(1)
  })

  test('the default is for operators that set none, whatever the slots', async () => {
    expect(await subtasks({ 'parallelism.default': 2, 'taskmanager.numberOfTaskSlots': 1 })).toBe(2)
    expect(await subtasks({ 'parallelism.default': 2 }, 4)).toBe(4)
  })

  test('above the max parallelism is refused before the job starts', async () => {
    await expect(subtasks({ 'parallelism.default': 2, 'pipeline.max-parallelism': 3 }, 4)).rejects.toThrow(
      /parallelism 4.*max parallelism.*3/i,
    )
    expect(await subtasks({ 'parallelism.default': 2, 'pipeline.max-parallelism': 4 }, 4)).toBe(4)
  })
})

describe('fetches', () => {
  /** Fetches of the topic `in` that the job makes while `work` is done. */
  async function fetchesDuring(
    config: TestDriverOptions['config'],
    prepare: (driver: TestDriver) => Promise<unknown>,
    work: (driver: TestDriver) => Promise<unknown>,
  ): Promise<number> {
    const driver = await TestDriver.start(copy(), {
      topics: { in: 1, out: 1 },
      checkpointIntervalMs: 200_000,
      config: { ...config },
    })
    await driver.stop()
    await prepare(driver)
    let fetches = 0
    driver.kafka.intercept(({ api, args }) => {
      const [request] = args as [Partial<FetchRequest>]
      if (api === 'Fetch' && request.partitions?.some(({ topic }) => topic === 'in')) fetches++
      return 'pass'
    })
    await driver.restart()
    await work(driver)
    return fetches
  }

  test('bring at most so many bytes of a partition, and a larger batch whole', async () => {
    const batches = async (driver: TestDriver): Promise<void> => {
      for (let i = 0; i < 20; i++) await driver.produce('in', [{ value: 'x'.repeat(4_000) }])
    }
    const all = async (driver: TestDriver): Promise<void> => {
      await driver.until(() => driver.metric('records_in') >= 20, 'all is read')
    }
    expect(await fetchesDuring({ 'kafka.fetch.max-bytes': '1 kb' }, batches, all)).toBeGreaterThanOrEqual(20)
    expect(await fetchesDuring({ 'kafka.fetch.max-bytes': '1 mb' }, batches, all)).toBeLessThan(5)
  })

  test('are held back by the broker for so long while there is nothing to read', async () => {
    const nothing = async (): Promise<void> => undefined
    const idle = (driver: TestDriver): Promise<void> => driver.advance(10_000)
    const often = await fetchesDuring({ 'kafka.fetch.max-wait': '100 ms' }, nothing, idle)
    expect(often).toBeGreaterThan(80)
    expect(often).toBeLessThan(110)
    const seldom = await fetchesDuring({ 'kafka.fetch.max-wait': '5 s' }, nothing, idle)
    expect(seldom).toBeLessThan(5)
  })
})

describe('topics of the job', () => {
  /** Replicas of the checkpoint topic and of the control topic. */
  async function replicas(brokers: number, config: TestDriverOptions['config'] = {}): Promise<unknown[]> {
    const driver = await TestDriver.start(copy(), {
      topics: TOPICS,
      checkpointIntervalMs: 100,
      brokers,
      config: { ...config },
    })
    return ['checkpoints', 'control'].map(
      (kind) => driver.kafka.inside.topics.get(`millrace.job-under-test.${kind}`)?.replicationFactor,
    )
  }

  test('have the replicas that were asked for, which the brokers must have', async () => {
    const config = { 'kafka.job-topics.replication-factor': 2 }
    expect(await replicas(5, config)).toEqual([2, 2])
    await expect(replicas(1, config)).rejects.toThrow(/2 of 1 brokers/)
  })

  test('have as many replicas as there are brokers, up to three, when nobody asks', async () => {
    expect(await replicas(1)).toEqual([1, 1])
    expect(await replicas(5)).toEqual([3, 3])
  })
})
