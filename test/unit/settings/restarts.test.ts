/** What each parameter of a restart strategy does to a job that fails. */
import { describe, expect, test } from '@jest/globals'
import {
  json,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  RestartStrategies,
  type StreamExecutionEnvironment,
} from 'millrace'
import { TestDriver } from 'millrace/testing'

type Settings = Readonly<Record<string, string | number>>

class FailingJob {
  /** Waits before restarts, as they were logged. */
  readonly waits: number[] = []
  /** How long the job really was away: from the failure until its functions were opened again. */
  readonly away: number[] = []
  #failedAt: number | undefined
  #driver: TestDriver | undefined
  #failures = 0

  static async start(
    config: Settings,
    configure: (env: StreamExecutionEnvironment) => void = () => undefined,
  ): Promise<FailingJob> {
    const job = new FailingJob()
    const failed = new Set<number>()
    job.#driver = await TestDriver.start(
      (env) => {
        env.enableCheckpointing(100)
        configure(env)
        env
          .fromSource(
            kafkaSource<number>({
              topics: ['in'],
              groupId: 'g',
              startingOffsets: OffsetsInitializer.earliest(),
              value: json(),
            }),
          )
          .uid('in')
          .map({
            open: () => job.#opened(),
            map: (n: number) => {
              if (failed.has(n)) return n
              failed.add(n)
              job.#failedAt = job.#driver!.now()
              throw new Error(`${n} for the first time`)
            },
          })
          .uid('fail-once')
          .sinkTo(kafkaSink<number>({ topic: 'out', value: json() }))
          .uid('out')
      },
      { topics: { in: 1, out: 1 }, config },
    )
    return job
  }

  get status(): string {
    return this.#driver!.status
  }

  /** One failure; resolves when the job runs again, or rejects with why it does not. */
  async fail(): Promise<void> {
    const driver = this.#driver!
    const value = ++this.#failures
    await driver.produce('in', [{ value }])
    const back = this.away.length
    await driver.until(() => this.away.length > back, 'the job is back')
    this.waits.push(
      Number(
        /starts again in (\d+) ms/.exec(driver.logs.findLast(({ level }) => level === 'error')!.message)![1],
      ),
    )
    await driver.advance(50)
  }

  advance(ms: number): Promise<void> {
    return this.#driver!.advance(ms)
  }

  #opened(): void {
    if (this.#failedAt === undefined) return
    this.away.push(this.#driver!.now() - this.#failedAt)
    this.#failedAt = undefined
  }
}

async function waitsOf(job: FailingJob, failures: number): Promise<number[]> {
  for (let i = 0; i < failures; i++) await job.fail()
  // What was logged is what happened, and little more.
  for (const [i, wait] of job.waits.entries()) {
    expect(job.away[i]).toBeGreaterThanOrEqual(wait)
    expect(job.away[i]).toBeLessThan(wait + 500)
  }
  return job.waits
}

describe('restart-strategy.type', () => {
  test('none: the first failure is the end', async () => {
    const job = await FailingJob.start({ 'restart-strategy.type': 'none' })
    await expect(job.fail()).rejects.toThrow('the restart strategy is none')
    expect(job.status).toBe('FAILED')
  })

  test('decides which parameters count: those of the code are overridden with their strategy', async () => {
    const inCode = (env: StreamExecutionEnvironment) =>
      env.setRestartStrategy(RestartStrategies.fixedDelay(9, 200))
    expect(await waitsOf(await FailingJob.start({}, inCode), 2)).toEqual([200, 200])
    const job = await FailingJob.start({ 'restart-strategy.type': 'none' }, inCode)
    await expect(job.fail()).rejects.toThrow('the restart strategy is none')
  })
})

describe('a fixed delay', () => {
  test('waits as long each time, and ends after so many attempts', async () => {
    const job = await FailingJob.start({
      'restart-strategy.type': 'fixed-delay',
      'restart-strategy.fixed-delay.attempts': 2,
      'restart-strategy.fixed-delay.delay': '700 ms',
    })
    expect(await waitsOf(job, 2)).toEqual([700, 700])
    await expect(job.fail()).rejects.toThrow('all 2 restarts are used up')
  })
})

describe('an exponential delay', () => {
  const key = 'restart-strategy.exponential-delay'
  const EXPONENTIAL: Settings = {
    'restart-strategy.type': 'exponential-delay',
    [`${key}.initial-backoff`]: '200 ms',
    [`${key}.max-backoff`]: '1500 ms',
    [`${key}.backoff-multiplier`]: 2.5,
    [`${key}.jitter-factor`]: 0,
  }

  test('begins with the initial wait, multiplies it, and stays at the longest', async () => {
    expect(await waitsOf(await FailingJob.start(EXPONENTIAL), 5)).toEqual([200, 500, 1250, 1500, 1500])
  })

  test('begins anew after it ran without a failure for the threshold', async () => {
    const job = await FailingJob.start({ ...EXPONENTIAL, [`${key}.reset-backoff-threshold`]: '5 s' })
    await waitsOf(job, 2)
    await job.advance(5_500)
    expect(await waitsOf(job, 2)).toEqual([200, 500, 200, 500])
    await job.advance(3_000)
    await job.fail()
    expect(job.waits.at(-1)).toBe(1250)
  })

  test('is moved by chance within the jitter', async () => {
    const job = await FailingJob.start({
      ...EXPONENTIAL,
      [`${key}.backoff-multiplier`]: 1,
      [`${key}.jitter-factor`]: 0.5,
    })
    const waits = await waitsOf(job, 8)
    for (const wait of waits) {
      expect(wait).toBeGreaterThanOrEqual(100)
      expect(wait).toBeLessThanOrEqual(300)
    }
    expect(new Set(waits).size).toBeGreaterThan(4)
  })

  test('ends after so many attempts, which are counted anew when the wait begins anew', async () => {
    const job = await FailingJob.start({
      ...EXPONENTIAL,
      [`${key}.attempts-before-reset-backoff`]: 2,
      [`${key}.reset-backoff-threshold`]: '5 s',
    })
    await waitsOf(job, 2)
    await job.advance(5_500)
    await waitsOf(job, 2)
    await expect(job.fail()).rejects.toThrow('all 2 restarts are used up')
  })
})

describe('a failure rate', () => {
  const RATE: Settings = {
    'restart-strategy.type': 'failure-rate',
    'restart-strategy.failure-rate.max-failures-per-interval': 2,
    'restart-strategy.failure-rate.failure-rate-interval': '5 s',
    'restart-strategy.failure-rate.delay': '300 ms',
  }

  test('ends the job when more failures than allowed come within the interval', async () => {
    const job = await FailingJob.start(RATE)
    expect(await waitsOf(job, 2)).toEqual([300, 300])
    await expect(job.fail()).rejects.toThrow('more than 2 failures within 5000 ms')
  })

  test('forgets those that are older than the interval', async () => {
    const job = await FailingJob.start(RATE)
    for (let i = 0; i < 5; i++) {
      await job.fail()
      await job.advance(2_600)
    }
    expect(job.waits).toHaveLength(5)
    expect(job.status).toBe('RUNNING')
  })
})
