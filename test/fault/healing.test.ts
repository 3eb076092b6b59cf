/**
 * A job that stays away for longer than its transactions last: some of what a completed checkpoint promised is committed, the rest was given up
 * by the broker. The next start writes the rest again, exactly once, whenever it is killed; or it says what is lost.
 */
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { JobProcess } from '../integration/job-process.ts'
import { JobScene } from '../integration/job-scene.ts'
import { logReliability, outcomeOf } from '../reliability-log.ts'
import {
  CHECKPOINT_TIMEOUT_MS,
  commitSome,
  deleteAllRecords,
  givenUp,
  promisedOutput,
  TRANSACTION_TIMEOUT_MS,
} from './abandoned-output.ts'
import { OrderFeed } from './order-feed.ts'
import { SeededRandom } from './seeded-random.ts'

jest.setTimeout(600_000)

const ORDERS = 'fault/jobs/orders.ts'
const COPY = 'integration/jobs/copy.ts'
const KILLED = { code: null, signal: 'SIGKILL' }
const START_MS = 60_000

/** Two sinks at parallelism 3. */
const SINK_SUBTASKS = 6

/** The job, killed, with the output of two of its sink subtasks committed and that of the other four given up. */
interface Abandoned {
  readonly scene: JobScene
  readonly feed: OrderFeed
  readonly environment: Readonly<Record<string, string>> & {
    readonly ETL_OUT: string
    readonly COUNT_OUT: string
  }
}

async function abandon(scene: JobScene, seed: number): Promise<Abandoned> {
  const environment = {
    IN: await scene.topic('in', 3),
    // Brokers stamp what they store there, and refuse a stamp that comes from a client.
    ETL_OUT: await scene.topic('etl', 3, { 'message.timestamp.type': 'LogAppendTime' }),
    COUNT_OUT: await scene.topic('count', 3),
    PARALLELISM: '3',
    INTERVAL: '1000',
    CHECKPOINT_TIMEOUT: String(CHECKPOINT_TIMEOUT_MS),
    TIMEOUT: String(TRANSACTION_TIMEOUT_MS),
  }
  const feed = new OrderFeed(scene.cluster, environment.IN, 3, 400, new SeededRandom(seed))
  feed.start()
  const died = scene.start(ORDERS, { ...environment, MILLRACE_FAULT_POINT: 'after-commit-point:3' })
  expect(await died.exited).toEqual(KILLED)
  await feed.stop()
  const promised = await promisedOutput(scene)
  expect(promised.length).toBe(SINK_SUBTASKS)
  // One subtask of each sink.
  await commitSome(
    scene,
    promised.filter((_, index) => index % 3 === 1),
  )
  await givenUp(scene)
  return { scene, feed, environment }
}

/** Lets the job work through its input, stops it, and says what is wrong with the output. */
async function finish(abandoned: Abandoned, job: JobProcess): Promise<string[]> {
  const { scene, feed, environment } = abandoned
  const { ETL_OUT, COUNT_OUT } = environment
  await job.said('FIRST', START_MS)
  const settledMs = await scene.settled([ETL_OUT, COUNT_OUT], 10_000 + CHECKPOINT_TIMEOUT_MS)
  expect(settledMs).toBeLessThan(10_000)
  await scene.readUntil(ETL_OUT, (values) => values.length >= feed.etlRecords)
  await scene.readUntil(COUNT_OUT, (values) => values.length >= feed.committed)
  job.signal('SIGTERM')
  expect(await job.code(15_000)).toBe(0)
  await scene.settled([ETL_OUT, COUNT_OUT], 10_000)
  return [...feed.checkEtl(await scene.read(ETL_OUT)), ...feed.checkTotals(await scene.read(COUNT_OUT))]
}

function note(fault: string, where: string, count: number, records: number, wrong: readonly unknown[]): void {
  logReliability({ suite: 'healing', fault, where, count, records, outcome: outcomeOf(wrong) })
}

const healedLines = (job: JobProcess): number =>
  job.stderr.match(/healed: the broker had given up/g)?.length ?? 0

async function healed(scene: JobScene): Promise<unknown> {
  const abandoned = await abandon(scene, 1)
  const job = scene.start(ORDERS, abandoned.environment)
  const wrong = await finish(abandoned, job)
  note(
    'kill -9, away until the broker gives 4 of 6 transactions up',
    'after-commit-point',
    1,
    abandoned.feed.committed,
    wrong,
  )
  return { wrong, healed: healedLines(job) }
}

/** Kills of the healer, in the order of the starts. */
const HEALER_KILLS = ['before-heal-end-txn:2', 'after-heal-end-txn:2', 'after-end-txn:3', 'before-confirm']

async function killedWhileHealing(scene: JobScene): Promise<unknown> {
  const abandoned = await abandon(scene, 2)
  for (const place of HEALER_KILLS) {
    const healer = scene.start(ORDERS, { ...abandoned.environment, MILLRACE_FAULT_POINT: place })
    expect({ place, exit: await healer.exited }).toEqual({ place, exit: KILLED })
  }
  const job = scene.start(ORDERS, abandoned.environment)
  const wrong = await finish(abandoned, job)
  for (const place of HEALER_KILLS) note('kill -9 of the healer', place, 1, abandoned.feed.committed, wrong)
  return { wrong }
}

async function gone(scene: JobScene): Promise<unknown> {
  const abandoned = await abandon(scene, 3)
  const { feed, environment } = abandoned
  const { ETL_OUT, COUNT_OUT } = environment
  const before = (await scene.read(ETL_OUT)).length
  await deleteAllRecords(scene.cluster, ETL_OUT)
  const refused = scene.start(ORDERS, environment, [])
  const code = await refused.code(START_MS)
  const ids = [...refused.stderr.matchAll(/--accept-lost-transaction (\S+:\d+:\d+)/g)].map(
    ([, id]) => id as string,
  )
  // Not the lines about what the same start could heal; the report gives a message and then its cause.
  const report = refused.stderr.split('\n').filter((line) => line.includes(' are lost ('))
  const ranges = new Map(
    [...report.join('\n').matchAll(/(\S+)-\d offsets \d+\.\.\d+ \((\d+) records\)/g)].map((match) => [
      match[0],
      { topic: match[1], count: Number(match[2]) },
    ]),
  )
  const lost = [...ranges.values()].reduce((sum, { count }) => sum + count, 0)
  const job = scene.start(
    ORDERS,
    environment,
    ids.flatMap((id) => ['--accept-lost-transaction', id]),
  )
  await job.said('FIRST', START_MS)
  await scene.readUntil(COUNT_OUT, (values) => values.length >= feed.committed)
  await scene.readUntil(ETL_OUT, (values) => values.length >= feed.etlRecords - before - lost)
  job.signal('SIGTERM')
  await job.code(15_000)
  await scene.settled([ETL_OUT, COUNT_OUT], 10_000)
  const etl = feed.checkEtl(await scene.read(ETL_OUT))
  const others = etl.filter((complaint) => !complaint.startsWith('missing'))
  const totals = feed.checkTotals(await scene.read(COUNT_OUT))
  const missing = etl.length - before - lost
  const wrong = [
    ...others,
    ...totals,
    ...(missing === 0 && code === 1 ? [] : ['not what was named is missing']),
  ]
  note(
    'records of given-up transactions are removed',
    'DeleteRecords; then --accept-lost-transaction',
    1,
    feed.committed,
    wrong,
  )
  return {
    code,
    kept: new RegExp(
      `Kept: job '${scene.job}' failed behind checkpoint \\d+ of run \\S+, which is kept in `,
    ).test(refused.stderr),
    reports: refused.stderr.split('MILLRACE_TRANSACTION_LOST').length - 1,
    names: ids.length > 0 && ids.every((id) => id.startsWith(`millrace.${scene.job}.etl-out.`)),
    topics: [...new Set([...ranges.values()].map(({ topic }) => topic))],
    lostSome: lost > 0,
    others,
    missing,
    totals,
  }
}

/** Three transactions of 6 MB and more each, which are healed in several pieces. */
async function large(scene: JobScene): Promise<unknown> {
  const environment = {
    IN: await scene.topic('in', 3),
    OUT: await scene.topic('out', 1),
    PARALLELISM: '3',
    BOUNDED: 'yes',
    INTERVAL: '0',
    TIMEOUT: String(TRANSACTION_TIMEOUT_MS),
  }
  const values: string[] = []
  for (let partition = 0; partition < 3; partition++) {
    const own = Array.from({ length: 60 }, (_, i) =>
      JSON.stringify(`${partition}-${i}-`.padEnd(100_000, 'x')),
    )
    for (let from = 0; from < own.length; from += 5)
      await scene.produce(environment.IN, partition, own.slice(from, from + 5))
    values.push(...own)
  }
  const died = scene.start(COPY, { ...environment, MILLRACE_FAULT_POINT: 'after-commit-point' })
  expect(await died.exited).toEqual(KILLED)
  await givenUp(scene)
  const places = ['after-heal-end-txn', 'before-heal-end-txn:2', 'after-heal-end-txn:3']
  for (const place of places) {
    const healer = scene.start(COPY, { ...environment, MILLRACE_FAULT_POINT: place })
    expect({ place, exit: await healer.exited }).toEqual({ place, exit: KILLED })
  }
  const job = scene.start(COPY, environment)
  const code = await job.code(START_MS)
  await scene.settled([environment.OUT], 10_000)
  const read = await scene.read(environment.OUT)
  const exact = read.length === values.length && new Set([...read, ...values]).size === values.length
  for (const place of places)
    note('kill -9 of the healer between pieces of 4 MiB', place, 1, values.length, exact ? [] : ['not exact'])
  return { code, exact }
}

describe('a job that comes back after the broker gave up half of what a checkpoint had promised', () => {
  const VARIANTS = { healed, killedWhileHealing, gone, large }
  const outcomes = new Map<string, unknown>()

  // The time that the broker takes to give transactions up passes for all of them at once.
  beforeAll(async () => {
    await Promise.all(
      Object.entries(VARIANTS).map(async ([name, variant]) => {
        const scene = await JobScene.open()
        try {
          outcomes.set(name, await variant(scene))
        } catch (error) {
          outcomes.set(name, error)
        } finally {
          await scene.close()
        }
      }),
    )
  })

  test('writes the rest again, exactly once and in the order of each key, and says so for each transaction', () => {
    expect(outcomes.get('healed')).toEqual({ wrong: [], healed: 4 })
  })

  test(`does so once though the healer is killed again and again: ${HEALER_KILLS.join(', ')}`, () => {
    expect(outcomes.get('killedWhileHealing')).toEqual({ wrong: [] })
  })

  test('FAILS with code 1 when the records are gone, names partitions, offsets and counts, and goes on when a person gives them up', () => {
    expect(outcomes.get('gone')).toEqual({
      code: 1,
      kept: true,
      reports: 1,
      names: true,
      topics: [expect.stringMatching(/\.etl$/)],
      lostSome: true,
      others: [],
      missing: 0,
      totals: [],
    })
  })

  test('heals a large transaction in pieces, and continues behind the last piece when it is killed', () => {
    expect(outcomes.get('large')).toEqual({ code: 0, exact: true })
  })
})
