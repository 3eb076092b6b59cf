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
import { maxTransactionTimeout } from '../kafka/preflight.ts'
import { workerGroupId } from '../kafka/transactional-id.ts'
import { RegistryApi } from '../serdes/registry-api.ts'
import { diagnoseDirectory } from '../state/directory-diagnosis.ts'
import { RedisConnection } from '../state/redis-connection.ts'
import { RedisServerGuard } from '../state/redis-server.ts'
import { parseRedisUrl } from '../state/redis-url.ts'

/** The oldest Node.js that runs TypeScript jobs without a build. */
const OLDEST_NODE = [22, 18] as const
/** The registry must answer in this time, in ms. */
const REGISTRY_TIMEOUT_MS = 10_000
/** Clocks may differ by this much: a second is what the answer of a registry tells, the rest is the way of it. In ms. */
const CLOCK_TOLERANCE_MS = 5_000

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
    ok('job graph', `${graph.vertices.length} chains in ${tasks} subtasks`),
    ...(await kafka(job, config, graph)),
    ...(await redis(config)),
    ...(await registryAndClocks(config)),
    ...(await directories(config)),
  ]
}

function nodeVersion(version: string): Diagnosis {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const old = major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])
  return old
    ? fix('Node.js', `${version} is too old`, `Use Node.js ${OLDEST_NODE.join('.')} or newer.`)
    : ok('Node.js', version)
}

/** What the rules between options would only warn of is worth a change before the start. */
function configurationOf(config: Config): readonly Diagnosis[] {
  const warnings = config.findings.filter(({ level }) => level === 'warning')
  return warnings.length === 0
    ? [ok('configuration', 'all options are known and go together')]
    : warnings.map(({ message }) =>
        fix('configuration', message, 'Take the setting out, or change what it depends on.'),
      )
}

async function kafka(job: ExaminedJob, config: Config, graph: JobGraph): Promise<readonly Diagnosis[]> {
  if (!usesKafka(graph)) return [skipped('Kafka', 'the job has no Kafka source or sink')]
  const { jobName } = job
  const settings = jobSettings(config)
  return diagnosed('brokers', async () => {
    let found: readonly Diagnosis[] = []
    await job.withCluster(config, jobName, async (cluster, { logger }) => {
      const maxTransactionTimeoutMs = await maxTransactionTimeout(cluster)
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
      return notes.length === 0 ? safe : notes.map((note) => ok('Redis', note))
    } finally {
      await connection.close()
    }
  })
}

function ignore(): void {}

/** Asked before something is written. */
function nobodyWrites(): never {
  throw new MillraceError('MILLRACE_INTERNAL', 'the job was only looked at, and something wrote')
}

async function registryAndClocks(config: Config): Promise<readonly Diagnosis[]> {
  const url = config.get('schema.registry.url')
  if (url === undefined)
    return [
      skipped('clocks', 'no schema registry to compare with; Kafka tells nobody its time without a write'),
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
  if (there === undefined) return skipped('clocks', 'the schema registry does not tell its time')
  const apart = Math.round(Math.abs(there - here))
  return apart > CLOCK_TOLERANCE_MS
    ? fix(
        'clocks',
        `this machine is ${Math.round(apart / 1_000)} s ${here > there ? 'ahead of' : 'behind'} the schema registry`,
        'Let the machines get their time from one source (NTP): processing time and the age of records depend on it.',
      )
    : ok('clocks', 'this machine and the schema registry agree')
}

async function directories(config: Config): Promise<readonly Diagnosis[]> {
  const options = ['state.checkpoints.dir', 'state.savepoints.dir'] as const
  const found = options.map(async (option) => {
    const path = config.get(option)
    return path === undefined ? [] : diagnosed(option, () => diagnoseDirectory(option, path))
  })
  return (await Promise.all(found)).flat()
}
