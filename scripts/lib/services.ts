/**
 * Finds or starts the services that tests and demo need. Each one is looked for on its own, in this order:
 *   1. its address in the environment: KAFKA_BROKERS, REDIS_URL, SCHEMA_REGISTRY_URL;
 *   2. a Docker engine, by docker-compose.yml through testcontainers, on free ports and under a project name of its own;
 *   3. a process of this machine: Apache Kafka from Maven Central's jars, Debian's redis-server, Apicurio Registry (Java 21).
 * What was started here is stopped, and its data removed, by `stop`.
 */
import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { freePort, startKafka } from './kafka-broker.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..', '..')
const START_TIMEOUT_MS = 60_000

/** A service that can be asked for. */
export type ServiceName = 'kafka' | 'redis' | 'registry'

/** The environment variable that holds each service's address. */
export const SERVICE_VARIABLES: Readonly<Record<ServiceName, string>> = {
  kafka: 'KAFKA_BROKERS',
  redis: 'REDIS_URL',
  registry: 'SCHEMA_REGISTRY_URL',
}

/** Services that run now. */
export interface Services {
  /** Variables for the programs that use the services. */
  readonly env: Readonly<Record<string, string>>
  /** Services that this machine cannot run, each with the reason; what needs them is skipped. */
  readonly missing: ReadonlyMap<ServiceName, string>
  /** Ends what was started here. May be called twice. */
  stop(): Promise<void>
}

interface Started {
  readonly address: string
  readonly stop: () => Promise<void>
}

/** Thrown by a starter when this machine cannot run the service at all. */
class ServiceUnavailable extends Error {}

/** Where each image of docker-compose.yml listens inside, and how its address is written. */
const COMPOSE: Readonly<
  Record<ServiceName, { readonly portVariable: string; address(port: number): string }>
> = {
  kafka: { portVariable: 'KAFKA_PORT', address: (port) => `127.0.0.1:${port}` },
  redis: { portVariable: 'REDIS_PORT', address: (port) => `redis://127.0.0.1:${port}` },
  registry: { portVariable: 'REGISTRY_PORT', address: (port) => `http://127.0.0.1:${port}/apis/ccompat/v7` },
}

const LOCAL: Readonly<Record<ServiceName, (log: (line: string) => void) => Promise<Started>>> = {
  kafka: startLocalKafka,
  redis: startLocalRedis,
  registry: startLocalRegistry,
}

/**
 * Resolves when every wanted service answers, or is in `missing`. Only the registry may be missing: the others are an error that says what to install.
 */
export async function startServices(
  wanted: readonly ServiceName[],
  log: (line: string) => void,
): Promise<Services> {
  const env: Record<string, string> = {}
  const missing = new Map<ServiceName, string>()
  const stops: (() => Promise<void>)[] = []
  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= (async () => {
      for (const end of stops.reverse()) await end()
    })()
    return stopping
  }
  try {
    const toStart: ServiceName[] = []
    for (const name of wanted) {
      const given = process.env[SERVICE_VARIABLES[name]]
      if (given === undefined || given === '') {
        toStart.push(name)
        continue
      }
      env[SERVICE_VARIABLES[name]] = given
      log(`${name}: ${given} (from ${SERVICE_VARIABLES[name]})`)
    }
    const left = await startWithDocker(toStart, env, stops, log)
    for (const name of left) {
      log(`${name}: starting it on this machine`)
      try {
        const started = await LOCAL[name](log)
        stops.push(started.stop)
        env[SERVICE_VARIABLES[name]] = started.address
        log(`${name}: ${started.address}`)
      } catch (error) {
        if (!(error instanceof ServiceUnavailable)) throw error
        missing.set(name, error.message)
        log(`${name}: not available: ${error.message}`)
      }
    }
  } catch (error) {
    await stop()
    throw error
  }
  return { env, missing, stop }
}

/** Starts what it can with Docker and gives back the services that are still to be started. */
async function startWithDocker(
  names: readonly ServiceName[],
  env: Record<string, string>,
  stops: (() => Promise<void>)[],
  log: (line: string) => void,
): Promise<readonly ServiceName[]> {
  if (names.length === 0 || !(await succeeds('docker', ['info']))) return names
  const ports: Record<string, string> = {}
  for (const name of names) ports[COMPOSE[name].portVariable] = String(await freePort())
  log(`${names.join(', ')}: starting with Docker`)
  const { DockerComposeEnvironment, Wait } = await import('testcontainers')
  try {
    const stack = await new DockerComposeEnvironment(ROOT, 'docker-compose.yml')
      .withProjectName(`millrace-${process.pid}`)
      .withEnvironment(ports)
      .withDefaultWaitStrategy(Wait.forHealthCheck())
      .up([...names])
    stops.push(async () => {
      await stack.down({ removeVolumes: true, timeout: 5_000 })
    })
  } catch (error) {
    // What was started goes with testcontainers' own clean-up.
    log(`Docker could not start them (${firstLine(error)}); going on without it`)
    return names
  }
  for (const name of names) {
    const { portVariable, address } = COMPOSE[name]
    env[SERVICE_VARIABLES[name]] = address(Number(ports[portVariable]))
    log(`${name}: ${env[SERVICE_VARIABLES[name]]} (Docker)`)
  }
  return []
}

async function startLocalKafka(log: (line: string) => void): Promise<Started> {
  await ensureCommand('java', 'openjdk-17-jre-headless', SERVICE_VARIABLES.kafka, log)
  await ensureCommand('mvn', 'maven', SERVICE_VARIABLES.kafka, log)
  const kafka = await startKafka()
  return { address: kafka.bootstrap, stop: () => kafka.stop() }
}

async function startLocalRedis(log: (line: string) => void): Promise<Started> {
  await ensureCommand('redis-server', 'redis-server', SERVICE_VARIABLES.redis, log)
  const port = await freePort()
  const folder = await mkdtemp(join(tmpdir(), 'millrace-redis-'))
  const settings = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--dir',
    folder,
    '--save',
    '',
    '--appendonly',
    'yes',
    // Before 7.2 nothing tells when a write was synced, unless every one is.
    '--appendfsync',
    'always',
  ]
  const stop = await startProcess('redis-server', [...settings, '--maxmemory-policy', 'noeviction'], folder)
  const started = { address: `redis://127.0.0.1:${port}`, stop }
  await untilReady('redis-server', () => answers(port, 'PING\r\n', '+PONG'), started)
  return started
}

/** The release of Apicurio Registry that tests run on without Docker. */
const APICURIO_VERSION = '3.3.3'

async function startLocalRegistry(): Promise<Started> {
  const java = await javaVersion()
  if (java < 21)
    throw new ServiceUnavailable(
      `Apicurio Registry needs Java 21 or newer, this machine has ${java || 'none'}`,
    )
  const folder = await apicurio()
  const port = await freePort()
  const stop = await startProcess('java', [
    `-Dquarkus.http.port=${port}`,
    '-jar',
    join(folder, 'quarkus-run.jar'),
  ])
  const started = { address: COMPOSE.registry.address(port), stop }
  await untilReady(
    'Apicurio Registry',
    () =>
      fetch(`${started.address}/subjects`).then(
        (response) => response.ok,
        () => false,
      ),
    started,
  )
  return started
}

/** Folder of the unpacked registry; downloads it on the first call. */
async function apicurio(): Promise<string> {
  const cache = process.env['MILLRACE_CACHE'] ?? join(homedir(), '.cache', 'millrace')
  const folder = join(cache, `apicurio-${APICURIO_VERSION}`)
  if (existsSync(folder)) return folder
  await mkdir(cache, { recursive: true })
  const work = await mkdtemp(join(cache, 'download-'))
  try {
    const artifact = `io.apicurio:apicurio-registry-app:${APICURIO_VERSION}:tar.gz:all`
    await run('mvn', ['-B', '-q', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${work}`], {
      cwd: work,
    })
    await mkdir(join(work, 'unpacked'))
    await run('tar', [
      '-xzf',
      join(work, `apicurio-registry-app-${APICURIO_VERSION}-all.tar.gz`),
      '-C',
      join(work, 'unpacked'),
    ])
    await rename(join(work, 'unpacked'), folder)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return folder
}

/** Starts a background process and gives the function that ends it and removes its folder. */
async function startProcess(
  command: string,
  args: readonly string[],
  folder?: string,
): Promise<() => Promise<void>> {
  const child = spawn(command, args, { stdio: 'ignore' })
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  const killAtExit = () => child.kill('SIGKILL')
  process.once('exit', killAtExit)
  return async () => {
    process.removeListener('exit', killAtExit)
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), 5_000)
    await exited
    clearTimeout(timer)
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  }
}

async function untilReady(what: string, isReady: () => Promise<boolean>, started: Started): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS
  while (!(await isReady())) {
    if (Date.now() > deadline) {
      await started.stop()
      throw new Error(`${what} did not answer at ${started.address} within ${START_TIMEOUT_MS / 1000} s`)
    }
    await sleep(50)
  }
}

/** True if a server on this port answers `expected` to `question`. */
function answers(port: number, question: string, expected: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(question))
    const end = (result: boolean) => {
      socket.destroy()
      resolve(result)
    }
    socket.setTimeout(1_000, () => end(false))
    socket.once('data', (data) => end(data.toString().startsWith(expected)))
    socket.once('error', () => end(false))
  })
}

/** Installs a Debian package if its command is missing and we may. @throws Error that says what to do otherwise. */
async function ensureCommand(
  command: string,
  debianPackage: string,
  variable: string,
  log: (line: string) => void,
): Promise<void> {
  if (await succeeds('sh', ['-c', `command -v ${command}`])) return
  const advice = `${command} is missing: install it (on Debian: apt-get install ${debianPackage}), or set ${variable} to a running service`
  if (process.getuid?.() !== 0 || !(await succeeds('sh', ['-c', 'command -v apt-get'])))
    throw new Error(advice)
  log(`${command} is missing: installing ${debianPackage}`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  try {
    await run('apt-get', ['update', '-qq'], { env, maxBuffer: 16 << 20 })
    await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', debianPackage], {
      env,
      maxBuffer: 16 << 20,
    })
  } catch (error) {
    throw new Error(advice, { cause: error })
  }
}

/** Java's major version, 0 without Java. */
async function javaVersion(): Promise<number> {
  try {
    const { stderr } = await run('java', ['-version'])
    return Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}

async function succeeds(command: string, args: readonly string[]): Promise<boolean> {
  return run(command, args).then(
    () => true,
    () => false,
  )
}

function firstLine(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message?: string }
  return (stderr || message || String(error)).trim().split('\n').at(-1) ?? ''
}
