/**
 * Watches a job module from its loading to the end of the process, and knows what the process must say and which exit code it must have.
 *
 *   loading ──import resolves──► loaded ──┐
 *      │                                  ├──event loop empty──► ended: jobs settled? any FAILED? none submitted?
 *      └──import rejects──► threw ────────┘
 *
 * A module may call execute() after it has loaded (from an unawaited main()), so "no job" is only known when nothing is left to run.
 */
import type { JobOutcome } from '../api/launch-settings.ts'
import type { FailureFacts } from '../core/failure-report.ts'
import { type ErrorCode, isMillraceError, MillraceError } from '../errors.ts'

/** Exit codes of the command. */
export const ExitCode = {
  /** The job finished or was stopped. */
  OK: 0,
  /** The job or its module failed. */
  FAILED: 1,
  /** The command or the configuration is wrong; trying again without a change is of no use. */
  USAGE: 2,
  /** What was named does not exist: no such job, no such transaction. */
  NOT_FOUND: 3,
} as const

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode]

const USAGE_CODES: ReadonlySet<ErrorCode> = new Set([
  'MILLRACE_USAGE',
  'MILLRACE_UNKNOWN_OPTION',
  'MILLRACE_INVALID_OPTION',
  'MILLRACE_CONFIG_FILE',
] satisfies ErrorCode[])

/** The exit code that an error asks for. */
export function exitCodeOf(error: unknown): ExitCode {
  if (!isMillraceError(error)) return ExitCode.FAILED
  if (error.code === 'MILLRACE_NO_SUCH_JOB') return ExitCode.NOT_FOUND
  return USAGE_CODES.has(error.code) ? ExitCode.USAGE : ExitCode.FAILED
}

/** What to tell and how to exit. */
export interface Verdict {
  readonly exitCode: ExitCode
  /** To be reported; undefined if there is nothing to say, or it was said before. */
  readonly error: unknown
  /** The job that FAILED, if it is one, and what is left of it. */
  readonly failed?: { readonly jobName: string; readonly facts: FailureFacts | undefined }
}

/** Follows one job module. */
export class JobWatch {
  readonly #file: string
  readonly #dryRun: boolean
  readonly #running = new Set<string>()
  readonly #reported = new WeakSet<object>()
  #submitted = 0
  #failed = false
  #loaded = false

  constructor(file: string, dryRun: boolean) {
    this.#file = file
    this.#dryRun = dryRun
  }

  /** The module called execute() or executeAsync(). */
  jobSubmitted(jobName: string): void {
    this.#submitted++
    if (!this.#dryRun) this.#running.add(jobName)
  }

  /** A job ended. */
  jobSettled(outcome: JobOutcome): Verdict {
    this.#running.delete(outcome.jobName)
    if (outcome.status !== 'FAILED') return { exitCode: this.#exitCode(), error: undefined }
    this.#failed = true
    const error = outcome.error ?? new MillraceError('MILLRACE_JOB_FAILED', `Job '${outcome.jobName}' failed`)
    return {
      exitCode: exitCodeOf(error),
      error: this.#firstReport(error),
      failed: { jobName: outcome.jobName, facts: outcome.failure },
    }
  }

  /** The module's own code ran to its end. */
  moduleLoaded(): void {
    this.#loaded = true
  }

  /** The module threw while loading, or an error of the process was caught by nobody. */
  moduleThrew(error: unknown): Verdict {
    const told = this.#firstReport(error)
    if (told === undefined || isMillraceError(error)) return { exitCode: exitCodeOf(error), error: told }
    const when = this.#loaded ? 'an error in it was not caught' : 'it threw while loading'
    return this.#moduleError(when, error)
  }

  /** Nothing is left to run. */
  eventLoopEmpty(): Verdict {
    const [running] = this.#running
    if (running !== undefined) {
      const message = `The process had nothing left to do while job '${running}' was still running`
      return { exitCode: ExitCode.FAILED, error: new MillraceError('MILLRACE_INTERNAL', message) }
    }
    if (this.#submitted > 0) return { exitCode: this.#exitCode(), error: undefined }
    return this.#moduleError(
      this.#loaded
        ? 'it ended without calling env.execute() or env.executeAsync()'
        : 'it waits for something that can never happen (an await that nothing resolves), and has called neither env.execute() nor env.executeAsync()',
    )
  }

  #exitCode(): ExitCode {
    return this.#failed ? ExitCode.FAILED : ExitCode.OK
  }

  #moduleError(what: string, cause?: unknown): Verdict {
    const error = new MillraceError('MILLRACE_JOB_MODULE', `The job module ${this.#file} failed: ${what}`, {
      cause,
    })
    return { exitCode: ExitCode.FAILED, error }
  }

  /** The error, unless it or an error beneath it was reported before: a failed job's error comes back through execute(). */
  #firstReport(error: unknown): unknown {
    const chain: object[] = []
    for (let link = error; typeof link === 'object' && link !== null && !chain.includes(link); ) {
      chain.push(link)
      link = 'cause' in link ? link.cause : undefined
    }
    const known = chain.some((link) => this.#reported.has(link))
    for (const link of chain) this.#reported.add(link)
    return known ? undefined : (error ?? `${String(error)} was thrown`)
  }
}
