import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { JobProcess } from '../job-process.ts'
import { JobScene } from '../job-scene.ts'
import { exactly, numbers, sorted } from '../numbers.ts'

jest.setTimeout(120_000)

const COPY = 'integration/jobs/copy.ts'

/** How often the process reports the error: whoever reads it should read it once. */
function reports(job: JobProcess, code: string): number {
  return job.stderr.split(code).length - 1
}

describe('a job that cannot run', () => {
  let scene: JobScene
  let topics: { IN: string; OUT: string }

  beforeEach(async () => {
    scene = await JobScene.open()
    topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
    await scene.produce(topics.IN, 0, numbers(0, 10))
  })
  afterEach(() => scene.close())

  test('because its transaction time-out is above what the brokers allow: one error with both numbers, before a record is read', async () => {
    const job = scene.start(COPY, { ...topics, TIMEOUT: '3600000' }, [])
    expect(await job.code()).toBe(1)
    expect(reports(job, 'MILLRACE_TRANSACTION_TIMEOUT')).toBe(1)
    expect(job.stderr).toMatch(/3600000 ms.*900000 ms \(transaction\.max\.timeout\.ms\)/)
    expect(job.stdout).toBe('')
  })

  test('because its transaction time-out could pass while a checkpoint still counts on it', async () => {
    const job = scene.start(COPY, { ...topics, TIMEOUT: '20000' }, [])
    expect(await job.code()).toBe(1)
    expect(reports(job, 'MILLRACE_TRANSACTION_TIMEOUT')).toBe(1)
    expect(job.stdout).toBe('')
  })

  test('because no broker answers: one error that names the address, and code 1', async () => {
    const job = scene.start(COPY, { ...topics, KAFKA_BROKERS: '127.0.0.1:9' }, [])
    expect(await job.code(100_000)).toBe(1)
    expect(reports(job, 'MILLRACE_KAFKA_UNREACHABLE')).toBe(1)
    expect(job.stderr).toContain('127.0.0.1:9')
  })

  test('because the topic that it reads does not exist', async () => {
    const job = scene.start(COPY, { ...topics, IN: `${scene.job}.no-such-topic` }, [])
    expect(await job.code()).toBe(1)
    expect(reports(job, 'MILLRACE_TOPIC_MISSING')).toBe(1)
    expect(job.stderr).toContain(`${scene.job}.no-such-topic`)
  })

  test('because the topic that it writes does not exist', async () => {
    const job = scene.start(COPY, { ...topics, OUT: `${scene.job}.no-such-topic` }, [])
    expect(await job.code()).toBe(1)
    expect(reports(job, 'MILLRACE_TOPIC_MISSING')).toBe(1)
    expect(job.stdout).toBe('')
  })

  test('because an option is misspelt: code 2 and the right name', async () => {
    const job = scene.start(COPY, topics, ['-D', 'kafka.broker=localhost:9092'])
    expect(await job.code()).toBe(2)
    expect(job.stderr).toContain('MILLRACE_UNKNOWN_OPTION')
    expect(job.stderr).toContain("'kafka.brokers'")
  })

  test('because its module throws while it loads', async () => {
    const job = scene.start('integration/jobs/throws.ts', {}, [])
    expect(await job.code()).toBe(1)
    expect(reports(job, 'MILLRACE_JOB_MODULE')).toBe(1)
    expect(job.stderr).toContain('no such country: Atlantis')
  })

  test('because its module never executes it', async () => {
    const job = scene.start('integration/jobs/never-executes.ts', {}, [])
    expect(await job.code()).toBe(1)
    expect(reports(job, 'MILLRACE_JOB_MODULE')).toBe(1)
    expect(job.stderr).toContain('without calling env.execute()')
  })

  test('under plain node ends with code 1 too', async () => {
    const job = scene.start(COPY, { ...topics, IN: `${scene.job}.no-such-topic` })
    expect(await job.code()).toBe(1)
    expect(job.stderr).toContain('MILLRACE_TOPIC_MISSING')
  })
})

describe('a job at log level error', () => {
  test('writes nothing to stderr from its start to its end, a restart after kill -9 included', async () => {
    const scene = await JobScene.open()
    try {
      const topics = { IN: await scene.topic('in', 2), OUT: await scene.topic('out', 2), PARALLELISM: '2' }
      await scene.produce(topics.IN, 0, numbers(0, 1_000))
      const first = scene.start(COPY, topics, ['--log-level', 'error'])
      await scene.readUntil(topics.OUT, (values) => values.length >= 1_000)
      await scene.produce(topics.IN, 1, numbers(1_000, 2_000))
      await first.kill()
      const second = scene.start(COPY, topics, ['--log-level', 'error'])
      const values = await scene.readUntil(topics.OUT, (all) => all.length >= 2_000)
      expect(sorted(values)).toEqual(exactly(0, 2_000))
      second.signal('SIGTERM')
      expect(await second.code()).toBe(0)
      expect({ first: first.stderr, second: second.stderr }).toEqual({ first: '', second: '' })
    } finally {
      await scene.close()
    }
  })
})
