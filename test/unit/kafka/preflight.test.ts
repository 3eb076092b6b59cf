import { beforeEach, describe, expect, test } from '@jest/globals'
import type { JobSettings } from '../../../src/core/job-settings.ts'
import { type KafkaSink, kafkaSink } from '../../../src/kafka/kafka-sink.ts'
import type { KafkaSinkOptions } from '../../../src/kafka/kafka-sink-options.ts'
import {
  checkSinks,
  leastMaxTransactionTimeout,
  maxTransactionTimeout,
} from '../../../src/kafka/preflight.ts'
import { string } from '../../../src/serdes/serdes.ts'
import { overriding, SimulatedScene } from './simulated-scene.ts'

const MAX_MS = 900_000

let scene: SimulatedScene

beforeEach(async () => {
  scene = new SimulatedScene()
  await scene.topic('out')
})

const settings = (intervalMs: number | undefined, timeoutMs = 60_000): JobSettings => ({
  checkpointing: {
    intervalMs,
    mode: 'EXACTLY_ONCE',
    timeoutMs,
    minPauseMs: 0,
    maxConcurrent: 1,
    tolerableFailures: 0,
    numRetained: 1,
    retainOnCancellation: false,
    async: true,
  },
  restart: { kind: 'none' },
})

function sink(options: Partial<KafkaSinkOptions<string>> = {}): KafkaSink<string> {
  const made = kafkaSink<string>({
    topic: 'out',
    value: string(),
    deliveryGuarantee: 'EXACTLY_ONCE',
    ...options,
  })
  made.bind({ cluster: scene.cluster, maxTransactionTimeoutMs: MAX_MS, exactlyOnceByDefault: true } as never)
  return made
}

const check = (made: KafkaSink<string>, job: JobSettings, bounded = false) =>
  checkSinks(scene.cluster, [{ name: 'totals', sink: made }], job, {
    maxTransactionTimeoutMs: MAX_MS,
    bounded,
  })

describe("the brokers' transaction.max.timeout.ms", () => {
  test('is read', async () => {
    expect(await scene.run(maxTransactionTimeout(scene.cluster))).toBe(900_000)
    const short = new SimulatedScene({ configs: { 'transaction.max.timeout.ms': '60000' } })
    expect(await short.run(maxTransactionTimeout(short.cluster))).toBe(60_000)
  })

  test('is the least of all brokers where a job is only looked at', async () => {
    const three = new SimulatedScene({ brokers: 3 })
    const cluster = overriding(three.cluster, {
      describeConfigs: async ({ name }) => [
        { name: 'transaction.max.timeout.ms', value: name === '2' ? '60000' : '900000' },
      ],
    })
    expect(await three.run(leastMaxTransactionTimeout(cluster))).toBe(60_000)
  })

  test("is Kafka's default where we may not ask", async () => {
    scene.kafka.intercept(({ api }) => (api === 'DescribeConfigs' ? { errorCode: 31 } : 'pass'))
    expect(await scene.run(maxTransactionTimeout(scene.cluster))).toBe(900_000)
  })

  test('any other trouble is an error', async () => {
    scene.kafka.isolate('worker')
    expect(await scene.failure(maxTransactionTimeout(scene.cluster))).toMatchObject({
      code: 'MILLRACE_KAFKA_UNREACHABLE',
    })
  })
})

describe('sinks', () => {
  test('that can keep what they promise pass', async () => {
    await scene.run(check(sink(), settings(1_000)))
    await scene.run(check(sink({ transactionTimeoutMs: 66_000 }), settings(1_000)))
  })

  test('a time-out above what the brokers allow is said with both numbers', async () => {
    const error = await scene.failure(check(sink({ transactionTimeoutMs: 3_600_000 }), settings(1_000)))
    expect(error).toMatchObject({ code: 'MILLRACE_TRANSACTION_TIMEOUT' })
    expect(error.message).toMatch(/'totals'.*3600000.*900000/)
  })

  test('a time-out shorter than interval + checkpoint time-out + restart is refused: committed output could be given up', async () => {
    const error = await scene.failure(check(sink({ transactionTimeoutMs: 65_999 }), settings(1_000)))
    expect(error).toMatchObject({
      code: 'MILLRACE_TRANSACTION_TIMEOUT',
      details: { timeout: 65_999, needed: 66_000 },
      remedy: expect.stringContaining('transactionTimeoutMs'),
    })
    expect(await scene.failure(check(sink(), settings(1_000, 900_000)))).toMatchObject({
      code: 'MILLRACE_TRANSACTION_TIMEOUT',
    })
  })

  test('exactly once without checkpoints: refused for an unbounded job, one final checkpoint for a bounded one', async () => {
    expect(await scene.failure(check(sink(), settings(undefined)))).toMatchObject({
      code: 'MILLRACE_CHECKPOINTING_REQUIRED',
      message: expect.stringContaining("'totals'"),
    })
    await scene.run(check(sink(), settings(undefined), true))
  })

  test('without transactions nothing of this is asked', async () => {
    await scene.run(
      check(sink({ deliveryGuarantee: 'AT_LEAST_ONCE', transactionTimeoutMs: 1 }), settings(undefined)),
    )
  })

  test('a topic that does not exist is named, whatever the guarantee', async () => {
    for (const deliveryGuarantee of ['EXACTLY_ONCE', 'AT_LEAST_ONCE'] as const)
      expect(
        await scene.failure(check(sink({ topic: 'nowhere', deliveryGuarantee }), settings(1_000))),
      ).toMatchObject({
        code: 'MILLRACE_TOPIC_MISSING',
        message: expect.stringContaining('nowhere'),
      })
  })

  test('a topic that the record chooses cannot be checked ahead', async () => {
    await scene.run(check(sink({ topic: (value) => value }), settings(1_000)))
  })
})
