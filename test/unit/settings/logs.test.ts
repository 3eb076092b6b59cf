/** What a job writes to stderr, by `log.level` and `log.format`. */
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { FedSource } from './fed-source.ts'
import { counting, LocalJobs, type Settings } from './local-jobs.ts'

let jobs: LocalJobs
beforeEach(async () => {
  jobs = await LocalJobs.open()
})
afterEach(() => jobs.close())

/** Lines of a job from its start until it is cancelled. */
async function linesOf(settings: Settings): Promise<string[]> {
  const client = await jobs.start(counting(new FedSource<number>()), settings)
  await jobs.until('the job runs', async () => (await client.getJobStatus()) === 'RUNNING')
  await client.cancel()
  await client.getJobExecutionResult()
  return jobs.stderr.join('').split('\n').filter(Boolean)
}

test.each([
  ['info', true, true],
  ['warn', false, true],
  ['error', false, false],
])('log.level %s: which lines are left out', async (level, infos, warnings) => {
  const lines = (await linesOf({ 'log.level': level })).map((line) => JSON.parse(line))
  expect(lines.some((line) => line.level === 'info')).toBe(infos)
  expect(lines.some((line) => line.level === 'warn')).toBe(warnings)
})

test('log.format json: each line is an object', async () => {
  const lines = await linesOf({ 'log.format': 'json' })
  expect(lines.map((line) => JSON.parse(line).job)).toContain('job')
})

test('log.format pretty: time, level and message for people', async () => {
  const lines = await linesOf({ 'log.format': 'pretty' })
  expect(lines).toContainEqual(
    expect.stringMatching(/^\d\d:\d\d:\d\d INFO {2}attempt 1 starts a new run\b.*job=job/),
  )
})

test('log.format auto: for programs, since nobody sits at a terminal', async () => {
  const lines = await linesOf({ 'log.format': 'auto' })
  const isObject = (line: string): boolean => line.startsWith('{')
  expect(lines.every(isObject)).toBe(process.stderr.isTTY !== true)
})
