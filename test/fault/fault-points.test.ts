/**
 * kill -9 at every named place of the checkpoint protocol, at each commit of a checkpoint and of a recovery, with state, two subtasks and
 * open transactions; then the output must be exact.
 */
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import { FAULT_POINTS, type FaultPoint } from '../../src/runtime/fault-points.ts'
import { logReliability } from '../reliability-log.ts'
import { type OrderOutcome, OrderRun, verdict } from './order-run.ts'
import { SeededRandom } from './seeded-random.ts'

jest.setTimeout(600_000)

/** Places that are tried at the same time. */
const CONCURRENCY = 4
/** Output transactions of one checkpoint: two sinks at parallelism 2. */
const COMMITS = 4
/** The checkpoint at which a process dies: one that has predecessors. */
const CHECKPOINT = 3

/** One process after another dies at the place that is its own; the last one reads everything. */
interface Death {
  readonly name: string
  readonly where: string
  readonly places: readonly `${FaultPoint}:${number}`[]
}

const commits = Array.from({ length: COMMITS }, (_, i) => i + 1)

const DEATHS: readonly Death[] = [
  ...FAULT_POINTS.map((point): Death => ({ name: point, where: point, places: [`${point}:${CHECKPOINT}`] })),
  ...commits.map((commit): Death => {
    const where = `after-end-txn, commit ${commit} of ${COMMITS} of a checkpoint`
    return { name: where, where, places: [`after-end-txn:${(CHECKPOINT - 1) * COMMITS + commit}`] }
  }),
  {
    name: 'before the first commit of a recovery',
    where: 'before-end-txn of a recovery',
    places: [`after-commit-point:${CHECKPOINT}`, 'before-end-txn:1'],
  },
  ...commits.map(
    (commit): Death => ({
      name: `after commit ${commit} of ${COMMITS} of a recovery`,
      where: `after-end-txn, commit ${commit} of ${COMMITS} of a recovery`,
      places: [`after-commit-point:${CHECKPOINT}`, `after-end-txn:${commit}`],
    }),
  ),
]

interface Outcome {
  readonly signals: readonly (NodeJS.Signals | null)[]
  readonly output: OrderOutcome
}

async function die({ places }: Death, seed: number): Promise<Outcome> {
  const run = await OrderRun.open({
    random: new SeededRandom(seed),
    partitions: 2,
    recordsPerSecond: 600,
    environment: { INTERVAL: '300' },
  })
  try {
    const signals: (NodeJS.Signals | null)[] = []
    for (const place of places) {
      const { signal } = await run.start({ MILLRACE_FAULT_POINT: place }).exited
      signals.push(signal)
    }
    const last = run.start()
    await last.said('FIRST', 60_000)
    return { signals, output: await run.finish([last]) }
  } finally {
    await run.close()
  }
}

describe('a job that dies', () => {
  const outcomes = new Map<string, Outcome | Error>()

  beforeAll(async () => {
    const queue = [...DEATHS.entries()]
    await Promise.all(
      Array.from({ length: CONCURRENCY }, async () => {
        for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
          const [seed, death] = next
          outcomes.set(death.name, await die(death, seed).catch((error: Error) => error))
        }
      }),
    )
  })

  test.each(DEATHS)('at $name is exact after its restart', ({ name, where, places }) => {
    const outcome = outcomes.get(name)
    if (outcome === undefined || !('output' in outcome)) throw outcome
    const { signals, output } = outcome
    logReliability({
      suite: 'fault-points',
      fault: 'kill -9',
      where,
      count: 1,
      records: output.records,
      outcome: verdict(output),
    })
    expect(signals).toEqual(places.map(() => 'SIGKILL'))
    expect(output).toMatchObject({ etl: [], totals: [], open: [] })
  })
})
