import { describe, expect, test } from '@jest/globals'
import {
  collectSink,
  json,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import { jobSettings } from '../../../src/config/job-settings.ts'
import { settingsOfCode } from '../../../src/config/setting.ts'
import { resolveConfig } from '../../../src/config.ts'
import type { JobGraph } from '../../../src/core/graph/job-graph.ts'
import { buildJobGraph } from '../../../src/core/graph/job-graph-builder.ts'
import type { Logger } from '../../../src/core/ports.ts'
import {
  bindConnectors,
  transactionalSinks,
  usesKafka,
  warnAboutGuarantees,
} from '../../../src/kafka/connector-binding.ts'
import type { KafkaEnvironment } from '../../../src/kafka/kafka-environment.ts'
import { RecordingExecutor } from '../api/recording-executor.ts'

async function graphOf(declare: (env: StreamExecutionEnvironment) => void): Promise<JobGraph> {
  const executor = new RecordingExecutor()
  const env = StreamExecutionEnvironment.getExecutionEnvironment()
  declare(env)
  await env.executeAsync('etl')
  return buildJobGraph(executor.last.graph, { jobName: 'etl', defaultParallelism: 2, maxParallelism: 128 })
}

/** Nothing of it is called: binding makes no request. */
const environment = (exactlyOnceByDefault: boolean): KafkaEnvironment =>
  ({ exactlyOnceByDefault, maxTransactionTimeoutMs: 900_000 }) as KafkaEnvironment

const source = (options: { groupId?: string; bounded?: OffsetsInitializer } = {}) =>
  kafkaSource<number>({ topics: ['in'], value: json(), ...options })

const copy =
  (options: { groupId?: string; bounded?: OffsetsInitializer } = {}) =>
  (env: StreamExecutionEnvironment): void => {
    env
      .fromSource(source(options), WatermarkStrategy.noWatermarks(), 'in')
      .sinkTo(kafkaSink<number>({ topic: 'out', value: json(), transactionalIdPrefix: 'team' }))
      .uid('out')
  }

const settingsWith = (options: Record<string, string>) => jobSettings(resolveConfig(settingsOfCode(options)))

function warningsOf(run: (logger: Logger) => void): string[] {
  const warnings: string[] = []
  const logger: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (message) => void warnings.push(message),
    error: () => undefined,
    child: () => logger,
  }
  run(logger)
  return warnings
}

describe('Kafka in a graph', () => {
  test('is needed by a Kafka source or a Kafka sink, and by nothing else', async () => {
    expect(usesKafka(await graphOf(copy()))).toBe(true)
    const written = await graphOf(
      (env) => void env.fromSequence(1, 3).sinkTo(kafkaSink<number>({ topic: 'out', value: json() })),
    )
    expect(usesKafka(written)).toBe(true)
    expect(usesKafka(await graphOf((env) => void env.fromSequence(1, 3).sinkTo(collectSink<number>())))).toBe(
      false,
    )
  })

  test('binding finds the sinks with their place, and whether all input ends', async () => {
    const endless = bindConnectors(await graphOf(copy()), environment(true), 'workers')
    expect(endless.bounded).toBe(false)
    expect(endless.sinks.map(({ uid, parallelism }) => [uid, parallelism])).toEqual([['out', 2]])
    const ending = await graphOf(copy({ bounded: OffsetsInitializer.latest() }))
    expect(bindConnectors(ending, environment(true), 'workers').bounded).toBe(true)
  })

  test('a source in the group of the workers is refused', async () => {
    const graph = await graphOf(copy({ groupId: 'workers' }))
    expect(() => bindConnectors(graph, environment(true), 'workers')).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_INVALID_OPTION',
        message: expect.stringContaining("source 'in'"),
      }),
    )
    expect(() => bindConnectors(graph, environment(true), 'others')).not.toThrow()
  })

  test('only sinks that write in transactions own transactional ids', async () => {
    const graph = await graphOf(copy())
    const sinksOf = (exactlyOnce: boolean) =>
      transactionalSinks('etl', bindConnectors(graph, environment(exactlyOnce), 'workers').sinks)
    expect(sinksOf(true)).toEqual([
      { uid: 'out', prefix: 'team.millrace.etl.out', parallelism: 2, transactionTimeoutMs: 900_000 },
    ])
    expect(sinksOf(false)).toEqual([])
  })
})

describe('two sinks with one transactionalIdPrefix', () => {
  const twice =
    (deliveryGuarantee: 'EXACTLY_ONCE' | 'AT_LEAST_ONCE') =>
    (env: StreamExecutionEnvironment): void => {
      const stream = env.fromSource(source(), WatermarkStrategy.noWatermarks(), 'in')
      for (const topic of ['one', 'two'])
        stream
          .sinkTo(
            kafkaSink<number>({ topic, value: json(), transactionalIdPrefix: 'team', deliveryGuarantee }),
          )
          .uid(topic)
    }

  test('are refused when the job is built', async () => {
    await expect(graphOf(twice('EXACTLY_ONCE'))).rejects.toThrow("same transactionalIdPrefix 'team'")
  })

  test('that write without transactions have nothing to share', async () => {
    expect((await graphOf(twice('AT_LEAST_ONCE'))).vertices).toHaveLength(1)
  })
})

describe('what a transactional sink cannot keep is said', () => {
  const warnings = async (exactlyOnce: boolean, options: Record<string, string>): Promise<string[]> => {
    const { sinks } = bindConnectors(await graphOf(copy()), environment(exactlyOnce), 'workers')
    return warningsOf((logger) => warnAboutGuarantees(sinks, settingsWith(options), logger))
  }

  test('without checkpoints', async () => {
    expect(await warnings(true, {})).toEqual([expect.stringContaining('visible at the end of the job')])
  })

  test('with barriers that are only counted', async () => {
    const options = {
      'execution.checkpointing.interval': '1 s',
      'execution.checkpointing.mode': 'AT_LEAST_ONCE',
    }
    expect(await warnings(true, options)).toEqual([expect.stringContaining('may be repeated')])
  })

  test('otherwise nothing', async () => {
    expect(await warnings(true, { 'execution.checkpointing.interval': '1 s' })).toEqual([])
    expect(await warnings(false, {})).toEqual([])
  })
})
