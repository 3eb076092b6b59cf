/**
 * What `millrace doctor` looks at for one job: its configuration and graph, Kafka, Redis, the schema registry, clocks and disks. Starts and
 * changes nothing. Part of the composition root, since every leaf has something to say.
 */
import { readFile } from 'node:fs/promises'
import { connectorSettings } from '../config/connector-settings.ts'
import { jobSettings } from '../config/job-settings.ts'
import type { Config } from '../config.ts'
import { type Diagnosis, diagnosisOf, fix, ok, skipped } from '../core/diagnosis.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import type { World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { bindConnectors, usesKafka } from '../kafka/connector-binding.ts'
import { diagnosed, diagnoseKafka } from '../kafka/job-diagnosis.ts'
import type { KafkaCluster } from '../kafka/kafka-cluster.ts'
import { leastMaxTransactionTimeout } from '../kafka/preflight.ts'
import { workerGroupId } from '../kafka/transactional-id.ts'
import { RegistryApi } from '../serdes/registry-api.ts'
import { diagnoseDirectory } from '../state/directory-diagnosis.ts'
import { localPlaces } from '../state/local-recovery.ts'
import { RedisConnection } from '../state/redis-connection.ts'
import { RedisServerGuard } from '../state/redis-server.ts'
import { parseRedisUrl } from '../state/redis-url.ts'
import { compareClocks, timeOfRedis } from './clock-diagnosis.ts'

/** The oldest Node.js that runs TypeScript jobs without a build. */
const OLDEST_NODE = [22, 18] as const
/** The registry must answer in this time, in ms. */
const REGISTRY_TIMEOUT_MS = 10_000

/** A job that was declared and not started. */
export interface ExaminedJob {
  readonly jobName: string
  /** @throws ConfigError */
  readonly loadConfig: () => Promise<Config>
  /** @throws MillraceError if the graph is wrong */
  readonly buildGraph: (config: Config) => JobGraph
  readonly withCluster: (
    config: Config,
    purpose: string,
    work: (cluster: KafkaCluster, world: World) => Promise<void>,
  ) => Promise<void>
}

/** Everything that was found, good and bad. Never rejects for what a check finds. */
export async function diagnoseJob(job: ExaminedJob): Promise<readonly Diagnosis[]> {
  const node = nodeVersion(process.versions.node)
  let config: Config
  try {
    config = await job.loadConfig()
  } catch (error) {
    return [node, diagnosisOf('configuration', error)]
  }
  const configuration = configurationOf(config)
  let graph: JobGraph
  try {
    graph = job.buildGraph(config)
  } catch (error) {
    return [node, ...configuration, diagnosisOf('job graph', error)]
  }
  const tasks = graph.vertices.reduce((sum, { parallelism }) => sum + parallelism, 0)
  return [
    node,
    ...configuration,
    ok('job graph', `${count(graph.vertices.length, 'chain')} in ${count(tasks, 'subtask')}`),
    ...(await kafka(job, config, graph)),
    ...(await redis(config)),
    ...(await registryAndClocks(config)),
    ...(await directories(config, graph)),
  ]
}

function nodeVersion(version: string): Diagnosis {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const old = major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])
  return old
    ? fix('Node.js', `${version} is too old`, `Use Node.js ${OLDEST_NODE.join('.')} or newer.`)
    : ok('Node.js', version)
}

/** What the rules between options would only warn of is worth a change before the start; a note is worth a look. */
function configurationOf(config: Config): readonly Diagnosis[] {
  const found = config.findings.map(({ level, message }) =>
    level === 'note'
      ? ok('configuration', message)
      : fix('configuration', message, 'Take the setting out, or change what it depends on.'),
  )
  return found.some(({ status }) => status === 'fix')
    ? found
    : [ok('configuration', 'all options are known and go together'), ...found]
}

async function kafka(job: ExaminedJob, config: Config, graph: JobGraph): Promise<readonly Diagnosis[]> {
  if (!usesKafka(graph)) return [skipped('Kafka', 'the job has no Kafka source or sink')]
  const { jobName } = job
  const settings = jobSettings(config)
  return diagnosed('brokers', async () => {
    let found: readonly Diagnosis[] = []
    await job.withCluster(config, jobName, async (cluster, { logger }) => {
      const maxTransactionTimeoutMs = await leastMaxTransactionTimeout(cluster)
      const environment = {
        cluster,
        ...connectorSettings(config, settings),
        maxTransactionTimeoutMs,
        healing: nobodyWrites,
        assertAlive: nobodyWrites,
      }
      const { sinks, bounded } = bindConnectors(graph, environment, workerGroupId(jobName))
      const replication = config.get('kafka.job-topics.replication-factor')
      found = await diagnoseKafka(cluster, {
        jobName,
        graph,
        settings,
        sinks,
        bounded,
        maxTransactionTimeoutMs,
        replicationFactor: replication === 'auto' ? -1 : replication,
        logger,
      })
    })
    return found
  })
}

/** The same questions that a job with state in Redis asks before it starts. */
async function redis(config: Config): Promise<readonly Diagnosis[]> {
  const url = config.get('state.backend.redis.url')
  // That the address must be there is a rule of the configuration.
  if (config.get('state.backend') !== 'redis' || url === undefined) return []
  return diagnosed('Redis', async () => {
    const ca = config.get('state.backend.redis.ssl.ca')
    const sentinelPassword = config.get('state.backend.redis.sentinel.password')
    const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore, child: () => logger }
    const connection = await RedisConnection.open({
      target: parseRedisUrl(url),
      timeoutMs: config.get('state.backend.redis.timeout'),
      ...(ca === undefined ? {} : { ca: await readFile(ca, 'utf8') }),
      ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
      logger,
    })
    try {
      const guard = new RedisServerGuard(connection, {
        persistence: config.get('state.backend.redis.persistence'),
        replicas: config.get('state.backend.redis.replicas'),
      })
      const notes = await guard.check()
      const safe = ok('Redis', `${connection.name} evicts nothing and keeps what is written`)
      const server = notes.length === 0 ? [safe] : notes.map((note) => ok('Redis', note))
      return [...server, ...(await redisClocks(connection))]
    } finally {
      await connection.close()
    }
  })
}

/** Of each server that takes writes. */
async function redisClocks(connection: RedisConnection): Promise<readonly Diagnosis[]> {
  const found: Diagnosis[] = []
  await connection.onPrimaries(async (node) => {
    const check = `clock of Redis ${node.name}`
    const before = Date.now()
    const there = timeOfRedis(await node.call('TIME'))
    found.push(
      there === undefined
        ? skipped(check, 'the server does not tell its time')
        : compareClocks(check, `Redis at ${node.name}`, there, (before + Date.now()) / 2),
    )
  })
  return found
}

function ignore(): void {}

/** Asked before something is written. */
function nobodyWrites(): never {
  throw new MillraceError('MILLRACE_INTERNAL', 'the job was only looked at, and something wrote')
}

async function registryAndClocks(config: Config): Promise<readonly Diagnosis[]> {
  const url = config.get('schema.registry.url')
  // A server with the state of the job has told its time already.
  if (url === undefined)
    return config.get('state.backend') === 'redis'
      ? []
      : [
          skipped(
            'clocks',
            'no schema registry or Redis to compare with; Kafka tells nobody its time without a write',
          ),
        ]
  return diagnosed('schema registry', async () => {
    const api = new RegistryApi(url, REGISTRY_TIMEOUT_MS)
    const before = Date.now()
    const time = await api.time()
    const here = (before + Date.now()) / 2
    return [ok('schema registry', `${api.url} answers`), clocks(time, here)]
  })
}

function clocks(there: number | undefined, here: number): Diagnosis {
  return there === undefined
    ? skipped('clocks', 'the schema registry does not tell its time')
    : compareClocks('clocks', 'the schema registry', there, here)
}

/** Every folder that the job writes to on this machine. */
async function directories(config: Config, graph: JobGraph): Promise<readonly Diagnosis[]> {
  const used: { readonly name: string; readonly path: string }[] = []
  for (const option of ['state.checkpoints.dir', 'state.savepoints.dir'] as const) {
    const path = config.get(option)
    if (path !== undefined) used.push({ name: option, path })
  }
  if (config.get('state.backend') === 'rocksdb')
    for (const path of localPlaces(config.get('taskmanager.state.local.root-dirs') ?? []))
      used.push({ name: 'taskmanager.state.local.root-dirs', path })
  for (const { operators } of graph.vertices)
    for (const { node, name } of operators)
      if (node.kind === 'sink' && node.sink.kind === 'file')
        used.push({ name: `the path of sink '${name}':`, path: String(node.sink.describe()['path']) })
  const found = used.map(({ name, path }) => diagnosed(name, () => diagnoseDirectory(name, path)))
  return (await Promise.all(found)).flat()
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`
