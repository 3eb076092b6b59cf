/**
 * What a run of the fault suites and of the simulation tried, one JSON line each, in the file that RELIABILITY_LOG names.
 * `scripts/test` sets the variable and makes the table of docs/reliability.md from the file; without the variable nothing is written.
 */
import { appendFileSync } from 'node:fs'

/** Names the file. Not MILLRACE_…: those are options, and the jobs that the tests start would refuse one that they do not know. */
export const RELIABILITY_LOG_VARIABLE = 'RELIABILITY_LOG'

/** One kind of fault, as often as it happened in one test or in one call of the simulation. */
export interface ReliabilityEntry {
  /** The test file without `.test.ts`, or `simulation`. */
  readonly suite: string
  /** What was done to the job, its brokers or its network. */
  readonly fault: string
  /** At what moment, or to which part. */
  readonly where: string
  /** How many times. */
  readonly count: number
  /** Input records of the jobs that went through it; entries about the same jobs may repeat it. */
  readonly records: number
  /** `exact`, or what was wrong. */
  readonly outcome: string
}

/** Notes what was tried and what came of it. Call it before the test's expectations, so that a wrong outcome is noted too. */
export function logReliability(entry: ReliabilityEntry): void {
  const file = process.env[RELIABILITY_LOG_VARIABLE]
  if (file !== undefined && file !== '') appendFileSync(file, `${JSON.stringify(entry)}\n`)
}

/** The outcome for a list of complaints. */
export function outcomeOf(complaints: readonly unknown[]): string {
  return complaints.length === 0 ? 'exact' : `WRONG: ${complaints.length} complaints`
}
