/** SIGTERM at awkward moments: the process is gone within 10 s with exit code 0, and the next start goes on exactly. */
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { FaultPoint } from '../../src/runtime/fault-points.ts'
import type { JobProcess } from '../integration/job-process.ts'
import { logReliability } from '../reliability-log.ts'
import { OrderRun, verdict } from './order-run.ts'
import { SeededRandom } from './seeded-random.ts'

jest.setTimeout(240_000)

/** Process time from the signal to the end. */
const GONE_MS = 10_000
const START_MS = 60_000

/** Moments in a checkpoint, from its barrier to the confirmation of its commits. */
const MOMENTS: readonly FaultPoint[] = [
  'before-prepare',
  'after-freeze',
  'before-ack',
  'before-commit-point',
  'after-commit-point',
  'before-end-txn',
  'after-end-txn',
  'before-confirm',
]

interface Stop {
  readonly moment: string
  readonly code: number | null
  readonly inTime: boolean
}

/** The process has been told to stop: looks at how it ends. */
async function stopped(process: JobProcess, moment: string): Promise<Stop> {
  await process.said('stopping in order', START_MS)
  const asked = Date.now()
  const code = await process.code(START_MS)
  return { moment, code, inTime: Date.now() - asked < GONE_MS }
}

const inOrder = (moment: string): Stop => ({ moment, code: 0, inTime: true })

/** One job that is asked to stop at one moment after another; each start works until the third checkpoint comes by. */
async function stopAtEach(moments: readonly FaultPoint[], seed: number): Promise<unknown> {
  const run = await OrderRun.open({ random: new SeededRandom(seed), environment: { INTERVAL: '300' } })
  try {
    const stops: Stop[] = []
    for (const moment of moments)
      stops.push(await stopped(run.start({ MILLRACE_FAULT_POINT: `${moment}:3:terminate` }), moment))
    const last = run.start()
    await run.progress(START_MS)
    const outcome = await run.finish([last])
    for (const { moment } of stops)
      logReliability({
        suite: 'sigterm',
        fault: 'SIGTERM',
        where: moment,
        count: 1,
        records: outcome.records,
        outcome: verdict(outcome),
      })
    return { stops, outcome: verdict(outcome) }
  } finally {
    await run.close()
  }
}

/** A source subtask that hangs: its barrier never comes, so that the others wait for it with theirs. */
async function stopWhileAligning(): Promise<unknown> {
  const run = await OrderRun.open({
    random: new SeededRandom(3),
    environment: { INTERVAL: '300', HOLD: '-1' },
  })
  try {
    const held = run.start({ HOLD: '500' })
    await held.said('HOLDING', START_MS)
    held.signal('SIGTERM')
    const stop = await stopped(held, 'alignment')
    const last = run.start()
    await run.progress(START_MS)
    const outcome = await run.finish([last])
    logReliability({
      suite: 'sigterm',
      fault: 'SIGTERM',
      where: 'while barriers are aligned',
      count: 1,
      records: outcome.records,
      outcome: verdict(outcome),
    })
    return { stop, outcome: verdict(outcome) }
  } finally {
    await run.close()
  }
}

describe('a job that is asked to stop', () => {
  const HALVES = [
    MOMENTS.filter((_, index) => index % 2 === 0),
    MOMENTS.filter((_, index) => index % 2 === 1),
  ] as const
  const outcomes: unknown[] = []

  beforeAll(async () => {
    const runs = [stopAtEach(HALVES[0], 1), stopAtEach(HALVES[1], 2), stopWhileAligning()]
    outcomes.push(...(await Promise.all(runs.map((run) => run.catch((error: unknown) => error)))))
  })

  test.each([
    [0, HALVES[0].join(', ')],
    [1, HALVES[1].join(', ')],
  ])('run %i: is gone in time and in order at %s, and its output is exact', (index) => {
    expect(outcomes[index]).toEqual({ stops: HALVES[index]!.map(inOrder), outcome: 'exact' })
  })

  test('while barriers are aligned that will never all come is gone in time, and its output is exact', () => {
    expect(outcomes[2]).toEqual({ stop: inOrder('alignment'), outcome: 'exact' })
  })
})
