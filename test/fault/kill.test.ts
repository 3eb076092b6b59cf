/**
 * kill -9 at random moments while records keep coming, many times in one run; then the whole output must be exact.
 * FAULT_SEED=n replays the moments of a run, FAULT_KILLS=n sets their number.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { JobProcess } from '../integration/job-process.ts'
import { JobScene } from '../integration/job-scene.ts'
import { logReliability, outcomeOf } from '../reliability-log.ts'
import { OrderFeed } from './order-feed.ts'
import { SeededRandom } from './seeded-random.ts'

jest.setTimeout(900_000)

const JOB = 'fault/jobs/orders.ts'
const PARTITIONS = 4
const RECORDS_PER_SECOND = 2_500
const KILLS = Number(process.env['FAULT_KILLS'] ?? 20)
const SEED = Number(process.env['FAULT_SEED'] ?? Date.now() % 1_000_000)
/**
 * From the job's first line to its first record. The budget is 5 s, start of Node.js included, on a machine of its own; one that runs two
 * jobs, a broker, this suite and the next one on two cores gets more.
 */
const MEDIAN_RESTART_LIMIT_MS = 40_000

/** Milliseconds until a job that was killed processes again. */
interface Restart {
  readonly fromStart: number
  /** From the first line of the job's module: without the time that Node.js takes. */
  readonly fromLoaded: number
}

interface Outcome {
  readonly etl: readonly string[]
  readonly totals: readonly string[]
  readonly records: number
  readonly restarts: readonly Restart[]
  readonly settledMs: number
}

async function firstRecord(process: JobProcess): Promise<Restart> {
  await process.said('LOADED', 60_000)
  const loadedAt = Date.now()
  await process.said('FIRST', 60_000)
  return { fromStart: Date.now() - process.startedAt, fromLoaded: Date.now() - loadedAt }
}

function spread(values: readonly number[]): { readonly median: number; readonly text: string } {
  const sorted = [...values].sort((a, b) => a - b)
  const median = sorted[sorted.length >> 1] as number
  return { median, text: `${sorted[0]} to ${sorted.at(-1)} ms (median ${median})` }
}

/** Ends the process at a random moment: one kill in three hits the start-up, the others a job that processes. */
async function killAtRandom(process: JobProcess, random: SeededRandom): Promise<Restart | undefined> {
  const duringStart = random.next() < 0.35
  if (duringStart) {
    await sleep(random.between(50, 2_500))
    await process.kill()
    return undefined
  }
  const restart = await firstRecord(process)
  await sleep(random.between(20, 1_500))
  await process.kill()
  return restart
}

async function run(parallelism: number): Promise<Outcome> {
  const random = new SeededRandom(SEED + parallelism)
  const scene = await JobScene.open()
  try {
    const environment = {
      IN: await scene.topic('in', PARTITIONS),
      ETL_OUT: await scene.topic('etl', PARTITIONS),
      COUNT_OUT: await scene.topic('count', PARTITIONS),
      PARALLELISM: String(parallelism),
    }
    const feed = new OrderFeed(scene.cluster, environment.IN, PARTITIONS, RECORDS_PER_SECOND, random)
    feed.start()
    const restarts: Restart[] = []
    for (let kill = 0; kill < KILLS; kill++) {
      const restart = await killAtRandom(scene.start(JOB, environment), random)
      if (restart !== undefined && kill > 0) restarts.push(restart)
    }
    const last = scene.start(JOB, environment)
    restarts.push(await firstRecord(last))
    await feed.stop()
    const enough = (wanted: number) => (values: readonly unknown[]) => values.length >= wanted
    await scene.readUntil(environment.ETL_OUT, enough(feed.etlRecords), 60_000)
    await scene.readUntil(environment.COUNT_OUT, enough(feed.committed), 60_000)
    last.signal('SIGTERM')
    expect(await last.code(15_000)).toBe(0)
    const settledMs = await scene.settled([environment.ETL_OUT, environment.COUNT_OUT], 10_000)
    return {
      etl: feed.checkEtl(await scene.read(environment.ETL_OUT)),
      totals: feed.checkTotals(await scene.read(environment.COUNT_OUT)),
      records: feed.committed,
      restarts,
      settledMs,
    }
  } finally {
    await scene.close()
  }
}

describe(`a job that is killed with -9 ${KILLS} times while it runs and while it starts (FAULT_SEED=${SEED})`, () => {
  const PARALLELISMS = [1, 4]
  const outcomes = new Map<number, Outcome | Error>()

  beforeAll(async () => {
    await Promise.all(
      PARALLELISMS.map(async (parallelism) => {
        outcomes.set(parallelism, await run(parallelism).catch((error: Error) => error))
      }),
    )
  })

  test.each(PARALLELISMS)(
    'has an exact ETL output and exact totals at parallelism %i, soon after each start',
    (parallelism) => {
      const outcome = outcomes.get(parallelism)
      if (outcome === undefined || outcome instanceof Error) throw outcome
      const fromStart = spread(outcome.restarts.map((restart) => restart.fromStart))
      const fromLoaded = spread(outcome.restarts.map((restart) => restart.fromLoaded))
      console.log(
        `parallelism ${parallelism}, FAULT_SEED=${SEED}: ${KILLS} kills, ${outcome.records} records; processing again ` +
          `${fromStart.text} after the start, ${fromLoaded.text} after the job's first line; output settled after ${outcome.settledMs} ms`,
      )
      logReliability({
        suite: 'kill',
        fault: 'kill -9, restart at once',
        where: `at random moments of start-up and work, parallelism ${parallelism}`,
        count: KILLS,
        records: outcome.records,
        outcome: outcomeOf([...outcome.etl, ...outcome.totals]),
      })
      expect({ etl: outcome.etl.slice(0, 10), totals: outcome.totals.slice(0, 10) }).toEqual({
        etl: [],
        totals: [],
      })
      expect(fromLoaded.median).toBeLessThan(MEDIAN_RESTART_LIMIT_MS)
    },
  )
})
