/**
 * Runs the suites one after another and adds up their results.
 * `scripts/test [suite…]` runs only the named ones. A suite that finds no test fails: a suite that tests nothing must not look green.
 * What the suites say that they tried is printed as a table; `--write-reliability` writes it into docs/reliability.md if nothing failed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { RELIABILITY_LOG_VARIABLE } from '../../test/reliability-log.ts'
import { RELIABILITY_PAGE, readEntries, rowsOf, tableOf, updatedPage } from './reliability-page.ts'
import { type ServiceName, type Services, startServices } from './services.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const HEARTBEAT_MS = 20_000

interface Suite {
  readonly name: string
  /** A command that counts as one check, or paths of jest's project. */
  readonly command?: readonly string[]
  readonly jest?: {
    readonly project: 'unit' | 'integration'
    readonly paths: readonly string[]
    /** Test files with real services at the same time; 1 by default. */
    readonly workers?: number
  }
  readonly needsServices: boolean
  /** Variables that the suite reads. */
  readonly env?: Readonly<Record<string, string>>
}

const SUITES: readonly Suite[] = [
  { name: 'lint', command: ['biome', 'check', '--error-on-warnings', '.'], needsServices: false },
  { name: 'types', command: ['tsc', '-p', 'tsconfig.json', '--noEmit'], needsServices: false },
  { name: 'docs', command: ['node', 'scripts/docs.ts', '--check'], needsServices: false },
  { name: 'build', command: ['npm', 'run', '-s', 'build'], needsServices: false },
  { name: 'unit', jest: { project: 'unit', paths: [] }, needsServices: false },
  {
    // The unit suite tries 500 of each kind.
    name: 'sequences',
    jest: { project: 'unit', paths: ['test/property/windows', 'test/property/joins'] },
    needsServices: false,
    env: { WINDOW_SEQUENCES: '10000' },
  },
  ...optionalScript('simulation', 'test:simulation'),
  ...optionalScript('mutants', 'test:simulation:mutants'),
  { name: 'contract', jest: { project: 'integration', paths: ['test/contract/'] }, needsServices: true },
  {
    name: 'integration',
    jest: { project: 'integration', paths: ['test/integration/'] },
    needsServices: true,
  },
  {
    name: 'fault',
    // Much of their time is waiting: for sessions to end, transactions to time out, brokers to come back.
    jest: { project: 'integration', paths: ['test/fault/'], workers: 2 },
    needsServices: true,
  },
  { name: 'package', jest: { project: 'integration', paths: ['test/package/'] }, needsServices: true },
]

interface Result {
  readonly name: string
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  readonly seconds: number
}

/** A suite that is a script of package.json, for as long as there is one. */
function optionalScript(name: string, script: string): Suite[] {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  return script in scripts ? [{ name, command: ['npm', 'run', '-s', script], needsServices: false }] : []
}

let running: ChildProcess | undefined
let services: Services | undefined
let interrupted = false

/** Runs a command with its output passed through; resolves with its exit code. Says every now and then that it still runs. */
function execute(
  name: string,
  command: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<number> {
  const [program, ...args] = command as [string, ...string[]]
  const started = Date.now()
  const heartbeat = setInterval(
    () => console.log(`… ${name} is running (${Math.round((Date.now() - started) / 1000)} s)`),
    HEARTBEAT_MS,
  )
  return new Promise<number>((resolve, reject) => {
    running = spawn(program, args, {
      cwd: ROOT,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, ...env },
    })
    running.once('error', reject)
    running.once('exit', (code, signal) =>
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
    )
  }).finally(() => clearInterval(heartbeat))
}

async function runSuite(suite: Suite, environment: Readonly<Record<string, string>>): Promise<Result> {
  const env = { ...environment, ...suite.env }
  const started = Date.now()
  const seconds = () => (Date.now() - started) / 1000
  console.log(`\n── ${suite.name}`)
  if (suite.command !== undefined) {
    const code = await execute(suite.name, suite.command, env)
    return {
      name: suite.name,
      passed: code === 0 ? 1 : 0,
      failed: code === 0 ? 0 : 1,
      skipped: 0,
      seconds: seconds(),
    }
  }
  const folder = await mkdtemp(join(tmpdir(), 'millrace-suite-'))
  try {
    const output = join(folder, 'result.json')
    const code = await execute(suite.name, jestCommand(suite, output), {
      ...env,
      NODE_OPTIONS: '--experimental-vm-modules --disable-warning=ExperimentalWarning',
    })
    return { name: suite.name, ...count(output, code), seconds: seconds() }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function jestCommand(suite: Suite, output: string): string[] {
  const { project, paths, workers = 1 } = suite.jest!
  const atOnce = workers === 1 ? ['--runInBand'] : [`--maxWorkers=${workers}`]
  const serial = project === 'integration' ? atOnce : []
  return [
    'jest',
    '--selectProjects',
    project,
    '--errorOnDeprecated',
    ...serial,
    '--json',
    '--outputFile',
    output,
    ...paths,
  ]
}

/** What jest wrote down. A file that did not run, and a run that failed without a failed test, count as one failure. */
function count(output: string, code: number): { passed: number; failed: number; skipped: number } {
  let report: Record<string, number>
  try {
    report = JSON.parse(readFileSync(output, 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    console.error('no test was found, or jest did not start')
    return { passed: 0, failed: 1, skipped: 0 }
  }
  const {
    numPassedTests = 0,
    numFailedTests = 0,
    numRuntimeErrorTestSuites = 0,
    numPendingTests = 0,
    numTodoTests = 0,
  } = report
  const failed = numFailedTests + numRuntimeErrorTestSuites
  return {
    passed: numPassedTests,
    failed: failed === 0 && (code !== 0 || numPassedTests === 0) ? 1 : failed,
    skipped: numPendingTests + numTodoTests,
  }
}

function printResults(results: readonly Result[]): void {
  console.log('\nsuite         passed  failed  skipped  seconds')
  for (const { name, passed, failed, skipped, seconds } of results)
    console.log(
      `${name.padEnd(12)}${String(passed).padStart(8)}${String(failed).padStart(8)}${String(skipped).padStart(9)}${seconds.toFixed(1).padStart(9)}`,
    )
}

/** Prints what was tried; writes it into the page if that is asked for and everything passed. */
function reportReliability(log: string, write: boolean, passed: boolean): void {
  const entries = readEntries(log)
  if (entries.length > 0) console.log(`\nwhat was tried\n${tableOf(rowsOf(entries))}`)
  if (!write) return
  if (!passed || entries.length === 0) {
    console.error(`${RELIABILITY_PAGE} stays as it is: ${passed ? 'nothing was tried' : 'a suite failed'}`)
    return
  }
  const path = join(ROOT, RELIABILITY_PAGE)
  writeFileSync(path, updatedPage(readFileSync(path, 'utf8'), entries))
  console.log(`wrote ${RELIABILITY_PAGE}`)
}

/** Ends the suite that runs; the services are stopped on the way out. */
function interrupt(signal: NodeJS.Signals): void {
  interrupted = true
  running?.kill(signal)
}

async function main(): Promise<void> {
  const { positionals, values: flags } = parseArgs({
    allowPositionals: true,
    options: { 'write-reliability': { type: 'boolean', default: false } },
  })
  const unknown = positionals.filter((name) => !SUITES.some((suite) => suite.name === name))
  if (unknown.length > 0) {
    console.error(
      `no suite is called ${unknown.join(', ')}; there are ${SUITES.map((suite) => suite.name).join(', ')}`,
    )
    process.exitCode = 2
    return
  }
  const chosen = SUITES.filter((suite) => positionals.length === 0 || positionals.includes(suite.name))
  process.once('SIGINT', () => interrupt('SIGINT'))
  process.once('SIGTERM', () => interrupt('SIGTERM'))
  const results: Result[] = []
  const logFolder = await mkdtemp(join(tmpdir(), 'millrace-tried-'))
  const log = join(logFolder, 'tried.jsonl')
  try {
    for (const suite of chosen) {
      if (interrupted) break
      if (suite.needsServices && services === undefined) {
        console.log('\n── services')
        const wanted: ServiceName[] = ['kafka', 'redis', 'registry']
        services = await startServices(wanted, (line) => console.log(line))
      }
      results.push(await runSuite(suite, { ...services?.env, [RELIABILITY_LOG_VARIABLE]: log }))
    }
  } catch (error) {
    console.error(error)
    results.push({ name: 'set-up', passed: 0, failed: 1, skipped: 0, seconds: 0 })
  } finally {
    await services?.stop()
  }
  if (interrupted) results.push({ name: 'interrupted', passed: 0, failed: 1, skipped: 0, seconds: 0 })
  const sum = (field: 'passed' | 'failed') => results.reduce((total, result) => total + result[field], 0)
  try {
    reportReliability(log, flags['write-reliability'], sum('failed') === 0)
  } catch (error) {
    console.error(error)
    results.push({ name: 'reliability', passed: 0, failed: 1, skipped: 0, seconds: 0 })
  } finally {
    await rm(logFolder, { recursive: true, force: true })
  }
  printResults(results)
  console.log(`${sum('passed')} passed, ${sum('failed')} failed`)
  process.exitCode = sum('failed') === 0 && sum('passed') > 0 ? 0 : 1
}

await main()
