/**
 * What is printed when a job FAILED: one screen with what failed and where (core/error-report.ts), with which checkpoint the next start goes
 * on, where that lies, and the command to type. Pure text work.
 */
import { isMillraceError } from '../errors.ts'
import { type FindSource, formatError } from './error-report.ts'

/** What is left of a job that FAILED. Plain data: it passes from one copy of the package to another. */
export interface FailureFacts {
  /** '' if the job failed before a run began. */
  readonly run: string
  readonly restarts: number
  /** The latest completed checkpoint; undefined if there is none, or if the job never got so far as to look. */
  readonly checkpoint: number | undefined
  /** Completed checkpoints of the run before that one which are kept too, oldest first. */
  readonly older?: readonly number[] | undefined
  /** Where it is kept, for people; undefined if it was in the process and is gone with it. */
  readonly place: string | undefined
}

/** How the job was started, so that it can be told how to start it again. */
export interface StartCommand {
  /** Up to where further options go: `millrace run -D kafka.brokers=…`. */
  readonly start: string
  /** The job module and its arguments. */
  readonly job: string
}

/** Causes after which the same command would fail in the same way until something is mended. */
const MEND_FIRST = 'When the cause is mended, go on with'

/** The whole report. */
export function failureReport(
  error: unknown,
  jobName: string,
  facts: FailureFacts | undefined,
  command: StartCommand,
  findSource?: FindSource,
): string {
  const report = formatError(error, findSource)
  if (facts === undefined) return report
  return [report, ...kept(jobName, facts), ...commands(error, facts, command)].join('\n')
}

function kept(jobName: string, { run, restarts, checkpoint, place }: FailureFacts): string[] {
  const tries = restarts === 0 ? '' : ` after ${restarts} restart${restarts === 1 ? '' : 's'}`
  if (run === '')
    return [`Kept: job '${jobName}' failed${tries} before a record was read; nothing was changed.`]
  if (place === undefined)
    return [
      `Kept: nothing; job '${jobName}' failed${tries}, its checkpoints were in this process, and the next start begins anew.`,
    ]
  if (checkpoint === undefined)
    return [
      `Kept: job '${jobName}' failed${tries} before a checkpoint was complete; the next start begins where this one did.`,
    ]
  const what = `checkpoint ${checkpoint}${checkpoint === 0 ? ' (the positions at the start, without state)' : ''}`
  return [
    `Kept: job '${jobName}' failed${tries} behind ${what} of run ${run}, which is kept in ${place}.`,
    '    The next start goes on from there: what was read since then is read again, and what was written in transactions since then',
    '    was never visible to read_committed readers.',
  ]
}

function commands(
  error: unknown,
  { place, older = [] }: FailureFacts,
  { start, job }: StartCommand,
): string[] {
  const codes = new Set(linksOf(error).flatMap((link) => (isMillraceError(link) ? [link.code] : [])))
  const lost = lostTransactions(error)
  const plain = `    ${start} ${job}`
  if (place === undefined) return ['Start it again with', plain]
  if (lost.length > 0) {
    // Whatever comes next, the start finishes what was promised first, and would find the loss again.
    const accepting = `${start} ${lost.map((id) => `--accept-lost-transaction ${id}`).join(' ')}`
    return [
      'Go on without the lost records with',
      `    ${accepting} ${job}`,
      ...goBack(accepting, job, older),
    ]
  }
  if (codes.has('MILLRACE_STATE_NOT_RESTORED'))
    return ['Drop the state that nobody claims with', `    ${start} --allow-non-restored-state ${job}`]
  if (codes.has('MILLRACE_STATE_LOST') || codes.has('MILLRACE_STATE_INCOMPATIBLE'))
    return [
      MEND_FIRST,
      plain,
      ...goBack(start, job, older),
      'or begin without state, where the starting offsets say, with',
      `    ${start} --fresh ${job}`,
    ]
  return [MEND_FIRST, plain]
}

function goBack(start: string, job: string, older: readonly number[]): string[] {
  if (older.length === 0) return []
  return [
    `or begin a new run with an older checkpoint (kept: ${older.join(', ')}) with`,
    `    ${start} --from-checkpoint ${older.at(-1)} ${job}`,
  ]
}

function lostTransactions(error: unknown): readonly string[] {
  for (const link of linksOf(error)) {
    const lost = isMillraceError(link) ? link.details['lost'] : undefined
    if (Array.isArray(lost) && lost.length > 0) return lost.map(String)
  }
  return []
}

function linksOf(error: unknown): readonly object[] {
  const links: object[] = []
  for (let link = error; typeof link === 'object' && link !== null && !links.includes(link); ) {
    links.push(link)
    link = 'cause' in link ? link.cause : undefined
  }
  return links
}
