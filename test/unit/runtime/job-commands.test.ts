import { expect, test } from '@jest/globals'
import type { JobCommand } from '../../../src/core/job-control.ts'
import { type CommandedJob, jobCommands } from '../../../src/runtime/job-commands.ts'

/** A job that notes what it is asked. */
function job(): { asked: string[]; obey: ReturnType<typeof jobCommands> } {
  const asked: string[] = []
  const noting: CommandedJob = {
    status: 'RUNNING',
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
    info: () => ({ job: 'totals' }) as never,
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
  expect(await made.obey({ type: 'info' })).toEqual({ job: 'totals' })
  expect(made.asked).toEqual([])
})
