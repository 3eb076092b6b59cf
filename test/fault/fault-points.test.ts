/** kill -9 at every named place of the checkpoint protocol, with state, two subtasks and open transactions; then the output must be exact. */
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import { FAULT_POINTS, type FaultPoint } from '../../src/runtime/fault-points.ts'
import { JobScene } from '../integration/job-scene.ts'
import { OrderFeed } from './order-feed.ts'
import { SeededRandom } from './seeded-random.ts'

jest.setTimeout(240_000)

const JOB = 'fault/jobs/orders.ts'
/** Places that are tried at the same time. */
const CONCURRENCY = 3

interface Outcome {
  readonly signal: NodeJS.Signals | null
  readonly etl: readonly string[]
  readonly totals: readonly string[]
}

/** Dies when the third checkpoint comes by, starts again, reads everything. */
async function dieAt(point: FaultPoint): Promise<Outcome> {
  const scene = await JobScene.open()
  try {
    const environment = {
      IN: await scene.topic('in', 2),
      ETL_OUT: await scene.topic('etl', 2),
      COUNT_OUT: await scene.topic('count', 2),
      PARALLELISM: '2',
      INTERVAL: '300',
    }
    const feed = new OrderFeed(scene.cluster, environment.IN, 2, 600, new SeededRandom(1))
    feed.start()
    const { signal } = await scene.start(JOB, { ...environment, MILLRACE_FAULT_POINT: `${point}:3` }).exited
    const second = scene.start(JOB, environment)
    await second.said('FIRST', 60_000)
    await feed.stop()
    await scene.readUntil(environment.ETL_OUT, (values) => values.length >= feed.etlRecords)
    await scene.readUntil(environment.COUNT_OUT, (values) => values.length >= feed.committed)
    second.signal('SIGTERM')
    await second.code(15_000)
    await scene.settled([environment.ETL_OUT, environment.COUNT_OUT], 10_000)
    return {
      signal,
      etl: feed.checkEtl(await scene.read(environment.ETL_OUT)),
      totals: feed.checkTotals(await scene.read(environment.COUNT_OUT)),
    }
  } finally {
    await scene.close()
  }
}

describe('a job that dies', () => {
  const outcomes = new Map<FaultPoint, Outcome | Error>()

  beforeAll(async () => {
    const queue = [...FAULT_POINTS]
    await Promise.all(
      Array.from({ length: CONCURRENCY }, async () => {
        for (let point = queue.shift(); point !== undefined; point = queue.shift())
          outcomes.set(point, await dieAt(point).catch((error: Error) => error))
      }),
    )
  })

  test.each(FAULT_POINTS)('%s is exact after its restart', (point) => {
    expect(outcomes.get(point)).toEqual({ signal: 'SIGKILL', etl: [], totals: [] })
  })
})
