/** Where a job begins: sources, settings, and execution. */
import type { Source } from '../core/connector.ts'
import type { CheckpointingMode } from '../core/constants.ts'
import { graphError, MAX_KEY_GROUPS } from '../core/graph/graph-checks.ts'
import type { Parallelism } from '../core/graph/stream-graph.ts'
import type { RestartStrategyConfig } from '../core/restart-strategy-config.ts'
import { WatermarkStrategy } from '../core/time/watermarks.ts'
import { builtInConnectors } from './built-in-connectors.ts'
import { CheckpointConfig } from './checkpoint-config.ts'
import { DataStreamSource } from './data-stream.ts'
import { GraphBuilder, type StreamContext } from './graph-builder.ts'
import type { JobClient, JobExecutionResult } from './job-client.ts'
import { submitJob } from './job-executor.ts'
import {
  type ConfigValue,
  checkNumber,
  checkOneOf,
  restartStrategyOptions,
  SettingsRecord,
} from './settings.ts'

const DEFAULT_JOB_NAME = 'streaming-job'

const STATE_BACKENDS = {
  jobmanager: 'jobmanager',
  filesystem: 'filesystem',
  rocksdb: 'rocksdb',
  redis: 'redis',
} as const
/** Where state is kept; see the option `state.backend`. */
export type StateBackendName = keyof typeof STATE_BACKENDS

/**
 * The environment in which a job is declared and from which it is started.
 * @example
 * const env = StreamExecutionEnvironment.getExecutionEnvironment()
 * env.enableCheckpointing(1000)
 * env.fromSource(source, WatermarkStrategy.noWatermarks(), 'orders').map(order => order.amount).sinkTo(sink)
 * await env.execute('totals')
 */
export class StreamExecutionEnvironment {
  readonly #graph = new GraphBuilder()
  readonly #settings: SettingsRecord
  readonly #checkpoints: CheckpointConfig
  readonly #context: StreamContext
  #restartStrategy: RestartStrategyConfig | undefined

  private constructor(config: Readonly<Record<string, ConfigValue>>) {
    this.#settings = new SettingsRecord(config)
    this.#checkpoints = new CheckpointConfig(this.#settings)
    this.#context = { graph: this.#graph, submit: (jobName) => this.executeAsync(jobName) }
  }

  /**
   * A new environment. `config` holds options by their names in `millrace.yaml`; like all settings in code they are the weakest:
   * the file, the environment and flags override them.
   * @example StreamExecutionEnvironment.getExecutionEnvironment({ 'state.backend': 'filesystem', 'state.checkpoints.dir': '/data' })
   */
  static getExecutionEnvironment(
    config: Readonly<Record<string, ConfigValue>> = {},
  ): StreamExecutionEnvironment {
    return new StreamExecutionEnvironment(config)
  }

  /** Takes a checkpoint every `intervalMs` milliseconds (10 at least), EXACTLY_ONCE unless told otherwise. Off unless called. */
  enableCheckpointing(intervalMs: number, mode?: CheckpointingMode): this {
    this.#checkpoints.setCheckpointInterval(intervalMs)
    if (mode !== undefined) this.#checkpoints.setCheckpointingMode(mode)
    return this
  }

  /** The checkpoint settings, to be changed in place. */
  getCheckpointConfig(): CheckpointConfig {
    return this.#checkpoints
  }

  /** Subtasks of operators that set none themselves; 'auto' (the default) = as many as there are slots. */
  setParallelism(parallelism: Parallelism): this {
    if (parallelism !== 'auto')
      checkNumber('parallelism.default', parallelism, { whole: true, min: 1, max: MAX_KEY_GROUPS })
    this.#settings.set('parallelism.default', parallelism)
    return this
  }

  /** Key groups of operators that set none themselves; 128. It cannot change once the job has state. */
  setMaxParallelism(maxParallelism: number): this {
    checkNumber('pipeline.max-parallelism', maxParallelism, { whole: true, min: 1, max: MAX_KEY_GROUPS })
    this.#settings.set('pipeline.max-parallelism', maxParallelism)
    return this
  }

  /**
   * What happens after a failure; exponential delay from 1 s to 1 min unless set.
   * @example env.setRestartStrategy(RestartStrategies.fixedDelay(3, 10_000))
   */
  setRestartStrategy(strategy: RestartStrategyConfig): this {
    this.#restartStrategy = strategy
    this.#settings.deleteAll('restart-strategy')
    for (const [key, value] of Object.entries(restartStrategyOptions(strategy)))
      this.#settings.set(key, value)
    return this
  }

  /** Where state is kept; `checkpointDir` is needed by 'filesystem' and 'rocksdb', unless `state.checkpoints.dir` says it. */
  setStateBackend(backend: StateBackendName, checkpointDir?: string): this {
    checkOneOf('state.backend', backend, STATE_BACKENDS)
    this.#settings.set('state.backend', backend)
    if (checkpointDir !== undefined) this.#settings.set('state.checkpoints.dir', checkpointDir)
    return this
  }

  /**
   * Reads a source. Watermarks are made for each split (a topic's partition), so a slow one does not make the others late.
   * @example env.fromSource(kafkaSource({ topics: ['orders'], groupId: 'etl', value: json<Order>() }), WatermarkStrategy.noWatermarks(), 'orders')
   */
  fromSource<T>(
    source: Source<T, any>,
    watermarkStrategy: WatermarkStrategy<NoInfer<T>> = WatermarkStrategy.noWatermarks(),
    name: string = source.kind,
  ): DataStreamSource<T> {
    return new DataStreamSource(this.#context, this.#graph.addSource(source, watermarkStrategy, name))
  }

  /** Reads values of this program, in order, with one subtask; then the stream ends. After a failure it reads on where the checkpoint was. */
  fromCollection<T>(values: Iterable<T>): DataStreamSource<T> {
    const source = builtInConnectors().collectionSource(values)
    return this.fromSource(source, WatermarkStrategy.noWatermarks(), 'collection').setParallelism(1)
  }

  /** The whole numbers from `from` to `to`, both included; several subtasks read a range each. */
  fromSequence(from: number, to: number): DataStreamSource<number> {
    const source = builtInConnectors().sequenceSource(from, to)
    return this.fromSource(source, WatermarkStrategy.noWatermarks(), 'sequence')
  }

  /**
   * Runs what was declared since the last execution, and waits for its end.
   * @throws JobFailedError if the job FAILED; GraphError or ConfigError if it cannot start.
   */
  async execute(jobName: string = DEFAULT_JOB_NAME): Promise<JobExecutionResult> {
    const client = await this.executeAsync(jobName)
    return client.getJobExecutionResult()
  }

  /** Starts what was declared since the last execution. */
  async executeAsync(jobName: string = DEFAULT_JOB_NAME): Promise<JobClient> {
    const graph = this.#graph.take()
    if (graph.nodes.length === 0)
      throw graphError(`job '${jobName}': No operators defined in streaming topology. Cannot execute.`)
    const collectors = graph.nodes.filter(
      (node) => node.kind === 'sink' && node.sink.describe()['processLocal'] === true,
    )
    return submitJob({
      jobName,
      graph,
      settings: { config: this.#settings.toRecord(), restartStrategy: this.#restartStrategy },
      collectors: collectors.map((node) => node.id),
    })
  }
}
