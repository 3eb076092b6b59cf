/**
 * The composition root: the only place that picks a Kafka cluster, a state backend and storage, and starts a job. Everything else sees contracts.
 */
import { readFile } from 'node:fs/promises'
import type { JobClient, JobExecutionResult } from '../api/job-client.ts'
import type { JobExecutor, JobSubmission } from '../api/job-executor.ts'
import { getLaunchSettings, type LaunchSettings } from '../api/launch-settings.ts'
import type { BlobStore } from '../checkpoint/checkpoint-storage.ts'
import type { CheckpointStore, OutputTransactions } from '../checkpoint/checkpoint-store.ts'
import type { Leadership } from '../checkpoint/leadership.ts'
import { jobSettings } from '../config/job-settings.ts'
import { type Config, loadConfig } from '../config.ts'
import { JobStatus } from '../core/constants.ts'
import { formatError } from '../core/error-report.ts'
import { explain } from '../core/graph/execution-graph.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import { buildJobGraph } from '../core/graph/job-graph-builder.ts'
import { encodeJobName } from '../core/job-name.ts'
import type { JobSettings, StartOptions } from '../core/job-settings.ts'
import type { Logger, World } from '../core/ports.ts'
import { ConfigError, JobFailedError, MillraceError } from '../errors.ts'
import type { GroupMemberOptions } from '../kafka/group-member.ts'
import type { MemberLink } from '../kafka/group-messages.ts'
import { JobTopics } from '../kafka/job-topics.ts'
import type { KafkaCluster, KafkaConnectionConfig } from '../kafka/kafka-cluster.ts'
import { KafkaBound, type KafkaEnvironment } from '../kafka/kafka-environment.ts'
import { KafkaSink } from '../kafka/kafka-sink.ts'
import { KafkajsCluster } from '../kafka/kafkajs/kafkajs-cluster.ts'
import { startGroupThread } from '../kafka/kafkajs/membership-thread.ts'
import { checkSinks, maxTransactionTimeout } from '../kafka/preflight.ts'
import { transactionalIdPrefix, workerGroupId } from '../kafka/transactional-id.ts'
import { JobTransactions } from '../kafka/transactions.ts'
import { WorkerGroup } from '../kafka/worker-group.ts'
import { MetricRegistry } from '../metrics/metrics.ts'
import { DirectoryCheckpointStorage } from '../state/directory-storage.ts'
import { HeapKeyedStateBackend } from '../state/heap-backend.ts'
import { MemoryBlobStore } from '../state/memory-blob-store.ts'
import { decodeOperatorState, encodeOperatorState } from '../state/operator-state-codec.ts'
import { FAULT_POINT_VARIABLE, type FaultHook, faultHook } from './fault-points.ts'
import { type JobEnd, JobMaster } from './job-master.ts'
import { LocalLeadership } from './local-leadership.ts'
import { openLog } from './logging.ts'
import { MemoryCheckpointStore } from './memory-checkpoint-store.ts'
import { showProgress } from './progress.ts'
import { REAL_CLOCK, realWorld } from './real-world.ts'
import { plainStorage, type StateStorage } from './state-storage.ts'
import { StatusLine } from './status-line.ts'
import { onStopSignal } from './stop-signals.ts'

/** A dead member is noticed after this time. */
const SESSION_TIMEOUT_MS = 10_000
/** A dead sole member must not hold a newcomer up. */
const REBALANCE_TIMEOUT_MS = 2_000
const HEARTBEAT_MS = 500

const CODEC = { encode: encodeOperatorState, decode: decodeOperatorState }

/** Executor of `env.execute`: this process is a worker, and leads the job or stands by. */
export function createJobExecutor(): JobExecutor {
  return { execute: submit }
}

/** One status line a process, whatever the number of jobs. */
let screen: StatusLine | undefined

async function submit(submission: JobSubmission): Promise<JobClient> {
  const launch = getLaunchSettings()
  const { jobName } = submission
  launch.onJobSubmitted?.(jobName)
  process.setSourceMapsEnabled(true)
  const config = await loadConfig({
    code: submission.settings.config,
    flags: launch.flags,
    configFile: launch.configFile,
    folder: process.cwd(),
    environment: process.env,
  })
  const settings = jobSettings(config)
  const graph = buildJobGraph(submission.graph, {
    jobName,
    defaultParallelism: slotsOf(config),
    maxParallelism: config.get('pipeline.max-parallelism'),
  })
  if (launch.dryRun) {
    process.stdout.write(`${explain(graph)}\n`)
    return endedClient(jobName, { status: 'FINISHED' }, 0)
  }
  if (screen === undefined) {
    screen = new StatusLine(process.stderr)
    screen.shareWith(process.stdout)
  }
  const logger = (
    await openLog({
      level: config.get('log.level'),
      format: config.get('log.format'),
      stream: screen,
      clock: REAL_CLOCK,
    })
  ).child({ job: jobName })
  for (const finding of config.findings)
    finding.level === 'warning' ? logger.warn(finding.message) : logger.info(finding.message)
  for (const warning of graph.warnings) logger.warn(warning)
  return start(submission, graph, config, settings, launch, logger, screen)
}

function slotsOf(config: Config): number {
  const parallelism = config.get('parallelism.default')
  return parallelism === 'auto' ? config.get('taskmanager.numberOfTaskSlots') : parallelism
}

/** Everything of one running job that must be closed again. */
export interface Composition {
  readonly leadership: Leadership
  readonly store: CheckpointStore
  readonly storage: StateStorage
  readonly transactions: OutputTransactions | undefined
  close(): Promise<void>
}

async function start(
  submission: JobSubmission,
  graph: JobGraph,
  config: Config,
  settings: JobSettings,
  launch: LaunchSettings,
  logger: Logger,
  display: StatusLine,
): Promise<JobClient> {
  const { jobName } = submission
  const metrics = new MetricRegistry()
  const world = realWorld(logger, metrics)
  const incarnation = world.random.uuid()
  const usesKafka = graph.vertices.some((vertex) =>
    vertex.operators.some(({ node }) => boundOf(node) !== undefined),
  )
  const composition = usesKafka
    ? await connectKafka(jobName, graph, config, settings, world, incarnation)
    : composeLocal(jobName, config, settings, world)
  const master = createMaster(composition, {
    jobName,
    graph,
    settings,
    world,
    incarnation,
    start: {
      // What a job collects lives in this process only: an earlier process's run is nothing to go on from.
      fresh: launch.fresh || submission.collectors.length > 0,
      allowNonRestoredState: launch.allowNonRestoredState,
      acceptLostTransactions: launch.acceptLostTransactions,
    },
    fault: faultHook(process.env[FAULT_POINT_VARIABLE], () => process.kill(process.pid, 'SIGKILL')),
  })
  const undo = onStopSignal(() => master.stop(), logger)
  const progress = showProgress({
    read: () => ({
      state: master.status,
      recordsIn: metrics.total('records_in'),
      lag: lagOf(metrics),
      checkpoint:
        master.lastCompleted === undefined
          ? undefined
          : { id: master.lastCompleted.n, completedAt: master.lastCompleted.at },
    }),
    screen: display,
    logger,
    clock: world.clock,
    timers: world.timers,
  })
  const startedAt = world.clock.now()
  const ended = master.run().then(async (end) => {
    undo()
    progress.stop()
    await composition.close()
    if (end.status === 'FAILED') {
      // Under the command line the command prints the report, once.
      if (!launch.launchedByCli) process.stderr.write(`${formatError(end.error)}\n`)
    } else logger.info(`job '${jobName}' is ${end.status}`)
    launch.onJobSettled?.({
      jobName,
      status: end.status,
      ...(end.error === undefined ? {} : { error: end.error }),
    })
    return end
  })
  return runningClient(jobName, incarnation, master, ended, startedAt)
}

function boundOf(node: { kind: string; source?: unknown; sink?: unknown }): KafkaBound | undefined {
  const connector = node.kind === 'source' ? node.source : node.kind === 'sink' ? node.sink : undefined
  return connector instanceof KafkaBound ? connector : undefined
}

function lagOf(metrics: MetricRegistry): bigint {
  let lag = 0
  for (const reading of metrics.read()) if (reading.name === 'source_lag_records') lag += reading.value
  return BigInt(Math.round(lag))
}

function composeLocal(jobName: string, config: Config, settings: JobSettings, world: World): Composition {
  if (settings.checkpointing.intervalMs !== undefined)
    world.logger.warn(
      'the job has no Kafka source or sink: its checkpoints are kept in this process and do not survive it',
    )
  const blobs = new MemoryBlobStore()
  return {
    leadership: new LocalLeadership(),
    store: new MemoryCheckpointStore(blobs),
    storage: storageOf(jobName, config, blobs),
    transactions: undefined,
    close: async () => undefined,
  }
}

/** The job master over what was composed. */
export function createMaster(
  composition: Composition,
  job: {
    readonly jobName: string
    readonly graph: JobGraph
    readonly settings: JobSettings
    readonly start: StartOptions
    readonly world: World
    readonly incarnation: string
    readonly fault: FaultHook | undefined
  },
): JobMaster {
  const { leadership, store, storage, transactions } = composition
  return new JobMaster({
    ...job,
    leadership,
    store,
    storage,
    transactions,
    createBackend: (options) => new HeapKeyedStateBackend({ ...options, clock: job.world.clock }),
  })
}

async function connectKafka(
  jobName: string,
  graph: JobGraph,
  config: Config,
  settings: JobSettings,
  world: World,
  incarnation: string,
): Promise<Composition> {
  const connection = await connectionOf(config, jobName)
  const cluster = new KafkajsCluster(connection, world.logger)
  try {
    await cluster.connect()
    return await composeKafkaJob({
      jobName,
      graph,
      config,
      settings,
      world,
      incarnation,
      cluster,
      startMember: (member) =>
        startGroupThread({ ...connection, clientId: `${connection.clientId}-membership` }, member),
      openStorage: (own) => storageOf(jobName, config, own),
    })
  } catch (error) {
    await cluster.close()
    throw error
  }
}

/** A job that uses Kafka, and the leaves that differ between real brokers and simulated ones. */
export interface KafkaJob {
  readonly jobName: string
  readonly graph: JobGraph
  readonly config: Config
  readonly settings: JobSettings
  readonly world: World
  readonly incarnation: string
  /** Connected; closed with the composition. */
  readonly cluster: KafkaCluster
  /** Joins the worker group over a connection of its own. */
  readonly startMember: (member: GroupMemberOptions) => MemberLink
  /** Where snapshots go; `own` is the job's checkpoint topic. */
  readonly openStorage: (own: BlobStore) => StateStorage
}

/** Wires one worker of a Kafka job, without starting it. The simulation wires its workers by the same function. */
export async function composeKafkaJob(job: KafkaJob): Promise<Composition> {
  const { jobName, graph, config, settings, world, incarnation, cluster } = job
  const maxTransactionTimeoutMs = await maxTransactionTimeout(cluster)
  const slots = settings.checkpointing.maxConcurrent + 2
  const groupId = workerGroupId(jobName)
  let group: WorkerGroup | undefined
  const environment: KafkaEnvironment = {
    cluster,
    jobName,
    fetchMaxBytes: config.get('kafka.fetch.max-bytes'),
    fetchMaxWaitMs: config.get('kafka.fetch.max-wait'),
    maxTransactionTimeoutMs,
    exactlyOnceByDefault:
      settings.checkpointing.intervalMs !== undefined && settings.checkpointing.mode === 'EXACTLY_ONCE',
    transactionSlots: slots,
    healing: () => store,
    assertAlive: () => {
      const silent = group?.silentFor() ?? 0
      if (silent > SESSION_TIMEOUT_MS)
        throw new MillraceError(
          'MILLRACE_ATTEMPT_LOST',
          `this worker could not reach its group for ${silent} ms; another one may lead the job now`,
        )
    },
  }
  const sinks = bindConnectors(graph, environment, groupId)
  await checkSinks(cluster, sinks.list, settings, { maxTransactionTimeoutMs, bounded: sinks.bounded })
  warnAboutGuarantees(sinks.list, settings, world.logger)
  const member: GroupMemberOptions = {
    groupId,
    fingerprint: graph.fingerprint,
    incarnation,
    sessionTimeoutMs: SESSION_TIMEOUT_MS,
    rebalanceTimeoutMs: REBALANCE_TIMEOUT_MS,
    heartbeatMs: HEARTBEAT_MS,
    onMismatch: config.get('on-fingerprint-mismatch'),
  }
  const leadership = new WorkerGroup(job.startMember(member), member, world)
  group = leadership
  const replication = config.get('kafka.job-topics.replication-factor')
  const store = new JobTopics({
    cluster,
    jobName,
    world,
    replicationFactor: replication === 'auto' ? -1 : replication,
    assertLeader: () => leadership.assertLeader(),
  })
  const transactional = sinks.list
    .filter(({ sink }) => sink.exactlyOnce)
    .map(({ uid, parallelism, sink }) => ({
      uid,
      prefix: transactionalIdPrefix(jobName, uid, sink.options.transactionalIdPrefix),
      parallelism,
      transactionTimeoutMs: sink.transactionTimeoutMs,
    }))
  return {
    leadership,
    store,
    storage: job.openStorage(store.blobs),
    transactions: new JobTransactions({
      cluster,
      world,
      sinks: transactional,
      slots,
      defaultTimeoutMs: maxTransactionTimeoutMs,
    }),
    close: () => cluster.close(),
  }
}

interface BoundSink {
  readonly name: string
  readonly uid: string
  readonly parallelism: number
  readonly sink: KafkaSink<any>
}

/** Hands the environment to every Kafka source and sink. @throws ConfigError for a source in the workers' own group. */
function bindConnectors(
  graph: JobGraph,
  environment: KafkaEnvironment,
  workerGroup: string,
): { readonly list: BoundSink[]; readonly bounded: boolean } {
  const list: BoundSink[] = []
  let bounded = true
  for (const vertex of graph.vertices)
    for (const { node, name, uid } of vertex.operators) {
      boundOf(node)?.bind(environment)
      if (node.kind === 'source') {
        bounded &&= node.source.bounded
        if (node.source.describe()['groupId'] === workerGroup)
          throw new ConfigError(
            'MILLRACE_INVALID_OPTION',
            `source '${name}': groupId ${workerGroup} is the group of the job's own workers; choose another one`,
          )
      }
      if (node.kind === 'sink' && node.sink instanceof KafkaSink)
        list.push({ name, uid, parallelism: vertex.parallelism, sink: node.sink })
    }
  return { list, bounded }
}

function warnAboutGuarantees(
  sinks: readonly { name: string; sink: KafkaSink<any> }[],
  settings: JobSettings,
  logger: Logger,
): void {
  for (const { name, sink } of sinks) {
    if (!sink.exactlyOnce) continue
    if (settings.checkpointing.intervalMs === undefined)
      logger.warn(
        `sink '${name}' is EXACTLY_ONCE and checkpointing is off: its output becomes visible at the end of the job, in one piece`,
      )
    else if (settings.checkpointing.mode === 'AT_LEAST_ONCE')
      logger.warn(
        `sink '${name}' is transactional, but the checkpointing mode is AT_LEAST_ONCE: records around a barrier may be repeated after a failure`,
      )
  }
}

function storageOf(jobName: string, config: Config, own: BlobStore): StateStorage {
  const root = config.get('state.backend') === 'filesystem' ? config.get('state.checkpoints.dir') : undefined
  if (root === undefined) return plainStorage(own, CODEC)
  const memoryThreshold = config.get('state.backend.fs.memory-threshold')
  const job = encodeJobName(jobName, 100)
  const folder = (run: string, writer: string): DirectoryCheckpointStorage =>
    new DirectoryCheckpointStorage({ root, job, run, writer, memoryThreshold })
  const any = folder('any', 'reader')
  return {
    codec: CODEC,
    get: (handle) => any.read(handle),
    discard: (handle) => any.discard(handle),
    begin: async (run, attempt) => {
      const storage = folder(run, String(attempt))
      await storage.prepare()
      return {
        blobs: (n) => storage.blobStore(n),
        writeMetadata: async (n, bytes) => {
          // An earlier attempt may have written metadata for an n whose commit point never came to be.
          await storage.discardMetadata(n)
          await storage.writeMetadata(n, bytes)
        },
      }
    },
    discardMetadata: (run, n) => folder(run, 'reader').discardMetadata(n),
  }
}

async function connectionOf(config: Config, jobName: string): Promise<KafkaConnectionConfig> {
  const brokers = config.get('kafka.brokers')
  if (brokers === undefined || brokers.length === 0)
    throw new MillraceError(
      'MILLRACE_KAFKA_NOT_CONFIGURED',
      `job '${jobName}' uses Kafka, but no brokers are configured`,
    )
  const mechanism = config.get('kafka.sasl.mechanism')
  const [ca, cert, key] = await Promise.all(
    [config.get('kafka.ssl.ca'), config.get('kafka.ssl.cert'), config.get('kafka.ssl.key')].map((path) =>
      path === undefined ? undefined : readFile(path, 'utf8'),
    ),
  )
  const tls = {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  }
  const ssl = config.get('kafka.ssl') ? (Object.keys(tls).length > 0 ? tls : true) : false
  return {
    brokers,
    clientId: config.get('kafka.client-id'),
    ssl,
    requestTimeoutMs: config.get('kafka.request-timeout'),
    ...(mechanism === undefined
      ? {}
      : {
          sasl: {
            mechanism,
            username: config.get('kafka.sasl.username') ?? '',
            password: config.get('kafka.sasl.password') ?? '',
          },
        }),
  }
}

function resultOf(jobName: string, id: string, end: JobEnd, runtimeMs: number): JobExecutionResult {
  return {
    getJobID: () => id,
    getJobName: () => jobName,
    getJobStatus: () => JobStatus[end.status],
    getNetRuntime: () => runtimeMs,
  }
}

function runningClient(
  jobName: string,
  id: string,
  master: JobMaster,
  ended: Promise<JobEnd>,
  startedAt: number,
): JobClient {
  // Whoever never asks for the result must not bring the process down; the failure was reported.
  ended.catch(() => undefined)
  const later = (what: string): never => {
    throw new MillraceError(
      'MILLRACE_CHECKPOINT_FAILED',
      `${what} needs savepoints, which this version does not write yet`,
      {
        remedy: 'Stop the job with SIGTERM: it takes a last checkpoint and resumes from it.',
        retriable: false,
      },
    )
  }
  return {
    getJobID: () => id,
    getJobStatus: async () => master.status,
    cancel: async () => {
      await master.cancel()
      await ended
    },
    stopWithSavepoint: async () => later('stopWithSavepoint'),
    triggerSavepoint: async () => later('triggerSavepoint'),
    triggerCheckpoint: () => master.triggerCheckpoint(),
    getJobExecutionResult: async () => {
      const end = await ended
      if (end.status === 'FAILED')
        throw end.error instanceof JobFailedError ? end.error : failureOf(jobName, end.error)
      return resultOf(jobName, id, end, Date.now() - startedAt)
    },
  }
}

function failureOf(jobName: string, cause: unknown): JobFailedError {
  return new JobFailedError(
    'MILLRACE_JOB_FAILED',
    `job '${jobName}' FAILED: ${cause instanceof Error ? cause.message : String(cause)}`,
    { cause },
  )
}

function endedClient(jobName: string, end: JobEnd, runtimeMs: number): JobClient {
  const refuse = async (): Promise<never> => {
    throw new MillraceError('MILLRACE_CHECKPOINT_FAILED', `job '${jobName}' was not started (dry run)`)
  }
  return {
    getJobID: () => '',
    getJobStatus: async () => JobStatus[end.status],
    cancel: async () => undefined,
    stopWithSavepoint: refuse,
    triggerSavepoint: refuse,
    triggerCheckpoint: refuse,
    getJobExecutionResult: async () => resultOf(jobName, '', end, runtimeMs),
  }
}
