import { beforeEach, describe, expect, test } from '@jest/globals'
import {
  CheckpointingMode,
  collectSink,
  ExternalizedCheckpointCleanup,
  RestartStrategies,
  StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import type { SourceNode } from '../../../src/core/graph/stream-graph.ts'
import { RecordingExecutor } from './recording-executor.ts'

let executor: RecordingExecutor
beforeEach(() => {
  executor = new RecordingExecutor()
})

/** What a job of this environment is submitted with. */
async function settingsOf(env: StreamExecutionEnvironment) {
  env.fromCollection([1]).print()
  await env.executeAsync('job')
  return executor.last.settings
}

describe('settings', () => {
  test('that nobody made are absent', async () => {
    const settings = await settingsOf(StreamExecutionEnvironment.getExecutionEnvironment())
    expect(settings).toEqual({ config: {}, restartStrategy: undefined })
  })

  test('are handed over under the names of the options', async () => {
    const env = StreamExecutionEnvironment.getExecutionEnvironment({
      'kafka.brokers': 'b:1',
      'parallelism.default': 9,
    })
    env
      .enableCheckpointing(1000, CheckpointingMode.AT_LEAST_ONCE)
      .setParallelism(4)
      .setMaxParallelism(256)
      .setStateBackend('filesystem', '/data')
    env
      .getCheckpointConfig()
      .setCheckpointTimeout(60_000)
      .setMinPauseBetweenCheckpoints(500)
      .setMaxConcurrentCheckpoints(2)
      .enableExternalizedCheckpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
      .setTolerableCheckpointFailureNumber(3)
      .enableUnalignedCheckpoints()
    expect((await settingsOf(env)).config).toEqual({
      'kafka.brokers': 'b:1',
      'parallelism.default': 4,
      'pipeline.max-parallelism': 256,
      'state.backend': 'filesystem',
      'state.checkpoints.dir': '/data',
      'execution.checkpointing.interval': 1000,
      'execution.checkpointing.mode': 'AT_LEAST_ONCE',
      'execution.checkpointing.timeout': 60_000,
      'execution.checkpointing.min-pause': 500,
      'execution.checkpointing.max-concurrent-checkpoints': 2,
      'execution.checkpointing.externalized-checkpoint-retention': 'RETAIN_ON_CANCELLATION',
      'execution.checkpointing.tolerable-failed-checkpoints': 3,
      'execution.checkpointing.unaligned': true,
    })
  })

  test('of a restart strategy replace those of another one', async () => {
    const env = StreamExecutionEnvironment.getExecutionEnvironment({
      'restart-strategy.fixed-delay.attempts': 7,
    })
    env.setRestartStrategy(RestartStrategies.failureRate(3, 60_000, 1000))
    const { config, restartStrategy } = await settingsOf(env)
    expect(restartStrategy).toEqual({
      kind: 'failure-rate',
      maxFailures: 3,
      intervalMs: 60_000,
      delayMs: 1000,
    })
    expect(config).toEqual({
      'restart-strategy.type': 'failure-rate',
      'restart-strategy.failure-rate.max-failures-per-interval': 3,
      'restart-strategy.failure-rate.failure-rate-interval': 60_000,
      'restart-strategy.failure-rate.delay': 1000,
    })
  })

  test('out of their range are refused', () => {
    const env = StreamExecutionEnvironment.getExecutionEnvironment()
    expect(() => env.enableCheckpointing(9)).toThrow(
      'execution.checkpointing.interval must be a whole number from 10',
    )
    expect(() => env.setParallelism(0)).toThrow('parallelism.default must be')
    expect(() => env.setMaxParallelism(32_769)).toThrow(
      'pipeline.max-parallelism must be a whole number from 1 to 32768',
    )
    expect(() => env.setStateBackend('floppy' as never)).toThrow(
      'state.backend must be one of jobmanager, filesystem',
    )
    expect(() => env.enableCheckpointing(10, 'X' as never)).toThrow(
      expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }),
    )
  })
})

describe('sources', () => {
  test('carry their name and watermark strategy', async () => {
    const env = StreamExecutionEnvironment.getExecutionEnvironment()
    const strategy = WatermarkStrategy.forMonotonousTimestamps<number>()
    const source = { kind: 'test', bounded: true, describe: () => ({}) } as never
    env.fromSource<number>(source, strategy, 'orders').print()
    await env.executeAsync()
    const node = executor.last.graph.nodes[0] as SourceNode
    expect([node.name, node.watermarks, node.source]).toEqual(['orders', strategy, source])
  })

  test('of a collection have one subtask, of a sequence as many as others', async () => {
    const env = StreamExecutionEnvironment.getExecutionEnvironment()
    env.fromCollection([1]).union(env.fromSequence(1, 2)).print()
    await env.executeAsync()
    expect(executor.last.graph.nodes.map((node) => node.parallelism)).toEqual([1, undefined, undefined])
  })
})

describe('execution', () => {
  test('without operators is refused before anything is loaded', async () => {
    const env = StreamExecutionEnvironment.getExecutionEnvironment()
    await expect(env.execute('empty')).rejects.toThrow(
      "job 'empty': No operators defined in streaming topology.",
    )
    expect(executor.submissions).toEqual([])
  })

  test('gives the result of the job, or its failure', async () => {
    const env = StreamExecutionEnvironment.getExecutionEnvironment()
    env.fromCollection([1]).print()
    const result = env.execute('totals')
    executor.finish()
    expect((await result).getJobName()).toBe('totals')
    executor.onSubmit = () => {
      throw new Error('no brokers')
    }
    env.fromCollection([1]).print()
    await expect(env.execute()).rejects.toThrow('no brokers')
  })

  test('names the sinks that hand values to this process', async () => {
    const env = StreamExecutionEnvironment.getExecutionEnvironment()
    const numbers = env.fromCollection([1])
    numbers.print()
    numbers.sinkTo(collectSink())
    await env.executeAsync()
    expect(executor.last.collectors).toEqual([2])
  })
})
