import { beforeEach, describe, expect, test } from '@jest/globals'
import { ExitCode, exitCodeOf, JobWatch } from '../../../src/cli/job-watch.ts'
import { ConfigError, MillraceError } from '../../../src/errors.ts'

let watch: JobWatch
beforeEach(() => {
  watch = new JobWatch('etl.ts', false)
})

describe('a job', () => {
  test.each(['FINISHED', 'CANCELED', 'SUSPENDED'] as const)(
    'that ends %s exits 0 and says nothing',
    (status) => {
      watch.jobSubmitted('etl')
      expect(watch.jobSettled({ jobName: 'etl', status })).toEqual({
        exitCode: ExitCode.OK,
        error: undefined,
      })
      watch.moduleLoaded()
      expect(watch.eventLoopEmpty()).toEqual({ exitCode: ExitCode.OK, error: undefined })
    },
  )

  test('that FAILED exits 1 and is told once, although its error comes back through execute()', () => {
    const error = new MillraceError('MILLRACE_JOB_FAILED', 'failed', { cause: new Error('root') })
    watch.jobSubmitted('etl')
    expect(watch.jobSettled({ jobName: 'etl', status: 'FAILED', error })).toEqual({
      exitCode: ExitCode.FAILED,
      error,
      failed: { jobName: 'etl', facts: undefined },
    })
    expect(watch.moduleThrew(error)).toEqual({ exitCode: ExitCode.FAILED, error: undefined })
    expect(watch.moduleThrew(new Error('the user wrapped it', { cause: error }))).toEqual({
      exitCode: ExitCode.FAILED,
      error: undefined,
    })
  })

  test('that FAILED without a reason is told all the same', () => {
    watch.jobSubmitted('etl')
    expect(watch.jobSettled({ jobName: 'etl', status: 'FAILED' }).error).toMatchObject({
      code: 'MILLRACE_JOB_FAILED',
    })
  })

  test('that FAILED and was caught by the module still exits 1, also after another one finished', () => {
    watch.jobSubmitted('a')
    watch.jobSettled({ jobName: 'a', status: 'FAILED', error: new Error('x') })
    watch.jobSubmitted('b')
    expect(watch.jobSettled({ jobName: 'b', status: 'FINISHED' }).exitCode).toBe(ExitCode.FAILED)
    watch.moduleLoaded()
    expect(watch.eventLoopEmpty()).toEqual({ exitCode: ExitCode.FAILED, error: undefined })
  })

  test('that still runs when the process has nothing left to do is a defect', () => {
    watch.jobSubmitted('etl')
    watch.moduleLoaded()
    const verdict = watch.eventLoopEmpty()
    expect(verdict.exitCode).toBe(ExitCode.FAILED)
    expect(verdict.error).toMatchObject({
      code: 'MILLRACE_INTERNAL',
      message: expect.stringContaining("'etl'"),
    })
  })

  test('is never started in a dry run', () => {
    watch = new JobWatch('etl.ts', true)
    watch.jobSubmitted('etl')
    watch.moduleLoaded()
    expect(watch.eventLoopEmpty()).toEqual({ exitCode: ExitCode.OK, error: undefined })
  })
})

describe('a module', () => {
  const moduleError = (part: string) => ({
    exitCode: ExitCode.FAILED,
    error: expect.objectContaining({ code: 'MILLRACE_JOB_MODULE', message: expect.stringContaining(part) }),
  })

  test('that submits no job is an error', () => {
    watch.moduleLoaded()
    expect(watch.eventLoopEmpty()).toEqual(
      moduleError('etl.ts failed: it ended without calling env.execute()'),
    )
  })

  test('that never comes to its end is an error', () => {
    expect(watch.eventLoopEmpty()).toEqual(moduleError('it waits for something that can never happen'))
  })

  test('that throws is an error with the cause', () => {
    const cause = new TypeError('x')
    const verdict = watch.moduleThrew(cause)
    expect(verdict).toEqual(moduleError('it threw while loading'))
    expect(verdict.error).toHaveProperty('cause', cause)
  })

  test('whose error is caught by nobody after loading is an error too', () => {
    watch.moduleLoaded()
    expect(watch.moduleThrew('text')).toEqual(moduleError('an error in it was not caught'))
    expect(watch.moduleThrew(undefined)).toEqual(moduleError('an error in it was not caught'))
  })

  test('that lets an error of Millrace through is not blamed for it', () => {
    const error = new MillraceError('MILLRACE_TOPIC_MISSING', 'no topic')
    expect(watch.moduleThrew(error)).toEqual({ exitCode: ExitCode.FAILED, error })
  })
})

test('errors of configuration and usage exit 2, all others 1', () => {
  expect(exitCodeOf(new ConfigError('MILLRACE_INVALID_OPTION', 'x'))).toBe(ExitCode.USAGE)
  expect(exitCodeOf(new ConfigError('MILLRACE_USAGE', 'x'))).toBe(ExitCode.USAGE)
  expect(exitCodeOf(new MillraceError('MILLRACE_TOPIC_MISSING', 'x'))).toBe(ExitCode.FAILED)
  expect(exitCodeOf(new Error('x'))).toBe(ExitCode.FAILED)
  expect(exitCodeOf(undefined)).toBe(ExitCode.FAILED)
})
