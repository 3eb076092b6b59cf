import { expect, test } from '@jest/globals'
import { progressText } from '../../../src/cli/job-command.ts'
import type { JobStatus } from '../../../src/core/constants.ts'
import type { JobCommand } from '../../../src/core/job-control.ts'
import type { PendingInfo } from '../../../src/core/job-info.ts'
import { type CommandedJob, jobCommands } from '../../../src/runtime/job-commands.ts'

/** A job that notes what it is asked; `then` is the state that it moves to next. */
function job(status: JobStatus = 'RUNNING', then?: JobStatus, pending: readonly PendingInfo[] = []) {
  const asked: string[] = []
  let current = status
  const noting: CommandedJob = {
    get status() {
      return current
    },
    history: {
      nextMove: async () => {
        if (then === undefined) return new Promise<never>(() => undefined)
        current = then
        return then
      },
    },
    cancelAndWait: async () => {
      asked.push('cancel')
      return 'CANCELED'
    },
    triggerCheckpoint: async () => {
      asked.push('checkpoint')
      return 9
    },
    triggerSavepoint: async (path) => {
      asked.push(`savepoint ${path}`)
      return '/s/savepoint-a'
    },
    stopWithSavepoint: async (path, options) => {
      asked.push(`stop ${path} ${options?.drain}`)
      return '/s/savepoint-b'
    },
    info: () =>
      ({
        job: 'totals',
        status: current,
        lastFailure: { at: 0, message: 'no disk' },
        pending,
      }) as never,
  }
  return { asked, obey: jobCommands(noting) }
}

test.each<[JobCommand, string, Record<string, unknown>]>([
  [{ type: 'cancel' }, 'cancel', { status: 'CANCELED' }],
  [{ type: 'checkpoint' }, 'checkpoint', { checkpoint: 9 }],
  [{ type: 'savepoint', path: '/s' }, 'savepoint /s', { path: '/s/savepoint-a' }],
  [{ type: 'savepoint' }, 'savepoint undefined', { path: '/s/savepoint-a' }],
  [{ type: 'stop', drain: true }, 'stop undefined true', { path: '/s/savepoint-b' }],
])(
  '%j asks the job for it and answers with what the sender wants to know',
  async (command, asked, result) => {
    const made = job()
    expect(await made.obey(command)).toEqual(result)
    expect(made.asked).toEqual([asked])
  },
)

test('info answers without asking for anything', async () => {
  const made = job()
  expect(await made.obey({ type: 'info' })).toMatchObject({ job: 'totals' })
  expect(made.asked).toEqual([])
})

const CHECKPOINT: JobCommand = { type: 'checkpoint' }
const SAVEPOINT: JobCommand = { type: 'savepoint' }
const STOP: JobCommand = { type: 'stop', drain: false }

test.each<[JobStatus, JobCommand]>([
  ['RESTARTING', CHECKPOINT],
  ['RESTARTING', SAVEPOINT],
  ['FAILING', SAVEPOINT],
  ['CANCELLING', CHECKPOINT],
  ['CANCELLING', STOP],
])('a job that is %s refuses %j at once, with its state and its last failure', async (status, command) => {
  const made = job(status)
  await expect(made.obey(command)).rejects.toMatchObject({
    code: 'MILLRACE_CHECKPOINT_FAILED',
    message: `job 'totals' is ${status} and does no '${command.type}'; that needs a job that is RUNNING; its last failure: no disk`,
    remedy: expect.stringContaining('millrace info totals'),
  })
  expect(made.asked).toEqual([])
})

test.each<[JobStatus, JobCommand, string]>([
  ['RESTARTING', STOP, 'stop undefined false'],
  ['CREATED', STOP, 'stop undefined false'],
  ['CREATED', SAVEPOINT, 'savepoint undefined'],
])(
  'a job that is %s does %j when it runs, and refuses it when that fails',
  async (status, command, asked) => {
    const made = job(status, 'RUNNING')
    await made.obey(command)
    expect(made.asked).toEqual([asked])
    const failing = job(status, 'FAILING')
    await expect(failing.obey(command)).rejects.toMatchObject({
      message: expect.stringContaining('is FAILING'),
    })
    expect(failing.asked).toEqual([])
  },
)

test('whoever waits is told how the job stands, with the first of those that owe a checkpoint', () => {
  const missing = Array.from({ length: 40 }, (_, i) => `count (${i + 1}/40)`)
  const progress = job('RUNNING', undefined, [
    { n: 7, phase: 'collecting', ms: 9_000, missing },
  ]).obey.progress?.()
  expect(progress).toEqual({
    status: 'RUNNING',
    pending: [{ n: 7, phase: 'collecting', ms: 9_000, missing: [...missing.slice(0, 5), '35 more'] }],
  })
  expect(progressText('totals', progress!)).toBe(
    "job 'totals' is RUNNING; checkpoint 7 has been under way for 9 s and waits for count (1/40), count (2/40), count (3/40), count (4/40), count (5/40), 35 more",
  )
})
