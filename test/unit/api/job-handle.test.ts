import { describe, expect, test } from '@jest/globals'
import { dryRunClient, type EndedJob, type RunningJob, runningClient } from '../../../src/api/job-handle.ts'
import { JobFailedError } from '../../../src/errors.ts'

function scene(savepoints: Partial<RunningJob> = {}) {
  const ended = Promise.withResolvers<EndedJob>()
  const asked: string[] = []
  const job: RunningJob = {
    status: 'RUNNING',
    cancel: async () => {
      asked.push('cancel')
    },
    triggerCheckpoint: async () => 7,
    ...savepoints,
  }
  let now = 1_000
  const client = runningClient({ id: 'id-1', name: 'etl' }, job, ended.promise, { now: () => now })
  const end = (how: EndedJob): void => {
    now += 250
    ended.resolve(how)
  }
  return { client, end, asked, fail: ended.reject }
}

describe('the client of a running job', () => {
  test('tells id and status, and takes checkpoints', async () => {
    const { client } = scene()
    expect(client.getJobID()).toBe('id-1')
    expect(await client.getJobStatus()).toBe('RUNNING')
    expect(await client.triggerCheckpoint()).toBe(7)
  })

  test.each(['FINISHED', 'CANCELED', 'SUSPENDED'] as const)(
    'a job that is %s has a result',
    async (status) => {
      const { client, end } = scene()
      end({ status })
      const result = await client.getJobExecutionResult()
      expect([result.getJobID(), result.getJobName(), result.getJobStatus(), result.getNetRuntime()]).toEqual(
        ['id-1', 'etl', status, 250],
      )
    },
  )

  test('a failed job has none: the failure is thrown as it is', async () => {
    const { client, end } = scene()
    const error = new JobFailedError('MILLRACE_JOB_FAILED', "job 'etl' FAILED (why): x")
    end({ status: 'FAILED', error })
    await expect(client.getJobExecutionResult()).rejects.toBe(error)
  })

  test('a failure of another class is named as the job’s, with its cause', async () => {
    const { client, end } = scene()
    const cause = new TypeError('no brokers')
    end({ status: 'FAILED', error: cause })
    await expect(client.getJobExecutionResult()).rejects.toMatchObject({
      code: 'MILLRACE_JOB_FAILED',
      message: "job 'etl' FAILED: no brokers",
      cause,
    })
  })

  test('cancel resolves when everything of the job is closed', async () => {
    const { client, end, asked } = scene()
    let cancelled = false
    const cancelling = client.cancel().then(() => {
      cancelled = true
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect([asked, cancelled]).toEqual([['cancel'], false])
    end({ status: 'CANCELED' })
    await cancelling
  })

  test('a failure that nobody asks for brings no process down', async () => {
    const unhandled: unknown[] = []
    const note = (reason: unknown): void => void unhandled.push(reason)
    process.on('unhandledRejection', note)
    scene().fail(new Error('closing failed'))
    await new Promise((resolve) => setTimeout(resolve, 10))
    process.off('unhandledRejection', note)
    expect(unhandled).toEqual([])
  })

  test.each(['stopWithSavepoint', 'triggerSavepoint'] as const)(
    '%s says when savepoints have nowhere to go',
    async (what) => {
      await expect(scene().client[what]()).rejects.toMatchObject({
        code: 'MILLRACE_CHECKPOINT_FAILED',
        message: "job 'etl' runs where no savepoint can be written",
        retriable: false,
      })
    },
  )

  test('a stop with a savepoint is over when the job is', async () => {
    const scenery = scene({ stopWithSavepoint: async (path, options) => `${path}/${options?.drain}` })
    let path: string | undefined
    const stopping = scenery.client.stopWithSavepoint('/s', { drain: true }).then((made) => {
      path = made
    })
    await Promise.resolve()
    expect(path).toBeUndefined()
    scenery.end({ status: 'FINISHED' })
    await stopping
    expect(path).toBe('/s/true')
  })
})

test('the client of a dry run has finished and takes no checkpoint', async () => {
  const client = dryRunClient('etl')
  expect((await client.getJobExecutionResult()).getJobName()).toBe('etl')
  expect(await client.getJobStatus()).toBe('FINISHED')
  await expect(client.triggerCheckpoint()).rejects.toThrow("job 'etl' was not started (dry run)")
})
