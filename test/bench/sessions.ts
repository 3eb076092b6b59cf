/**
 * How much memory open sessions take: one session for each of a million keys, aggregated, on the heap backend. Prints; asserts nothing.
 *
 *     node --expose-gc test/bench/sessions.ts [keys] [records for each key]
 */
import { memoryUsage } from 'node:process'
import { WindowSettings } from '../../src/api/window-specs.ts'
import { recordVector } from '../../src/core/element.ts'
import type { OperatorContext } from '../../src/core/operators/stream-operator.ts'
import { EventTimeSessionWindows } from '../../src/core/windows/session-assigners.ts'
import { MetricRegistry } from '../../src/metrics/metrics.ts'
import { HeapKeyedStateBackend } from '../../src/state/heap-backend.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { VirtualTime } from '../../src/testing/virtual-time.ts'

const keys = Number(process.argv[2] ?? 1_000_000)
const perKey = Number(process.argv[3] ?? 3)
const VECTOR = 256
const MAX_PARALLELISM = 128

interface Click {
  readonly user: string
  readonly cents: number
}

const windows = new WindowSettings(
  EventTimeSessionWindows.withGap(3_600_000),
  ({ user }: Click) => user,
  true,
)
const { factory } = windows.aggregate(
  {
    createAccumulator: () => ({ count: 0, sum: 0 }),
    add: ({ cents }: Click, total: { count: number; sum: number }) => {
      total.count++
      total.sum += cents
      return total
    },
    getResult: (total) => total,
    merge: (a, b) => ({ count: a.count + b.count, sum: a.sum + b.sum }),
  },
  undefined,
)

const time = new VirtualTime({ startMs: 0 })
const range = { start: 0, end: MAX_PARALLELISM - 1 }
const backend = new HeapKeyedStateBackend({
  range,
  maxParallelism: MAX_PARALLELISM,
  operatorName: 'sessions',
  clock: time,
})
const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent }
let results = 0
const context: OperatorContext = {
  info: {
    jobName: 'bench',
    operatorName: 'sessions',
    uid: 'sessions',
    subtaskIndex: 0,
    parallelism: 1,
    attempt: 1,
  },
  world: {
    clock: time,
    timers: time,
    random: new SeededRandom(1),
    logger: silent,
    metrics: new MetricRegistry(),
  },
  output: {
    emit: ({ values }) => {
      results += values.length
    },
    emitSide() {},
    emitWatermark() {},
    emitStatus() {},
  },
  vectorSize: VECTOR,
  keyedState: backend,
  keyGroups: range,
  maxParallelism: MAX_PARALLELISM,
  requestProcessingTime() {},
  post() {},
  fail(error) {
    throw error
  },
}

const megabytes = (bytes: number): string => `${(bytes / 1_048_576).toFixed(0)} MB`
function report(what: string, since: number, records: number): void {
  globalThis.gc?.()
  const { rss, heapUsed } = memoryUsage()
  const seconds = (performance.now() - since) / 1_000
  console.log(
    `${what}: ${seconds.toFixed(1)} s, ${Math.round(records / seconds).toLocaleString('en')} a second; ` +
      `rss ${megabytes(rss)}, heap ${megabytes(heapUsed)}; timers ${backend.timers().size.toLocaleString('en')}`,
  )
}

const operator = factory()
operator.setup(context)
await operator.initializeState?.(undefined)
await operator.open?.()
report('at the start', performance.now(), 0)

let started = performance.now()
for (let round = 0; round < perKey; round++)
  for (let from = 0; from < keys; from += VECTOR) {
    const count = Math.min(VECTOR, keys - from)
    const values = Array.from({ length: count }, (_, i) => ({ user: `user-${from + i}`, cents: round }))
    await operator.processVector(
      recordVector(
        values,
        values.map((_, i) => round * 1_000 + ((from + i) % 1_000)),
      ),
    )
  }
report(`${keys.toLocaleString('en')} open sessions of ${perKey} records`, started, keys * perKey)

started = performance.now()
await operator.processWatermark(Number.MAX_SAFE_INTEGER)
report(`${results.toLocaleString('en')} sessions fired`, started, results)
console.log(`peak rss ${megabytes(process.resourceUsage().maxRSS * 1_024)}`)
