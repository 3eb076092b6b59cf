/**
 * Starts a real Apache Kafka without Docker: the jars come from Maven Central (once, into a cache folder outside the
 * repository), the brokers run in KRaft combined mode on 127.0.0.1, and their data lies in a temporary folder that is
 * removed at the end. Needs `java` (17 or newer) and, for the first download, `mvn`.
 *
 * As a command: `node scripts/lib/kafka-broker.ts [--port 9092] [--brokers 3] [--heap 1024] [--property name=value]`
 * prints `KAFKA_BROKERS=…` and runs until SIGTERM or SIGINT.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, openSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs, promisify } from 'node:util'

const run = promisify(execFile)

/** The release that tests and demo run on. */
export const KAFKA_VERSION = '4.4.0'

const SLF4J_VERSION = '1.7.36'
const LOGGING = [
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=info',
  '-Dorg.slf4j.simpleLogger.showDateTime=true',
  '-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS',
]
/** Java's options for `quickStart`. */
const QUICK_START = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC']
const START_TIMEOUT_MS = 180_000
const STOP_TIMEOUT_MS = 8_000

export interface KafkaOptions {
  /** 1 (default), or 3 with replication factor 3 and two in-sync replicas. */
  readonly brokers?: 1 | 3
  /** Port of the first broker; the others are free ports. A free port by default. */
  readonly port?: number
  /** Broker properties that are added to, or replace, the ones written here. */
  readonly properties?: Readonly<Record<string, string>>
  /** Java heap of each broker in MB (default 512). */
  readonly heapMb?: number
  /** Compile less: brokers start with a third less work and serve fewer records, right for tests that restart them. */
  readonly quickStart?: boolean
  /** A second listener for each broker, in their order: clients that come by it are told to go on by the advertised ports. */
  readonly proxied?: readonly ProxiedListener[]
}

/** A listener that clients reach through something in between. */
export interface ProxiedListener {
  /** Where the broker listens. */
  readonly port: number
  /** What it tells its clients: the port of whatever passes bytes on to `port`. */
  readonly advertisedPort: number
}

/** One broker process. */
export interface RunningBroker {
  readonly nodeId: number
  readonly port: number
  /** Of the process that runs now; another one after `restart`. */
  readonly pid: number
  /** Ends the process and resolves when it is gone. SIGKILL is a crash, SIGTERM a controlled shutdown. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Starts the broker again on the same port and data; ends it first if it runs. Resolves when it serves requests. */
  restart(): Promise<void>
}

export interface RunningKafka {
  /** Comma-separated addresses. */
  readonly bootstrap: string
  readonly brokers: readonly RunningBroker[]
  readonly dataDir: string
  /** Ends all brokers and removes their data. May be called twice. */
  stop(): Promise<void>
}

/** Ports that this process has given away: they look free until whoever got them listens. */
const given = new Set<number>()

/** A TCP port of 127.0.0.1 that was free a moment ago; never the same twice. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = await unusedPort()
    if (given.has(port)) continue
    given.add(port)
    return port
  }
}

function unusedPort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() =>
        typeof address === 'object' && address !== null
          ? resolve(address.port)
          : reject(new Error('no port was assigned')),
      )
    })
  })
}

/** Folder of Kafka's jars; downloads them on the first call. Two processes may call it at the same time. */
export async function kafkaJars(): Promise<string> {
  const cache = process.env['MILLRACE_CACHE'] ?? join(homedir(), '.cache', 'millrace')
  const jars = join(cache, `kafka-${KAFKA_VERSION}`)
  if (existsSync(jars)) return jars
  await mkdir(cache, { recursive: true })
  const work = await mkdtemp(join(cache, 'download-'))
  try {
    await writeFile(join(work, 'pom.xml'), pom())
    const args = [
      '-B',
      '-q',
      '-f',
      join(work, 'pom.xml'),
      'dependency:copy-dependencies',
      '-DincludeScope=runtime',
      `-DoutputDirectory=${join(work, 'jars')}`,
    ]
    await run('mvn', args, { cwd: work, maxBuffer: 16 << 20 })
    const count = (await readdir(join(work, 'jars'))).length
    if (count < 20) throw new Error(`mvn copied only ${count} jars of Kafka ${KAFKA_VERSION}`)
    await rename(join(work, 'jars'), jars).catch((error: unknown) => {
      if (!existsSync(jars)) throw error
    })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return jars
}

function pom(): string {
  const dependency = (group: string, artifact: string, version: string) =>
    `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`
  const kafka = ['kafka_2.13', 'kafka-tools']
    .map((artifact) => dependency('org.apache.kafka', artifact, KAFKA_VERSION))
    .join('')
  // Kafka's jars bring the logging interface but no logger, and readiness is read from the log.
  const logger = dependency('org.slf4j', 'slf4j-simple', SLF4J_VERSION)
  return `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>millrace</groupId><artifactId>test-broker</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>${kafka}${logger}</dependencies></project>
`
}

/** Starts Kafka and resolves when every broker serves requests. @throws Error with the end of the broker's log if one does not come up. */
export async function startKafka(options: KafkaOptions = {}): Promise<RunningKafka> {
  const jars = await kafkaJars()
  const count = options.brokers ?? 1
  const dataDir = await mkdtemp(join(tmpdir(), 'millrace-kafka-'))
  // kafka-storage takes an id that begins with '-' for an option.
  const clusterId = randomBytes(16).toString('base64url').replace(/^-/, 'A')
  const ports: number[] = []
  const controllerPorts: number[] = []
  for (let i = 0; i < count; i++) {
    ports.push(i === 0 && options.port !== undefined ? options.port : await freePort())
    controllerPorts.push(await freePort())
  }
  const voters = controllerPorts.map((port, i) => `${i + 1}@127.0.0.1:${port}`).join(',')
  const brokers = ports.map(
    (port, i) =>
      new BrokerProcess({
        nodeId: i + 1,
        port,
        folder: join(dataDir, `broker-${i + 1}`),
        jars,
        heapMb: options.heapMb ?? 512,
        java: options.quickStart === true ? QUICK_START : [],
      }),
  )
  const killAll = () => {
    for (const broker of brokers) broker.killNow()
  }
  process.once('exit', killAll)
  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= (async () => {
      await Promise.all(brokers.map((broker) => broker.kill('SIGTERM')))
      process.removeListener('exit', killAll)
      await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
    })()
    return stopping
  }
  try {
    await Promise.all(
      brokers.map((broker, i) => {
        const properties = {
          ...brokerProperties(
            i + 1,
            broker.port,
            controllerPorts[i] as number,
            voters,
            count,
            options.proxied?.[i],
          ),
          ...options.properties,
        }
        return broker.format({ ...properties, 'log.dirs': join(broker.folder, 'data') }, clusterId)
      }),
    )
    await Promise.all(brokers.map((broker) => broker.start()))
  } catch (error) {
    await stop()
    throw error
  }
  return { bootstrap: ports.map((port) => `127.0.0.1:${port}`).join(','), brokers, dataDir, stop }
}

function brokerProperties(
  nodeId: number,
  port: number,
  controllerPort: number,
  voters: string,
  count: 1 | 3,
  proxied: ProxiedListener | undefined,
): Record<string, string> {
  const inSync = String(count === 3 ? 2 : 1)
  const second = (at: 'port' | 'advertisedPort') =>
    proxied === undefined ? '' : `,PROXIED://127.0.0.1:${proxied[at]}`
  return {
    'process.roles': 'broker,controller',
    'node.id': String(nodeId),
    'controller.quorum.voters': voters,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}${second('port')}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${port}${second('advertisedPort')}`,
    'listener.security.protocol.map':
      'PROXIED:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL',
    'auto.create.topics.enable': 'false',
    'default.replication.factor': String(count),
    'min.insync.replicas': inSync,
    'offsets.topic.num.partitions': '4',
    'offsets.topic.replication.factor': String(count),
    'transaction.state.log.num.partitions': '4',
    'transaction.state.log.replication.factor': String(count),
    'transaction.state.log.min.isr': inSync,
    'share.coordinator.state.topic.num.partitions': '1',
    'share.coordinator.state.topic.replication.factor': String(count),
    'share.coordinator.state.topic.min.isr': inSync,
    // Tests form groups all the time and let transactions time out: neither should take seconds.
    'group.initial.rebalance.delay.ms': '0',
    'transaction.abort.timed.out.transaction.cleanup.interval.ms': '500',
    // A killed broker is noticed, and its leaders move, within a few seconds.
    'broker.session.timeout.ms': '4000',
    'broker.heartbeat.interval.ms': '500',
    'controlled.shutdown.max.retries': '1',
    // What is too old goes at once, not every five minutes: a test whose records are removed fails in every run.
    'log.retention.check.interval.ms': '1000',
    'log.initial.task.delay.ms': '1000',
  }
}

interface BrokerSettings {
  readonly nodeId: number
  readonly port: number
  readonly folder: string
  readonly jars: string
  readonly heapMb: number
  /** More options of Java. */
  readonly java: readonly string[]
}

/**
 * One broker.
 *
 *   formatted ──start──▶ running ──kill, crash──▶ ended ──restart──▶ running
 */
class BrokerProcess implements RunningBroker {
  readonly nodeId: number
  readonly port: number
  readonly folder: string
  readonly #settings: BrokerSettings
  #process: ChildProcess | undefined
  #exited: Promise<void> = Promise.resolve()
  #starts = 0

  constructor(settings: BrokerSettings) {
    this.nodeId = settings.nodeId
    this.port = settings.port
    this.folder = settings.folder
    this.#settings = settings
  }

  get pid(): number {
    return this.#process?.pid ?? -1
  }

  async format(properties: Readonly<Record<string, string>>, clusterId: string): Promise<void> {
    await mkdir(this.folder, { recursive: true })
    const lines = Object.entries(properties).map(([name, value]) => `${name}=${value}`)
    await writeFile(join(this.folder, 'server.properties'), `${lines.join('\n')}\n`)
    const args = [
      '-Xmx256m',
      '-XX:TieredStopAtLevel=1',
      ...this.#java('kafka.tools.StorageTool'),
      'format',
      '-t',
      clusterId,
      '-c',
      this.#file('server.properties'),
    ]
    await run('java', args)
  }

  async start(): Promise<void> {
    const log = this.#file(`broker-${++this.#starts}.log`)
    const output = openSync(log, 'a')
    const heap = `${this.#settings.heapMb}m`
    const child = spawn(
      'java',
      [
        `-Xms${heap}`,
        `-Xmx${heap}`,
        ...this.#settings.java,
        ...this.#java('kafka.Kafka'),
        this.#file('server.properties'),
      ],
      {
        stdio: ['ignore', output, output],
        cwd: this.folder,
      },
    )
    this.#process = child
    let failure: string | undefined
    this.#exited = new Promise((resolve) => {
      child.once('error', (error) => {
        failure = error.message
        resolve()
      })
      child.once('exit', (code, signal) => {
        failure ??= `exit code ${code}, signal ${signal}`
        resolve()
      })
    })
    const deadline = Date.now() + START_TIMEOUT_MS
    while (!readFileSync(log, 'utf8').includes('Kafka Server started')) {
      if (failure !== undefined || Date.now() > deadline) {
        const reason = failure ?? `not ready after ${START_TIMEOUT_MS} ms`
        await this.kill('SIGKILL')
        const tail = readFileSync(log, 'utf8').split('\n').slice(-30).join('\n')
        throw new Error(`Kafka broker ${this.nodeId} did not start (${reason}). The end of its log:\n${tail}`)
      }
      await sleep(50)
    }
  }

  killNow(): void {
    if (this.#process?.exitCode === null && this.#process.signalCode === null) this.#process.kill('SIGKILL')
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#process?.kill(signal)
    if (signal === 'SIGSTOP' || signal === 'SIGCONT') return
    const timer = setTimeout(() => this.killNow(), STOP_TIMEOUT_MS)
    await this.#exited
    clearTimeout(timer)
  }

  async restart(): Promise<void> {
    await this.kill('SIGTERM')
    await this.start()
  }

  #file(name: string): string {
    return join(this.folder, name)
  }

  #java(main: string): string[] {
    return [...LOGGING, '-Djava.awt.headless=true', '-cp', join(this.#settings.jars, '*'), main]
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: 'string' },
      brokers: { type: 'string', default: '1' },
      heap: { type: 'string', default: '1024' },
      property: { type: 'string', multiple: true, default: [] },
    },
  })
  if (values.brokers !== '1' && values.brokers !== '3') throw new Error('--brokers must be 1 or 3')
  const properties = Object.fromEntries(
    values.property.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
  const kafka = await startKafka({
    brokers: values.brokers === '3' ? 3 : 1,
    ...(values.port === undefined ? {} : { port: Number(values.port) }),
    heapMb: Number(values.heap),
    properties,
  })
  process.stdout.write(
    `KAFKA_BROKERS=${kafka.bootstrap}\npid ${process.pid} (brokers ${kafka.brokers.map((broker) => broker.pid).join(', ')})\n`,
  )
  // A live timer keeps the command running while only child processes do work.
  const alive = setInterval(() => {}, 1 << 30)
  const end = () => {
    clearInterval(alive)
    kafka.stop().catch((error: unknown) => {
      process.stderr.write(`${String(error)}\n`)
      process.exitCode = 1
    })
  }
  process.once('SIGTERM', end)
  process.once('SIGINT', end)
}

if (import.meta.main) await main()
