/**
 * The demo: orders in, the job examples/orders.ts with a worker that dies by kill -9 and comes back, and a check of every record it wrote.
 *
 *   services ─► topics, orders ─► worker 1 ──kill -9──► worker 2 ──end of input──► read back ─► compare ─► verdict
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { jobTopic, workerGroupId } from '../../src/kafka/transactional-id.ts'
import { BigOrdersCheck, type CheckResult, isExact, TotalsCheck } from './demo/check.ts'
import { DemoKafka, PARTITIONS } from './demo/kafka.ts'
import { Worker } from './demo/worker.ts'
import { startServices } from './services.ts'

const JOB_MODULE = 'examples/orders.ts'
const DEFAULT_RECORDS = 1_000_000
/** Time for one phase; on any machine that is worth trying it takes a fraction of it. */
const PHASE_TIMEOUT_MS = 120_000
const POLL_MS = 25
/** The worker is killed when this share of the output is there, and with transactions only while some are open. */
const SHARE_BEFORE_KILL = 0.4
/** More records than a take-over writes markers: the worker is processing again. */
const NEW_RECORDS = 100

const beganAt = Date.now()
const NUMBER = new Intl.NumberFormat('en-US')
const grouped = (value: number): string => NUMBER.format(value)
const say = (line: string): void =>
  console.log(`[${String(Math.round((Date.now() - beganAt) / 1_000)).padStart(3)} s] ${line}`)
const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

interface Names {
  readonly job: string
  readonly orders: string
  readonly bigOrders: string
  readonly totals: string
}

/** What happened to the workers. */
interface Run {
  /** From the first worker's start to the second one's end. */
  readonly durationMs: number
  /** From the second worker's start to its first output. */
  readonly restartMs: number
}

/** How far the two outputs are, for readers of committed records and for everybody. */
async function progressOf(kafka: DemoKafka, { bigOrders, totals }: Names) {
  const [committedBig, writtenBig, committedTotals, writtenTotals] = await Promise.all([
    kafka.endOf(bigOrders, 'read_committed'),
    kafka.endOf(bigOrders, 'read_uncommitted'),
    kafka.endOf(totals, 'read_committed'),
    kafka.endOf(totals, 'read_uncommitted'),
  ])
  return {
    committed: committedBig + committedTotals,
    written: writtenBig + writtenTotals,
    bothOpen: writtenBig > committedBig && writtenTotals > committedTotals,
  }
}

/** Asks again and again until `isOver`. @throws Error when the worker ends first, or nothing happens for too long. */
async function watch(what: string, worker: Worker, isOver: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + PHASE_TIMEOUT_MS
  while (!(await isOver())) {
    if (!worker.running) throw new Error(`the worker ended before ${what}\n${worker.tail}`)
    if (Date.now() > deadline)
      throw new Error(`${what} did not happen within ${PHASE_TIMEOUT_MS / 1_000} s\n${worker.tail}`)
    await sleep(POLL_MS)
  }
}

/** Waits for the worst moment: output of checkpoints is committed, more of it is written, and both sinks have a transaction open. */
async function untilKillable(
  kafka: DemoKafka,
  names: Names,
  worker: Worker,
  transactional: boolean,
  expected: number,
): Promise<void> {
  await watch('it could be killed in the middle (try more --records)', worker, async () => {
    const { committed, written, bothOpen } = await progressOf(kafka, names)
    return written > expected * SHARE_BEFORE_KILL && committed > 0 && (bothOpen || !transactional)
  })
}

async function runWithCrash(
  kafka: DemoKafka,
  names: Names,
  brokers: string,
  transactional: boolean,
  expected: number,
): Promise<Run> {
  const variables = {
    KAFKA_BROKERS: brokers,
    DEMO_JOB: names.job,
    DEMO_ORDERS_TOPIC: names.orders,
    DEMO_BIG_ORDERS_TOPIC: names.bigOrders,
    DEMO_TOTALS_TOPIC: names.totals,
    DEMO_BOUNDED: 'yes',
    DEMO_GUARANTEE: transactional ? 'EXACTLY_ONCE' : 'AT_LEAST_ONCE',
  }
  say(`starting a worker: millrace run ${JOB_MODULE}`)
  const first = new Worker(JOB_MODULE, variables, (line) => say(`  worker 1 | ${line}`))
  await untilKillable(kafka, names, first, transactional, expected)
  first.kill()
  await first.ended
  const atKill = await progressOf(kafka, names)
  say(
    `killed it with -9: ${grouped(atKill.committed)} of ${grouped(expected)} output records were visible, ` +
      `${grouped(atKill.written - atKill.committed)} more in open transactions`,
  )
  say('starting it again')
  const second = new Worker(JOB_MODULE, variables, (line) => say(`  worker 2 | ${line}`))
  let restartMs = 0
  await watch('it wrote again', second, async () => {
    restartMs = Date.now() - second.startedAt
    return (await progressOf(kafka, names)).written > atKill.written + NEW_RECORDS
  })
  say(`it writes again, ${seconds(restartMs)} after its start`)
  const late = sleep(PHASE_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`the job did not finish within ${PHASE_TIMEOUT_MS / 1_000} s\n${second.tail}`)
  })
  const { code, signal } = await Promise.race([second.ended, late])
  if (code !== 0) throw new Error(`the job ended with exit code ${code}, signal ${signal}\n${second.tail}`)
  return { durationMs: Date.now() - first.startedAt, restartMs }
}

async function readBack(
  kafka: DemoKafka,
  names: Names,
  records: number,
): Promise<[CheckResult, CheckResult]> {
  const bigOrders = new BigOrdersCheck(records)
  const totals = new TotalsCheck(records)
  await kafka.read(names.bigOrders, (value) => bigOrders.record(value), PHASE_TIMEOUT_MS)
  await kafka.read(names.totals, (value) => totals.record(value), PHASE_TIMEOUT_MS)
  return [bigOrders.result(), totals.result()]
}

function printTable(records: number, etl: CheckResult, totals: CheckResult, run: Run): void {
  const row = (name: string, ...cells: readonly (string | number)[]): void =>
    console.log(
      name.padEnd(24) +
        cells.map((cell) => (typeof cell === 'number' ? grouped(cell) : cell).padStart(18)).join(''),
    )
  console.log()
  row('', 'filter, map', 'totals per user')
  row('orders in', records, records)
  row('records out, expected', etl.expected, totals.expected)
  row('records out', etl.out, totals.out)
  row('duplicates', etl.duplicates, totals.duplicates)
  row('missing', etl.missing, totals.missing)
  row('wrong', etl.wrong, totals.wrong)
  console.log()
  row('orders/s', Math.round((records * 1_000) / run.durationMs), '  (start, crash and restart included)')
  row('restart after kill -9', seconds(run.restartMs), '  (until it wrote again)')
  for (const complaint of [...etl.complaints, ...totals.complaints]) console.log(`  ${complaint}`)
  console.log()
}

/** True if the output was exactly right. */
async function demo(brokers: string, records: number, transactional: boolean): Promise<boolean> {
  const job = `demo-${randomBytes(4).toString('hex')}`
  const names = { job, orders: `${job}.orders`, bigOrders: `${job}.big-orders`, totals: `${job}.totals` }
  const topics = [names.orders, names.bigOrders, names.totals]
  const kafka = new DemoKafka(brokers.split(','))
  await kafka.connect()
  try {
    await kafka.createTopics(topics)
    say(`producing ${grouped(records)} orders into ${PARTITIONS} partitions`)
    await kafka.produceOrders(names.orders, records)
    const expected = new BigOrdersCheck(records).result().expected + records
    const run = await runWithCrash(kafka, names, brokers, transactional, expected)
    say('the job has finished; reading its output back, read_committed')
    const [etl, totals] = await readBack(kafka, names, records)
    printTable(records, etl, totals, run)
    return isExact(etl) && isExact(totals)
  } finally {
    const groups = [`${job}-reader`, workerGroupId(job)]
    await kafka.remove([...topics, jobTopic(job, 'checkpoints')], groups).catch((error: unknown) => {
      say(`could not remove the demo's topics ${job}.* : ${error instanceof Error ? error.message : error}`)
    })
    await kafka.close()
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      records: { type: 'string', default: String(DEFAULT_RECORDS) },
      'at-least-once': { type: 'boolean', default: false },
    },
  })
  const records = Number(values.records)
  if (!Number.isInteger(records) || records < 1) throw new Error('--records must be a whole number from 1')
  const services = await startServices(['kafka'], say)
  const interrupted = (): void => {
    void services.stop().finally(() => process.exit(130))
  }
  process.once('SIGINT', interrupted)
  process.once('SIGTERM', interrupted)
  try {
    const exact = await demo(services.env['KAFKA_BROKERS']!, records, !values['at-least-once'])
    console.log(`exactly once: ${exact ? 'yes' : 'no'}`)
    process.exitCode = exact ? 0 : 1
  } finally {
    await services.stop()
  }
}

await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  console.log('exactly once: not shown (the demo did not run to its end)')
  process.exitCode = 1
})
