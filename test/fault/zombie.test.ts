/**
 * The leading worker is stopped with SIGSTOP for about as long as its session or longer, a standby takes over, and the zombie wakes with
 * requests half sent and decisions half carried out: it must give up and harm nobody. FAULT_SEED=n replays the moments of a run.
 */
import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { FaultPoint } from '../../src/runtime/fault-points.ts'
import type { JobProcess } from '../integration/job-process.ts'
import { logReliability } from '../reliability-log.ts'
import { type OrderOutcome, OrderRun, verdict } from './order-run.ts'
import { SeededRandom } from './seeded-random.ts'

jest.setTimeout(600_000)

const SEED = Number(process.env['FAULT_SEED'] ?? Date.now() % 1_000_000)
/** A worker that is silent for so long is taken for dead. */
const SESSION_MS = 10_000
/** Scenes that run at the same time: most of their time is waiting for a session to end. */
const CONCURRENCY = 6
const TAKE_OVER_MS = 60_000
const ROUNDS = 2

/** Places of the commit path at which a worker is stopped, and how often one checkpoint comes by there. */
const PLACES: readonly (readonly [place: FaultPoint, passes: number])[] = [
  ['after-prepare', 4],
  ['after-ack', 4],
  ['before-commit-point', 1],
  ['after-commit-point', 1],
  ['before-end-txn', 4],
  ['after-end-txn', 4],
  ['before-confirm', 1],
]
/** Checkpoints before a worker is stopped at a place. */
const CHECKPOINTS_BEFORE = 16

/** How often a process has begun to run the job. */
function takeOvers(process: JobProcess): number {
  return process.stderr.match(/attempt \d+ (starts a new run|resumes from)/g)?.length ?? 0
}

/** How often it has found that another one leads. */
function surrenders(process: JobProcess): number {
  return process.stderr.match(/gives the job up|standing by/g)?.length ?? 0
}

function isStopped(process: JobProcess): boolean {
  return execFileSync('ps', ['-o', 'state=', '-p', String(process.pid)], { encoding: 'utf8' }).startsWith('T')
}

/** Two workers of one job. */
class Pair {
  readonly run: OrderRun
  #leader: JobProcess
  #standby: JobProcess
  /** Take-overs of the standby up to the time when it became one. */
  #before = 0

  private constructor(run: OrderRun, leader: JobProcess, standby: JobProcess) {
    this.run = run
    this.#leader = leader
    this.#standby = standby
  }

  static async start(run: OrderRun, environment: Readonly<Record<string, string>> = {}): Promise<Pair> {
    const leader = run.start(environment)
    await leader.said(/attempt \d+ starts/, TAKE_OVER_MS)
    const standby = run.start()
    // On a slow machine a leader with a fault point is stopped before the standby has joined; then that one leads at once.
    await standby.said(/standing by|attempt \d+ resumes/, TAKE_OVER_MS)
    return new Pair(run, leader, standby)
  }

  /** Stops the leader `afterMs` from now and continues it when another worker runs the job, and has for `wakeAfterMs`. */
  async stopAndWake(afterMs: number, wakeAfterMs: number): Promise<void> {
    await sleep(afterMs)
    this.#leader.signal('SIGSTOP')
    await this.takenOver(wakeAfterMs)
  }

  /** The leader is stopped already, or will be by itself. */
  async takenOver(wakeAfterMs: number): Promise<void> {
    const { scene } = this.run
    const [zombie, next] = [this.#leader, this.#standby]
    await scene.until('the leader is stopped', TAKE_OVER_MS, () => isStopped(zombie))
    const given = surrenders(zombie)
    await scene.until('the standby runs the job', TAKE_OVER_MS, () => takeOvers(next) > this.#before)
    await sleep(wakeAfterMs)
    zombie.signal('SIGCONT')
    await scene.until('the zombie gives up', 30_000, () => surrenders(zombie) > given)
    await this.run.progress(30_000)
    this.#leader = next
    this.#standby = zombie
    this.#before = takeOvers(zombie)
  }

  /** Stops the leader and wakes it about when its session ends, whoever leads then. */
  async stopAround(sessionMs: number): Promise<void> {
    this.#leader.signal('SIGSTOP')
    await sleep(sessionMs)
    this.#leader.signal('SIGCONT')
    await this.run.progress(TAKE_OVER_MS)
  }

  finish(): Promise<OrderOutcome> {
    return this.run.finish([this.#leader, this.#standby])
  }
}

interface Scene {
  readonly name: string
  readonly fault: string
  readonly where: string
  readonly times: number
  readonly play: (run: OrderRun, random: SeededRandom) => Promise<OrderOutcome>
}

const SCENES: readonly Scene[] = [
  ...[1, 2].map(
    (number): Scene => ({
      name: `leader after leader, stopped at random (${number})`,
      fault: 'SIGSTOP of the leading worker until a standby runs the job, then SIGCONT',
      where: 'at random moments',
      times: ROUNDS,
      play: async (run, random) => {
        const pair = await Pair.start(run)
        for (let round = 0; round < ROUNDS; round++)
          await pair.stopAndWake(random.between(100, 2_000), random.between(0, 1_500))
        return pair.finish()
      },
    }),
  ),
  ...[1, 2].map(
    (number): Scene => ({
      name: `a leader that wakes while its session ends (${number})`,
      fault: 'SIGSTOP of the leading worker for about a session time-out, then SIGCONT',
      where: 'waking before, while and after a standby takes over',
      times: 1,
      play: async (run, random) => {
        const pair = await Pair.start(run)
        await pair.stopAround(random.between(SESSION_MS - 500, SESSION_MS + 3_000))
        return pair.finish()
      },
    }),
  ),
  ...PLACES.map(
    ([place, passes]): Scene => ({
      name: `a leader that is stopped at ${place}`,
      fault: 'SIGSTOP of the leading worker until a standby runs the job, then SIGCONT',
      where: place,
      times: 1,
      play: async (run, random) => {
        const pass = passes * CHECKPOINTS_BEFORE + random.below(passes * 10)
        const pair = await Pair.start(run, { MILLRACE_FAULT_POINT: `${place}:${pass}:stop` })
        await pair.takenOver(random.between(0, 1_000))
        return pair.finish()
      },
    }),
  ),
]

async function play({ play }: Scene, index: number): Promise<OrderOutcome> {
  const random = new SeededRandom(SEED + index)
  const run = await OrderRun.open({ random })
  try {
    return await play(run, random)
  } finally {
    await run.close()
  }
}

describe(`a worker that is stopped and wakes as a zombie (FAULT_SEED=${SEED})`, () => {
  const outcomes = new Map<string, OrderOutcome | Error>()

  beforeAll(async () => {
    const queue = [...SCENES.entries()]
    await Promise.all(
      Array.from({ length: CONCURRENCY }, async () => {
        for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
          const [index, scene] = next
          const outcome = await play(scene, index).catch((error: Error) => error)
          outcomes.set(scene.name, outcome)
          const { fault, where, times: count } = scene
          if ('etl' in outcome)
            logReliability({
              suite: 'zombie',
              fault,
              where,
              count,
              records: outcome.records,
              outcome: verdict(outcome),
            })
        }
      }),
    )
  })

  test.each(SCENES)('$name: the output is exact and no transaction stays open', ({ name }) => {
    const outcome = outcomes.get(name)
    if (outcome === undefined || !('etl' in outcome)) throw outcome
    expect(outcome).toMatchObject({ etl: [], totals: [], open: [] })
    expect(outcome.records).toBeGreaterThan(1_000)
  })
})
