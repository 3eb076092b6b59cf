/**
 * The composition root: the only place that picks a Kafka cluster, a state backend and storage, and starts a job. Everything else sees contracts.
 */
import { join } from 'node:path'
import type { JobClient } from '../api/job-client.ts'
import type { JobExecutor, JobSubmission } from '../api/job-executor.ts'
import { dryRunClient, runningClient } from '../api/job-handle.ts'
import { getLaunchSettings, type LaunchSettings, restoreChoice } from '../api/launch-settings.ts'
import type { BlobStore } from '../checkpoint/checkpoint-storage.ts'
import type { CheckpointStore, OutputTransactions } from '../checkpoint/checkpoint-store.ts'
import type { Leadership } from '../checkpoint/leadership.ts'
import { connectorSettings } from '../config/connector-settings.ts'
import { jobSettings } from '../config/job-settings.ts'
import { kafkaConnection } from '../config/kafka-connection.ts'
import { checkpointRoot, redisSettings, stateSettings } from '../config/state-settings.ts'
import { type Config, loadConfig } from '../config.ts'
import { type FailureFacts, failureReport } from '../core/failure-report.ts'
import { explain } from '../core/graph/execution-graph.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import { buildJobGraph } from '../core/graph/job-graph-builder.ts'
import type { JobControl } from '../core/job-control.ts'
import type { JobSettings, StartOptions } from '../core/job-settings.ts'
import type { Logger, World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import {
  bindConnectors,
  transactionalSinks,
  usesKafka,
  warnAboutGuarantees,
} from '../kafka/connector-binding.ts'
import { ControlTopic } from '../kafka/control-topic.ts'
import type { GroupMemberOptions } from '../kafka/group-member.ts'
import type { MemberLink } from '../kafka/group-messages.ts'
import { JobTopics } from '../kafka/job-topics.ts'
import type { KafkaCluster } from '../kafka/kafka-cluster.ts'
import type { KafkaEnvironment } from '../kafka/kafka-environment.ts'
import { KafkajsCluster } from '../kafka/kafkajs/kafkajs-cluster.ts'
import { startGroupThread } from '../kafka/kafkajs/membership-thread.ts'
import { checkPrefixHolders } from '../kafka/prefix-holders.ts'
import { checkSinks, maxTransactionTimeout } from '../kafka/preflight.ts'
import { jobTopic, workerGroupId } from '../kafka/transactional-id.ts'
import { JobTransactions } from '../kafka/transactions.ts'
import { WorkerGroup } from '../kafka/worker-group.ts'
import { MetricRegistry } from '../metrics/metrics.ts'
import { JobDirectory, jobFolder } from '../state/job-directory.ts'
import { type KeyedBackendSettings, keyedBackends } from '../state/keyed-backends.ts'
import { removeLocalState } from '../state/local-recovery.ts'
import { MemoryBlobStore } from '../state/memory-blob-store.ts'
import { STATE_CODEC } from '../state/operator-state-codec.ts'
import { RedisState } from '../state/redis-state.ts'
import { SavepointFolders, withFolders } from '../state/savepoint-folders.ts'
import { openSnapshot } from '../state/savepoint-source.ts'
import { FAULT_POINT_VARIABLE, type FaultHook, faultHook } from './fault-points.ts'
import { diagnoseJob } from './job-doctor.ts'
import { factsOf, startedByNode } from './job-failure.ts'
import { JobMaster } from './job-master.ts'
import { LocalLeadership } from './local-leadership.ts'
import { openLog } from './logging.ts'
import { MemoryCheckpointStore } from './memory-checkpoint-store.ts'
import { showProgress } from './progress.ts'
import { REAL_CLOCK, realWorld } from './real-world.ts'
import { findSource } from './source-places.ts'
import { type OutsideState, plainStorage, type StateStorage } from './state-storage.ts'
import { StatusLine } from './status-line.ts'
import { onStopSignal } from './stop-signals.ts'

/** A dead member is noticed after this time. */
const SESSION_TIMEOUT_MS = 10_000
/** A dead sole member must not hold a newcomer up. */
const REBALANCE_TIMEOUT_MS = 2_000
const HEARTBEAT_MS = 500

const CODEC = STATE_CODEC

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
  const readConfig = (): Promise<Config> =>
    loadConfig({
      code: submission.settings.config,
      flags: launch.flags,
      configFile: launch.configFile,
      flinkFile: launch.flinkFile,
      folder: process.cwd(),
      environment: process.env,
    })
  const buildGraph = (from: Config): JobGraph =>
    buildJobGraph(submission.graph, {
      jobName,
      defaultParallelism: slotsOf(from),
      maxParallelism: from.get('pipeline.max-parallelism'),
    })
  if (launch.onDiagnosed !== undefined) {
    const examined = { jobName, loadConfig: readConfig, buildGraph, withCluster }
    launch.onDiagnosed(jobName, await diagnoseJob(examined))
    return dryRunClient(jobName)
  }
  const config = await readConfig()
  const settings = jobSettings(config)
  const graph = buildGraph(config)
  if (launch.dryRun) {
    process.stdout.write(`${explain(graph)}\n`)
    return dryRunClient(jobName)
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
  readonly control?: JobControl | undefined
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
  const restoreFrom = restoreChoice(launch)
  // What is not there must be said before anything is started.
  if (restoreFrom?.type === 'path') await openSnapshot(restoreFrom.path)
  const metrics = new MetricRegistry()
  const world = realWorld(logger, metrics)
  const incarnation = world.random.uuid()
  const fault = faultHook(process.env[FAULT_POINT_VARIABLE], (signal) => process.kill(process.pid, signal))
  const server = await redisSettings(config)
  const redis = server === undefined ? undefined : await RedisState.open({ ...server, job: jobName, logger })
  const connect = async (): Promise<Composition> =>
    usesKafka(graph)
      ? connectKafka(jobName, graph, config, settings, world, incarnation, fault, redis)
      : composeLocal(jobName, config, settings, world, redis)
  const composition = await connect().catch(async (error: unknown) => {
    await redis?.close()
    throw error
  })
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
      restoreFrom,
    },
    fault,
    keyedState: { ...stateSettings(config), world, redis },
  })
  const undo = onStopSignal(() => master.stop(), logger)
  const progress = showProgress({
    read: () => ({
      state: master.status,
      recordsIn: metrics.total('records_in'),
      lag: lagOf(metrics),
      checkpoint:
        master.history.lastCompleted === undefined
          ? undefined
          : { id: master.history.lastCompleted.n, completedAt: master.history.lastCompleted.at },
    }),
    screen: display,
    logger,
    clock: world.clock,
    timers: world.timers,
  })
  const failure = (): FailureFacts => factsOf(master.history, master.restarts, keptIn(jobName, graph, config))
  const ended = master.run().then(async (end) => {
    undo()
    progress.stop()
    await composition.close()
    await redis?.close()
    await removeLeftovers(end.status, jobName, config, settings, world)
    if (end.status === 'FAILED') {
      // Under the command line the command prints the report, once.
      if (!launch.launchedByCli)
        process.stderr.write(`${failureReport(end.error, jobName, failure(), startedByNode(), findSource)}\n`)
    } else logger.info(`job '${jobName}' is ${end.status}`)
    launch.onJobSettled?.({
      jobName,
      status: end.status,
      ...(end.error === undefined ? {} : { error: end.error }),
      ...(end.status === 'FAILED' ? { failure: failure() } : {}),
    })
    return end
  })
  return runningClient({ id: incarnation, name: jobName }, master, ended, world.clock)
}

/** State on this machine's disks serves a later start of the same run; behind the end of the run there is none. */
async function removeLeftovers(
  status: string,
  jobName: string,
  config: Config,
  { checkpointing }: JobSettings,
  { logger }: World,
): Promise<void> {
  const isOver = status === 'FINISHED' || (status === 'CANCELED' && !checkpointing.retainOnCancellation)
  if (config.get('state.backend') !== 'rocksdb' || !isOver) return
  try {
    await removeLocalState({ roots: stateSettings(config).localRoots, jobName, logger })
  } catch (error) {
    logger.warn('the state of the job on this machine could not be removed', { error })
  }
}

/** Where a completed checkpoint of a run lies; nowhere for a job that keeps them in its process. */
function keptIn(
  jobName: string,
  graph: JobGraph,
  config: Config,
): (run: string, n: number) => string | undefined {
  if (!usesKafka(graph)) return () => undefined
  const root = checkpointRoot(config)
  return (run, n) =>
    root === undefined || n === 0
      ? `topic ${jobTopic(jobName, 'checkpoints')}`
      : join(root, jobFolder(jobName), run, `chk-${n}`)
}

function lagOf(metrics: MetricRegistry): bigint {
  let lag = 0
  for (const reading of metrics.read()) if (reading.name === 'source_lag_records') lag += reading.value
  return BigInt(Math.round(lag))
}

function composeLocal(
  jobName: string,
  config: Config,
  settings: JobSettings,
  world: World,
  redis: RedisState | undefined,
): Composition {
  if (settings.checkpointing.intervalMs !== undefined)
    world.logger.warn(
      'the job has no Kafka source or sink: its checkpoints are kept in this process and do not survive it',
    )
  const blobs = new MemoryBlobStore()
  return {
    leadership: new LocalLeadership(),
    store: new MemoryCheckpointStore(blobs),
    // Without a group nobody knows whether a run of another process is over.
    storage: { ...storageOf(jobName, config, blobs), outside: outsideState(redis, false) },
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
    /** Where keyed state is kept; on the heap without it. */
    readonly keyedState?: KeyedBackendSettings | undefined
  },
): JobMaster {
  const { leadership, store, storage, transactions, control } = composition
  const { keyedState = heapOnly(job.world) } = job
  return new JobMaster({
    ...job,
    leadership,
    store,
    storage,
    transactions,
    control,
    createBackend: keyedBackends(keyedState),
  })
}

function heapOnly(world: World): KeyedBackendSettings {
  return {
    backend: 'jobmanager',
    incremental: false,
    localRecovery: false,
    localRoots: [],
    cacheMaxBytes: Number.POSITIVE_INFINITY,
    world,
  }
}

/** Connects for a command that needs Kafka and no job; closes again whatever happens. */
export async function withCluster(
  config: Config,
  purpose: string,
  work: (cluster: KafkaCluster, world: World) => Promise<void>,
): Promise<void> {
  const logger = await openLog({
    level: config.get('log.level') === 'info' ? 'warn' : config.get('log.level'),
    format: config.get('log.format'),
    stream: process.stderr,
    clock: REAL_CLOCK,
  })
  const cluster = new KafkajsCluster(await kafkaConnection(config, purpose), logger)
  try {
    await cluster.connect()
    await work(cluster, realWorld(logger, new MetricRegistry()))
  } finally {
    await cluster.close()
  }
}

async function connectKafka(
  jobName: string,
  graph: JobGraph,
  config: Config,
  settings: JobSettings,
  world: World,
  incarnation: string,
  fault: FaultHook | undefined,
  redis: RedisState | undefined,
): Promise<Composition> {
  const connection = await kafkaConnection(config, jobName)
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
      openStorage: (own) => ({ ...storageOf(jobName, config, own), outside: outsideState(redis, true) }),
      fault,
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
  readonly fault?: FaultHook | undefined
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
    ...connectorSettings(config, settings),
    maxTransactionTimeoutMs,
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
  const { sinks, bounded } = bindConnectors(graph, environment, groupId)
  await checkSinks(cluster, sinks, settings, { maxTransactionTimeoutMs, bounded })
  await checkPrefixHolders(cluster, jobName, sinks, world.logger)
  warnAboutGuarantees(sinks, settings, world.logger)
  const member: GroupMemberOptions = {
    groupId,
    fingerprint: graph.fingerprint,
    incarnation,
    sessionTimeoutMs: SESSION_TIMEOUT_MS,
    rebalanceTimeoutMs: REBALANCE_TIMEOUT_MS,
    heartbeatMs: HEARTBEAT_MS,
    onMismatch: config.get('on-fingerprint-mismatch'),
  }
  const replication = config.get('kafka.job-topics.replication-factor')
  const replicationFactor = replication === 'auto' ? -1 : replication
  const control = new ControlTopic({ cluster, jobName, world, replicationFactor })
  // Before this worker joins: commands that come from now on are its to answer if it leads.
  await control.open()
  const leadership = new WorkerGroup(job.startMember(member), member, world)
  group = leadership
  const store = new JobTopics({
    cluster,
    jobName,
    world,
    replicationFactor,
    assertLeader: () => leadership.assertLeader(),
    fault: job.fault,
  })
  return {
    leadership,
    store,
    control,
    storage: job.openStorage(store.blobs),
    transactions: new JobTransactions({
      cluster,
      world,
      sinks: transactionalSinks(jobName, sinks),
      slots,
      defaultTimeoutMs: maxTransactionTimeoutMs,
      assertAlive: environment.assertAlive,
    }),
    close: () => cluster.close(),
  }
}

function outsideState(redis: RedisState | undefined, leads: boolean): OutsideState | undefined {
  if (redis === undefined) return undefined
  return {
    name: redis.name,
    runOf: (handle) => redis.runOf(handle),
    ...(leads ? { runs: () => redis.runs() } : {}),
    discard: async (run) => void (await redis.discard(run)),
  }
}

/** Where snapshots go; `own` is the place that the job has anyway. */
function storageOf(jobName: string, config: Config, own: BlobStore): StateStorage {
  const root = checkpointRoot(config)
  const job = jobFolder(jobName)
  const memoryThreshold = config.get('state.backend.fs.memory-threshold')
  const folders = new SavepointFolders({ job, root, memoryThreshold })
  if (root === undefined) return withFolders(plainStorage(own, CODEC), folders)
  const directory = new JobDirectory({ root, job, memoryThreshold })
  const storage: StateStorage = {
    codec: CODEC,
    get: (handle) => directory.get(handle),
    discard: (handle) => directory.discard(handle),
    discardMetadata: (run, n) => directory.discardMetadata(run, n),
    begin: (run, attempt) => directory.begin(run, attempt),
  }
  return withFolders(storage, folders)
}
