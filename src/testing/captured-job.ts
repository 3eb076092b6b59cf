/**
 * A job as its module submits it: while a declaration runs, `env.execute` does not reach the runtime but hands the job over here.
 *
 *   declare(env) ──env.execute(name)──► submitted ──► the test runs it ──► ended: `await env.execute(name)` goes on
 *        └── returns without it ──► env is submitted under the given name
 *
 * Which declaration a submission belongs to follows from the asynchronous context, so jobs of the same process that belong to no test run
 * as ever.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { clearTimeout, setTimeout } from 'node:timers'
import { StreamExecutionEnvironment } from '../api/environment.ts'
import type { JobClient } from '../api/job-client.ts'
import { type JobExecutor, type JobSubmission, registerJobExecutor } from '../api/job-executor.ts'
import { type EndedJob, type RunningJob, runningClient } from '../api/job-handle.ts'
import type { Clock } from '../core/ports.ts'
import { isMillraceError, MillraceError } from '../errors.ts'
// A job of nothing but built-in connectors needs no import of its own.
import '../index.ts'

/** Which start of the job it is. */
export interface JobStart {
  /** 1 for the first, one more for each restart. */
  readonly number: number
}

/** Declares the job: builds streams on `env`, or loads a module that executes an environment of its own. */
export type DeclareJob = (env: StreamExecutionEnvironment, start: JobStart) => unknown

/** What a capture needs. */
export interface CaptureOptions {
  readonly declare: DeclareJob
  readonly start: JobStart
  /** Of a job whose declaration does not execute anything itself. */
  readonly jobName: string
  /** Whom the client of the declaration speaks to. */
  readonly running: RunningJob
  readonly clock: Clock
  /** Real milliseconds until the job must be submitted. */
  readonly patienceMs: number
}

/** A job that was submitted. */
export interface CapturedJob {
  readonly submission: JobSubmission
  /** Settles when the declaration is through, which may be after the end of the job. */
  readonly declared: Promise<void>
  /** Tells whoever awaits the execution. */
  end(end: EndedJob): void
}

interface Capture {
  take(submission: JobSubmission): JobClient
}

const captures = new AsyncLocalStorage<Capture>()
let otherExecutor: (() => Promise<JobExecutor>) | undefined

async function executor(): Promise<JobExecutor> {
  const capture = captures.getStore()
  if (capture !== undefined) return { execute: async (submission) => capture.take(submission) }
  if (otherExecutor === undefined)
    throw new MillraceError('MILLRACE_INTERNAL', 'no executor was registered before the one of the tests')
  return otherExecutor()
}

/** Runs the declaration up to its submission. @throws what it throws before that; MILLRACE_TEST_DRIVER if it declares nothing. */
export async function captureJob(options: CaptureOptions): Promise<CapturedJob> {
  const before = registerJobExecutor(executor)
  if (before !== executor) otherExecutor = before
  const { declare, start, jobName, running, clock, patienceMs } = options
  const submitted = Promise.withResolvers<JobSubmission>()
  const ended = Promise.withResolvers<EndedJob>()
  let first: JobSubmission | undefined
  const capture: Capture = {
    take: (submission) => {
      if (first !== undefined)
        throw new MillraceError(
          'MILLRACE_TEST_DRIVER',
          `the declaration executes '${submission.jobName}' after '${first.jobName}': a test drives one job`,
          { remedy: 'Export a function for each job and start a driver for each.' },
        )
      first = submission
      submitted.resolve(submission)
      return runningClient(
        { id: `test-${start.number}`, name: submission.jobName },
        running,
        ended.promise,
        clock,
      )
    },
  }
  const declared = captures.run(capture, async () => {
    const env = StreamExecutionEnvironment.getExecutionEnvironment()
    await declare(env, start)
    if (first === undefined) await submitDeclared(env, jobName, start)
  })
  declared.catch(submitted.reject)
  const timer = Number.isFinite(patienceMs)
    ? setTimeout(
        () => submitted.reject(declaredNothing(` within ${patienceMs} ms of real time`, start)),
        patienceMs,
      )
    : undefined
  try {
    return { submission: await submitted.promise, declared, end: ended.resolve }
  } finally {
    clearTimeout(timer)
  }
}

function declaredNothing(when: string, { number }: JobStart, cause?: unknown): MillraceError {
  const message = `start ${number} of the job declared nothing${when}`
  return new MillraceError('MILLRACE_TEST_DRIVER', message, { cause, remedy: LOAD_ANEW })
}

const LOAD_ANEW =
  'A module that was imported before is not loaded again: export a function that builds the job, or import the module under a new query ' +
  'each time, as docs/testing.md shows.'

/** The declaration left the execution to the test. */
async function submitDeclared(
  env: StreamExecutionEnvironment,
  jobName: string,
  start: JobStart,
): Promise<void> {
  try {
    await env.executeAsync(jobName)
  } catch (cause) {
    if (start.number === 1 || !isMillraceError(cause) || cause.code !== 'MILLRACE_INVALID_GRAPH') throw cause
    throw declaredNothing('', start, cause)
  }
}
